"""Elements against theory: convergence rates, patch tests, masses, closed surfaces."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

SOLIDS = {
    "triangle": jm.force.TriangleFEM,
    "quad": jm.force.QuadFEM,
    "tetrahedron": jm.force.TetrahedronFEM,
    "hexahedron": jm.force.HexahedronFEM,
}
POINTS = {2: jm.Vec2(), 3: jm.Vec3()}


def dimension(kind):
    return jm.mesh.reference_element(kind).dimension


def harmonic_gradient(x):
    """`u = grad phi`, `laplace phi = 0`: in equilibrium without a body force, whatever the moduli."""
    if x.shape[-1] == 2:
        return 0.01 * np.exp(x[..., :1]) * np.stack([np.sin(x[..., 1]), np.cos(x[..., 1])], axis=-1)
    s, (y, z) = np.sqrt(2), (x[..., 1], x[..., 2])
    parts = [s * np.sin(y) * np.sin(z), np.cos(y) * np.sin(z), np.sin(y) * np.cos(z)]
    return 0.01 * np.exp(s * x[..., :1]) * np.stack(parts, axis=-1)


def l2_error(mesh, positions):
    """`|u_h - u|` in L2, by a quadrature exact for polynomials of degree 5."""
    reference = jm.mesh.reference_element(mesh.kind)
    at, weights = reference.quadrature(5)
    points, cells = np.asarray(mesh.points), np.asarray(mesh.cells)
    shape = np.asarray(reference.shape(at))
    x, x_h = (np.einsum("qk,ekd->eqd", shape, values[cells]) for values in (points, np.asarray(positions)))
    volume = np.linalg.det(np.einsum("ekd,qka->eqda", points[cells], reference.shape_gradients(at)))
    return np.sqrt(np.sum(weights * volume * np.sum((x_h - x - harmonic_gradient(x)) ** 2, axis=-1)))


SLOW = pytest.mark.slow


@pytest.mark.slow_cases("triangle-6", "tetrahedron-4")
@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("triangle", 6), pytest.param("quad", 6, marks=SLOW), ("tetrahedron", 4), pytest.param("hexahedron", 3, marks=SLOW)],
)
def test_displacements_converge_at_second_order(kind, sizes):
    """Linear elements: `|u_h - u|_L2 = O(h^2)`, from two meshes, one twice as fine as the other."""
    errors = []
    for n in (sizes, 2 * sizes):
        d = dimension(kind)
        mesh = jm.mesh.box_mesh(cells=(n,) * d, size=(1.0,) * d, kind=kind)
        x = np.asarray(mesh.points)
        skin = mesh.nodes_where(lambda x: ((x == 0) | (x == 1)).any(axis=1))
        system = jm.System(
            {"box": POINTS[d]},
            forces={"elastic": SOLIDS[kind].from_mesh("box", mesh, jm.material.LinearElastic(10.0, 0.3))},
            constraints={
                "skin": jm.constraint.PrescribedMotion(("box", skin), x[skin], harmonic_gradient(x[skin])[:, None])
            },
        )
        solution = jm.static_solve(system, system.at_rest({"box": x}))
        errors.append(l2_error(mesh, solution.position["box"]))
    assert abs(np.log2(errors[0] / errors[1]) - 2) < 0.1


def distorted_box(kind, rng):
    """A box of 2 cells along each axis whose inner node is moved, and the number of that node."""
    d = dimension(kind)
    mesh = jm.mesh.box_mesh(cells=(2,) * d, size=(1.0, 1.2, 0.9)[:d], kind=kind)
    inner = (3**d) // 2
    points = np.array(mesh.points)
    points[inner] += rng.uniform(-0.08, 0.08, d)
    return jm.mesh.Mesh(points, mesh.cells, kind), inner


MATERIALS = {
    "linear": jm.material.LinearElastic(100.0, 0.3),
    "st venant": jm.material.StVenantKirchhoff(100.0, 0.3),
    "corotational": jm.material.Corotational(100.0, 0.3),
    "neo-hookean": jm.material.NeoHookean(100.0, 0.3),
    "stable": jm.material.StableNeoHookean(100.0, 0.3),
    "mooney": jm.material.MooneyRivlin(20.0, 15.0, 80.0),
    "ogden": jm.material.Ogden([30.0, -2.0], [1.5, -3.0], 80.0),
}
AFFINE = np.array([[1.1, 0.15, -0.05], [0.02, 0.95, 0.1], [0.06, -0.04, 1.05]])


def plane_density(density, F, plane):
    """`psi` of a plane deformation; in plane stress, its minimum over the stretch across, by bisection of its slope."""
    across = lambda s: jnp.asarray(np.block([[F, np.zeros((2, 1))], [np.zeros((1, 2)), s]]))  # noqa: E731
    low, high = (1.0, 1.0) if plane == "strain" else (0.7, 1.4)
    slope = jax.jit(jax.grad(density))
    while high - low > 1e-13:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if slope(across(middle))[2, 2] < 0 else (low, middle)
    return density(across(low))


LONG = ("ogden", "corotational", "stable", "mooney")


@pytest.mark.slow_cases("st venant", "neo-hookean")
@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW) if n in LONG else n for n in MATERIALS])
def test_patch_of_every_element(name, rng):
    """An affine deformation of a distorted patch: energy `V psi(F)`, and no force on the inner node."""
    scenes = {kind: (kind, {}) for kind in SOLIDS}
    if name == "neo-hookean":  # the free stretch is found the same way for all, and is slow to compile
        scenes["stress"] = ("triangle", {"plane": "stress"})
    meshes = {state: distorted_box(kind, rng) for state, (kind, _) in scenes.items()}
    material = MATERIALS[name]
    system = jm.System(
        {state: POINTS[dimension(kind)] for state, (kind, _) in scenes.items()},
        forces={s: SOLIDS[kind].from_mesh(s, meshes[s][0], material, **how) for s, (kind, how) in scenes.items()},
    )
    deformed = {s: mesh.points @ AFFINE[: mesh.points.shape[1], : mesh.points.shape[1]].T for s, (mesh, _) in meshes.items()}
    state = system.at_rest(deformed)

    @eqx.filter_jit
    def energies_and_forces(system, state):
        alone = {s: eqx.tree_at(lambda c: c.forces, system, {s: f}) for s, f in system.forces.items()}
        return {s: jm.energy(scene, state) for s, scene in alone.items()}, jm.total_force(system, state)

    energies, forces = energies_and_forces(system, state)
    density = jax.jit(lambda F: material.energy_density(F))
    for s, (mesh, inner) in meshes.items():
        plane = scenes[s][1].get("plane", "strain")
        solid = mesh.points.shape[1] == 3
        psi = density(jnp.asarray(AFFINE)) if solid else plane_density(density, AFFINE[:2, :2], plane)
        np.testing.assert_allclose(energies[s], psi * mesh.measure(), rtol=1e-11)
        np.testing.assert_allclose(forces[s][inner], 0.0, atol=1e-11 * np.abs(forces[s]).max())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["quad", "tetrahedron", *(pytest.param(k, marks=SLOW) for k in ("triangle", "hexahedron"))])
def test_patch_solved(kind, rng):
    """The skin moved affinely, the inner node follows: finite strains, a distorted mesh."""
    mesh, inner = distorted_box(kind, rng)
    d = mesh.points.shape[1]
    skin = np.delete(np.arange(len(mesh.points)), inner)
    affine = np.asarray(mesh.points) @ AFFINE[:d, :d].T
    system = jm.System(
        {"patch": POINTS[d]},
        forces={"elastic": SOLIDS[kind].from_mesh("patch", mesh, jm.material.NeoHookean(100.0, 0.3))},
        constraints={
            "skin": jm.constraint.PrescribedMotion(
                ("patch", skin), np.asarray(mesh.points)[skin], (affine - np.asarray(mesh.points))[skin][:, None]
            )
        },
    )
    solution = jm.static_solve(system, system.at_rest({"patch": mesh.points}), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(solution.position["patch"], affine, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", SOLIDS)
def test_lumped_and_consistent_masses_weigh_the_same(kind, rng):
    """A rigid translation carries the momentum `rho V v`; the consistent mass also has the moments of inertia right."""
    mesh, _ = distorted_box(kind, rng)
    d, density = mesh.points.shape[1], 3.0
    total = density * np.prod([1.0, 1.2, 0.9][:d])
    v = jnp.array([0.3, -1.0, 2.0])[:d]
    for kind_of_mass in (jm.mass.DiagonalMass, jm.mass.ConsistentMass):
        system = jm.System({"body": POINTS[d]}, masses={"mass": kind_of_mass.from_mesh("body", mesh, density)})
        rest = system.at_rest({"body": mesh.points})
        moving = jm.State(rest.position, {"body": jnp.broadcast_to(v, mesh.points.shape)}, rest.time)
        p = eqx.filter_jit(jm.mass.momentum)(system, moving)
        np.testing.assert_allclose(p["body"].sum(axis=0), total * v, rtol=1e-13)
    # Velocity x along itself: T = 1/2 rho integral of x^2, linear elements being exact for linear velocities
    along = jm.State(rest.position, {"body": mesh.points * jnp.eye(d)[0]}, rest.time)
    second_moment = total / 3
    np.testing.assert_allclose(jm.mass.kinetic_energy(system, along), 0.5 * second_moment, rtol=1e-12)


@pytest.mark.parametrize("kind", ["triangle", "quad", "tetrahedron", "hexahedron"])
def test_pressure_on_a_closed_surface_has_no_resultant(kind, rng):
    """Any closed surface, crumpled at will: no net force and no net torque."""
    d = dimension(kind)
    mesh = jm.mesh.box_mesh(cells=(2,) * d, size=(1.0,) * d, kind=kind)
    system = jm.System({"body": POINTS[d]}, forces={"gas": jm.force.Pressure.from_mesh("body", mesh.boundary(), 7.0)})
    x = np.asarray(mesh.points) + rng.uniform(-0.15, 0.15, mesh.points.shape)
    force = np.asarray(jm.total_force(system, system.at_rest({"body": x}))["body"])
    assert np.abs(force).max() > 0.1
    np.testing.assert_allclose(force.sum(axis=0), 0.0, atol=1e-13)
    torque = np.cross(x, force) if d == 3 else x[:, 0] * force[:, 1] - x[:, 1] * force[:, 0]
    np.testing.assert_allclose(torque.sum(axis=0), 0.0, atol=1e-13)
