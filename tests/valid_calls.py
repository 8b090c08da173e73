"""One valid call of every public callable: a class, a function, a class method or a method that takes arguments.

`test_public_inputs.py` finds what is public by introspection, and spoils one argument of these calls at a time. A public
name that has no entry here fails there. Components are also put into a scene, whose `at_rest` must refuse what they let
pass.
"""

import atexit
import dataclasses
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from public_names import PUBLIC
from test_malformed_inputs import BOX, BRICK, CASES, FRAME, MATERIAL, PAIR, PLATE, SKIN, TILE

import jaxmech as jm


@dataclasses.dataclass(frozen=True)
class Call:
    """`function(**arguments)`; `family`: that of the scene which the result is put into."""

    function: Callable[..., Any]
    arguments: dict[str, Any]
    family: str | None = None


@functools.cache
def scene() -> tuple[jm.System, jm.State]:
    """Points and frames, with a mapping, all held by springs."""
    system = jm.System(
        {"box": jm.Vec3(), "frame": jm.Rigid3(), "tips": jm.Vec3()},
        forces={
            "held": jm.force.AnchoredSprings(("box", PAIR), 1.0, np.zeros((2, 3))),
            "hold": jm.force.AnchoredFrames(("frame", [0]), 1.0, 1.0, FRAME[:1]),
            "tied": jm.force.AnchoredSprings((("tips", [0]), ("box", [1])), 2.0),
        },
        masses={"mass": jm.mass.UniformMass(("box", PAIR), 1.0), "body": jm.mass.RigidMass(("frame", [0]), 1.0, np.eye(3))},
        mappings={"arm": jm.mapping.RigidMapping(("frame", [0]), "tips", [[1.0, 0.0, 0.0]])},
        constraints={"hook": jm.constraint.FixedPlane(("box", [0]), (0.0, 0.0, 1.0))},
    )
    state = system.at_rest({"box": [[0.0, 0.0, 0.0], [1.0, 0.5, 0.2]], "frame": FRAME[:1]})
    return system, state


@functools.cache
def linear_system() -> jm.MatrixLinearSystem:
    return jm.MatrixLinearSystem.build(*scene())


@functools.cache
def matrix() -> jm.matrix.BlockMatrix:
    return linear_system().assemble(*scene())


@functools.cache
def block() -> jm.matrix.BlockSparse:
    """A square block matrix of three nodes with two unknowns each."""
    cells = np.array([[0, 1], [1, 2]])
    return jm.matrix.assemble(cells, lambda x: jnp.eye(4), np.zeros((3, 2)))


def vectors(value: float = 1.0) -> dict[str, jax.Array]:
    """A displacement of the main states of the scene."""
    return {"box": jnp.full((2, 3), value), "frame": jnp.full((1, 6), value)}


@functools.cache
def column() -> jm.State:
    return pressed(jnp.zeros(())).at_rest({"p": [[0.0, 0.0], [0.0, 1.0]]})


def pressed(load: jax.Array) -> jm.System:
    """An upright spring on a foot, its tip held sideways, that a load presses."""
    return jm.System(
        {"p": jm.Vec2()},
        forces={
            "rod": jm.force.Springs((("p", [0]), ("p", [1])), 100.0, 1.0),
            "side": jm.force.AnchoredSprings(("p", [1]), 1.0, [[0.0, 1.0]]),
            "load": jm.force.ConstantForce(("p", [1]), load * jnp.array([0.0, -1.0])),
        },
        constraints={"foot": jm.constraint.Fixed(("p", [0]))},
    )


def element(x: jax.Array) -> jax.Array:
    return jnp.eye(4)


# The states of the scene that components are put into, and of what kind a mapping makes its child.
SIX = jm.mesh.quadratic_mesh(PLATE)
DOFS = {
    "six": jm.Vec2(),
    "p": jm.Vec1(),
    "box": jm.Vec3(),
    "plate": jm.Vec2(),
    "frame": jm.Rigid3(),
    "flat": jm.Rigid2(),
    "angle": jm.Vec1(),
    "heat": jm.Vec1(),
}
POSITIONS = {
    "six": np.asarray(SIX.points),
    "p": np.zeros((4, 1)),
    "box": np.asarray(BOX.points),
    "plate": np.asarray(PLATE.points),
    "frame": FRAME,
    "flat": np.zeros((4, 3)),
    "angle": np.zeros((2, 1)),
    "heat": np.zeros((4, 1)),
}
_MEASURES = (
    jm.mapping.AreaMapping,
    jm.mapping.VolumeMapping,
    jm.mapping.DistanceMapping,
    jm.mapping.DistanceFromTargetMapping,
    jm.mapping.DistanceToPlaneMapping,
)
_MEASURES += (jm.mapping.SquaredDistanceMapping, jm.mapping.SquareMapping, jm.mapping.SumMapping)
MADE = dict.fromkeys(_MEASURES, jm.Vec1()) | {jm.mapping.ArticulatedMapping: jm.Rigid3()}


def put_into_a_scene(family: str, component: Any) -> None:
    """At rest with the component in it: what a constructor cannot know is checked there."""
    dofs = DOFS
    if family == "mappings":
        dofs = DOFS | {component.child: MADE.get(type(component), jm.Vec3())}
    positions = POSITIONS
    if isinstance(component, jm.constraint.AbstractMultiplierConstraint) and component.multiplier is not None:
        kind = jm.Vec1() if isinstance(component, jm.constraint.Distance) else jm.Vec3()
        dofs, positions = DOFS | {"multipliers": kind}, POSITIONS | {"multipliers": np.zeros((2, kind.coord_size))}
    jm.System(dofs, **{family: {"culprit": component}}).at_rest(positions)


CALLS: dict[str, Callable[[], Call]] = {}
ARGUMENTS: dict[str, dict[str, Any]] = {}  # of each call as they are entered: nothing is made while tests are collected


def call(name: str, family: str | None = None, target: Any = None, /, **arguments: Any) -> None:
    """Enter a call; an argument that is a function of no arguments made by `late` is evaluated when it is needed."""

    def made() -> Call:
        function = target() if isinstance(target, _Late) else target
        if function is None:
            function = functools.reduce(getattr, name.split(".")[1:], PUBLIC[name.split(".")[0]])
        return Call(function, {k: v() if isinstance(v, _Late) else v for k, v in arguments.items()}, family)

    assert name not in CALLS, name
    CALLS[name], ARGUMENTS[name] = made, arguments


@dataclasses.dataclass(frozen=True)
class _Late:
    make: Callable[[], Any]

    def __call__(self) -> Any:
        return self.make()


def method(name: str, of: Callable[[], Any], /, **arguments: Any) -> None:
    """Enter a call of a method of the object that `of` makes."""
    call(name, None, _Late(lambda: getattr(of(), name.split(".")[-1])), **arguments)


late = _Late
SYSTEM, STATE = late(lambda: scene()[0]), late(lambda: scene()[1])
POSITION, VELOCITY = late(lambda: scene()[1].position), late(lambda: vectors(0.5))

# Of the constructors there are valid calls already.
for _label, (_build, _family, _right, _) in CASES.items():
    if isinstance(PUBLIC.get(_label.split(".")[0]), type) and _label not in ("System", "ImplicitEuler"):
        call(_label, _family, _build, **_right)

# --- scenes and states ----------------------------------------------------------------

call(
    "System",
    dofs={"box": jm.Vec3()},
    forces={"f": jm.force.ConstantForce(("box", PAIR), np.ones(3))},
    masses={"m": jm.mass.UniformMass(("box", PAIR), 1.0)},
    mappings={},
    constraints={"c": jm.constraint.Fixed(("box", [0]))},
    rayleigh={"f": 0.1},
    gravity=[0.0, 0.0, -1.0],
)
method("System.at_rest", lambda: scene()[0], position=POSITION, time=0.0)
for _name in ("inertial_force", "kinematics", "kinetic_energy", "momentum", "reactions", "total_force"):
    call(_name, system=SYSTEM, state=STATE)
call("energy", system=SYSTEM, state=STATE, throw=False)
call("velocities", system=SYSTEM, state=STATE)
call("in_step", system=SYSTEM, dt=0.1)
call("accepted", system=SYSTEM, state=STATE, end=STATE, dt=0.1, failed=False)
call("accelerations", system=SYSTEM, state=STATE, acceleration=VELOCITY)
call("geometric_product", system=SYSTEM, state=STATE, u=VELOCITY, forces={"tips": jnp.ones((1, 3))})
call("jacobian", system=SYSTEM, state=STATE, child="tips", parent="frame")
call("pull_back", system=SYSTEM, state=STATE, forces={"tips": jnp.ones((1, 3))})
call("pull_back_rows", system=SYSTEM, state=STATE, rows=late(lambda: {"tips": triplets()}))
call("component_matrix", system=SYSTEM, state=STATE, name="held", kind="stiffness", projected=False, constrained=False)


def triplets() -> jm.matrix.Triplets:
    return jm.matrix.Triplets(("row", "tips"), jnp.array([0]), jnp.array([0]), jnp.ones((1, 1, 3)))


# --- linear systems and solvers -------------------------------------------------------

for _kind in ("Matrix", "Precomputed"):
    _name = {"Matrix": "MatrixLinearSystem", "Precomputed": "PrecomputedMatrixSystem"}[_kind]
    call(f"{_name}.build", system=SYSTEM, state=STATE, terms=jm.Terms())
call("PreconditionedMatrixFreeSystem.build", system=SYSTEM, state=STATE, terms=jm.Terms(), every=3, assembled=False)
call("CompositeLinearSystem.build", system=SYSTEM, state=STATE, matrices={"A": jm.Terms()}, solver="A", shared=False)
call("MatrixFreeSystem", terms=jm.Terms())
call("share_pattern", linear_systems=late(lambda: [linear_system()]))
_SYSTEMS = {
    "MatrixLinearSystem": linear_system,
    "PrecomputedMatrixSystem": functools.cache(lambda: jm.solver.PrecomputedMatrixSystem.build(*scene())),
    "PreconditionedMatrixFreeSystem": functools.cache(lambda: jm.solver.PreconditionedMatrixFreeSystem.build(*scene())),
    "CompositeLinearSystem": functools.cache(lambda: jm.solver.CompositeLinearSystem.build(*scene(), {"A": jm.Terms()})),
    "MatrixFreeSystem": jm.solver.MatrixFreeSystem,
}
for _name, _of in _SYSTEMS.items():
    _own = vars(PUBLIC[_name])
    for _action in ("assemble", "unconstrained", "linearized", "matrices"):
        if _action in _own:
            _more = {"weights": True} if _action == "linearized" else {}
            method(f"{_name}.{_action}", _of, system=SYSTEM, state=STATE, factors=jm.Factors(1.0, 0.1, 0.01), **_more)
    if "momentum" in _own:
        method(f"{_name}.momentum", _of, system=SYSTEM, state=STATE, velocity=VELOCITY)
    _carry = late(lambda of=_of: of().init(*scene()))
    if "using" in _own:
        method(f"{_name}.using", _of, carry=_carry)
    if "updated" in _own:
        method(f"{_name}.updated", _of, system=SYSTEM, state=STATE, carry=_carry, factors=jm.Factors(1.0, 0.1, 0.01))
    if "constrain" in _own:
        method(f"{_name}.constrain", _of, system=SYSTEM, operator=late(lambda of=_of: of().unconstrained(*scene())))
    for _question in ("is_exact", "is_rate_of_force", "serves", "kept_masses"):
        if _question in _own:
            method(f"{_name}.{_question}", _of, system=SYSTEM)
call("Factors.only", None, lambda part: jm.Factors.only(part), part="mass")
call("Factors", mass=1.0, damping=0.1, stiffness=0.01, rayleigh=0.1, geometric=0.01)
for _action in ("of", "has"):
    method(f"Factors.{_action}", jm.Factors, part="mass")
call("default_solver", operator=late(matrix), inertial=False)
call("compliance_matrix", A=late(matrix), dofs=[0, 3], solver=jm.solver.Dense())
for _name in ("MINRES", "BiCGStab", "PCG", "GMRES"):
    del CALLS[_name]
    _more = {"restart": 10} if _name == "GMRES" else {}
    call(_name, rtol=1e-8, atol=0.0, max_steps=10, preconditioner=jm.solver.Jacobi(), give_up=False, **_more)
call("AutoLinearSolver", chain=False, batched=False, inertial=False, rtol=1e-8, platform="cpu")
method("AutoLinearSolver.choose", jm.solver.AutoLinearSolver, operator=late(matrix))
call("Fallback", first=jm.solver.PCG(), otherwise=jm.solver.Dense())
call("BlockJacobi", absolute=False)
call("StaleFactor", near=late(matrix), solver=jm.solver.Dense())
call("WarpedFactor", solver=jm.solver.Dense())
call("SSOR", omega=1.0)
call("PETSc", pc="gamg", ksp="cg", rtol=1e-8, max_steps=10, options={}, positions=POSITION)
call("IncompleteFactor", drop_tolerance=1e-3, fill=20.0)
call(
    "SmoothedAggregation.from_matrix",
    matrix=late(matrix),
    positions=POSITION,
    modes={},
    smoothing=2,
    smoother="jacobi",
    threshold=0.0,
    single=True,
    refresh=False,
)
for _name in ("BlockJacobi", "Jacobi", "NoPreconditioner", "SSOR", "IncompleteFactor"):
    method(f"{_name}.build", PUBLIC[_name], operator=late(matrix))
method("StaleFactor.build", lambda: jm.solver.StaleFactor(matrix(), jm.solver.Dense()), operator=late(matrix))
method(
    "WarpedFactor.build",
    jm.solver.WarpedFactor,
    operator=late(lambda: _SYSTEMS["PreconditionedMatrixFreeSystem"]().unconstrained(*scene())),
)
method(
    "SmoothedAggregation.build",
    lambda: jm.solver.SmoothedAggregation.from_matrix(matrix(), scene()[1].position),
    operator=late(matrix),
)
method(
    "SmoothedAggregation.refreshed",
    lambda: jm.solver.SmoothedAggregation.from_matrix(matrix(), scene()[1].position),
    matrix=late(matrix),
)
call(
    "SmoothedAggregation.from_pattern",
    patterns=late(lambda: {s: matrix()[s, s].pattern for s, _, d in matrix().sizes if d == 3}),
    positions=POSITION,
    smoothing=2,
    smoother="jacobi",
)
method(
    "PreconditionedOperator.mv",
    lambda: _SYSTEMS["PreconditionedMatrixFreeSystem"]().assemble(*scene()),
    vector=late(vectors),
)

# --- solves ---------------------------------------------------------------------------

call(
    "static_solve",
    system=SYSTEM,
    state=STATE,
    linear_system=late(linear_system),
    solver=jm.solver.Dense(),
    method="newton",
    rtol=1e-8,
    atol=1e-9,
    max_steps=9,
    load_steps=1,
    line_search="none",
    dt=0.1,
    throw=True,
)
call("static_problem", system=SYSTEM, state=STATE, linear_system=late(linear_system))
call("modes", system=SYSTEM, state=STATE, linear_system=late(linear_system), count=2, throw=True)
call(
    "buckling",
    scene=pressed,
    state=late(column),
    linear_system=late(lambda: jm.MatrixLinearSystem.build(pressed(jnp.ones(())), column())),
    count=1,
    throw=True,
)
_PRESSED = late(lambda: jm.MatrixLinearSystem.build(pressed(jnp.ones(())), column()))
call(
    "follow_path",
    scene=pressed,
    start=late(column),
    linear_system=_PRESSED,
    solver=jm.solver.Dense(),
    control="arc_length",
    step=0.1,
    steps=1,
    to=0.1,
    load=0.0,
    displacement=("p", 1, 0),
    direction=1,
    amplitude=0.1,
    iterations=4,
    max_iterations=12,
    shortest=1e-4,
    longest=100.0,
    rtol=1e-8,
    atol=1e-9,
    critical=True,
    throw=True,
)


@functools.cache
def pressed_path() -> jm.solver.Path:
    return jm.follow_path(pressed, column(), step=0.5, steps=3, displacement=("p", 1, 0))


call(
    "critical_point",
    scene=pressed,
    near=late(lambda: pressed_path().critical[0]),
    linear_system=_PRESSED,
    solver=jm.solver.Dense(),
    rtol=1e-8,
    atol=1e-9,
    throw=True,
)
method("Path.at", pressed_path, number=1)
_OWN: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("ImplicitEuler", "Midpoint", "Trapezoid", "TRBDF2", "EnergyMomentum")},
    "Newmark": {"beta": 0.25, "gamma": 0.5},
    "HHT": {"alpha": 0.1},
    "GeneralizedAlpha": {"spectral_radius": 0.5},
    "BDF": {"order": 2},
}
for _name, _more in _OWN.items():
    call(
        _name,
        linear_system=late(linear_system),
        solver=jm.solver.Dense(),
        newton=True,
        rayleigh_stiffness=0.0,
        rayleigh_mass=0.0,
        rtol=1e-8,
        atol=0.0,
        max_steps=9,
        line_search="none",
        **_more,
    )
for _name in ("SymplecticEuler", "VelocityVerlet", "CentralDifference", "RK4", "Tsitouras"):
    call(_name, solver=jm.solver.PCG(), check_step=True)


@functools.cache
def integrator() -> jm.ImplicitEuler:
    return jm.ImplicitEuler(linear_system())


method("ImplicitEuler.step", integrator, system=SYSTEM, state=STATE, carry=None, dt=0.1, throw=True)
method("ImplicitEuler.problem", integrator, system=SYSTEM, state=STATE, dt=0.1, carry=None)
method("VelocityVerlet.step", jm.integrator.VelocityVerlet, system=SYSTEM, state=STATE, carry=None, dt=0.1, throw=True)
call("critical_time_step", system=SYSTEM, state=STATE, steps=4)
call("energies", system=SYSTEM, state=STATE)
call("ode_term", system=SYSTEM, state=STATE, solver=jm.solver.PCG())
call("step_with_balance", system=SYSTEM, state=STATE, integrator=late(integrator), carry=None, dt=0.1, throw=True)


class Settling(jm.solver.AbstractEquilibrium):
    """The displacements of a state at which nothing pulls."""

    system: jm.System
    linear_system: jm.solver.AbstractLinearSystem
    start: jm.State

    @property
    def factors(self) -> jm.Factors:
        return jm.Factors.only("stiffness")

    def state(self, u: dict[str, jax.Array]) -> jm.State:
        moved = jm.integrator.retract(self.system, self.start.position, u)
        return jm.State(moved, self.start.velocity, self.start.time)

    def residual(self, u: dict[str, jax.Array]) -> dict[str, jax.Array]:
        return jm.total_force(self.system, self.state(u))


call("retract", system=SYSTEM, position=POSITION, u=VELOCITY)
call("project", system=SYSTEM, u=VELOCITY)
call(
    "solve_equilibrium",
    equilibrium=late(lambda: Settling(scene()[0], linear_system(), scene()[1])),
    start=late(lambda: vectors(0.0)),
    solver=jm.solver.Dense(),
    rtol=1e-8,
    atol=1e-9,
    max_steps=9,
    line_search="none",
    throw=True,
)
call(
    "simulate",
    system=SYSTEM,
    state=STATE,
    integrator=late(integrator),
    dt=0.1,
    steps=4,
    save_every=1,
    checkpoint_every=1,
    control=lambda time, state, parameters: {"held": {"stiffness": 1.0 + time}},
    observe=lambda system, state: state.time,
    progress=False,
    throw=True,
)
call(
    "simulate_adaptive",
    system=SYSTEM,
    state=STATE,
    integrator=late(integrator),
    times=[0.1, 0.2],
    rtol=1e-1,
    atol=1e-1,
    controller=jm.integrator.PIDController(),
    dt0=0.1,
    dt_min=0.0,
    dt_max=0.2,
    max_steps=50,
    extrapolate=False,
    events=[],
    max_events=2,
    control=lambda time, state, parameters: {"held": {"stiffness": 1.0 + time}},
    observe=lambda system, state: state.time,
    throw=True,
)
call("Event", function=lambda system, state: state.time, direction=-1, terminal=False, tolerance=0.0)
call("PIDController", p=0.3, i=0.4, d=0.0, safety=0.9, smallest=0.2, largest=5.0, on_failure=0.25)
call("Table", times=[0.0, 1.0], values=[1.0, 2.0], kind="linear")
call("table_control", time=0.5, parameters={"pull": {"traction": jm.integrator.Table([0.0, 1.0], [1.0, 2.0])}})


@functools.cache
def checkpoint() -> Path:
    """A file that can be loaded."""
    path = folder() / "checkpoint.npz"
    jm.integrator.save_checkpoint(path, *scene())
    return path


call("save_checkpoint", path=late(lambda: folder() / "saved.npz"), system=SYSTEM, state=STATE)
call("load_checkpoint", path=late(checkpoint), system=SYSTEM, state=STATE)


@functools.cache
def problem() -> jm.solver.LinearProblem:
    return jm.solver.static_problem(*scene())


method("LinearProblem.solve", problem, solver=jm.solver.Dense())
call("StepInfo.of_newton", info=late(lambda: jm.solver.NewtonInfo(*([np.zeros((1, 1))] * 8))))
call("in_batches", function=lambda x: x, size=2, devices=list(jax.devices()))
call("over_devices", function=element, devices=late(jax.devices))
call("element_compiler", form="llvm")
call("element_forms", function=jnp.sin, arguments=(np.zeros(3),))

# --- matrices -------------------------------------------------------------------------

CELLS = np.array([[0, 1], [1, 2]])
call("AssemblyPattern.build", connectivity=CELLS, nodes=3)
call(
    "assemble",
    connectivity=CELLS,
    element_matrix=lambda x, a: a * jnp.eye(4),
    points=np.zeros((3, 2)),
    each=(np.ones(2),),
    method="gather",
)
for _name in ("eliminate_rows", "eliminate_rows_and_columns", "impose_penalty", "impose_weak_penalty"):
    _more = {"weight": 1e9} if "penalty" in _name else {}
    call(_name, matrix=late(block), rhs=np.ones((3, 2)), dofs=[0, 3], values=[0.5, 1.0], **_more)
call("BlockMatrix.from_entries", entries=late(lambda: {("a", "a"): block()}), symmetric=False)
method("BlockMatrix.mv", matrix, vector=VELOCITY)
method("BlockMatrix.to_scipy", matrix, format="csr")
method("BlockMatrix.scaled", matrix, factor=2.0)
method("BlockMatrix.plus", matrix, other=late(matrix))
method("BlockSparse.mv", block, x=np.ones((3, 2)))
method("BlockSparse.to_scipy", block, format="csr")
call("BlockPattern.build", rows=np.array([0, 1]), columns=np.array([0, 1]), shape=(2, 2))
method("BlockPattern.at_columns", lambda: block().pattern, x=np.ones((3, 2)))
method("BlockPattern.same_as", lambda: block().pattern, other=late(lambda: block().pattern))
call("StateLayout", sizes=(("a", 2, 3),))
call("StateLayout.of", vectors={"a": np.ones((2, 3))})
LAYOUT = functools.cache(lambda: jm.matrix.StateLayout((("a", 2, 3),)))
method("StateLayout.dofs", LAYOUT, state="a", nodes=[0], components=[1])
method("StateLayout.ravel", LAYOUT, vectors={"a": np.ones((2, 3))})
method("StateLayout.unravel", LAYOUT, vector=np.ones(6))
call("Triplets", states=("row", "tips"), rows=np.array([0]), columns=np.array([0]), blocks=np.ones((1, 1, 3)))
for _name in ("assemble", "to_bcoo", "to_dense"):
    method(f"Triplets.{_name}", triplets, shape=(1, 1))
method("Triplets.to_scipy", triplets, shape=(1, 1), format="coo")
method("Triplets.add", triplets, row=0, column=np.array(0), block=np.ones((1, 3)))
method("Triplets.add_element", triplets, nodes=np.array([0]), matrix=np.ones((1, 3)))

# --- fields and structures -------------------------------------------------------------

EDGES = PLATE.boundary()
QUADS = jm.mesh.Mesh([[i % 4, i // 4, 0.0] for i in range(8)], [[i, i + 1, i + 5, i + 4] for i in range(3)], "quad")
LINE = np.asarray(FRAME) + np.arange(8)[:, None] * np.eye(7)[0]
FRAMEWORK = jm.mesh.Mesh([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], [[0, 1], [1, 2]], "edge")
SECTION = jm.force.Section(axial=1.0, shear=[1.0, 1.0], torsion=1.0, bending=[1.0, 1.0])


def density(u: jax.Array, slope: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return jnp.sum(u**2)


def flux(u: jax.Array, slope: jax.Array, x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    return slope


_CELLS = {"rest": np.asarray(PLATE.points), "kind": "triangle"}
_FACES = {"on": ("heat", EDGES.cells), "rest": np.asarray(PLATE.points), "kind": "edge"}
_OF_FACES = {"state": "heat", "surface": EDGES}
CALLS_OF_FIELDS = {
    "FieldEnergy": {
        "on": ("plate", PLATE.cells),
        "density": density,
        "parameters": {"k": 1.0},
        "dissipation": density,
        "degree": "mass",
        **_CELLS,
    },
    "FieldEnergy.from_mesh": {
        "state": "plate",
        "mesh": PLATE,
        "density": density,
        "parameters": {"k": 1.0},
        "dissipation": density,
        "degree": "mass",
    },
    "WeakForm": {
        "on": ("plate", PLATE.cells),
        "flux": flux,
        "source": lambda u, slope, x, p: u,
        "parameters": {"k": 1.0},
        "degree": 2,
        **_CELLS,
    },
    "WeakForm.from_mesh": {
        "state": "plate",
        "mesh": PLATE,
        "flux": flux,
        "source": lambda u, slope, x, p: u,
        "parameters": {"k": 1.0},
        "degree": 2,
    },
    "Capacity": {"on": ("heat", PLATE.cells), "capacity": 1.0, **_CELLS},
    "Capacity.from_mesh": {"state": "heat", "mesh": PLATE, "capacity": 1.0},
    "Flux": {"flux": 1.0, **_FACES},
    "Flux.from_mesh": {"flux": 1.0, **_OF_FACES},
    "Convection": {"coefficient": 1.0, "ambient": 1.0, **_FACES},
    "Convection.from_mesh": {"coefficient": 1.0, "ambient": 1.0, **_OF_FACES},
    "AbsorbingBoundary": {"impedance": 1.0, "shear_impedance": 0.5, **_FACES},
    "AbsorbingBoundary.from_mesh": {"impedance": 1.0, "shear_impedance": 0.5, **_OF_FACES},
    "Bar": {
        "on": ("box", [[0, 1], [1, 2]]),
        "rest": np.asarray(BOX.points),
        "axial": 1.0,
        "tension": 0.1,
        "strain": "green",
    },
    "Beam": {"on": ("frame", [[0, 1], [1, 2]]), "rest": LINE, "section": SECTION, "axes": [0.0, 0.0, 0.6, 0.8]},
    "Beam.from_mesh": {"state": "frame", "mesh": FRAMEWORK, "section": SECTION, "normal": [0.1, 0.2, 1.0]},
    "ElasticRod": {
        "on": (("box", [[0, 1, 2]]), ("heat", [[0, 1]])),
        "section": SECTION,
        "length": [1.0, 1.0],
        "curvature": [0.1, 0.2],
        "natural_twist": 0.1,
        "share": (np.ones((1, 2)),),
        "tangents": np.eye(3)[:2],
        "directors": np.eye(3)[1:],
        "carried_twist": 0.1,
    },
    "ElasticRod.chain": {
        "points": "box",
        "angles": "heat",
        "rest": np.asarray(BOX.points)[:4],
        "section": SECTION,
        "normal": [0.3, 0.4, 0.5],
    },
    "Membrane": {
        "on": ("box", SKIN.cells),
        "rest": np.asarray(BOX.points),
        "material": MATERIAL,
        "kind": "triangle",
        "thickness": 0.1,
    },
    "Membrane.from_mesh": {"state": "box", "mesh": SKIN, "material": MATERIAL, "thickness": 0.1},
    "HingeBending": {
        "on": ("box", [[0, 1, 2, 5]]),
        "rest": np.asarray(BOX.points),
        "stiffness": 1.0,
        "model": "angle",
    },
    "HingeBending.from_mesh": {"state": "box", "mesh": SKIN, "stiffness": 1.0, "model": "angle"},
    "Shell": {
        "on": ("frame", [[0, 1, 2]]),
        "rest": np.concatenate([np.asarray(BOX.points), np.asarray(FRAME)[:, 3:]], 1),
        "young": 1.0,
        "poisson": 0.3,
        "thickness": 0.1,
    },
    "Shell.from_mesh": {"state": "frame", "mesh": SKIN, "young": 1.0, "poisson": 0.3, "thickness": 0.1},
    "QuadShell": {
        "on": ("frame", QUADS.cells),
        "rest": np.concatenate([np.asarray(QUADS.points), np.asarray(FRAME)[:, 3:]], 1),
        "normals": np.tile([0.0, 0.0, 1.0], (4, 1)),
        "young": 1.0,
        "poisson": 0.3,
        "thickness": 0.1,
    },
    "QuadShell.from_mesh": {"state": "frame", "mesh": QUADS, "young": 1.0, "poisson": 0.3, "thickness": 0.1},
}
for _name, _arguments in CALLS_OF_FIELDS.items():
    call(_name, "forces", **_arguments)
call("Section", axial=1.0, shear=[1.0, 1.0], torsion=1.0, bending=[1.0, 1.0])
call("Section.circle", radius=0.1, young=1.0, poisson=0.3)
call("Section.rectangle", width=0.1, height=0.2, young=1.0, poisson=0.3)
call("Section.tube", outer=0.1, inner=0.05, young=1.0, poisson=0.3)
call("Section.i_beam", width=0.1, height=0.2, flange=0.01, web=0.02, young=1.0, poisson=0.3)
call("frames_along", points=np.cumsum(np.eye(3), axis=0), normal=[0.3, 0.4, 0.5])

# --- mappings -------------------------------------------------------------------------

TO_SCALAR = {"child": "gauge", "geometric_stiffness": "symmetric"}
CALLS_OF_MAPPINGS = {
    "AreaMapping": {"parents": ("box", [[0, 1, 2]]), "rest_area": 0.1, **TO_SCALAR},
    "VolumeMapping": {"parents": ("box", [[0, 1, 2, 4]]), "rest_volume": 0.1, **TO_SCALAR},
    "DistanceMapping": {"parents": (("box", [0]), ("box", [1])), "rest_length": 0.1, **TO_SCALAR},
    "DistanceFromTargetMapping": {"parents": ("box", [0]), "target": np.ones(3), "rest_length": 0.1, **TO_SCALAR},
    "DistanceToPlaneMapping": {"parents": ("box", [0]), "normal": [0.6, 0.0, 0.8], "offset": 0.1, **TO_SCALAR},
    "SquaredDistanceMapping": {"parents": (("box", [0]), ("box", [1])), **TO_SCALAR},
    "SquareMapping": {"parents": ("angle", [0]), **TO_SCALAR},
    "SumMapping": {"parents": ("angle", [[0, 1]]), "weights": [[1.0, 2.0]], **TO_SCALAR},
    "IdentityMapping": {"parents": ("box", PAIR), "child": "copy", "geometric_stiffness": "none"},
    "CenterOfMassMapping": {"parents": ("box", [[0, 1]]), "child": "copy", "masses": [[1.0, 2.0]]},
    "CenterOfMassMapping.of": {"nodes": {"box": [0, 1]}, "child": "copy", "masses": [1.0, 2.0]},
    "DeformableOnRigidFrameMapping": {"parents": (("frame", PAIR), ("box", PAIR)), "child": "copy"},
    "FunctionMapping": {"parents": ("box", PAIR), "child": "copy", "function": lambda x, a: a * x, "numbers": (np.ones(2),)},
    "BeamMapping": {
        "parents": (("frame", [0]), ("frame", [1])),
        "child": "copy",
        "place": [0.5],
        "local_a": np.ones((1, 3)),
        "local_b": np.ones((1, 3)),
    },
    "SkinningMapping": {
        "parents": ("frame", [[0, 1]]),
        "child": "copy",
        "weights": [[0.5, 0.5]],
        "local": np.ones((1, 2, 3)),
    },
    "LineSetSkinningMapping": {
        "parents": (("frame", [[0, 1]]), ("frame", [[1, 2]])),
        "child": "copy",
        "weights": [[0.5, 0.5]],
        "place": [[0.5, 0.5]],
        "local": np.ones((1, 2, 3)),
    },
    "TubularMapping": {"parents": ("frame", PAIR), "child": "copy", "angle": [0.0, 1.0], "radius": 0.5},
    "TubularMapping.of": {"state": "frame", "child": "copy", "frames": 2, "around": 3, "radius": 0.5},
    "ArticulatedMapping": {
        "parents": ("angle", [[0, 0], [0, 1]]),
        "child": "bodies",
        "length": [1.0, 2.0],
        "placement": np.asarray(FRAME[:2]),
        "axis": [[0.0, 0.0, 1.0]] * 2,
        "slides": [0.0, 1.0],
    },
    "ArticulatedMapping.tree": {
        "joints": "angle",
        "child": "bodies",
        "before": [-1, 0],
        "placement": np.zeros((2, 3)),
        "axis": [0.0, 0.0, 1.0],
        "kinds": ["hinge", "slider"],
        "base": ("frame", 0),
    },
    "RigidMapping.from_global": {
        "state": "frame",
        "child": "copy",
        "frames": [0, 1],
        "coordinates": np.asarray(FRAME[:2]),
        "points": np.ones((2, 3)),
    },
    "BeamMapping.from_rest": {
        "state": "frame",
        "child": "copy",
        "beams": [[0, 1]],
        "coordinates": np.asarray(FRAME) + np.arange(8)[:, None] * np.eye(7)[0],
        "points": np.ones((2, 3)),
    },
    "SkinningMapping.from_rest": {
        "state": "frame",
        "child": "copy",
        "coordinates": np.asarray(FRAME[:2]),
        "points": np.ones((2, 3)),
        "weights": [[0.5, 0.5]] * 2,
        "nearest": 2,
    },
    "LineSetSkinningMapping.from_rest": {
        "state": "frame",
        "child": "copy",
        "lines": [[0, 1]],
        "coordinates": np.asarray(FRAME) + np.arange(8)[:, None] * np.eye(7)[0],
        "points": np.ones((2, 3)),
        "nearest": 1,
    },
    "BarycentricMapping.from_grid": {
        "state": "box",
        "child": "copy",
        "points": np.full((2, 3), 0.3),
        "origin": np.zeros(3),
        "spacing": 1.0,
        "cells": (1, 1, 1),
    },
}
for _name, _arguments in CALLS_OF_MAPPINGS.items():
    call(_name, "mappings", **_arguments)

# --- constraints with multipliers -----------------------------------------------------

SOFT = {"compliance": 0.1, "relaxation": 0.1}
EYELETS = ("box", [[0, 1, 2], [3, 4, 5]])
CALLS_OF_CONSTRAINTS = {
    "Cable": {"on": EYELETS, "length": 1.0, **SOFT},
    "CavityVolume": {"on": late(lambda: ("box", np.asarray(BOX.boundary().cells))), "volume": 1.0, **SOFT},
    "CavityVolume.from_mesh": {"state": "box", "surface": late(lambda: BOX.boundary()), "volume": 1.0, **SOFT},
    "Follow": {
        "constraint": late(lambda: jm.constraint.Distance((("box", [0, 1]), ("box", [2, 3])), length=1.0)),
        "values": np.zeros((3, 1)),
        "times": [0.0, 1.0, 2.0],
    },
    "OnLine": {"on": (("box", [0, 1]), ("box", [2, 3]), ("box", [4, 5])), **SOFT},
    "OnPlane": {"on": ("box", PAIR), "normal": [0.6, 0.0, 0.8], "origin": np.zeros(3), **SOFT},
}
for _name, _rows in (
    ("BallJoint", 3),
    ("CylindricalJoint", 4),
    ("FixedJoint", 6),
    ("HingeJoint", 5),
    ("JointAngle", 1),
    ("PrismaticJoint", 5),
):
    CALLS_OF_CONSTRAINTS[_name] = {
        "on": (("frame", [0, 1]), ("frame", [2, 3])),
        "frame_a": np.asarray(FRAME[0]),
        "frame_b": np.asarray(FRAME[:2]),
        "compliance": np.full(_rows, 0.1),
        "relaxation": np.full(_rows, 0.1),
    }
for _name, _arguments in CALLS_OF_CONSTRAINTS.items():
    call(_name, "constraints", **_arguments)
call("CableTension", "forces", on=EYELETS, tension=1.0)
call("frame", point=np.zeros(3), axis=[0.0, 0.6, 0.8])
for _name in ("constraint_report", "violations"):
    call(_name, system=SYSTEM, state=STATE)
call("dependent_rows", system=SYSTEM, state=STATE, tolerance=1e-6)
call("SchurComplement", multipliers=("tension",), solver=jm.solver.Dense(), least_norm=False)

# --- the rest of the constructors -----------------------------------------------------

for _name, _mesh in (("TriangleFEM", PLATE), ("QuadFEM", TILE)):
    call(
        _name,
        "forces",
        on=("plate", _mesh.cells),
        rest=np.asarray(_mesh.points),
        material=MATERIAL,
        thickness=1.0,
        plane="strain",
    )
_plate = {"material": MATERIAL, "thickness": 1.0, "plane": "strain"}
call("SolidFEM", "forces", on=("plate", PLATE.cells), rest=np.asarray(PLATE.points), kind="triangle", **_plate)
call("SolidFEM.from_mesh", "forces", state="plate", mesh=PLATE, **_plate)


class Springy(jm.material.AbstractStressLaw):
    """The least that a law of a stress is."""

    needs_positive_volume = False

    def update(self, F: Any, old: Any, dt: Any) -> Any:
        return F - jnp.eye(3), {}


_stress = {"material": Springy(), "thickness": 1.0}
call("StressSolidFEM", "forces", on=("plate", PLATE.cells), rest=np.asarray(PLATE.points), kind="triangle", **_stress)
call("StressSolidFEM.from_mesh", "forces", state="plate", mesh=PLATE, **_stress)
call("ConsistentMass", "masses", on=("box", BOX.cells), rest=np.asarray(BOX.points), density=1.0, kind="tetrahedron")
_on_quads = {"density": 1.0, "thickness": 0.1}
call("ShellMass", "masses", on=("frame", QUADS.cells), rest=CALLS_OF_FIELDS["QuadShell"]["rest"], kind="quad", **_on_quads)
call("ShellMass.from_mesh", "masses", state="frame", mesh=QUADS, **_on_quads)
call("NeoHookean.from_lame", mu=1.0, lam=1.0)

_six = {"material": MATERIAL, "thickness": 1.0}
call(
    "MixedSolidFEM",
    "forces",
    on=(("six", SIX.cells), ("p", PLATE.cells)),
    rest=np.asarray(SIX.points),
    kind="triangle6",
    **_six,
)
MIXED = jm.mesh.MixedMesh.from_mesh(PLATE, {"left": lambda x: x[:, 0] == 0.0})
EDGES = PLATE.boundary()
call("MixedSolidFEM.from_mesh", "forces", state="six", pressure="p", mesh=SIX, **_six)
_edges = {"on": ("plate", EDGES.cells), "rest": np.asarray(EDGES.points), "kind": "edge"}
call("ElasticFoundation", "forces", normal=1.0, tangential=1.0, **_edges)
call("ElasticFoundation.from_mesh", "forces", state="plate", surface=EDGES, normal=1.0, tangential=1.0)
_relation = {"multiplier": ("multipliers", [0, 1]), "compliance": 0.0}
call("LinearRelation", "constraints", on=("box", [[0, 1], [2, 3]]), weights=[1.0, -1.0], value=[1.0, 0.0, 2.0], **_relation)
_relation |= {"pairs": [[1, 0], [3, 2]], "rest": np.asarray(BOX.points), "gradient": np.eye(3)}
call("LinearRelation.from_pairs", "constraints", state="box", **_relation)

# --- contact --------------------------------------------------------------------------


@functools.cache
def contact_problem() -> jm.contact.ContactProblem:
    return jm.contact.ContactProblem(np.eye(3), [[-1.0, 0.2, 0.0]], 0.5)


@functools.cache
def floor() -> jm.contact.PointContact:
    return jm.contact.PointContact(("box", PAIR), jm.contact.Plane(), friction=0.5)


@functools.cache
def free_motion() -> jm.integrator.FreeMotion:
    return jm.integrator.FreeMotion(integrator(), {"floor": floor()})


_CONTACT: dict[str, Any] = {"friction": 0.5, "restitution": 0.5, "compliance": 0.1, "radius": 0.1, "capacity": 2}
_CONTACT |= {"margin": 0.5, "depth": 0.5}
call("ContactProblem", W=np.eye(3), q=np.array([[-1.0, 0.2, 0.0]]), friction=np.array([0.5]))
method("ContactProblem.product", contact_problem, r=np.ones((1, 3)))
call("contact_errors", problem=late(contact_problem), impulse=np.ones((1, 3)))
call(
    "solve_contacts",
    problem=late(contact_problem),
    kappa=0.1,
    kappa_grad=0.2,
    method="newton",
    tolerance=1e-8,
    max_steps=9,
    start=np.ones((1, 3)),
    throw=False,
)
call("Sphere", radius=1.0)
call("Capsule", half_length=1.0, radius=0.5)
call("Box", half=np.ones(3))
call("HeightField", heights=np.ones((2, 3)), spacing=1.0)
call(
    "PointContact",
    points=("box", PAIR),
    shape=jm.contact.Plane(),
    frames=("frame", [0, 1]),
    at=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
    owners=np.array([0, 1]),
    half=True,
    **_CONTACT,
)
_OF_EDGES = {name: value for name, value in _CONTACT.items() if name != "radius"}
call("EdgeContact", edges=("box", np.array([[0, 1, 2, 3], [4, 5, 6, 7]])), owners=np.array([0, 1]), reach=0.5, **_OF_EDGES)
_OF_STOPS = {name: value for name, value in _CONTACT.items() if name not in ("friction", "radius")}
_MEASURED = late(lambda: jm.constraint.Distance((("box", [0, 1]), ("box", [2, 3])), length=1.0))
call("Limit", constraint=_MEASURED, lower=-0.5, upper=0.5, **_OF_STOPS)
call("sharp_edges", points=np.eye(4, 3), triangles=np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]), angle=0.1)
_ONE = {"triangles": ("box", np.array([[0, 1, 2]])), "rim": np.ones((1, 3), bool)}
call("SurfaceContact", points=("box", PAIR), reach=0.5, nearest=1, **_ONE, **_CONTACT)
call(
    "FreeMotion",
    motion=late(integrator),
    contacts=late(lambda: {"floor": floor()}),
    kappa=0.1,
    kappa_grad=0.2,
    correction="full",
    precomputed=None,
    method="newton",
    tolerance=1e-8,
    contact_steps=9,
    contact_iterations=9,
)
method("FreeMotion.step", free_motion, system=SYSTEM, state=STATE, carry=None, dt=0.1, throw=True)
method("FreeMotion.precompute", free_motion, system=SYSTEM, state=STATE, dt=0.1)

# --- meshes ---------------------------------------------------------------------------

call("MixedMesh", points=np.asarray(PLATE.points), blocks={"triangle": PLATE.cells}, groups={"all": {"triangle": [0, 1]}})
call("MixedMesh.from_mesh", mesh=PLATE, groups={"left": lambda x: x[:, 0] == 0.0})
for _name in ("parts", "part", "nodes"):
    method(f"MixedMesh.{_name}", lambda: MIXED, name="left", dimension=1)
method("MixedMesh.each", lambda: MIXED, component=lambda part: part.kind, name="left", dimension=1)
call("check_mesh", mesh=PLATE, connected=True)
call("plate_with_hole", radius=1.0, size=2.0, cells=(1, 1), kind="quad")
call("cylinder_mesh", radius=1.0, height=2.0, cells=(1, 1), inner_radius=0.5, kind="hexahedron")
call("ball_mesh", radius=1.0, cells=1, kind="hexahedron")
call("extruded_mesh", mesh=PLATE, height=1.0, layers=1)
call("refined_mesh", mesh=PLATE)
call("periodic_pairs", mesh=PLATE, shift=[1.0, 0.0])

for _name in ("boundary_of", "hexahedra_to_quads", "hexahedra_to_tetrahedra", "quads_to_triangles", "submesh"):
    _, _, _right, _ = CASES[_name]
    call(_name, **_right)
for _name in ("box_mesh", "edges_to_quads", "reference_element"):
    call(_name, **CASES[_name][2])
call("hexahedra_to_prisms", mesh=BRICK, axis=2, split="kuhn")
call("tetrahedra_to_triangles", mesh=BOX)
call("quadratic_mesh", mesh=BOX, kind="tetrahedron10")
call("triangles_to_edges", mesh=PLATE)
call("boundary_faces", mesh=BOX)
for _name in ("nodes_where", "faces_where"):
    method(f"Mesh.{_name}", lambda: BOX, predicate=lambda x: x[:, 0] == 0.0)
call("TopologicalMapping", mesh=BOX, parents=np.zeros((6, 1), int), nodes=np.arange(8), parent_count=1)
call("TopologicalMapping.identity", mesh=BOX)
REFERENCE = functools.cache(lambda: jm.mesh.reference_element("triangle"))
method("ReferenceElement.shape", REFERENCE, xi=np.array([0.2, 0.3]))
method("ReferenceElement.shape_gradients", REFERENCE, xi=np.array([0.2, 0.3]))
method("ReferenceElement.quadrature", REFERENCE, degree=2)
call("vertex_normals", points=np.asarray(SKIN.points), cells=np.asarray(SKIN.cells))
call("spy", matrix=late(block), axes=None)
_PICTURE = {"label": "displacement [m]", "limits": (0.0, 1.0), "reference": STATE, "cmap": "viridis"}
_SHOWN = {"edges": True, "legend": True, "view": (20.0, 30.0), "loads": False, "supports": False, "skins": None}
call("plot", system=SYSTEM, state=STATE, **_PICTURE, **_SHOWN, color=None, title="a scene", axes=None, backend="matplotlib")
_FILM = {"path": "film.gif", "fps": 20.0, "most_frames": 2, "dpi": 20, "progress": False}
_STATES = {"system": SYSTEM, "states": STATE}
call("animate", **_STATES, **_PICTURE, **_SHOWN, **_FILM, color=None)
method("Animation.save", lambda: jm.viz.Animation(b"GIF89a", 1), path="a.gif")
_PAGE = {"path": "page.html", "port": 8123, "most_frames": 2, "sliders": None, "response": None}
call("show", **_STATES, **_PICTURE, **_PAGE, color=None, loads=False, supports=False)
call("draw_energies", **_STATES, axes=None)
call("draw_residuals", info=late(lambda: jm.static_solve(pressed(jnp.zeros(())), column()).info), axes=None)
call(
    "draw_modes",
    system=SYSTEM,
    state=STATE,
    modes=late(lambda: jm.modes(*scene(), count=1)),
    count=1,
    amplitude=0.1,
    view=(20.0, 30.0),
)
call("draw_path", path=late(pressed_path), axes=None, label="loads", color="#d9772b")
call(
    "draw_surface",
    points=np.asarray(SKIN.points),
    cells=np.asarray(SKIN.cells),
    axes=None,
    color="#d9772b",
    edges="black",
)

# --- materials and results ------------------------------------------------------------

_BULK = {"bulk": 5.0}
call("function_of_invariants", function=lambda a, x: a * jnp.sum(x))
call("ArrudaBoyce", mu=1.0, **_BULK, segments=8.0)
call("Gent", mu=1.0, **_BULK, limit=30.0)
call("Yeoh", coefficients=[1.0, 0.1], **_BULK)
call("VerondaWestmann", c1=1.0, c2=0.5, **_BULK)
_EXPONENTS = dict.fromkeys(("bff", "bfs", "bss", "bfn", "bsn", "bnn"), 1.0)
call("Costa", a=1.0, **_BULK, **_EXPONENTS, directions=np.eye(3))
call("HolzapfelGasserOgden", mu=1.0, k1=1.0, k2=0.5, **_BULK, directions=[[1.0, 0.0, 0.0]], dispersion=0.1)
call("ActiveStress", passive=MATERIAL, tension=1.0, direction=[1.0, 0.0, 0.0])
call("ThermalExpansion", cold=MATERIAL, expansion=1.0, warming=0.5)
call("Damage", elastic=MATERIAL, threshold=1.0, toughness=1.0, most=0.9, viscosity=0.0, worst=0.0)


@functools.cache
def plate() -> tuple[jm.System, jm.State]:
    """A solid of two triangles at rest."""
    system = jm.System({"plate": jm.Vec2()}, forces={"solid": jm.force.TriangleFEM.from_mesh("plate", PLATE, MATERIAL)})
    return system, system.at_rest({"plate": PLATE.points})


@functools.cache
def slender() -> tuple[jm.System, jm.State]:
    """A beam and a shell at rest."""
    beam = jm.force.Beam(("frame", [[0, 1], [1, 2]]), LINE, SECTION)
    shell = jm.force.Shell.from_mesh("skin", SKIN, 1.0, 0.3, 0.1)
    system = jm.System({"frame": jm.Rigid3(), "skin": jm.Rigid3()}, forces={"beam": beam, "shell": shell})
    return system, system.at_rest({"frame": LINE, "skin": shell.rest})


@functools.cache
def fields() -> jm.output.GaussFields:
    return jm.output.gauss_fields(*plate(), "solid")


_PLATE_SYSTEM, _PLATE_STATE = late(lambda: plate()[0]), late(lambda: plate()[1])
call("gauss_fields", system=_PLATE_SYSTEM, state=_PLATE_STATE, name="solid")
call("at_nodes", fields=late(fields), values=np.ones((2, 1)), method="lumped")
call("Probe.build", mesh=PLATE, points=[[0.2, 0.3]])
_PROBE = functools.cache(lambda: jm.output.Probe.build(PLATE, [[0.2, 0.3]]))
method("Probe.of_nodes", _PROBE, values=np.ones(4))
method("Probe.of_points", _PROBE, fields=late(fields), values=np.ones((2, 1)))
_ABOUT = {"about": [0.0, 0.0]}
call("reaction_resultants", system=_PLATE_SYSTEM, state=_PLATE_STATE, groups={"all": [0, 1]}, on="plate", **_ABOUT)
call("beam_forces", system=late(lambda: slender()[0]), state=late(lambda: slender()[1]), name="beam")
call("shell_stresses", system=late(lambda: slender()[0]), state=late(lambda: slender()[1]), name="shell")
call("section_force", system=_PLATE_SYSTEM, state=_PLATE_STATE, side={"solid": [0]}, **_ABOUT)

# --- files ----------------------------------------------------------------------------


@functools.cache
def folder() -> Path:
    """A folder with a mesh and a pattern in it, gone with the process."""
    made = Path(tempfile.mkdtemp(prefix="jaxmech"))
    atexit.register(shutil.rmtree, made)
    jm.mesh.write_mesh(made / "mesh.vtk", PLATE)
    linear_system().save(made / "pattern.npz")
    return made


call("read_mesh", path=late(lambda: folder() / "mesh.vtk"), kind="triangle", dimension=2)
call("read_mixed_mesh", path=late(lambda: folder() / "mesh.vtk"), dimension=2)
call(
    "write_mesh",
    path=late(lambda: folder() / "written.vtk"),
    mesh=PLATE,
    point_data={"height": np.ones(4)},
    cell_data={"young": np.ones(2)},
)
call(
    "write_series",
    path=late(lambda: folder() / "written.xdmf"),
    mesh=PLATE,
    times=[0.0, 1.0],
    point_data={"height": np.ones((2, 4))},
    cell_data={"young": np.ones((2, 2))},
)
call("write_matrix", path=late(lambda: folder() / "matrix.mtx"), matrix=late(block))
method("MatrixLinearSystem.save", linear_system, path=late(lambda: folder() / "saved.npz"))
call("MatrixLinearSystem.load", path=late(lambda: folder() / "pattern.npz"), system=SYSTEM, state=STATE)


@functools.cache
def sofa_scene() -> jm.sofa.SceneGraph:
    """A scene of SOFA in a file."""
    path = folder() / "scene.scn"
    path.write_text(
        '<Node name="ball"><RungeKutta4Solver/><MechanicalObject position="0 0 0"/><UniformMass vertexMass="1"/></Node>'
    )
    return jm.sofa.load(path)


def sofa_file(name: str) -> Path:
    (folder() / "scene.py").write_text("def createScene(root):\n    pass\n")
    return folder() / name if sofa_scene() else folder()


call("load", path=late(lambda: sofa_file("scene.scn")), solver="exact", tree=late(folder))
call("record", path=late(lambda: sofa_file("scene.py")), solver="exact", tree=late(folder), steps=1, time_limit=60.0)
method("SceneGraph.part", sofa_scene, name="ball")
method("SceneGraph.control", sofa_scene, part="ball")
method(
    "SceneGraph.write",
    sofa_scene,
    path=late(lambda: folder() / "new.scn"),
    system=late(lambda: sofa_scene().system),
    part="ball",
)


# --- identification -------------------------------------------------------------------


def _length(parameters: Any) -> jax.Array:
    return parameters["length"] * jnp.ones(3)


def _seen(system: jm.System, state: jm.State) -> jax.Array:
    return state.position["box"][:, 0]


def _no_control(time: Any, state: jm.State, parameters: Any) -> dict[str, Any]:
    return {}


def _begun(system: jm.System, state: jm.State, parameters: Any) -> jm.State:
    return state


def _as_read(model: jax.Array, parameters: Any) -> jax.Array:
    return model


@functools.cache
def ruler() -> jm.identify.Formula:
    return jm.identify.Formula(_length, [1.0, 1.1, 0.9], noise=0.1)


@functools.cache
def measured_length() -> jm.identify.Fit:
    return jm.identify.fit(ruler(), {"length": jm.identify.Free(2.0)})


_PAIRS = np.array([[0, 1], [1, 2]])
_FREE = {"upper": 4.0, "transform": "logit", "scale": 1.0, "prior": (2.0, 0.1), "penalty": None, "unit": "m"}
call("Free", start=2.0, lower=1.0, **_FREE)
call("Tikhonov", weight=1.0, pairs=_PAIRS, areas=np.ones(2))
call("TotalVariation", weight=1.0, pairs=_PAIRS, areas=np.ones(2), corner=0.1)
_MEASURED = {"noise": 0.1, "times": np.array([0.0, 0.1]), "delay": 0.0, "adjust": _as_read, "blocks": np.array([0, 1])}
call("Measured", observe=_seen, values=np.zeros((2, 2)), **_MEASURED, interpolation="linear", unit="m")
call("Formula", function=_length, values=np.ones(3), noise=0.1, blocks=np.array([0, 1, 2]), unit="m")
call("Position", on=("box", [0, 1]), components=[0, 1])
call("Displacement", on=("box", [0, 1]), rest=np.zeros((2, 3)), components=[0, 1])
call("Distances", on=("box", [0, 1]), pairs=np.array([[0, 1]]))
call("Reaction", on=("box", [0]), direction=np.array([0.0, 0.0, 1.0]))
call("SectionForce", side={"solid": [0]}, about=np.zeros(3))
call("Strain", field="solid", probe=None, measure="small")
call("Frequencies", linear_system=late(linear_system), count=2)
_STATIC = {"control": _no_control, "guess": _no_control, "linear_system": late(linear_system), "method": "newton"}
call("Static", times=np.array([0.0, 0.1]), **_STATIC, load_steps=2, max_steps=20)
call(
    "Motion",
    integrator=late(lambda: jm.ImplicitEuler(linear_system())),
    dt=0.1,
    steps=4,
    save_every=2,
    control=_no_control,
    settle=True,
    linear_system=late(linear_system),
)
call(
    "Experiment",
    system=SYSTEM,
    state=STATE,
    measured=late(lambda: {"x": jm.identify.Measured(_seen, [0.0, 1.0], noise=0.1)}),
    protocol=late(jm.identify.AtRest),
    numbers=_length,
    begin=_begun,
)


def late_problem() -> jm.identify.Problem:
    return jm.identify.problem(ruler(), {"length": jm.identify.Free(2.0)})


_FREE_LENGTH = late(lambda: {"length": jm.identify.Free(2.0)})
call("problem", experiments=late(ruler), parameters=_FREE_LENGTH, huber=2.0)
call(
    "fit",
    experiments=late(ruler),
    parameters=_FREE_LENGTH,
    method="auto",
    huber=2.0,
    max_steps=20,
    rtol=1e-6,
    progress=False,
)
method("Problem.values", late_problem, q=np.zeros(1))
method("Fit.profile", measured_length, name="length", values=np.array([0.9, 1.0]), max_steps=5)
