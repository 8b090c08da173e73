"""Malformed inputs end in a `ValueError` or `TypeError` that names the culprit, never later and never silently.

Each case is a public constructor or function with arguments that are right, and for each argument the kind of thing it
is. Hypothesis takes one argument at a time and puts something wrong of that kind in its place. A component that lets
it pass is put in a scene, where `at_rest` and `build` must refuse it by name.
"""

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import jaxmech as jm

BOX = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
BRICK = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
PLATE = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0))
TILE = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0), kind="quad")
MATERIAL = jm.material.NeoHookean(10.0, 0.3)
PAIR = np.arange(2)
FRAME = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]] * 8
DOFS = {"box": jm.Vec3(), "plate": jm.Vec2(), "frame": jm.Rigid3(), "flat": jm.Rigid2()}
POSITION = {"box": np.asarray(BOX.points), "plate": np.asarray(PLATE.points), "frame": FRAME, "flat": np.zeros((4, 3))}


def scene(family, component):
    """At rest with the component in it, and its linear system built."""
    dofs = DOFS
    if family == "mappings" and isinstance(component.child, str):
        dofs = DOFS | {component.child: jm.Vec3()}
    position = POSITION
    if isinstance(component, jm.constraint.AbstractMultiplierConstraint):
        kind = jm.Vec1() if isinstance(component, jm.constraint.Distance) else jm.Vec3()
        dofs, position = DOFS | {"multipliers": kind}, POSITION | {"multipliers": np.zeros((2, kind.coord_size))}
    system = jm.System(dofs, **{family: {"culprit": component}})
    rest = system.at_rest(position)
    jm.MatrixLinearSystem.build(system, rest)


RUNNING = None


def running():
    """A scene that steps, made once."""
    global RUNNING
    if RUNNING is None:
        system = jm.System(
            {"box": jm.Vec3()},
            forces={"held": jm.force.AnchoredSprings(("box", PAIR), 1.0, np.zeros((2, 3)))},
            masses={"mass": jm.mass.UniformMass(("box", PAIR), 1.0)},
        )
        rest = system.at_rest({"box": np.zeros((2, 3))})
        RUNNING = system, rest, jm.MatrixLinearSystem.build(system, rest)
    return RUNNING


# --- what can be wrong with an argument of each kind -----------------------------------------------------------------

garbage = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.sampled_from(
        [object(), {}, {"a": 1.0}, {1.0, 2.0}, len, b"bytes", 1j, np.array(["a"]), [None], ["a", 1.0], [[1.0], 2.0]]
    ),
    st.complex_numbers(max_magnitude=1e3, allow_nan=False).map(np.asarray),
)
broken = st.sampled_from([np.nan, np.inf, -np.inf])
negative = st.floats(-1e3, -1e-3)
flags = st.sampled_from([True, False, [True, False], np.array(True)])
fractions = st.floats(-5, 5).filter(lambda x: x != int(x))
sizes = st.integers(3, 5)


def arrays(*shapes):
    """Zero to one arrays of shapes that do not fit."""
    return st.sampled_from(shapes).map(lambda shape: np.full(shape, 0.5))


WRONG = {
    "number": garbage | broken | flags | sizes.map(np.ones) | arrays((0,), (2, 2), (1, 1, 1)),
    "vector": garbage | broken | flags | arrays((), (0,), (4,), (3, 4), (2, 3, 3), (5, 3)),
    "nodes": garbage | broken | flags | fractions | fractions.map(lambda x: [x]) | st.integers(-9, -1).map(lambda i: [0, i])
    | st.integers(8, 2**40).map(lambda i: [0, i]) | arrays((2, 2), (0, 2), ()) | st.integers(0, 3),
    "name": st.none() | st.integers() | st.sampled_from([1.5, ["box"], ("box",), b"box", {}, "nowhere"]),
    "material": garbage | st.floats() | st.sampled_from([jm.material.NeoHookean, jm.Vec3()]),
    "mesh": garbage | st.sampled_from([np.zeros((4, 3)), (BOX.points, BOX.cells), jm.mesh.Mesh]),
    "choice": garbage.filter(lambda v: not (v is None or isinstance(v, np.ndarray))) | st.sampled_from([3, True, ["quad"]]),
    "flag": st.sampled_from([1, 0, None, "yes", 0.0, [True], {}]),
    "count": st.sampled_from([0, -1, 2.5, "3", None, True, [1, 2], np.nan, 1j]),
    "tolerance": st.sampled_from([-1e-3, np.nan, np.inf, "small", [1e-3], 1j, True, {}]),
    "seconds": garbage | broken | negative | st.sampled_from([0.0, [0.1, 0.1], True]),
    "flags": st.sampled_from([None, True, 1, "yes", (), (1, 0, 0), [True, "no", False], (True,) * 4, np.ones(3)]),
}  # fmt: skip
WRONG["positive"] = WRONG["number"] | negative | st.just(0.0)
WRONG["not negative"] = WRONG["number"] | negative
WRONG["direction"] = WRONG["vector"] | st.just(np.zeros(3))
WRONG["total"] = WRONG["positive"]


def on(kind, state="box", nodes=PAIR):
    """A stencil whose state, or nodes, or whole is wrong."""
    whole = WRONG["material"].filter(lambda v: not isinstance(v, jm.material.NeoHookean))
    state_wrong = WRONG["name"].map(lambda s: (s, nodes))
    return kind.map(lambda n: (state, n)) | state_wrong | whole


ON = on(WRONG["nodes"])

# label: (constructor, family or None, {argument: (a right one, what may be wrong)})
CASES = {}


def case(build, family=None, label=None, **fields):
    right = {name: value for name, (value, _) in fields.items()}
    wrong = {name: WRONG[how] if isinstance(how, str) else how for name, (_, how) in fields.items()}
    CASES[label or getattr(build, "__qualname__", str(build))] = (build, family, right, wrong)


for law in (
    jm.material.LinearElastic,
    jm.material.StVenantKirchhoff,
    jm.material.Corotational,
    jm.material.NeoHookean,
    jm.material.StableNeoHookean,
):
    scalar = garbage | broken | flags | arrays((2, 2, 2), (1, 1, 1)) | st.just(0.7)
    case(law, young=(1.0, scalar.filter(lambda v: not isinstance(v, float) or v != 0.7) | negative), poisson=(0.3, scalar))
case(
    jm.material.MooneyRivlin,
    c10=(1.0, negative.map(lambda c: c - 1) | garbage | broken),
    c01=(0.1, garbage | broken),
    bulk=(1.0, negative | garbage | broken),
)
case(
    jm.material.Ogden,
    mu=([1.0, 2.0], garbage | broken | arrays((), (3,), (0,), (1, 1, 2, 2))),
    alpha=([1.0, 2.0], garbage | broken | arrays((), (3,), (0,), (1, 1, 2, 2))),
    bulk=(1.0, negative | garbage | broken),
)
case(
    jm.material.J2Plasticity,
    young=(1.0, garbage | broken | negative),
    poisson=(0.3, garbage | broken | st.just(0.5)),
    yield_stress=(1.0, negative | garbage | broken | arrays((2, 2, 2)) | st.just(0.0)),
    hardening=(0.1, negative | garbage | broken),
    plastic_strain=(np.zeros((3, 3)), garbage | broken | arrays((), (3,), (2, 2, 2, 3, 3), (2, 3))),
    accumulated=(0.0, garbage | broken | arrays((2, 2, 2))),
)
case(
    jm.material.HenckyPlasticity,
    young=(1.0, garbage | broken | negative),
    poisson=(0.3, garbage | broken | st.just(0.5)),
    yield_stress=(1.0, negative | garbage | broken | arrays((2, 2, 2)) | st.just(0.0)),
    hardening=(0.1, negative | garbage | broken),
    plastic_gradient=(np.eye(3), garbage | broken | arrays((), (3,), (2, 2, 2, 3, 3), (2, 3)) | st.just(2 * np.eye(3))),
    accumulated=(0.0, garbage | broken | arrays((2, 2, 2))),
)
case(
    jm.material.DruckerPrager,
    young=(1.0, garbage | broken | negative),
    poisson=(0.3, garbage | broken | st.just(0.5)),
    cohesion=(1.0, negative.map(lambda c: c - 1) | garbage | broken | arrays((2, 2, 2))),
    friction=(0.5, negative.map(lambda a: a - 1) | garbage | broken | st.just(1.6)),
    dilatancy=(0.1, negative.map(lambda a: a - 1) | garbage | broken | st.just(1.6)),
    match=("compression", st.sampled_from(["inner", None, 3])),
)
case(
    jm.material.Viscoelastic,
    elastic=(MATERIAL, "material"),
    modulus=([1.0, 2.0], garbage | broken | arrays((), (3,), (0,), (2, 2, 2, 2)) | st.just([1.0, -1.0])),
    relaxation_time=([0.1, 1.0], garbage | broken | arrays((), (3,), (0,), (2, 2, 2, 2)) | st.just([0.0, 1.0])),
    flow=(np.stack([np.eye(3)] * 2), WRONG["vector"].filter(lambda v: v is not None)),
)
case(
    jm.Stencil,
    state=("box", WRONG["name"].filter(lambda s: s != "nowhere")),
    nodes=(PAIR, garbage | broken | flags | fractions),
)
for solid, mesh in ((jm.force.TetrahedronFEM, BOX), (jm.force.HexahedronFEM, BRICK)):
    rest = np.asarray(mesh.points)
    case(
        solid,
        "forces",
        on=(
            ("box", mesh.cells),
            on(garbage | arrays((2,), (2, 3)) | st.just(np.asarray(mesh.cells) + 90), nodes=mesh.cells),
        ),
        rest=(
            rest,
            garbage | broken | flags | arrays((), (3,), (8, 2), (2, 3), (8, 3)) | st.sampled_from([rest * np.nan, -rest]),
        ),
        material=(MATERIAL, "material"),
    )
    case(
        solid.from_mesh,
        "forces",
        state=("box", "name"),
        mesh=(mesh, WRONG["mesh"] | st.just(PLATE)),
        material=(MATERIAL, "material"),
    )
for solid, mesh in ((jm.force.TriangleFEM, PLATE), (jm.force.QuadFEM, TILE)):
    case(
        solid.from_mesh,
        "forces",
        state=("plate", "name"),
        mesh=(mesh, WRONG["mesh"] | st.just(BOX)),
        material=(MATERIAL, "material"),
        thickness=(1.0, "positive"),
        plane=("strain", "choice"),
    )
for ends in (jm.force.Springs,):
    case(
        ends,
        "forces",
        on=((("box", PAIR), ("box", PAIR + 2)), on(WRONG["nodes"]).map(lambda bad: (("box", PAIR), bad)) | garbage),
        stiffness=(1.0, "not negative"),
        rest_length=(1.0, "not negative"),
        damping=(0.1, WRONG["not negative"].filter(lambda c: c is not None)),
        elongation_only=(False, "flag"),
    )
case(
    jm.force.AnchoredSprings,
    "forces",
    on=(("box", PAIR), ON),
    stiffness=(1.0, "not negative"),
    anchor=(np.zeros((2, 3)), "vector"),
)
FRAMES = on(WRONG["nodes"], "frame")
case(
    jm.force.AnchoredFrames,
    "forces",
    on=(("frame", PAIR), FRAMES),
    stiffness=(1.0, "not negative"),
    angular_stiffness=(1.0, "not negative"),
    anchor=(np.asarray(FRAME[:2]), WRONG["vector"] | arrays((3,), (7, 7))),
)
case(jm.force.ConstantForce, "forces", on=(("box", PAIR), ON), force=(np.ones(3), "vector"))
case(jm.force.ConstantTorque, "forces", on=(("frame", PAIR), FRAMES), torque=(np.ones(3), "vector"))
case(
    jm.force.PenaltyPlane,
    "forces",
    on=(("box", PAIR), ON),
    point=(np.zeros(3), "vector"),
    normal=(np.ones(3), "direction"),
    stiffness=(1.0, "not negative"),
    damping=(0.0, WRONG["not negative"].filter(lambda c: c is not None)),
)
case(
    jm.force.VelocityDamping,
    "forces",
    on=(("box", PAIR), ON),
    coefficient=(1.0, "not negative"),
    angular=(0.0, "not negative"),
)
SKIN = BOX.boundary()
case(jm.force.Pressure.from_mesh, "forces", state=("box", "name"), surface=(SKIN, "mesh"), pressure=(1.0, "number"))
case(jm.force.Traction.from_mesh, "forces", state=("box", "name"), surface=(SKIN, "mesh"), traction=(np.ones(3), "vector"))
FACES = on(WRONG["nodes"], nodes=SKIN.cells)
case(jm.force.Pressure, "forces", on=(("box", SKIN.cells), FACES), pressure=(1.0, "number"), kind=("triangle", "choice"))
case(
    jm.force.Traction,
    "forces",
    on=(("box", SKIN.cells), FACES),
    rest=(np.asarray(BOX.points), garbage | broken | arrays((), (3,), (8, 5), (1, 2, 3))),
    traction=(np.ones(3), "vector"),
    kind=("triangle", "choice"),
)
case(jm.mass.UniformMass, "masses", on=(("box", PAIR), ON), mass=(1.0, "positive"))
case(jm.mass.UniformMass.of_total, "masses", on=(("box", PAIR), ON), total=(1.0, "total"))
case(jm.mass.DiagonalMass, "masses", on=(("box", PAIR), ON), mass=([1.0, 2.0], "positive"))
case(jm.mass.DiagonalMass.from_mesh, "masses", state=("box", "name"), mesh=(BOX, "mesh"), density=(1.0, "positive"))
case(jm.mass.ConsistentMass.from_mesh, "masses", state=("box", "name"), mesh=(BOX, "mesh"), density=(1.0, "positive"))
case(
    jm.mass.RigidMass,
    "masses",
    on=(("frame", PAIR), FRAMES),
    mass=(1.0, "positive"),
    inertia=(np.eye(3), WRONG["vector"] | st.just(-np.eye(3))),
)
case(
    jm.mass.PlanarRigidMass,
    "masses",
    on=(("flat", PAIR), on(WRONG["nodes"], "flat")),
    mass=(1.0, "positive"),
    inertia=(1.0, "positive"),
)
case(jm.constraint.Fixed, "constraints", on=(("box", PAIR), ON))
case(jm.constraint.FixedPlane, "constraints", on=(("box", PAIR), ON), normal=(np.ones(3), "direction"))
case(jm.constraint.FixedLine, "constraints", on=(("box", PAIR), ON), direction=(np.ones(3), "direction"))
case(jm.constraint.FixedComponents, "constraints", on=(("box", PAIR), ON), components=((True, False, False), "flags"))
case(
    jm.constraint.PrescribedMotion,
    "constraints",
    on=(("box", PAIR), ON),
    reference=(np.zeros((2, 3)), "vector"),
    displacements=(np.zeros((2, 3)), garbage | broken | flags | arrays((), (3,), (3, 3), (2, 4), (3, 2, 3))),
    times=([0.0, 1.0], garbage | broken | flags | arrays((), (3,), (2, 2)) | st.sampled_from([[1.0, 0.0], [1.0, 1.0]])),
    components=((True, False, False), WRONG["flags"].filter(lambda c: c is not None)),
)
_RATES = garbage | broken | flags | arrays((), (3,), (3, 3), (2, 4), (3, 2, 3))
_TIMES = garbage | broken | flags | arrays((), (3,), (2, 2)) | st.sampled_from([[1.0, 0.0], [1.0, 1.0]])
_START = garbage | broken | flags | arrays((), (2,), (3, 3))
for _kind, _field, _starts in (
    (jm.constraint.PrescribedVelocity, "velocities", ("start",)),
    (jm.constraint.PrescribedAcceleration, "accelerations", ("start", "start_velocity")),
):
    case(
        _kind,
        "constraints",
        on=(("box", PAIR), ON),
        reference=(np.zeros((2, 3)), "vector"),
        times=([0.0, 1.0], _TIMES),
        components=((True, False, False), WRONG["flags"].filter(lambda c: c is not None)),
        **{_field: (np.zeros((2, 3)), _RATES)},
        **{name: (np.zeros(3), _START) for name in _starts},
    )
MULTIPLIERS = on(WRONG["nodes"], "multipliers").filter(lambda given: given is not None)  # None: a state of its own
case(
    jm.constraint.Distance,
    "constraints",
    on=((("box", PAIR), ("box", PAIR + 2)), on(WRONG["nodes"]).map(lambda bad: (("box", PAIR), bad)) | garbage),
    multiplier=(("multipliers", PAIR), MULTIPLIERS),
    length=(1.0, "not negative"),
    compliance=(0.1, "not negative"),
)
case(
    jm.constraint.Attachment,
    "constraints",
    on=(("box", PAIR), ON),
    multiplier=(("multipliers", PAIR), MULTIPLIERS),
    offset=(np.zeros((2, 3)), WRONG["vector"].filter(lambda c: c is not None)),
    compliance=(0.1, "not negative"),
)
CHILD = WRONG["name"].filter(lambda s: s != "nowhere")
case(jm.mapping.IdentityMapping.of, "mappings", parent=("box", "name"), child=("copy", CHILD), nodes=(2, "count"))
case(jm.mapping.SubsetMapping, "mappings", parents=(("box", PAIR), ON), child=("some", CHILD))
case(
    jm.mapping.RigidMapping,
    "mappings",
    parents=(("frame", PAIR), FRAMES),
    child=("tip", CHILD),
    local=(np.zeros((2, 3)), "vector"),
)
case(
    jm.mapping.BarycentricMapping,
    "mappings",
    parents=(
        ("box", [[0, 1], [2, 3]]),
        on(WRONG["nodes"].filter(lambda n: getattr(n, "shape", None) != (0, 2)), nodes=[[0, 1], [2, 3]]),
    ),
    child=("between", CHILD),
    weights=(
        [[0.5, 0.5], [0.2, 0.8]],
        garbage | broken | flags | arrays((), (3,), (2, 3), (3, 2)) | st.just([[0.5, 0.6]] * 2),
    ),
)
case(
    jm.mapping.BarycentricMapping.from_mesh,
    "mappings",
    state=("box", "name"),
    child=("inside", CHILD),
    mesh=(BOX, WRONG["mesh"] | st.just(SKIN)),
    points=(np.full((2, 3), 0.3), garbage | broken | arrays((), (3,), (2, 2), (2, 3, 3)) | st.just(np.full((2, 3), np.nan))),
)
case(
    jm.mesh.Mesh,
    points=(
        np.asarray(BOX.points),
        garbage | broken | flags | arrays((), (3,), (8, 4), (2, 3, 3)) | st.just(np.full((8, 3), np.nan)),
    ),
    cells=(
        np.asarray(BOX.cells),
        garbage | broken | flags | fractions | arrays((6, 4)) | st.just(np.asarray(BOX.cells) + 3),
    ),
    kind=("tetrahedron", "choice"),
)
case(
    jm.mesh.box_mesh,
    cells=((1, 1, 1), garbage | flags | st.sampled_from([(0, 1, 1), (1, 1), (1.5, 1, 1), (1,), (-1, 1, 1), 3])),
    size=((1.0, 1.0, 1.0), garbage | broken | flags | negative | arrays((), (2,), (3, 3)) | st.just((1.0, 0.0, 1.0))),
    origin=(0.0, garbage | broken | arrays((2,), (3, 3))),
    kind=("tetrahedron", "choice"),
    split=("kuhn", "choice"),
)
for made_of in (jm.mesh.hexahedra_to_tetrahedra, jm.mesh.hexahedra_to_prisms):
    case(made_of, mesh=(BRICK, WRONG["mesh"] | st.just(BOX)), split=("kuhn", WRONG["choice"] | st.none()))
case(jm.mesh.hexahedra_to_quads, mesh=(BRICK, WRONG["mesh"] | st.just(BOX)))
case(jm.mesh.quads_to_triangles, mesh=(TILE, WRONG["mesh"] | st.just(BOX)), split=("kuhn", WRONG["choice"] | st.none()))
case(jm.mesh.boundary_of, mesh=(BOX, WRONG["mesh"] | st.just(SKIN)))
case(
    jm.mesh.submesh,
    mesh=(BOX, "mesh"),
    cells=([0, 2], WRONG["nodes"].filter(lambda c: c is not None) | st.sampled_from([[0, 0], [], [6], [True] * 5])),
)
case(
    jm.mesh.edges_to_quads,
    mesh=(jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0]], [[0, 1]], "edge"), WRONG["mesh"] | st.just(BOX)),
    orientations=([[0.0, 0, 0, 1]] * 2, garbage | broken | flags | arrays((), (4,), (3, 4), (2, 3), (2, 4))),
    radius=(1.0, garbage | broken | flags | negative | arrays((3,), (2, 3)) | st.just(0.0)),
    sides=(6, "count"),
)
case(
    jm.Terms,
    **{name: (True, "flag") for name in ("mass", "damping", "stiffness", "mapped", "constrained", "symmetric")},
    **{name: (True, WRONG["flag"].filter(lambda v: v is not None)) for name in ("geometric", "rayleigh")},
)
case(jm.solver.SparseDirect, backend=("auto", "choice"), ordering=("auto", "choice"))
case(
    jm.solver.PCG,
    rtol=(1e-8, "tolerance"),
    atol=(0.0, WRONG["tolerance"]),
    max_steps=(10, WRONG["count"].filter(lambda v: v is not None)),
)
for method in (jm.solver.MINRES, jm.solver.BiCGStab, jm.solver.GMRES):
    case(method, rtol=(1e-8, "tolerance"), max_steps=(10, WRONG["count"].filter(lambda v: v is not None)))
case(jm.solver.SVD, rcond=(1e-8, "tolerance"))
case(jm.mesh.reference_element, kind=("quad", "choice"))


def new_system(**changes):
    arguments = {"dofs": {"box": jm.Vec3()}, "forces": {"f": jm.force.ConstantForce(("box", PAIR), np.ones(3))}}
    return jm.System(**(arguments | changes))


named = garbage.filter(lambda v: v is not None and v != {}) | st.sampled_from(
    [{"culprit": 3.0}, {1: jm.Vec3()}, [jm.Vec3()], {"culprit": None}]
)
case(
    new_system,
    label="System",
    dofs=({"box": jm.Vec3()}, named | st.sampled_from([{}, None, {"box": jm.Vec3}])),
    forces=({}, named | st.just({"culprit": jm.constraint.Fixed(("box", PAIR))})),
    masses=({}, named),
    mappings=({}, named),
    constraints=({}, named),
    rayleigh=(
        {},
        named.filter(lambda v: v != {"a": 1.0})
        | st.sampled_from([{"f": -1.0}, {"f": [1.0, 2.0]}, {"f": np.nan}, {"f": True}, {"f": np.inf}]),
    ),
    gravity=([0.0, 0.0, -1.0], garbage.filter(lambda v: v is not None) | broken | flags | arrays((), (4,), (2, 2), (0,))),
)


def at_rest(position=(), time=0.0):
    scene = jm.System({"box": jm.Vec3(), "frame": jm.Rigid3()})
    scene.at_rest({"box": np.zeros((2, 3)), "frame": FRAME} | dict(position), time=time)


case(
    at_rest,
    label="at_rest",
    position=(
        {},
        (garbage | broken | flags | arrays((), (3,), (2, 2), (0, 7), (2, 3, 3))).map(lambda x: {"box": x})
        | (garbage | broken | flags | arrays((), (7,), (2, 3), (2, 8))).map(lambda x: {"frame": x})
        | st.just({"nowhere": np.zeros((2, 3))}),
    ),
    time=(0.0, garbage | broken | flags | arrays((2,))),
)


def solve(**options):
    system, rest, linear_system = running()
    arguments = {"system": system, "state": rest, "linear_system": linear_system} | options
    jm.static_solve(**arguments)


case(
    solve,
    label="static_solve",
    system=(None, "mesh"),
    state=(None, "mesh"),
    linear_system=(None, WRONG["mesh"].filter(lambda v: v is not None)),
    solver=(None, WRONG["mesh"].filter(lambda v: v is not None) | st.just(jm.solver.PCG)),
    rtol=(1e-8, "tolerance"),
    atol=(0.0, "tolerance"),
    max_steps=(9, WRONG["count"].filter(lambda v: v is not None)),
    load_steps=(1, "count"),
    line_search=("none", "choice"),
    throw=(True, "flag"),
)


def integrator(**options):
    jm.ImplicitEuler(**({"linear_system": running()[2]} | options))


case(
    integrator,
    label="ImplicitEuler",
    linear_system=(None, "mesh"),
    solver=(None, WRONG["mesh"].filter(lambda v: v is not None) | st.just(jm.solver.PCG)),
    newton=(True, "flag"),
    rayleigh_stiffness=(0.0, WRONG["not negative"]),
    rayleigh_mass=(0.0, WRONG["not negative"]),
    rtol=(1e-8, "tolerance"),
    atol=(0.0, "tolerance"),
    max_steps=(9, "count"),
    line_search=("none", "choice"),
)


def run(**options):
    system, rest, linear_system = running()
    arguments = {"system": system, "state": rest, "integrator": jm.ImplicitEuler(linear_system), "dt": 0.1, "steps": 4}
    jm.simulate(**(arguments | options))


case(
    run,
    label="simulate",
    system=(None, "mesh"),
    state=(None, "mesh"),
    integrator=(None, "mesh"),
    dt=(0.1, "seconds"),
    steps=(4, "count"),
    save_every=(1, WRONG["count"] | st.just(3)),
    checkpoint_every=(1, WRONG["count"].filter(lambda v: v is not None)),
    progress=(False, "flag"),
    throw=(True, "flag"),
)

SPOTS = [(label, name) for label, (_, _, _, wrong) in CASES.items() for name in wrong]


def names_of(label, field):
    return (*label.split("."), field, "culprit", "Stencil")


def attempt(label, field, value):
    """The error that a wrong value of a field ends in; `None` where there is none."""
    build, family, right, _ = CASES[label]
    arguments = {field: value} if build in (solve, integrator, run, new_system, at_rest) else right | {field: value}
    try:
        made = build(**arguments)
        if family is not None:
            scene(family, made)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(
    "label", [label for label, (build, *_) in CASES.items() if build not in (solve, integrator, run, at_rest)]
)
def test_the_arguments_that_are_made_wrong_are_right_to_begin_with(label):
    build, family, right, _ = CASES[label]
    made = build(**right)
    if family is not None:
        scene(family, made)


@pytest.mark.slow
@seed(0)
@settings(max_examples=600, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_malformed_inputs_are_refused_by_name(data):
    label, field = data.draw(st.sampled_from(SPOTS), label="where")
    value = data.draw(CASES[label][3][field], label="what")
    error = attempt(label, field, value)
    assert error is not None, f"{label}({field}={value!r}) was accepted"
    assert isinstance(error, ValueError | TypeError), f"{label}({field}={value!r}) ended in {error!r}"
    assert any(name in str(error) for name in names_of(label, field)), f"{label}({field}={value!r}): {error}"


@pytest.mark.parametrize("wrong", [[0.0, 0.0, -1.0], 1.0, "three", None], ids=str)
def test_what_is_put_past_a_constructor_is_refused_by_name(wrong):
    """`tree_at` calls no constructor: what it leaves in the place of an array is found where the component is evaluated."""
    pull = jm.force.ConstantForce(("box", PAIR), np.ones(3))
    system = jm.System({"box": jm.Vec3()}, forces={"pull": pull})
    changed = eqx.tree_at(lambda s: s.forces["pull"].force, system, wrong)
    with pytest.raises(TypeError, match="ConstantForce: force"):
        jm.total_force(changed, system.at_rest({"box": BOX.points}))


def test_a_stack_of_states_is_told_of_vmap():
    system, state = jm.System({"p": jm.Vec1()}), jm.System({"p": jm.Vec1()}).at_rest({"p": [[1.0]]})
    for many in (jax.tree.map(lambda a: np.stack([a, a]), state), eqx.tree_at(lambda s: s.time, state, np.zeros(2))):
        with pytest.raises(ValueError, match=r"take `jax\.vmap`"):
            jm.energy(system, many)
