"""Every mapping by itself: Jacobians and geometric stiffness against differences, power, rigid motions, graph operations."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from jax.flatten_util import ravel_pytree
from scipy.spatial.transform import Rotation
from tolerances import FINITE_DIFFERENCE, ROUND_OFF

import jaxmech as jm
from jaxmech._model.dynamics import kinematics, retract, velocities

P4, P6 = scenes.points(4, seed=3), scenes.points(6, seed=4)
FRAMES = scenes.frames((0.0, 0.0, 0.0), (1.0, 0.1, 0.0), (2.0, 0.0, 0.3))
PLANE_FRAMES = np.array([[0.0, 0.0, 0.3], [1.0, 0.2, -0.5]])
LOCAL = scenes.points(3, seed=5, spread=0.5)
TET, TRIANGLES = [[0, 1, 2, 3]], [[0, 1, 2], [1, 3, 2]]
V1, V2, V3, R2, R3 = jm.Vec1(), jm.Vec2(), jm.Vec3(), jm.Rigid2(), jm.Rigid3()


def angle(a, b, c, bend):
    """The angle at `b`, plus a number of each node's own."""
    u, w = a - b, c - b
    return jnp.arctan2(jnp.linalg.norm(jnp.cross(u, w)), u @ w) + bend


def points_case(mapping, child, n=6, dof=V3):
    positions = scenes.points(n, dof.coord_size, seed=4)
    return {"q": dof, "p": child}, {"q": positions}, mapping


# name: states, positions of the main ones, the mapping of "p"
CASES = {
    "identity": lambda: points_case(jm.mapping.IdentityMapping.of("q", "p", nodes=6), V3),
    "subset": lambda: points_case(jm.mapping.SubsetMapping(("q", [4, 1, 1]), "p"), V3),
    "barycentric": lambda: points_case(jm.mapping.BarycentricMapping(("q", [[0, 1, 2]]), "p", [[0.2, 0.5, 0.3]]), V3),
    "sum": lambda: points_case(jm.mapping.SumMapping(("q", [[0, 1], [2, 5]]), "p", [[1.0, -1.0], [0.5, 2.0]]), V3),
    "center of mass": lambda: (
        {"q": V3, "r": V3, "p": V3},
        {"q": P4, "r": P6},
        jm.mapping.CenterOfMassMapping.of({"q": range(4), "r": [1, 3]}, "p", [1.0, 2.0, 0.5, 1.5, 3.0, 0.2]),
    ),
    "distance to plane": lambda: points_case(
        jm.mapping.DistanceToPlaneMapping(("q", [0, 3]), "p", (0.6, 0.0, 0.8), 0.1), V1
    ),
    "distance": lambda: points_case(jm.mapping.DistanceMapping((("q", [0, 3]), ("q", [1, 5])), "p", 0.4), V1),
    "distance of two bodies": lambda: (
        {"q": V3, "r": V3, "p": V1},
        {"q": P4, "r": P6},
        jm.mapping.DistanceMapping((("q", [0, 1, 3]), ("r", [1, 5, 2])), "p"),
    ),
    "distance in the plane": lambda: points_case(jm.mapping.DistanceMapping((("q", [0]), ("q", [1])), "p"), V1, dof=V2),
    "distance from target": lambda: points_case(
        jm.mapping.DistanceFromTargetMapping(("q", [0, 3]), "p", (2.0, 1.0, 0.0)), V1
    ),
    "squared distance": lambda: points_case(jm.mapping.SquaredDistanceMapping((("q", [0, 3]), ("q", [1, 5])), "p"), V1),
    "square": lambda: points_case(jm.mapping.SquareMapping(("q", [0, 2]), "p"), V1, n=3, dof=V1),
    "area": lambda: points_case(jm.mapping.AreaMapping(("q", TRIANGLES), "p", 0.1), V1),
    "area of the plane": lambda: points_case(jm.mapping.AreaMapping(("q", TRIANGLES), "p"), V1, dof=V2),
    "volume": lambda: points_case(jm.mapping.VolumeMapping(("q", TET), "p", 0.2), V1),
    "volume under triangles": lambda: points_case(jm.mapping.VolumeMapping(("q", TRIANGLES), "p"), V1),
    "function": lambda: points_case(
        jm.mapping.FunctionMapping((("q", [0, 1]), ("q", [1, 2]), ("q", [2, 4])), "p", angle, [[0.1, 0.2]]), V1
    ),
    "rigid": lambda: ({"q": R3, "p": V3}, {"q": FRAMES}, jm.mapping.RigidMapping(("q", [0, 0, 2]), "p", LOCAL)),
    "rigid, of the plane": lambda: (
        {"q": R2, "p": V2},
        {"q": PLANE_FRAMES},
        jm.mapping.RigidMapping(("q", [0, 0, 1]), "p", LOCAL[:, :2]),
    ),
    "rigid, frames": lambda: (
        {"q": R3, "p": R3},
        {"q": FRAMES},
        jm.mapping.RigidMapping.from_global(
            "q", "p", [0, 1], FRAMES, scenes.frames((0.3, 0.0, 0.5), (0.2, 1.0, 0.0), turn=(1.0, 0.2, 0.0))
        ),
    ),
    "rigid, frames of the plane": lambda: (
        {"q": R2, "p": R2},
        {"q": PLANE_FRAMES},
        jm.mapping.RigidMapping(("q", [0, 1]), "p", [[0.3, 0.1, 0.4], [0.0, 0.5, -1.0]]),
    ),
    "skinning": lambda: (
        {"q": R3, "p": V3},
        {"q": FRAMES},
        jm.mapping.SkinningMapping.from_rest("q", "p", FRAMES, P4, nearest=2),
    ),
    "skinning, given weights": lambda: (
        {"q": R2, "p": V2},
        {"q": PLANE_FRAMES},
        jm.mapping.SkinningMapping.from_rest(
            "q", "p", PLANE_FRAMES, P4[:, :2], weights=[[0.2, 0.8], [0.5, 0.5], [1.0, 0.0], [0.3, 0.7]]
        ),
    ),
    "beam": lambda: (
        {"q": R3, "p": V3},
        {"q": FRAMES},
        jm.mapping.BeamMapping.from_rest("q", "p", [[0, 1], [1, 2]], FRAMES, P4),
    ),
    "line set skinning": lambda: (
        {"q": R3, "p": V3},
        {"q": FRAMES},
        jm.mapping.LineSetSkinningMapping.from_rest("q", "p", [[0, 1], [1, 2]], FRAMES, P4),
    ),
    "tubular": lambda: (
        {"q": R3, "p": V3},
        {"q": FRAMES},
        jm.mapping.TubularMapping.of("q", "p", frames=3, around=2, radius=0.3),
    ),
    "deformable on a frame": lambda: (
        {"q": R3, "r": V3, "p": V3},
        {"q": FRAMES, "r": P4},
        jm.mapping.DeformableOnRigidFrameMapping((("q", [0, 0, 1]), ("r", [0, 3, 2])), "p"),
    ),
    "articulated": lambda: (
        {"q": V1, "p": R3},
        {"q": [[0.3], [-0.5], [0.8]]},
        jm.mapping.ArticulatedMapping.tree(
            "q",
            "p",
            [-1, 0, 0],
            [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
            [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.6, 0.0, 0.8]],
            kinds=["hinge", "hinge", "slider"],
        ),
    ),
    "articulated, on a base": lambda: (
        {"q": V1, "base": R3, "p": R3},
        {"q": [[0.3], [-0.5]], "base": FRAMES},
        jm.mapping.ArticulatedMapping.tree("q", "p", [-1, 0], [[0.5, 0.0, 0.0]] * 2, (0.0, 0.0, 1.0), base=("base", 1)),
    ),
}
every = pytest.mark.parametrize("case", CASES)
# What a rigid motion of the parents does not change.
INVARIANTS = (
    "distance",
    "distance of two bodies",
    "distance in the plane",
    "squared distance",
    "area",
    "area of the plane",
    "volume",
    "function",
)
LINEAR = ("identity", "subset", "barycentric", "sum", "center of mass", "distance to plane")
CURVED = [name for name in CASES if name not in LINEAR]
LONG = ("articulated, on a base",)  # to trace


@functools.cache
def build(case):
    """The system, a state away from rest, and forces on the child."""
    dofs, positions, mapping = CASES[case]()
    system = jm.System(dofs, mappings={"map": mapping})
    state = scenes.perturbed(system, system.at_rest(positions), 0.1, np.random.default_rng(len(case)))
    size = (mapping.parents[0].elements, dofs["p"].deriv_size)
    return system, state, jnp.asarray(np.random.default_rng(1).normal(size=size))


def close(a, b, tolerance):
    a, b = np.asarray(a), np.asarray(b)
    scale = max(np.abs(b).max(initial=0), 1e-3)
    assert np.abs(a - b).max(initial=0) <= tolerance * scale, np.abs(a - b).max() / scale


@jax.jit
def child_of(system, position):
    return kinematics(system, position)["p"]


@jax.jit
def pulled_along(system, state, force, h):
    """`J^T f` on the parents after a step `h` along each of their directions, as columns."""

    def pulled(d):
        moved = dataclasses.replace(state, position=retract(system.dofs, state.position, d))
        return jm.mapping.pull_back(system, moved, {"p": force})

    return along_each(pulled, state, h)


@jax.jit
def child_along(system, state, h):
    """Where the child is after such steps, in its chart at the start."""
    start, local = kinematics(system, state.position)["p"], jax.vmap(system.dofs["p"].local)

    def reached(d):
        return local(start, kinematics(system, retract(system.dofs, state.position, d))["p"])

    return along_each(reached, state, h)


def along_each(function, state, h):
    flat, unravel = ravel_pytree(state.velocity)
    return jax.vmap(lambda e: ravel_pytree(function(unravel(e)))[0], out_axes=1)(h * jnp.eye(flat.size))


def central(function, h=1e-3):
    """Richardson's extrapolation of central differences at 0."""
    one, half = ((function(s) - function(-s)) / (2 * s) for s in (h, h / 2))
    return (4 * half - one) / 3


@jax.jit
def whole_jacobian(system, state, force):
    """The dense Jacobian of the child, states sorted; `J^T f`; and `J v`."""
    blocks, rows = jm.mapping.jacobian(system, state, "p"), []
    for s, v in state.velocity.items():
        shape = (force.shape[0], v.shape[0])
        rows.append(blocks[s].to_dense(shape) if s in blocks else jnp.zeros((force.size, v.size)))
    v = jm.mapping.velocities(system, state)["p"]
    return jnp.concatenate(rows, axis=1), ravel_pytree(jm.mapping.pull_back(system, state, {"p": force}))[0], v


@every
def test_a_mapping_is_linear_where_it_says_so(case):
    assert build(case)[0].mappings["map"].is_linear == (case in LINEAR)


@pytest.mark.slow_cases("articulated, on a base")
@every
def test_jacobian_against_differences(case):
    """Of the map itself, in the charts of parents and child; its transpose and its product."""
    system, state, force = build(case)
    J, pulled_back, v = whole_jacobian(system, state, force)
    J, pulled_back, v = map(np.asarray, (J, pulled_back, v))
    close(J, central(lambda h: np.asarray(child_along(system, state, h))), FINITE_DIFFERENCE)
    close(pulled_back, J.T @ np.ravel(force), ROUND_OFF)
    close(np.ravel(v), J @ np.concatenate([np.ravel(w) for w in jax.tree.leaves(state.velocity)]), ROUND_OFF)


@every
def test_accelerations_against_differences(case):
    """`J a + dJ/dt v` is the rate of the velocities along the motion."""
    system, state, force = build(case)
    a = jax.tree.map(lambda v: 0.5 - v**2, state.velocity)
    got = jax.jit(lambda y, s, a: jm.mapping.accelerations(y, s, a)["p"])(system, state, a)

    @jax.jit
    def velocity_at(t):
        d = {s: t * v + 0.5 * t**2 * a[s] for s, v in state.velocity.items()}
        position = retract(system.dofs, state.position, d)
        # In space the rate of the rotation vector of a curve is not the spin, except to first order in time.
        v = {s: state.velocity[s] + t * a[s] for s in a}
        return velocities(system, kinematics(system, position), v)["p"]

    close(got, central(lambda t: np.asarray(velocity_at(t)), 1e-3), FINITE_DIFFERENCE)


class Dead(jm.force.AbstractForceField):
    """Forces, and torques on frames, that stay as they are in the world."""

    on: tuple[jm.Stencil, ...] = jm.stencils()
    force: jax.Array = jm.parameter(ndim=1)

    def element_force(self, x, v):
        return (self.force,)


def loaded(system, force, mode):
    """The system with dead forces on the child, and a form of geometric stiffness."""
    mapping = dataclasses.replace(system.mappings["map"], geometric_stiffness=mode)
    return jm.System(system.dofs, forces={"load": Dead(("p", range(len(force))), force)}, mappings={"map": mapping})


def geometric_matrix(system, state):
    """`G` of the mapping, dense, by its blocks."""
    blocks = jm.matrix.component_matrix(system, state, "map", "geometric")
    counts = {s: x.shape[0] for s, x in state.position.items()}
    zeros = {s: jnp.zeros((counts[s], system.dofs[s].deriv_size)) for s in counts}
    return jnp.concatenate(
        [
            jnp.concatenate(
                [
                    blocks[r, c].to_dense((counts[r], counts[c])) if (r, c) in blocks else jnp.zeros((a.size, b.size))
                    for c, b in zeros.items()
                ],
                axis=1,
            )
            for r, a in zeros.items()
        ]
    )


FORMS = ("exact", "symmetric", "stabilized")


@functools.partial(jax.jit, static_argnums=3)
def forms_of(system, state, force, modes):
    return [geometric_matrix(loaded(system, force, mode), state) for mode in modes]


@pytest.mark.slow_cases(
    "articulated",
    "line set skinning",
    "beam",
    "deformable on a frame",
    "skinning",
    "function",
    "area",
    "tubular",
    "distance of two bodies",
)
@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow) if c in LONG else c for c in CURVED])
def test_geometric_stiffness_in_every_form(case):
    """Exact: differences of `J^T f`. Symmetric: its symmetric part. Stabilized: that without its negative eigenvalues."""
    system, state, force = build(case)
    exact, symmetric, stabilized = map(np.asarray, forms_of(system, state, force, FORMS))
    close(exact, -central(lambda h: np.asarray(pulled_along(system, state, force, h))), FINITE_DIFFERENCE)
    close(symmetric, 0.5 * (exact + exact.T), 1e-10)
    nodes = 0.0
    for i in range(force.shape[0]):
        only = np.where(np.arange(len(force))[:, None] == i, force, 0.0)
        values, vectors = np.linalg.eigh(forms_of(system, state, only, FORMS)[1])
        nodes = nodes + (vectors * np.maximum(values, 0)) @ vectors.T
    close(stabilized, nodes, 1e-10)


@pytest.mark.covering(1)
@pytest.mark.parametrize("mode", ["exact", "symmetric", "stabilized", "none"])
@pytest.mark.parametrize("case", ["rigid", "distance"])
def test_systems_take_the_form_that_a_mapping_names(case, mode):
    """Assembled and matrix-free, and the tag that symmetric solvers ask for."""
    system, state, force = build(case)
    scene = loaded(system, force, mode)
    terms = jm.Terms(mass=False, damping=False)
    linear_system = jm.MatrixLinearSystem.build(scene, state, terms)
    u = jax.tree.map(lambda v: jnp.cos(3 * v), state.velocity)

    @jax.jit
    def both(scene, state, linear_system):
        A = linear_system.assemble(scene, state)
        product = jm.solver.MatrixFreeSystem(terms).assemble(scene, state).mv(u)
        wanted = jnp.zeros_like(A.to_dense()) if mode == "none" else geometric_matrix(scene, state)
        return A, product, jm.mapping.geometric_product(scene, state, u), wanted

    A, free, product, wanted = both(scene, state, linear_system)
    close(A.to_dense(), wanted, ROUND_OFF)
    expected = np.asarray(wanted) @ ravel_pytree(u)[0]
    close(ravel_pytree(free)[0], expected, ROUND_OFF)
    close(ravel_pytree(product)[0], expected, ROUND_OFF)
    assert A.symmetric == (mode != "exact" or case == "distance")
    if not A.symmetric:
        assert np.abs(wanted - wanted.T).max() > 1e-2
        with pytest.raises(ValueError, match="symmetric"):
            jm.solver.PCG().init(A, {})
        kept = jm.MatrixLinearSystem.build(scene, state, dataclasses.replace(terms, symmetric=True)).assemble(scene, state)
        close(kept.to_dense(), 0.5 * (wanted + wanted.T), ROUND_OFF)


def test_geometric_stiffness_of_multipliers(rng):
    """The force `H^T lambda` of constraints on mapped states: two points between the nodes at a distance, one on a plane."""
    system = jm.System(
        {"q": jm.Vec3(), "points": jm.Vec3(), "gap": jm.Vec1()},
        mappings={
            "between": jm.mapping.SumMapping(("q", [[0, 1], [2, 3]]), "points", [[0.4, 0.6], [0.7, 0.3]]),
            "gap": jm.mapping.DistanceMapping((("points", [0]), ("points", [1])), "gap", 0.0),
        },
    )
    state = system.at_rest({"q": rng.normal(size=(4, 3))})
    multipliers = {"gap": jnp.asarray([[2.5]]), "points": jnp.asarray(rng.normal(size=(2, 3)))}
    u = {"q": jnp.asarray(rng.normal(size=(4, 3)))}

    def pulled_at(q):
        return jm.mapping.pull_back(system, dataclasses.replace(state, position=q), multipliers)

    force, change = jax.jvp(pulled_at, (state.position,), (u,))
    product = jm.mapping.geometric_product(system, state, u, multipliers)["q"]
    assert np.abs(force["q"]).max() > 0.1 and np.abs(product).max() > 0.1
    close(product, -change["q"], ROUND_OFF)
    assert np.abs(jm.mapping.geometric_product(system, state, u)["q"]).max() == 0
    with pytest.raises(ValueError, match="forces names state 'gape', which is not one of"):
        jm.mapping.geometric_product(system, state, u, {"gape": multipliers["gap"]})


@every
def test_power_is_the_same_on_both_sides(case):
    system, state, force = build(case)
    _, above, v = whole_jacobian(system, state, force)
    force, v = np.asarray(force), np.asarray(v)
    power = np.vdot(above, ravel_pytree(state.velocity)[0])
    assert abs(np.vdot(force, v) - power) <= ROUND_OFF * np.sum(np.abs(force * v))


@pytest.mark.parametrize("case", INVARIANTS)
def test_a_rigid_motion_changes_no_measure(case):
    system, state, _ = build(case)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    turn = turn * np.sign(np.linalg.det(turn))
    size = next(iter(state.position.values())).shape[1]
    if size == 2:
        turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    moved = {s: np.asarray(x) @ turn.T + np.arange(1.0, size + 1) for s, x in state.position.items()}
    close(child_of(system, moved), child_of(system, state.position), 1e-12)


# --- constructors, and numbers worked out by hand -------------------------------------


def test_a_grid_carries_points_as_its_mesh_does():
    cells, size = (2, 3, 1), (1.0, 1.5, 0.5)
    mesh = jm.mesh.box_mesh(cells=cells, size=size, kind="hexahedron")
    inside = np.random.default_rng(0).uniform(0.0, 1.0, (20, 3)) * size
    by_mesh = jm.mapping.BarycentricMapping.from_mesh("q", "p", mesh, inside)
    by_grid = jm.mapping.BarycentricMapping.from_grid("q", "p", inside, origin=(0.0, 0.0, 0.0), spacing=0.5, cells=cells)
    x = np.sin(3 * np.asarray(mesh.points))
    for mapping in (by_mesh, by_grid):
        reached = np.einsum("nk,nkd->nd", mapping.weights, np.asarray(mesh.points)[mapping.parents[0].nodes])
        np.testing.assert_allclose(reached, inside, rtol=0, atol=1e-12)
    values = [np.einsum("nk,nkd->nd", m.weights, x[m.parents[0].nodes]) for m in (by_mesh, by_grid)]
    np.testing.assert_allclose(values[1], values[0], rtol=0, atol=1e-12)


def test_rest_shapes_are_reproduced():
    """Whatever is bound to frames at rest is there as long as they rest."""
    makers = [
        lambda: jm.mapping.SkinningMapping.from_rest("q", "p", FRAMES, P4, nearest=3),
        lambda: jm.mapping.BeamMapping.from_rest("q", "p", [[0, 1], [1, 2]], FRAMES, P4),
        lambda: jm.mapping.LineSetSkinningMapping.from_rest("q", "p", [[0, 1], [1, 2]], FRAMES, P4),
        lambda: jm.mapping.RigidMapping.from_global("q", "p", [0, 1, 2, 1], FRAMES, P4),
    ]
    for make in makers:
        system = jm.System({"q": R3, "p": V3}, mappings={"map": make()})
        np.testing.assert_allclose(child_of(system, {"q": FRAMES}), P4, rtol=0, atol=1e-12)


def test_a_beam_is_tangent_to_its_frames():
    """A cubic between two frames: its ends are theirs, its slopes there are their axes."""
    ends = scenes.frames((0.0, 0.0, 0.0), (1.0, 0.3, 0.2))
    straight = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    h = 1e-5
    along = np.array([0.0, h, 1.0 - h, 1.0])[:, None] * [1.0, 0.0, 0.0]
    mapping = jm.mapping.BeamMapping.from_rest("q", "p", [[0, 1]], straight, along)
    p = np.asarray(child_of(jm.System({"q": R3, "p": V3}, mappings={"map": mapping}), {"q": ends}))
    np.testing.assert_allclose(p[[0, 3]], np.asarray(ends)[:, :3], rtol=0, atol=1e-12)
    for slope, frame in (((p[1] - p[0]) / h, ends[0]), ((p[3] - p[2]) / h, ends[1])):
        np.testing.assert_allclose(
            slope, Rotation.from_quat(np.asarray(frame[3:])).apply([1.0, 0.0, 0.0]), rtol=0, atol=1e-4
        )


def test_an_arm_by_hand():
    """Two hinges about z and a slider along x: the plane arm of every textbook."""
    mapping = jm.mapping.ArticulatedMapping.tree(
        "q",
        "p",
        [-1, 0, 1],
        [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.0]],
        [[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
        kinds=["hinge", "hinge", "slider"],
    )
    a, b, s = 0.4, -0.9, 0.2
    system = jm.System({"q": V1, "p": R3}, mappings={"map": mapping})
    p = np.asarray(child_of(system, {"q": np.array([[a], [b], [s]])}))
    elbow = np.array([np.cos(a), np.sin(a), 0.0])
    hand = elbow + (0.5 + s) * np.array([np.cos(a + b), np.sin(a + b), 0.0])
    np.testing.assert_allclose(p[:, :3], [[0.0, 0.0, 0.0], elbow, hand], rtol=0, atol=1e-12)
    np.testing.assert_allclose(p[2, 3:], [0.0, 0.0, np.sin(0.5 * (a + b)), np.cos(0.5 * (a + b))], rtol=0, atol=1e-12)


@jax.jit
def jacobian_of_child(system, state):
    """Dense, of every parent."""
    n = system.mappings["map"].parents[0].elements
    blocks = jm.mapping.jacobian(system, state, "p")
    return {s: J.to_dense((n, state.velocity[s].shape[0])) for s, J in blocks.items()}


def test_a_long_chain_has_the_jacobian_of_the_textbook_by_a_kernel():
    """Of nine hinges about z on a base: all columns together would be too long a program of a body."""
    n, base = 9, np.array([0.3, -0.2, 0.1, 0.0, 0.0, np.sin(0.2), np.cos(0.2)])
    placement, up = [[0.0, 0.0, 0.0], *([0.5, 0.0, 0.0] for _ in range(n - 1))], [0.0, 0.0, 1.0]
    mapping = jm.mapping.ArticulatedMapping.tree("q", "p", range(-1, n - 1), placement, up, base=("base", 0))
    system = jm.System({"q": V1, "p": R3, "base": R3}, mappings={"map": mapping})
    state = system.at_rest({"q": np.linspace(-0.7, 0.9, n)[:, None], "base": base[None]})
    J = {s: a.reshape(n, 6, -1) for s, a in jacobian_of_child(system, state).items()}
    p = np.asarray(child_of(system, state.position))[:, :3]
    before = np.tri(n)[..., None]  # which hinges come before a body
    of_hinges = np.concatenate([before * np.cross(up, p[:, None] - p), before * up], axis=2)
    close(J["q"], of_hinges.swapaxes(1, 2), ROUND_OFF)
    of_base = np.broadcast_to(np.eye(6), (n, 6, 6)).copy()
    of_base[:, :3, 3:] = np.cross(np.eye(3), (p - base[:3])[:, None]).swapaxes(1, 2)
    close(J["base"], of_base, ROUND_OFF)
    assert "jaxmech_" in jacobian_of_child.lower(system, state).as_text(), "no kernel"


def test_a_surface_gives_the_volume_inside():
    """A tetrahedral box of 1 x 2 x 3 m: its own cells, and the triangles around it."""
    mesh = jm.mesh.box_mesh(cells=(2, 2, 2), size=(1.0, 2.0, 3.0), origin=(0.3, -0.2, 0.5))
    outside, _ = jm.mesh.boundary_faces(mesh)
    for cells in (np.asarray(mesh.cells), outside):
        system = jm.System(
            {"q": V3, "each": V1, "p": V1},
            mappings={
                "each": jm.mapping.VolumeMapping(("q", cells), "each"),
                "all": jm.mapping.SumMapping(("each", np.arange(len(cells))[None]), "p", np.ones(len(cells))),
            },
        )
        np.testing.assert_allclose(child_of(system, {"q": mesh.points}), [[6.0]], rtol=1e-13)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: jm.mapping.RigidMapping(("q", [0]), "p", LOCAL, geometric_stiffness="both"), "geometric_stiffness"),
        (lambda: jm.mapping.DistanceMapping(("q", [0]), "p"), "DistanceMapping: parents"),
        (lambda: jm.mapping.DistanceMapping((("q", [0]), ("q", [1])), "p", -1.0), "rest_length must be at least 0"),
        (lambda: jm.mapping.VolumeMapping(("q", [[0, 1]]), "p"), "VolumeMapping: parents"),
        (lambda: jm.mapping.AreaMapping(("q", [[0, 1]]), "p"), "AreaMapping: parents"),
        (lambda: jm.mapping.SumMapping(("q", [[0, 1]]), "p", [1.0]), "weights has shape"),
        (lambda: jm.mapping.CenterOfMassMapping.of({"q": [0, 1]}, "p", [1.0, 0.0]), "masses must be positive"),
        (
            lambda: jm.mapping.SkinningMapping(("q", [[0, 1]]), "p", [[0.3, 0.3]], np.zeros((1, 2, 3))),
            "weights must be of sum 1",
        ),
        (lambda: jm.mapping.TubularMapping.of("q", "p", frames=2, around=0, radius=1.0), "around"),
        (lambda: jm.mapping.ArticulatedMapping.tree("q", "p", [0], [[0.0] * 3], (0.0, 0.0, 1.0)), "before"),
        (
            lambda: jm.mapping.ArticulatedMapping.tree("q", "p", [-1], [[0.0] * 3], (0.0, 0.0, 2.0)),
            "axis must be of unit length",
        ),
        (lambda: jm.mapping.FunctionMapping(("q", [0]), "p", "angle"), "function must be a function"),
        (lambda: jm.mapping.FunctionMapping(("q", [0, 1]), "p", angle, [[0.1]]), "leading axis of 2"),
        (
            lambda: jm.mapping.BarycentricMapping.from_grid("q", "p", [[0.0]], origin=(0.0, 0.0), spacing=1.0, cells=(1, 1)),
            r"points has shape \(1, 1\)",
        ),
        (lambda: jm.mapping.RigidMapping(("q", [0]), "p", [[0.0] * 6 + [2.0]]), "unit length"),
    ],
)
def test_wrong_numbers_are_named(make, match):
    with pytest.raises((ValueError, TypeError), match=match):
        make()


@pytest.mark.parametrize(
    ("case", "child", "match"),
    [
        ("distance", V3, "Vec1"),
        ("area", V2, "Vec1"),
        ("skinning", V2, "SkinningMapping maps"),
        ("articulated", V3, "ArticulatedMapping maps"),
        ("deformable on a frame", V2, "DeformableOnRigidFrameMapping maps"),
        ("rigid", V1, "RigidMapping maps"),
    ],
)
def test_wrong_states_are_named(case, child, match):
    dofs, positions, mapping = CASES[case]()
    with pytest.raises(ValueError, match=match):
        jm.System({**dofs, "p": child}, mappings={"map": mapping}).at_rest(positions)


@pytest.mark.parametrize("kind", ["tetrahedron", "hexahedron"])
def test_points_outside_are_extrapolated_however_far(kind):
    """An affine motion of the nodes takes them along exactly; of cells of 0.5 m, these are up to 400 away."""
    mesh = jm.mesh.box_mesh(cells=(2, 2, 2), size=(1.0, 1.0, 1.0), kind=kind)
    far = np.array([[7.0, 0.5, 0.5], [-30.0, 40.0, 12.0], [100.0, -200.0, 3.0], [0.3, 0.2, 0.1]])
    mapping = jm.mapping.BarycentricMapping.from_mesh("q", "p", mesh, far)
    system = jm.System({"q": jm.Vec3(), "p": jm.Vec3()}, mappings={"m": mapping})
    turn = np.array([[1.0, 0.2, 0.0], [-0.3, 0.9, 0.1], [0.0, 0.4, 1.2]])
    moved = jm.kinematics(system, system.at_rest({"q": mesh.points @ turn.T + 1.0}))["p"]
    np.testing.assert_allclose(moved, far @ turn.T + 1.0, rtol=1e-10, atol=1e-10)  # weights of 1e6 that sum to 1


def test_points_that_no_cell_reaches_are_named():
    """`y = (1 + eta)/2` and `x = 1 + xi (1 - y/2)` in a trapezium: at `y = 2` it has no width to reach a point by."""
    mesh = jm.mesh.Mesh([[0.0, 0], [2, 0], [1.5, 1], [0.5, 1]], [[0, 1, 2, 3]], "quad")
    weights = jm.mapping.BarycentricMapping.from_mesh("q", "p", mesh, [[30.0, 0.5]]).weights
    # xi = 29 / 0.75, eta = 0
    np.testing.assert_allclose(
        weights[0], np.array([1 - 116 / 3, 1 + 116 / 3, 1 + 116 / 3, 1 - 116 / 3]) / 4, rtol=ROUND_OFF
    )
    with pytest.raises(ValueError, match=r"point 1, \[0. 2.\], is outside the mesh"):
        jm.mapping.BarycentricMapping.from_mesh("q", "p", mesh, [[1.0, 0.5], [0.0, 2.0]])
    flat = jm.mesh.Mesh([[0.0, 0], [1, 0], [2, 0], [0, 1]], [[0, 1, 2], [0, 1, 3]], "triangle")  # the first has no area
    np.testing.assert_allclose(
        jm.mapping.BarycentricMapping.from_mesh("q", "p", flat, [[9.0, 0.0]]).weights, [[-8.0, 9.0, 0.0]], atol=ROUND_OFF
    )
