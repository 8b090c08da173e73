"""The catalogue: small scenes that between them hold every component, and have nothing special about them.

Positions are perturbed, velocities are not zero, parameters differ from element to element: a term that is
forgotten shows. A new component adds itself to a scene here; `test_invariants.py` and `test_solvers_on_scenes.py` do the
rest.
"""

import dataclasses
import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from own_components import Bending, Blend, Bracket, Distance, Fung, Maxwell, PendulumMass, Slider, Swirl, Twisting

import jaxmech as jm

# What a builder cannot leave to be read off its system.
SYMMETRIC = "symmetric"  # the matrix is declared symmetric
CONSERVATIVE = "conservative"  # every force has an energy
STEPS = "steps"  # a time step from here makes sense
FLAT = "flat"  # the coordinates of every state form a vector space
SLOW = "slow"  # takes so long to compile that its tests are of the slow stage (`conftest.py`)
EXHAUSTIVE = "exhaustive"  # or of the last, where others hold its parts


@dataclass(frozen=True)
class Scene:
    """A system at a state that is not at rest."""

    name: str
    system: jm.System
    state: jm.State
    tags: frozenset[str]


_BUILDERS: dict[str, tuple[Callable, frozenset[str], float]] = {}


def scene(*tags: str, amount: float = 0.1):
    """Enter a builder of `(system, rest positions)`; `amount` [m, rad]: how far nodes are then moved."""

    def enter(builder):
        _BUILDERS[builder.__name__] = (builder, frozenset(tags), amount)
        return builder

    return enter


def names(*tags: str) -> list[str]:
    """The scenes that carry all of these tags."""
    return [name for name, (_, own, _) in _BUILDERS.items() if own.issuperset(tags)]


@functools.cache
def build(name: str) -> Scene:
    """A scene, made once."""
    builder, tags, amount = _BUILDERS[name]
    system, rest = builder()
    state = perturbed(system, system.at_rest(rest), amount, np.random.default_rng(zlib.crc32(name.encode())))
    return Scene(name, system, state, tags)


def perturbed(system: jm.System, state: jm.State, amount: float, rng: np.random.Generator) -> jm.State:
    """Every node moved in its chart, and given a velocity."""
    position, halfway, velocity = {}, {}, {}
    for name, x in state.position.items():
        d = rng.uniform(-1, 1, state.velocity[name].shape)
        position[name] = retracted(system.dofs[name], x, amount * d)
        halfway[name] = retracted(system.dofs[name], x, 0.5 * amount * d)
        velocity[name] = jnp.asarray(rng.uniform(-1, 1, d.shape))
    moved = dataclasses.replace(state, position=position, velocity=velocity, time=jnp.asarray(0.3))
    if not state.internal:
        return moved
    # What is remembered is of another place than this one, so that flow goes on from here.
    past = jm.integrator.accepted(system, state, dataclasses.replace(moved, position=halfway), 0.1)
    return dataclasses.replace(moved, internal=past.internal)


@functools.partial(jax.jit, static_argnums=0)
def _in_the_chart(dof, x, d):
    return jax.vmap(dof.retract)(x, d)


def retracted(dof, x, d) -> jax.Array:
    """Nodes moved in their charts: without a program where that is a sum."""
    return jnp.asarray(np.asarray(x) + d) if dof.is_vector_space else _in_the_chart(dof, np.asarray(x), d)


def frames(*places, turn=(0.5, -0.8, 0.4)) -> jax.Array:
    """`Rigid3` coordinates at these places, each turned a little more than the one before."""
    start = np.array([[*place, 0.0, 0.0, 0.0, 1.0] for place in places])
    turns = (1 + 0.5 * np.arange(len(places)))[:, None] * np.array(turn)
    return _in_the_chart(jm.Rigid3(), start, np.hstack([np.zeros_like(turns), turns]))


def points(n: int, size: int = 3, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    """Points in general position, no two of them close."""
    grid = np.stack(np.meshgrid(*[np.arange(3.0)] * size, indexing="ij"), -1).reshape(-1, size)
    rng = np.random.default_rng(seed)
    return spread * (rng.permutation(grid)[:n] + 0.2 * rng.uniform(-1, 1, (n, size)))


BOX3 = {"cells": (1, 1, 1), "size": (1.0, 1.2, 0.8)}
BOX2 = {"cells": (2, 1), "size": (2.0, 1.2)}
INERTIA = np.array([[0.5, 0.05, 0.02], [0.05, 0.7, -0.03], [0.02, -0.03, 0.9]])


# --- springs -------------------------------------------------------------------------


@scene(FLAT, STEPS)
def springs():
    """Damped springs of different stiffness, gravity, drag, Rayleigh damping of springs and of a mass."""
    on = (("rope", [0, 1, 2, 3]), ("rope", [1, 2, 3, 0]))
    system = jm.System(
        {"rope": jm.Vec3()},
        forces={
            "springs": jm.force.Springs(
                on, jnp.array([50.0, 70.0, 40.0, 60.0]), 0.9, damping=jnp.array([1.0, 2.0, 0.5, 3.0])
            ),
            "drag": jm.force.VelocityDamping(("rope", [1, 3]), jnp.array([0.4, 0.7])),
        },
        masses={"mass": jm.mass.DiagonalMass(("rope", range(4)), jnp.array([1.0, 2.0, 1.5, 0.7]))},
        constraints={"hook": jm.constraint.Fixed(("rope", [0]))},
        rayleigh={"springs": 0.03, "mass": 0.2},
        gravity=(0.0, 0.5, -9.81),
    )
    return system, {"rope": points(4)}


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, SLOW)
def elongation_only_springs():
    """Some are slack, some are taut; in the plane."""
    on = (("net", [0, 1, 2, 3, 0]), ("net", [1, 2, 3, 4, 4]))
    rest = jnp.array([0.4, 9.0, 0.5, 9.0, 0.7])
    system = jm.System(
        {"net": jm.Vec2()},
        forces={"springs": jm.force.Springs(on, 30.0, rest, elongation_only=True)},
        masses={"mass": jm.mass.UniformMass(("net", range(5)), 0.6)},
        constraints={"slide": jm.constraint.FixedPlane(("net", [0, 2]), (1.0, 2.0))},
        gravity=(0.0, -9.81),
    )
    return system, {"net": points(5, 2)}


@scene(FLAT, STEPS, SLOW)
def springs_between_states():
    """Springs within and between two main states of several nodes each; an unequal number of blocks."""
    between = jm.force.Springs((("a", [0, 1, 2]), ("b", [1, 0, 1])), 25.0, jnp.array([0.5, 0.9, 1.4]), damping=0.3)
    within = jm.force.Springs((("a", [0, 1]), ("a", [1, 2])), 40.0, 0.8)
    system = jm.System(
        {"b": jm.Vec3(), "a": jm.Vec3()},
        forces={
            "between": between,
            "within": within,
            "home": jm.force.AnchoredSprings(("a", [0]), 20.0, points(1, seed=5)),
        },
        masses={
            "a": jm.mass.UniformMass(("a", range(3)), 1.1),
            "b": jm.mass.UniformMass.of_total(("b", range(2)), 3.0),
        },
        constraints={"plane": jm.constraint.FixedPlane(("b", [1]), jnp.array([[1.0, -2.0, 0.5]]))},
    )
    return system, {"a": points(3, seed=1), "b": points(2, seed=2)}


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS)
def anchored_springs():
    """To places and to the points of another state; scalars and points of the plane side by side."""
    system = jm.System(
        {"angle": jm.Vec1(), "p": jm.Vec2(), "q": jm.Vec2()},
        forces={
            "angle": jm.force.AnchoredSprings(("angle", [0, 1, 2]), jnp.array([3.0, 4.0, 5.0]), [[0.1], [0.2], [-0.3]]),
            "place": jm.force.AnchoredSprings(("p", [0, 2]), 7.0, [[0.0, 0.3], [1.0, 0.5]]),
            "pairs": jm.force.AnchoredSprings((("p", [0, 1, 2]), ("q", [1, 1, 0])), jnp.array([6.0, 8.0, 9.0])),
            "push": jm.force.ConstantForce(("q", [0, 1]), [[1.0, 2.0], [-1.0, 0.5]]),
        },
        masses={
            "angle": jm.mass.DiagonalMass(("angle", [0, 1, 2]), 0.4),
            "p": jm.mass.DiagonalMass(("p", [0, 1, 2]), 0.5),
            "q": jm.mass.DiagonalMass(("q", [0, 1]), 0.6),
        },
        constraints={"pin": jm.constraint.FixedComponents(("q", [1]), (True, False))},
        rayleigh={"pairs": 0.1, "p": 0.3},
        gravity=(1.5, -9.81),
    )
    rest = {"angle": [[0.0], [0.5], [1.0]], "p": points(3, 2, seed=1), "q": points(2, 2, seed=2)}
    return system, rest


@scene(SYMMETRIC, STEPS, amount=0.3)
def frames_in_space():
    """Two states of rigid frames: springs to places and between frames, forces, a torque, drag on spins."""
    rest = frames((0.0, 0.0, 0.0), (1.0, 0.2, 0.1), (2.0, 0.0, 0.3))
    other = frames((0.5, 1.0, 0.0), turn=(0.1, 0.9, -0.2))
    system = jm.System(
        {"body": jm.Rigid3(), "arm": jm.Rigid3()},
        forces={
            "pairs": jm.force.AnchoredFrames((("body", [0, 1]), ("arm", [0, 0])), 15.0, jnp.array([3.0, 4.0])),
            "push": jm.force.ConstantForce(("body", [1]), (1.0, 2.0, 3.0)),
            "twist": jm.force.ConstantTorque(("arm", [0]), (0.3, -0.2, 0.4)),
            "drag": jm.force.VelocityDamping(("body", [0, 1]), 0.5, jnp.array([0.2, 0.3])),
        },
        masses={
            "body": jm.mass.RigidMass(("body", range(3)), 2.0, INERTIA),
            "arm": jm.mass.RigidMass(("arm", [0]), 1.0, 2 * INERTIA),
        },
        constraints={
            "slide": jm.constraint.FixedPlane(("body", [1]), (1.0, 1.0, -0.5)),
            "hinge": jm.constraint.FixedComponents(("body", [2]), (True, True, True, True, True, False)),
        },
        rayleigh={"pairs": 0.05, "body": 0.1},
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"body": rest, "arm": other}


@scene(FLAT, SYMMETRIC, STEPS, amount=0.3)
def frames_in_the_plane():
    """Frames and points of the plane: anchors, a force with a torque, drag, prescribed motion."""
    system = jm.System(
        {"body": jm.Rigid2(), "dust": jm.Vec2()},
        forces={
            "anchored": jm.force.AnchoredFrames(("body", [0]), 20.0, 5.0, [[0.0, 0.1, 0.4]]),
            "pairs": jm.force.AnchoredFrames((("body", [0, 1]), ("body", [1, 2])), 15.0, jnp.array([3.0, 4.0])),
            "push": jm.force.ConstantForce(("body", [1, 2]), (1.0, 2.0, 0.3)),
            "drag": jm.force.VelocityDamping(("dust", [0, 1]), 0.5),
        },
        masses={
            "body": jm.mass.PlanarRigidMass(("body", range(3)), jnp.array([1.0, 2.0, 3.0]), 0.4),
            "dust": jm.mass.UniformMass(("dust", range(2)), 0.3),
        },
        constraints={
            "drive": jm.constraint.PrescribedMotion(
                ("body", [2]),
                [[2.0, 0.0, 0.5]],
                [[0.0, 0.0, 0.0], [0.1, 0.0, 0.2]],
                (0.0, 1.0),
                (True, False, True),
            )
        },
        gravity=(0.0, -9.81),
    )
    rest = {"body": [[0.0, 0.0, 0.3], [1.0, 0.2, -0.4], [2.0, 0.0, 0.5]], "dust": points(2, 2)}
    return system, rest


# --- loads ---------------------------------------------------------------------------


@scene(FLAT, SYMMETRIC, STEPS, SLOW)
def contact_plane():
    """Some nodes are inside, some are not."""
    system = jm.System(
        {"ball": jm.Vec3()},
        forces={"ground": jm.force.PenaltyPlane(("ball", range(4)), (1.0, 1.0, 1.0), (0.5, 0.3, 2.0), 80.0, damping=2.0)},
        masses={"mass": jm.mass.UniformMass(("ball", range(5)), 0.5)},
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"ball": points(5)}


@scene(FLAT, STEPS)
def pressed_tetrahedra():
    """Pressure on triangles that turn with it, traction on others that does not; a material of the user's."""
    mesh = jm.mesh.box_mesh(**BOX3)
    stiffness = jnp.linspace(800.0, 1200.0, mesh.cells.shape[0])
    system = jm.System(
        {"body": jm.Vec3()},
        forces={
            "fung": jm.force.TetrahedronFEM.from_mesh("body", mesh, Fung(stiffness, 1.5)),
            "pressure": jm.force.Pressure.from_mesh(
                "body", mesh.faces_where(lambda x: x[:, 0] == 1.0), jnp.array([30.0, 50.0])
            ),
            "traction": jm.force.Traction.from_mesh("body", mesh.faces_where(lambda x: x[:, 1] == 0.0), (5.0, -3.0, 2.0)),
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("body", mesh, 3.0)},
        constraints={"clamp": jm.constraint.Fixed(("body", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    return system, {"body": mesh.points}


@scene(FLAT, STEPS, SLOW)
def pressed_hexahedron():
    """Pressure and traction on quads."""
    mesh = jm.mesh.box_mesh(**BOX3, kind="hexahedron")
    system = jm.System(
        {"body": jm.Vec3()},
        forces={
            "solid": jm.force.HexahedronFEM.from_mesh("body", mesh, jm.material.StVenantKirchhoff(900.0, 0.25)),
            "pressure": jm.force.Pressure.from_mesh("body", mesh.faces_where(lambda x: x[:, 0] == 1.0), 40.0),
            "traction": jm.force.Traction.from_mesh("body", mesh.faces_where(lambda x: x[:, 2] == 0.8), [[5.0, -3.0, 2.0]]),
        },
        masses={"mass": jm.mass.ConsistentMass.from_mesh("body", mesh, jnp.array([2.0]))},
        constraints={
            "clamp": jm.constraint.FixedLine(("body", mesh.nodes_where(lambda x: x[:, 0] == 0.0)), (0.0, 1.0, 2.0))
        },
    )
    return system, {"body": mesh.points}


@scene(FLAT, STEPS)
def pressed_triangles():
    """Pressure and traction on edges; plane strain."""
    mesh = jm.mesh.box_mesh(**BOX2)
    system = jm.System(
        {"sheet": jm.Vec2()},
        forces={
            "solid": jm.force.TriangleFEM.from_mesh("sheet", mesh, jm.material.StVenantKirchhoff(500.0, 0.3), thickness=0.5),
            "pressure": jm.force.Pressure.from_mesh(
                "sheet", mesh.faces_where(lambda x: x[:, 1] == 1.2), jnp.array([9.0, 7.0])
            ),
            "traction": jm.force.Traction.from_mesh("sheet", mesh.faces_where(lambda x: x[:, 0] == 2.0), (3.0, 1.0)),
        },
        masses={"mass": jm.mass.DiagonalMass.from_mesh("sheet", mesh, 2.0)},
        constraints={"clamp": jm.constraint.Fixed(("sheet", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    return system, {"sheet": mesh.points}


# --- solids --------------------------------------------------------------------------


def solids(fem, mesh, dof, materials, **options):
    """One state for each material, all of them cut from the same mesh, clamped where x is nil."""
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    down = (0.0, -2.0, 1.0)[: mesh.points.shape[1]]
    system = jm.System(
        {name: dof for name in materials},
        forces={name: fem.from_mesh(name, mesh, m, **options) for name, m in materials.items()},
        masses={"mass of " + name: jm.mass.ConsistentMass.from_mesh(name, mesh, 2.0) for name in materials},
        constraints={"clamp of " + name: jm.constraint.Fixed((name, root)) for name in materials},
        rayleigh={name: 0.01 for name in list(materials)[:1]},
        gravity=down,
    )
    return system, {name: mesh.points for name in materials}


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS)
def tetrahedra():
    mesh = jm.mesh.box_mesh(**BOX3)
    young = jnp.linspace(900.0, 1500.0, mesh.cells.shape[0])
    materials = {"neo-hookean": jm.material.NeoHookean(young, 0.3), "corotational": jm.material.Corotational(1000.0, 0.35)}
    return solids(jm.force.TetrahedronFEM, mesh, jm.Vec3(), materials)


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, SLOW)
def soft_tetrahedra():
    mesh = jm.mesh.box_mesh(**BOX3, split="sofa")
    materials = {
        "ogden": jm.material.Ogden((300.0, -20.0), (1.8, -2.5), 900.0),
        "linear": jm.material.LinearElastic(1000.0, 0.3),
    }
    return solids(jm.force.TetrahedronFEM, mesh, jm.Vec3(), materials)


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS)
def hexahedra():
    mesh = jm.mesh.box_mesh(**BOX3, kind="hexahedron")
    materials = {"stable": jm.material.StableNeoHookean(800.0, 0.4), "mooney": jm.material.MooneyRivlin(150.0, 60.0, 900.0)}
    return solids(jm.force.HexahedronFEM, mesh, jm.Vec3(), materials)


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS)
def memory():
    """Plasticity with a modulus for every Gauss point; links that slip, and one that creeps."""
    mesh = jm.mesh.box_mesh(**BOX2, kind="quad")
    young = jnp.linspace(900.0, 1500.0, 8).reshape(2, 4)
    law = jm.material.J2Plasticity(young, 0.3, yield_stress=jnp.array([20.0, 30.0]), hardening=60.0, kinematic=40.0)
    system, rest = solids(jm.force.QuadFEM, mesh, jm.Vec2(), {"plastic": law}, thickness=0.3)
    links = {
        "slider": Slider((("plastic", [1, 4]), ("plastic", [2, 5])), jnp.array([30.0, 50.0]), 2.0),
        "maxwell": Maxwell((("plastic", [4]), ("plastic", [2])), 20.0, 0.3),
    }
    system = jm.System(
        system.dofs,
        forces=system.forces | links,
        masses=system.masses,
        constraints=system.constraints,
        rayleigh={"maxwell": 0.01},
        gravity=(0.0, -2.0),
    )
    return system, rest


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, SLOW)
def plane_stress_triangles():
    mesh = jm.mesh.box_mesh(**BOX2)
    materials = {"neo-hookean": jm.material.NeoHookean(900.0, 0.3), "linear": jm.material.LinearElastic(1000.0, 0.35)}
    thickness = jnp.linspace(0.3, 0.6, mesh.cells.shape[0])
    return solids(jm.force.TriangleFEM, mesh, jm.Vec2(), materials, plane="stress", thickness=thickness)


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, SLOW)
def plane_strain_quads():
    mesh = jm.mesh.box_mesh(**BOX2, kind="quad")
    materials = {"stvk": jm.material.StVenantKirchhoff(800.0, 0.4), "ogden": jm.material.Ogden((300.0,), (1.6,), 900.0)}
    return solids(jm.force.QuadFEM, mesh, jm.Vec2(), materials)


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, SLOW)
def plane_stress_quads():
    """Of which `plane_stress_triangles` shows the condition and `plane_strain_quads` the cells."""
    mesh = jm.mesh.box_mesh(**BOX2, kind="quad")
    thickness = jnp.array([0.4, 0.6])
    materials = {"mooney": jm.material.MooneyRivlin(150.0, 60.0, 900.0), "stable": jm.material.StableNeoHookean(900.0, 0.3)}
    return solids(jm.force.QuadFEM, mesh, jm.Vec2(), materials, plane="stress", thickness=thickness)


@scene(FLAT, SYMMETRIC, CONSERVATIVE, SLOW)
def masses_of_sheets_and_ropes():
    """Consistent and lumped masses of every kind of cell that has fewer dimensions than space."""
    quad = jm.mesh.Mesh(points(8, seed=3), [[0, 1, 3, 2], [4, 5, 7, 6]], "quad")
    triangle = jm.mesh.Mesh(quad.points, [[0, 1, 2], [1, 3, 2], [5, 6, 7]], "triangle")
    edge = jm.mesh.Mesh(quad.points, [[0, 1], [1, 2], [2, 5]], "edge")
    box = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 2.0))
    system = jm.System(
        {"sheet": jm.Vec3(), "plate": jm.Vec2()},
        masses={
            "quad": jm.mass.ConsistentMass.from_mesh("sheet", quad, jnp.array([1.0, 2.0])),
            "triangle": jm.mass.ConsistentMass.from_mesh("sheet", triangle, 1.5),
            "edge": jm.mass.ConsistentMass.from_mesh("sheet", edge, 0.5),
            "lumped": jm.mass.DiagonalMass(("sheet", range(8)), 0.2),
            "plate": jm.mass.ConsistentMass.from_mesh("plate", box, 3.0),
        },
        rayleigh={"quad": 0.2},
        gravity=(0.1, 0.2, -9.81),
    )
    return system, {"sheet": quad.points, "plate": box.points}


# --- mappings ------------------------------------------------------------------------


@scene(FLAT, STEPS, SLOW)
def embedded_points():
    """Barycentric: springs on mapped points and to a main state, mapped mass, drag, pressure; idle points."""
    mesh = jm.mesh.box_mesh(**BOX3)
    inside = jnp.array([[0.2, 0.3, 0.4], [0.7, 0.8, 0.3], [0.5, 0.2, 0.6], [0.9, 0.6, 0.7]])
    system = jm.System(
        {"body": jm.Vec3(), "drawn": jm.Vec3(), "skin": jm.Vec3(), "hook": jm.Vec3()},
        forces={
            "solid": jm.force.TetrahedronFEM.from_mesh("body", mesh, jm.material.NeoHookean(900.0, 0.3)),
            "threads": jm.force.Springs((("skin", [0, 1]), ("skin", [1, 2])), 20.0, 0.3, damping=0.5),
            "hooked": jm.force.Springs((("skin", [3]), ("hook", [0])), 30.0, 0.4),
            "drag": jm.force.VelocityDamping(("skin", [0, 2]), 0.6),
            "pressure": jm.force.Pressure(("skin", [[0, 1, 2]]), 15.0),
        },
        masses={
            "body": jm.mass.UniformMass(("body", range(8)), 0.4),
            "skin": jm.mass.UniformMass(("skin", range(4)), 0.2),
            "hook": jm.mass.UniformMass(("hook", [0]), 1.0),
        },
        mappings={
            "embed": jm.mapping.BarycentricMapping.from_mesh("body", "skin", mesh, inside),
            "draw": jm.mapping.BarycentricMapping.from_mesh("body", "drawn", mesh, inside[:3]),
        },
        constraints={"clamp": jm.constraint.Fixed(("body", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        rayleigh={"threads": 0.1, "skin": 0.2},
        gravity=(0.3, 0.0, -9.81),
    )
    return system, {"body": mesh.points, "hook": [[1.5, 0.7, 0.9]]}


@scene(STEPS, SLOW, amount=0.3)
def points_on_frames():
    """Rigid: damped springs and drag on mapped points, to a main state, contact, mapped mass."""
    rest = frames((0.0, 0.0, 0.0), (1.0, 1.0, 0.5))
    local = jnp.array([[0.5, 0.1, 0.0], [-0.4, 0.2, 0.3], [0.0, -0.5, 0.4], [0.3, 0.3, -0.3]])
    system = jm.System(
        {"body": jm.Rigid3(), "tips": jm.Vec3(), "free": jm.Vec3()},
        forces={
            "springs": jm.force.Springs((("tips", [0, 1]), ("tips", [2, 3])), 20.0, jnp.array([0.5, 1.5]), damping=0.4),
            "tether": jm.force.Springs((("tips", [3, 1]), ("free", [0, 1])), 15.0, 0.4, damping=0.3),
            "drag": jm.force.VelocityDamping(("tips", [0, 1, 2]), jnp.array([0.5, 0.6, 0.8])),
            "ground": jm.force.PenaltyPlane(("tips", range(4)), (0.0, 0.0, 0.2), (0.1, 0.2, 1.0), 50.0, damping=0.7),
            "hold": jm.force.AnchoredFrames(("body", [0]), 8.0, 3.0, rest[:1]),
        },
        masses={
            "body": jm.mass.RigidMass(("body", [0, 1]), 1.5, INERTIA),
            "tips": jm.mass.DiagonalMass(("tips", range(4)), jnp.array([0.1, 0.2, 0.3, 0.4])),
            "free": jm.mass.UniformMass(("free", range(2)), 0.5),
        },
        mappings={"fixed to": jm.mapping.RigidMapping(("body", [0, 1, 0, 1]), "tips", local)},
        constraints={"slide": jm.constraint.FixedPlane(("free", [1]), (1.0, 2.0, 0.5))},
        rayleigh={"springs": 0.05, "tips": 0.1},
        gravity=(0.0, 0.4, -9.81),
    )
    return system, {"body": rest, "free": points(2, seed=4)}


@scene(SYMMETRIC, CONSERVATIVE, SLOW, amount=0.3)
def hanging_body():
    """A conservative rigid mapping: the weight of mapped points has a geometric stiffness and no other."""
    rest = frames((0.0, 0.0, 0.0))
    system = jm.System(
        {"body": jm.Rigid3(), "tips": jm.Vec3()},
        forces={
            "anchored": jm.force.AnchoredSprings(("tips", [0, 1]), 10.0, [[0.4, 0.1, 1.0], [-0.4, 0.3, 1.0]]),
            "push": jm.force.ConstantForce(("tips", [2]), (1.0, -2.0, 0.5)),
        },
        masses={"tips": jm.mass.DiagonalMass(("tips", range(3)), jnp.array([0.1, 0.2, 0.3]))},
        mappings={"on": jm.mapping.RigidMapping.from_global("body", "tips", [0, 0, 0], rest, points(3, seed=6, spread=0.4))},
        gravity=(0.0, 0.4, -9.81),
    )
    return system, {"body": rest}


@scene(FLAT, STEPS, amount=0.3)
def linkage_of_the_plane():
    """Rigid2: damped springs between mapped points of two frames, drag on them."""
    system = jm.System(
        {"bars": jm.Rigid2(), "pins": jm.Vec2()},
        forces={
            "joints": jm.force.Springs((("pins", [0, 1]), ("pins", [2, 3])), 30.0, 0.2, damping=0.5),
            "drag": jm.force.VelocityDamping(("pins", [0, 3]), 0.4),
        },
        masses={
            "bars": jm.mass.PlanarRigidMass(("bars", range(2)), 1.0, 0.1),
            "pins": jm.mass.UniformMass(("pins", range(4)), 0.1),
        },
        mappings={
            "pins": jm.mapping.RigidMapping(
                ("bars", [0, 0, 1, 1]), "pins", [[0.5, 0.1], [-0.5, 0.0], [0.4, -0.1], [-0.6, 0.2]]
            )
        },
        gravity=(0.0, -9.81),
    )
    return system, {"bars": [[0.0, 0.0, 0.3], [1.0, 0.5, -0.7]]}


@scene(STEPS, amount=0.3)
def chain_of_mappings():
    """Rigid, then barycentric, then subset; damped springs and drag on the last, back to a main state."""
    corners = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.1, 1.0, 0.2], [0.0, 0.2, 1.0]])
    weights = jnp.array([[0.25, 0.25, 0.25, 0.25], [0.1, 0.6, 0.2, 0.1], [0.5, -0.2, 0.3, 0.4]])
    system = jm.System(
        {"body": jm.Rigid3(), "cage": jm.Vec3(), "marks": jm.Vec3(), "some": jm.Vec3(), "ground": jm.Vec3()},
        forces={
            "solid": jm.force.AnchoredSprings(("cage", [1]), 12.0, [[1.0, 0.5, 0.3]]),
            "springs": jm.force.Springs((("some", [0, 1]), ("ground", [0, 1])), 20.0, 0.5, damping=0.4),
            "drag": jm.force.VelocityDamping(("some", [0, 1]), 0.5),
        },
        masses={
            "marks": jm.mass.UniformMass(("marks", range(3)), 0.7),
            "ground": jm.mass.UniformMass(("ground", range(2)), 1.0),
            "body": jm.mass.RigidMass(("body", [0]), 1.0, INERTIA),
        },
        mappings={
            "a third": jm.mapping.SubsetMapping(("marks", [2, 0]), "some"),
            "b first": jm.mapping.RigidMapping(("body", [0, 0, 0, 0]), "cage", corners),
            "c second": jm.mapping.BarycentricMapping(("cage", [[0, 1, 2, 3]] * 3), "marks", weights),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"body": frames((0.2, 0.1, 0.0)), "ground": points(2, seed=8)}


@scene(STEPS, SLOW, amount=0.2)
def diamond_of_mappings():
    """Two mapped states of one frame, joined again by distances; springs across different parents."""
    system = jm.System(
        {
            "body": jm.Rigid3(),
            "left": jm.Vec3(),
            "right": jm.Vec3(),
            "gap": jm.Vec1(),
            "net": jm.Vec3(),
            "knots": jm.Vec3(),
        },
        forces={
            "gap": jm.force.AnchoredSprings(("gap", [0, 1]), jnp.array([10.0, 20.0]), [[0.5], [0.8]]),
            "gap drag": jm.force.VelocityDamping(("gap", [0, 1]), 0.6),
            "across": jm.force.Springs((("left", [0, 1]), ("knots", [0, 1])), 25.0, 0.6, damping=0.2),
            "sides": jm.force.AnchoredSprings((("right", [0, 1]), ("left", [1, 0])), 9.0),
        },
        masses={
            "body": jm.mass.RigidMass(("body", [0]), 1.0, INERTIA),
            "net": jm.mass.UniformMass(("net", range(3)), 0.5),
            "gap": jm.mass.DiagonalMass(("gap", [0, 1]), jnp.array([0.3, 0.2])),
        },
        mappings={
            "left": jm.mapping.RigidMapping(("body", [0, 0]), "left", [[0.5, 0.0, 0.1], [0.6, 0.3, 0.0]]),
            "right": jm.mapping.RigidMapping(("body", [0, 0]), "right", [[-0.5, 0.1, 0.0], [-0.4, -0.3, 0.2]]),
            "knots": jm.mapping.BarycentricMapping(("net", [[0, 1], [1, 2]]), "knots", [[0.3, 0.7], [0.6, 0.4]]),
            "gap": Distance((("knots", [0, 1]), ("right", [1, 0])), "gap"),
        },
    )
    return system, {"body": frames((0.2, 0.1, 0.0)), "net": points(3, seed=9)}


@scene(STEPS, SLOW, amount=0.2)
def frames_on_frames():
    """Identity and subset of frames, a bracket, and springs on the frames that are mapped."""
    rest = frames((0.0, 0.0, 0.0), (1.0, 0.2, 0.1))
    system = jm.System(
        {"body": jm.Rigid3(), "copy": jm.Rigid3(), "one": jm.Rigid3(), "tool": jm.Rigid3()},
        forces={
            "tool": jm.force.AnchoredFrames((("tool", [0, 1]), ("one", [0, 0])), 7.0, 3.0),
            "drag": jm.force.VelocityDamping(("tool", [0, 1]), 0.5, 0.3),
            "twist": jm.force.ConstantTorque(("tool", [1]), (0.3, -0.2, 0.4)),
        },
        masses={
            "body": jm.mass.RigidMass(("body", [0, 1]), 1.0, INERTIA),
            "tool": jm.mass.RigidMass(("tool", [0, 1]), 0.5, INERTIA),
        },
        mappings={
            "copy": jm.mapping.IdentityMapping.of("body", "copy", nodes=2),
            "one": jm.mapping.SubsetMapping(("copy", [1]), "one"),
            "tool": Bracket(("copy", [0, 1]), "tool", [[0.5, 0.1, 0.0], [0.0, 0.4, 0.3]]),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"body": rest}


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, amount=0.1)
def several_parents():
    """A mapping of the user's with two parents, one of them mapped, with several nodes of the first."""
    system = jm.System(
        {"cloth": jm.Vec3(), "body": jm.Vec3(), "copy": jm.Vec3(), "seam": jm.Vec3()},
        forces={
            "springs": jm.force.Springs((("seam", [0]), ("seam", [1])), 30.0, 0.3),
            "hold": jm.force.AnchoredSprings(("cloth", range(4)), 20.0, points(4, seed=1)),
        },
        masses={
            "cloth": jm.mass.UniformMass(("cloth", range(4)), 1.0),
            "body": jm.mass.UniformMass(("body", range(2)), 1.0),
            "seam": jm.mass.UniformMass(("seam", range(2)), 0.4),
        },
        mappings={
            "copy": jm.mapping.IdentityMapping.of("body", "copy", nodes=2),
            "seam": Blend((("cloth", [[0, 1], [2, 3]]), ("copy", [1, 0])), "seam", jnp.array([0.3, 0.6])),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"cloth": points(4, seed=1), "body": points(2, seed=2)}


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, SLOW, amount=0.1)
def measures_of_points():
    """Distances, areas, volumes, centres, heights and sums of them, each with a spring of its own."""
    rest = points(6, seed=4)
    measures = {
        "area": jm.mapping.AreaMapping(("body", [[0, 1, 2], [1, 3, 2]]), "area", 0.2),
        "volume": jm.mapping.VolumeMapping(("body", [[0, 1, 2, 3], [2, 3, 4, 5]]), "volume"),
        "span": jm.mapping.DistanceMapping((("body", [0, 4]), ("body", [3, 5])), "span", jnp.array([0.3, 0.5])),
        "reach": jm.mapping.DistanceFromTargetMapping(("body", [1]), "reach", (2.0, 2.0, 2.0)),
        "apart": jm.mapping.SquaredDistanceMapping((("body", [1]), ("body", [5])), "apart"),
        "height": jm.mapping.DistanceToPlaneMapping(("center", [0]), "height", (0.6, 0.0, 0.8), 0.1),
        "total": jm.mapping.SumMapping(("volume", [[0, 1]]), "total", [[1.0, 2.0]]),
        "square": jm.mapping.SquareMapping(("total", [0]), "square"),
    }
    system = jm.System(
        {"body": jm.Vec3(), "center": jm.Vec3(), **{name: jm.Vec1() for name in measures}},
        forces={
            f"{name} spring": jm.force.AnchoredSprings(
                (name, range(m.parents[0].elements)), 3.0 + i, [[0.4]] * m.parents[0].elements
            )
            for i, (name, m) in enumerate(measures.items())
        },
        masses={
            "body": jm.mass.UniformMass(("body", range(6)), 1.0),
            "center": jm.mass.UniformMass(("center", [0]), 0.5),
            "span": jm.mass.UniformMass(("span", [0]), 0.2),
        },
        mappings={
            **measures,
            "center": jm.mapping.CenterOfMassMapping.of({"body": [0, 2, 4, 5]}, "center", [1.0, 2.0, 0.5, 1.5]),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"body": rest}


@scene(STEPS, SLOW, amount=0.2)
def skins_on_frames():
    """Skinning, beams, tubes, lines, a body that deforms on a frame, frames on frames: springs and drag on each."""
    rest = frames((0.0, 0.0, 0.0), (1.0, 0.1, 0.0), (2.0, 0.0, 0.3))
    skin, flesh = points(3, seed=7), points(2, seed=8)
    system = jm.System(
        {"spine": jm.Rigid3(), "flesh": jm.Vec3(), **dict.fromkeys(("beam", "skin", "lines", "tube", "worn"), jm.Vec3())},
        forces={
            "across": jm.force.Springs((("skin", [0, 1]), ("beam", [1, 0])), 20.0, 0.4, damping=0.3),
            "tube": jm.force.AnchoredSprings(("tube", [0, 4]), 9.0, points(2, seed=9)),
            "lines": jm.force.Springs((("lines", [0, 2]), ("worn", [1, 0])), 14.0, 0.5),
            "drag": jm.force.VelocityDamping(("worn", [0]), 0.6),
            "spine": jm.force.AnchoredFrames((("spine", [0, 1]), ("spine", [1, 2])), 9.0, 2.0),
        },
        masses={
            "spine": jm.mass.RigidMass(("spine", range(3)), 1.0, INERTIA),
            "flesh": jm.mass.UniformMass(("flesh", range(2)), 0.5),
            "skin": jm.mass.UniformMass(("skin", range(3)), 0.3),
        },
        mappings={
            "beam": jm.mapping.BeamMapping.from_rest("spine", "beam", [[0, 1], [1, 2]], rest, skin),
            "skin": jm.mapping.SkinningMapping.from_rest("spine", "skin", rest, skin, nearest=2),
            "lines": jm.mapping.LineSetSkinningMapping.from_rest("spine", "lines", [[0, 1], [1, 2]], rest, skin),
            "tube": jm.mapping.TubularMapping.of("spine", "tube", frames=3, around=2, radius=0.3),
            "worn": jm.mapping.DeformableOnRigidFrameMapping((("spine", [2, 1]), ("flesh", [0, 1])), "worn"),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"spine": rest, "flesh": flesh}


@scene(STEPS, SLOW, amount=0.2)
def articulated_arm():
    """Hinges and a slider on a base that moves; a spring at the hand, drag at the elbow, masses of the bodies."""
    system = jm.System(
        {"joints": jm.Vec1(), "base": jm.Rigid3(), "bodies": jm.Rigid3(), "marks": jm.Vec3()},
        forces={
            "motors": jm.force.AnchoredSprings(("joints", range(3)), 5.0, [[0.1], [0.2], [-0.3]]),
            "grasp": jm.force.AnchoredSprings(("marks", [1]), 12.0, [[1.5, 0.5, 0.5]]),
            "drag": jm.force.VelocityDamping(("marks", [0]), 0.4),
            "hold": jm.force.AnchoredFrames(("base", [0]), 20.0, 10.0, frames((0.0, 0.0, 0.0))),
        },
        masses={
            "bodies": jm.mass.RigidMass(("bodies", range(3)), 0.8, INERTIA),
            "base": jm.mass.RigidMass(("base", [0]), 2.0, INERTIA),
        },
        mappings={
            "arm": jm.mapping.ArticulatedMapping.tree(
                "joints",
                "bodies",
                [-1, 0, 1],
                [[0.2, 0.0, 0.1], [0.7, 0.0, 0.0], [0.5, 0.0, 0.0]],
                [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
                kinds=["hinge", "hinge", "slider"],
                base=("base", 0),
            ),
            "marks": jm.mapping.RigidMapping(("bodies", [1, 2]), "marks", [[0.1, 0.2, 0.0], [0.3, 0.0, 0.1]]),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"joints": [[0.3], [-0.5], [0.2]], "base": frames((0.0, 0.0, 0.0))}


@scene(STEPS, SLOW, amount=0.2)
def forms_of_geometric_stiffness():
    """One mapping for each form, the exact one of a frame; damped springs, so that levers turn as well."""
    rest = frames((0.0, 0.0, 0.0), (1.0, 0.2, 0.1))
    system = jm.System(
        {"body": jm.Rigid3(), **dict.fromkeys(("exact", "plain"), jm.Vec3()), "stable": jm.Vec1(), "none": jm.Vec1()},
        forces={
            "pair": jm.force.Springs((("exact", [0, 1]), ("plain", [1, 0])), 20.0, 0.4, damping=0.3),
            "stable": jm.force.AnchoredSprings(("stable", [0]), 9.0, [[1.7]]),
            "none": jm.force.AnchoredSprings(("none", [0]), 9.0, [[0.2]]),
        },
        masses={"body": jm.mass.RigidMass(("body", [0, 1]), 1.0, INERTIA)},
        mappings={
            "exact": jm.mapping.RigidMapping(("body", [0, 1]), "exact", points(2, seed=9), geometric_stiffness="exact"),
            "plain": jm.mapping.RigidMapping(("body", [0, 1]), "plain", points(2, seed=6)),
            "stable": jm.mapping.DistanceMapping(
                (("exact", [0]), ("plain", [1])), "stable", geometric_stiffness="stabilized"
            ),
            "none": jm.mapping.DistanceMapping((("exact", [1]), ("plain", [0])), "none", geometric_stiffness="none"),
        },
        gravity=(0.0, 0.0, -9.81),
    )
    return system, {"body": rest}


# --- constraints, and the user's own -------------------------------------------------


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS)
def every_constraint():
    """Points, components, lines, oblique planes, two planes at one node, and motion along key frames."""
    system = jm.System(
        {"body": jm.Vec3()},
        forces={"pairs": jm.force.AnchoredSprings((("body", [0, 1, 2, 3, 4, 5]), ("body", [1, 2, 3, 4, 5, 6])), 20.0)},
        masses={"mass": jm.mass.UniformMass(("body", range(7)), 1.0)},
        constraints={
            "point": jm.constraint.Fixed(("body", [0])),
            "components": jm.constraint.FixedComponents(("body", [1]), (True, False, True)),
            "line": jm.constraint.FixedLine(("body", [2]), (1.0, 2.0, -1.0)),
            "plane": jm.constraint.FixedPlane(("body", [3, 4]), jnp.array([[1.0, 2.0, -1.0], [0.3, 0.2, 0.9]])),
            "second plane": jm.constraint.FixedPlane(("body", [3]), (1.0, 0.0, 1.0)),
            "motion": jm.constraint.PrescribedMotion(
                ("body", [6]),
                points(7, seed=3)[6:],
                [[0.0, 0.0, 0.0], [0.1, 0.2, 0.3], [0.0, 0.5, 0.0]],
                (0.0, 0.2, 1.0),
            ),
        },
        gravity=(1.0, 2.0, -9.81),
    )
    return system, {"body": points(7, seed=3)}


@scene(SYMMETRIC, STEPS, amount=0.1)
def moved_frame():
    """Prescribed motion of frames, turns included."""
    rest = frames((0.0, 0.0, 0.0), (1.0, 0.2, 0.1))
    system = jm.System(
        {"body": jm.Rigid3(), "tips": jm.Vec3()},
        forces={
            "pair": jm.force.AnchoredFrames((("body", [0]), ("body", [1])), 9.0, 2.0),
            "tip": jm.force.AnchoredSprings(("tips", [0]), 5.0, [[1.0, 1.0, 1.0]]),
        },
        masses={"body": jm.mass.RigidMass(("body", [0, 1]), 1.0, INERTIA)},
        mappings={"tips": jm.mapping.RigidMapping(("body", [1]), "tips", [[0.4, 0.1, 0.2]])},
        constraints={
            "drive": jm.constraint.PrescribedMotion(
                ("body", [0]), rest[:1], [[0.0] * 6, [0.1, 0.2, 0.0, 0.3, -0.4, 0.2]], (0.0, 1.0)
            )
        },
    )
    return system, {"body": rest}


def slope_of(x, y, scale):
    """Of the line between two points, a number of each child node."""
    return scale * (y[1] - x[1]) / (y[0] - x[0])


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, SLOW, amount=0.05)
def driven_points():
    """Points moved by velocities and by accelerations, and a formula of two of them with a spring of its own."""
    slope = jm.mapping.FunctionMapping((("p", [0, 2]), ("p", [1, 3])), "slope", slope_of, (np.array([1.0, 0.5]),))
    system = jm.System(
        {"p": jm.Vec2(), "slope": jm.Vec1()},
        forces={
            "pairs": jm.force.AnchoredSprings((("p", [0, 1, 2]), ("p", [1, 2, 3])), 20.0),
            "steep": jm.force.AnchoredSprings(("slope", [0, 1]), 3.0, [[0.5], [-0.5]]),
        },
        masses={"mass": jm.mass.UniformMass(("p", range(4)), 1.0)},
        mappings={"slope": slope},
        constraints={
            "speed": jm.constraint.PrescribedVelocity(("p", [1]), [[1.0, 0.2]], [[0.1, 0.2], [0.3, -0.1]], [0.0, 0.5]),
            "shaken": jm.constraint.PrescribedAcceleration(
                ("p", [2]),
                [[2.0, 1.0]],
                [[0.4, 0.0], [-0.2, 0.0]],
                [0.0, 0.5],
                start_velocity=[0.1, 0.0],
                components=(True, False),
            ),
        },
        gravity=(0.5, -9.81),
    )
    return system, {"p": [[0.0, 0.0], [1.0, 0.2], [2.0, 1.0], [3.2, 0.4]]}


@scene(FLAT, STEPS)
def own_components():
    """An energy, a force and a mass of the user's, on two states."""
    system = jm.System(
        {"rope": jm.Vec3(), "stars": jm.Vec3(), "angles": jm.Vec1()},
        forces={
            "bending": Bending(("rope", [[0, 1, 2], [1, 2, 3]]), jnp.array([3.0, 5.0]), 0.1),
            "swirl": Swirl((("rope", [0, 2, 3]), ("stars", [0, 1, 1])), (0.5, 1.0, -2.0), jnp.array([0.2, 0.3, 0.5])),
            "hold": jm.force.AnchoredSprings(("angles", [0, 1]), 4.0, [[0.2], [-0.3]]),
        },
        masses={
            "rope": jm.mass.UniformMass(("rope", range(4)), 0.5),
            "stars": jm.mass.UniformMass(("stars", range(2)), 2.0),
            "angles": PendulumMass(("angles", [[0, 1]]), 1.5, 0.8),
        },
        rayleigh={"swirl": 0.02, "angles": 0.1},
    )
    return system, {"rope": points(4, seed=1), "stars": points(2, seed=2), "angles": [[0.4], [0.9]]}


@scene(SYMMETRIC, CONSERVATIVE, STEPS, amount=0.05)
def multipliers():
    """A rod, a compliant rod and a body hung at a ball joint, held by multipliers; through a mapping, on two main states."""
    hook = jm.mapping.RigidMapping(("body", [0, 0]), "hooks", jnp.array([[0.3, 0.1, 0.2], [-0.2, 0.3, 0.1]]))
    rods = jm.constraint.Distance(
        (("points", [0, 1]), ("points", [1, 2])), ("tension", [1, 0]), jnp.array([0.9, 1.3]), jnp.array([0.0, 0.02])
    )
    system = jm.System(
        {"points": jm.Vec3(), "body": jm.Rigid3(), "hooks": jm.Vec3(), "tension": jm.Vec1(), "joint": jm.Vec3()},
        forces={"springs": jm.force.Springs((("points", [0, 2]), ("hooks", [1, 0])), jnp.array([20.0, 30.0]), 0.5)},
        masses={
            "points": jm.mass.UniformMass(("points", range(3)), 0.7),
            "body": jm.mass.RigidMass(("body", [0]), 1.5, INERTIA),
        },
        mappings={"hook": hook},
        constraints={
            "rods": rods,
            "ball": jm.constraint.Attachment((("points", [2]), ("hooks", [0])), ("joint", [0]), [0.1, 0.0, -0.1]),
            "nail": jm.constraint.Fixed(("points", [0])),
        },
        gravity=(0.0, 0.5, -9.81),
    )
    at = {"points": points(3), "body": frames((0.5, 0.2, 0.1))}
    return system, at | {"tension": jnp.array([[2.0], [-1.0]]), "joint": jnp.array([[0.5, -0.3, 1.0]])}


@scene(SYMMETRIC, CONSERVATIVE, EXHAUSTIVE, amount=0.05)
def joints():
    """Six bodies in a chain, a joint of a kind between any two, and an angle that a soft row holds."""
    count = 6
    rest = frames(*points(count, seed=3, spread=0.5))
    sizes = {"BallJoint": 3, "HingeJoint": 5, "CylindricalJoint": 4, "PrismaticJoint": 5, "FixedJoint": 6}
    held = {
        name.lower(): getattr(jm.constraint, name)((("body", [k]), ("body", [k + 1])), compliance=[0.02 * (k % 2)] * rows)
        for k, (name, rows) in enumerate(sizes.items())
    }
    held["angle"] = jm.constraint.JointAngle((("body", [1]), ("body", [2])), compliance=[0.1])
    system = jm.System(
        {"body": jm.Rigid3()},
        forces={"hold": jm.force.AnchoredFrames(("body", range(count)), 12.0, 6.0, rest)},
        masses={"body": jm.mass.RigidMass(("body", range(count)), 1.5, INERTIA)},
        constraints=held,
    )
    forces = {name.lower(): np.linspace(-1, 1, rows)[None] for name, rows in sizes.items()}
    return system, {"body": rest, "angle": [[0.5]]} | forces


@scene(FLAT, SYMMETRIC, CONSERVATIVE, SLOW, amount=0.05)
def guides_and_cables():
    """Points on a line, a plane and a cable, tied by a relation, and a cavity of fixed volume; a cable that is pulled."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 0.8, 0.6))
    x, faces = np.asarray(mesh.points), np.asarray(mesh.boundary().cells)
    tie = ("tie", [0, 1])
    relation = jm.constraint.LinearRelation(
        ("box", [[0, 7], [1, 6]]), weights=[1.0, -0.5], value=[0.1, 0.2, 0.3], multiplier=tie, compliance=0.02
    )
    held = {
        "line": jm.constraint.OnLine((("box", [3]), ("box", [2]), ("box", [5])), compliance=0.01),
        "plane": jm.constraint.OnPlane(("box", [4]), normal=[0.6, 0.0, 0.8], origin=np.zeros(3), compliance=0.01),
        "cable": jm.constraint.Follow(
            jm.constraint.Cable(("box", [[0, 2, 6]]), length=2.0, compliance=0.02), [[0.0], [0.4]], [0.0, 1.0]
        ),
        "cavity": jm.constraint.CavityVolume(("box", faces), volume=0.5, compliance=0.02),
        "relation": relation,
    }
    system = jm.System(
        {"box": jm.Vec3(), "tie": jm.Vec3()},
        forces={
            "hold": jm.force.AnchoredSprings(("box", range(8)), 15.0, x),
            "pull": jm.force.CableTension(("box", [[1, 4, 7]]), tension=0.7),
        },
        masses={"box": jm.mass.UniformMass(("box", range(8)), 0.6)},
        constraints=held,
    )
    start = system.at_rest({"box": x, "tie": np.zeros((2, 3))}).position
    return system, {s: a if s == "box" else a + 0.3 for s, a in start.items()}


# --- fields and structures -------------------------------------------------------------


def heated(u, slope, X, p):
    """Of a temperature and a position: conduction, a stiffness, and what couples them."""
    (T, _), (dT, F) = u, slope
    stretch = jnp.sum(F**2) - 2.0
    return 0.5 * p["k"] * dT @ dT + 2.0 * stretch**2 + 0.3 * T * stretch + 0.1 * (1 + X[0]) * T**2


def drift(c, slope, X, p):
    return c * jnp.array([0.4, 0.2]) - 0.1 * c * slope


@scene(FLAT, STEPS)
def fields():
    """A temperature and a position in one density, transport, and what happens at boundaries."""
    mesh = jm.mesh.box_mesh(**BOX2)
    left, right = (mesh.faces_where(lambda x, a=a: x[:, 0] == a) for a in (0.0, 2.0))
    of = {"k": jnp.linspace(0.5, 1.5, len(mesh.cells))}
    system = jm.System(
        {"T": jm.Vec1(), "x": jm.Vec2()},
        forces={
            "both": jm.force.FieldEnergy.from_mesh(
                ("T", "x"), mesh, heated, of, dissipation=lambda u, g, X, p: 0.1 * u[0] ** 2
            ),
            "drift": jm.force.WeakForm.from_mesh(
                "T", mesh, drift, lambda c, slope, X, p: X[0] - 0.2 * c, degree="stiffness"
            ),
            "stored": jm.force.Capacity.from_mesh("T", mesh, 0.7),
            "heater": jm.force.Flux.from_mesh("T", left, [0.8]),
            "air": jm.force.Convection.from_mesh("T", right, 0.6, 0.3),
            "shore": jm.force.AbsorbingBoundary.from_mesh("x", left, 0.5, 0.3),
            "hold": jm.force.AnchoredSprings(("x", range(6)), 4.0, mesh.points),
        },
        masses={
            "T": jm.mass.ConsistentMass.from_mesh("T", mesh, 0.5),
            "x": jm.mass.ConsistentMass.from_mesh("x", mesh, 2.0),
        },
    )
    return system, {"T": np.linspace(0, 1, 6)[:, None], "x": mesh.points}


CORNERS = [(0.0, 0.0, 0.0), (1.0, 0.2, 0.1), (0.3, 1.0, 0.3), (1.2, 1.1, 0.0)]


@scene(SYMMETRIC, STEPS, SLOW, amount=0.05)
def beams_and_rods():
    """Beams on frames, bars and a rod on points, of sections that differ."""
    rest = frames(*CORNERS[:3])
    section = jm.force.Section(axial=[40.0, 50.0], shear=[20.0, 25.0], torsion=3.0, bending=[2.0, 4.0])
    rod = jm.force.Section(axial=30.0, shear=[1.0, 1.0], torsion=2.0, bending=[1.0, 3.0])
    system = jm.System(
        {"f": jm.Rigid3(), "p": jm.Vec3(), "angle": jm.Vec1()},
        forces={
            "beam": jm.force.Beam(("f", [[0, 1], [1, 2]]), rest, section),
            "strut": jm.force.Beam(("f", [[0, 2]]), rest, rod, [0.0, 0.6, 0.0, 0.8]),
            "bars": jm.force.Bar(("p", [[0, 3], [1, 2], [0, 1]]), CORNERS, [20.0, 30.0, 40.0], 1.0, "green"),
            "rod": jm.force.ElasticRod.chain("p", "angle", CORNERS, rod),
            "foot": jm.force.AnchoredFrames(("f", [0]), 20.0, 10.0, rest[:1]),
            "hold": jm.force.AnchoredSprings(("p", range(4)), 8.0, CORNERS),
        },
        masses={
            "f": jm.mass.RigidMass(("f", range(3)), 2.0, INERTIA),
            "p": jm.mass.UniformMass(("p", range(4)), 1.0),
            "angle": jm.mass.UniformMass(("angle", range(3)), 0.5),
        },
        constraints={"clamp": jm.constraint.Fixed(("angle", [0]))},
    )
    return system, {"f": rest, "p": CORNERS, "angle": np.zeros((3, 1))}


@scene(SYMMETRIC, CONSERVATIVE, STEPS, SLOW, amount=0.05)
def sheets():
    """Shells of triangles and of a quad on frames; a membrane and hinges of both kinds on points."""
    sheet = jm.mesh.Mesh(CORNERS, [[0, 1, 2], [1, 3, 2]], "triangle")
    warped = jm.force.QuadShell.from_mesh("f", jm.mesh.Mesh(CORNERS, [[0, 1, 3, 2]], "quad"), 1.0, 0.3, 1.0)
    rest = frames(*CORNERS)
    system = jm.System(
        {"f": jm.Rigid3(), "p": jm.Vec3()},
        forces={
            "shell": jm.force.Shell(("f", sheet.cells), rest, 50.0, jnp.array([0.2, 0.3]), 0.3),
            "quad": jm.force.QuadShell(warped.on, rest, warped.normals, jnp.array([40.0]), 0.3, 0.2),
            "skin": jm.force.Membrane.from_mesh("p", sheet, jm.material.LinearElastic(60.0, 0.3), thickness=0.2),
            "hinge": jm.force.HingeBending.from_mesh("p", sheet, 2.0),
            "flat hinge": jm.force.HingeBending.from_mesh("p", sheet, 1.0, model="quadratic"),
            "hold": jm.force.AnchoredSprings(("p", range(4)), 8.0, CORNERS),
            "foot": jm.force.AnchoredFrames(("f", [0]), 20.0, 10.0, rest[:1]),
        },
        masses={
            "f": jm.mass.RigidMass(("f", range(4)), 2.0, INERTIA),
            "shell": jm.mass.ShellMass(("f", sheet.cells), rest, 3.0, jnp.array([0.4, 0.5]), "triangle"),
            "p": jm.mass.UniformMass(("p", range(4)), 1.0),
        },
    )
    return system, {"f": rest, "p": CORNERS}


# --- cells, formulations and laws that are slow to compile -----------------------------


def bodies(parts, *extra):
    """A state for each `(force field, mesh)`, of a mass, clamped where x is nil."""
    forces = {name: field for name, (field, _) in parts.items()}
    roots = {name: mesh.nodes_where(lambda x: x[:, 0] == 0.0) for name, (_, mesh) in parts.items()}

    def mass(name, field, mesh):
        around = getattr(field, "plane", "") == "axisymmetric"
        return jm.mass.ConsistentMass.from_mesh(name, mesh, 2.0, axisymmetric=around)

    system = jm.System(
        {name: jm.Vec2() if mesh.points.shape[1] == 2 else jm.Vec3() for name, (_, mesh) in parts.items()},
        forces=forces | dict(extra),
        masses={"mass of " + name: mass(name, *part) for name, part in parts.items()},
        constraints={"clamp of " + name: jm.constraint.Fixed((name, root)) for name, root in roots.items()},
    )
    return system, {name: mesh.points for name, (_, mesh) in parts.items()}


def of_laws(fem, mesh, laws, **options):
    return {name: (fem.from_mesh(name, mesh, law, **options), mesh) for name, law in laws.items()}


TILE = {"cells": (1, 1), "size": (1.0, 1.2)}


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, EXHAUSTIVE, amount=0.05)
def quadratic_cells():
    """In the plane: of six, eight and nine nodes, under plane stress, B-bar and F-bar; around an axis; on a bed."""
    quad, six = jm.mesh.box_mesh(**TILE, kind="quad"), jm.mesh.quadratic_mesh(jm.mesh.box_mesh(**TILE))
    eight, nine = (jm.mesh.quadratic_mesh(quad, kind=kind) for kind in ("quad8", "quad9"))
    solid, M = jm.force.SolidFEM.from_mesh, jm.material
    parts = {
        "six": (solid("six", six, M.NeoHookean(900.0, 0.3), plane="stress", thickness=0.5), six),
        "eight": (solid("eight", eight, M.LinearElastic(900.0, 0.45), formulation="b-bar"), eight),
        "nine": (solid("nine", nine, M.StVenantKirchhoff(900.0, 0.4), formulation="f-bar"), nine),
        "ring": (solid("ring", quad, M.StableNeoHookean(900.0, 0.3), plane="axisymmetric"), quad),
    }
    bed = jm.force.ElasticFoundation.from_mesh(
        "nine", nine.faces_where(lambda x: x[:, 1] == 0.0), normal=9.0, tangential=3.0
    )
    return bodies(parts, ("bed", bed))


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, EXHAUSTIVE, amount=0.05)
def cells_in_space():
    """A prism, a pyramid, ten and twenty nodes; a hexahedron of one point."""
    points = [[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.9, 1.0, 0.0], [0.0, 1.1, 0.1], [0.4, 0.5, 0.8], [0.2, 1.0, 1.0]]
    pyramid = jm.mesh.Mesh(points[:5], [[0, 1, 2, 3, 4]], "pyramid")
    brick = jm.mesh.box_mesh(**BOX3, kind="hexahedron")
    prisms, twenty = jm.mesh.hexahedra_to_prisms(brick).mesh, jm.mesh.quadratic_mesh(brick, kind="hexahedron20")
    ten = jm.mesh.quadratic_mesh(jm.mesh.Mesh([points[0], points[1], points[2], points[4]], [[0, 1, 2, 3]], "tetrahedron"))
    solid, law = jm.force.SolidFEM.from_mesh, jm.material.StVenantKirchhoff(900.0, 0.3)
    parts = {name: (solid(name, mesh, law), mesh) for name, mesh in (("prisms", prisms), ("pyramid", pyramid), ("ten", ten))}
    parts["twenty"] = (solid("twenty", twenty, jm.material.LinearElastic(900.0, 0.3)), twenty)
    parts["one"] = (solid("one", brick, law, formulation="reduced"), brick)
    return bodies(parts)


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, EXHAUSTIVE, amount=0.05)
def laws_of_rubber_and_tissue():
    """In plane strain, one cell of two triangles each; a muscle that pulls, and what is warm."""
    M, fibres = jm.material, [[0.6, 0.8, 0.0], [0.8, -0.6, 0.0]]
    laws = {
        "arruda": M.ArrudaBoyce(200.0, 900.0, 8.0),
        "gent": M.Gent(300.0, 900.0, 40.0),
        "yeoh": M.Yeoh([150.0, -5.0, 0.4], 900.0),
        "veronda": M.VerondaWestmann(400.0, 0.5, 900.0),
        "costa": M.Costa(200.0, 900.0, 3.0, 1.5, 1.0, 1.2, 0.8, 0.5),
        "artery": M.HolzapfelGasserOgden(250.0, 80.0, 0.5, 900.0, fibres, 0.1),
        "muscle": M.ActiveStress(M.NeoHookean(700.0, 0.3), 50.0, fibres[0]),
        "warm": M.ThermalExpansion(M.NeoHookean(700.0, 0.3), 1e-3, [40.0, 60.0]),
    }
    return bodies(of_laws(jm.force.TriangleFEM, jm.mesh.box_mesh(**TILE), laws))


@scene(FLAT, SYMMETRIC, CONSERVATIVE, STEPS, EXHAUSTIVE, amount=0.1)
def laws_with_memory():
    """Relaxation, damage and large plastic strains in two triangles each."""
    M = jm.material
    laws = {
        "flows": M.Viscoelastic(M.NeoHookean(700.0, 0.3), [200.0], [0.4]),
        "tears": M.Damage(M.StVenantKirchhoff(700.0, 0.3), 0.5, 90.0, 0.9, 0.4),
        "metal": M.HenckyPlasticity(900.0, 0.3, yield_stress=20.0, hardening=60.0),
    }
    return bodies(of_laws(jm.force.TriangleFEM, jm.mesh.box_mesh(**TILE), laws))


@scene(FLAT, STEPS, SLOW, amount=0.1)
def stress_law():
    """A law that says a stress without an energy, and remembers; in the plane and in space."""
    brick, plate = jm.mesh.box_mesh(**BOX3, kind="hexahedron"), jm.mesh.box_mesh(**TILE)
    law, fem = Twisting(jnp.linspace(400.0, 500.0, 1), 0.3, 0.4), jm.force.StressSolidFEM
    soil = jm.material.DruckerPrager(900.0, 0.3, 5.0, 0.4, 0.1, 80.0)
    return bodies(
        of_laws(fem, brick, {"brick": law})
        | of_laws(fem, plate, {"plate": Twisting(300.0, 0.2, 0.3), "soil": soil}, thickness=0.2)
    )


@scene(FLAT, SYMMETRIC, CONSERVATIVE, SLOW, amount=0.05)
def mixed_solid():
    """A law of large strains that hardly gives in volume, in two triangles, and a pressure of its own."""
    plate = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(**TILE))
    solid = jm.force.MixedSolidFEM.from_mesh("u", "p", plate, jm.material.NeoHookean(900.0, 0.49), thickness=0.5)
    system = jm.System(
        {"u": jm.Vec2(), "p": jm.Vec1()},
        forces={"solid": solid},
        masses={"u": jm.mass.ConsistentMass.from_mesh("u", plate, 2.0)},
        constraints={"clamp": jm.constraint.Fixed(("u", plate.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )
    return system, {"u": plate.points, "p": np.zeros((4, 1))}
