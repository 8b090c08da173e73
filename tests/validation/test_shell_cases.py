"""Shell triangles against the published obstacle course, plates, and rigid turns."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.linalg import spsolve

import jaxmech as jm
from jaxmech._forcefield.shell_triangle import bending_energy, membrane_energy, plane_stress

CELLS = np.array([[0, 1, 2], [0, 2, 3]])
FREE = {"x": 0, "y": 1, "z": 2, "turn x": 3, "turn y": 4, "turn z": 5}


def grid(n, m, place, alternate=True):
    """Triangles of an n by m grid of the unit square, put into space by `place(s, t)`; diagonals alternate, or do not."""
    s, t = np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, m + 1), indexing="ij")
    number = np.arange((n + 1) * (m + 1)).reshape(n + 1, m + 1)
    corners = np.stack([number[:-1, :-1], number[1:, :-1], number[1:, 1:], number[:-1, 1:]], -1)
    if alternate:
        odd = np.indices((n, m)).sum(axis=0) % 2 == 1
        corners[odd] = np.roll(corners[odd], 1, -1)
    cells = corners.reshape(-1, 4)[:, CELLS].reshape(-1, 3)
    return jm.mesh.Mesh(np.stack(place(s.ravel(), t.ravel()), 1), cells, "triangle"), number


def held(nodes, *names):
    return jm.constraint.FixedComponents(("f", np.asarray(nodes).ravel()), tuple(name in names for name in FREE))


def displacements(mesh, shell, constraints, forces):
    """Those of small loads, linear: frames' translations and turns."""
    system = jm.System({"f": jm.Rigid3()}, forces={"shell": shell, **forces}, constraints=constraints)
    start = system.at_rest({"f": shell.rest})
    linear_system = jm.MatrixLinearSystem.build(system, start, jm.Terms(mass=False, damping=False))
    problem = jm.solver.static_problem(system, start, linear_system)
    return spsolve(problem.A["f", "f"].to_scipy().tocsc(), np.asarray(problem.b["f"]).ravel()).reshape(-1, 6)


def areas_of_nodes(mesh):
    share = np.zeros(len(mesh.points))
    np.add.at(share, np.asarray(mesh.cells), np.repeat(np.asarray(mesh.cell_measures())[:, None] / 3, 3, 1))
    return share


def scordelis_lo(n):
    """A quarter of the roof; the middle of the free edge comes down by 0.3024."""
    mesh, number = grid(n, n, lambda s, t: (25 * np.sin(np.radians(40) * s), 25 * t, 25 * np.cos(np.radians(40) * s)))
    shell = jm.force.Shell.from_mesh("f", mesh, 4.32e8, 0.0, 0.25)
    weight = np.zeros((len(mesh.points), 3))
    weight[:, 2] = -90 * areas_of_nodes(mesh)
    load = {"weight": jm.force.ConstantForce(("f", range(len(weight))), weight)}
    constraints = {
        "diaphragm": held(number[:, 0], "x", "z", "turn y"),
        "middle": held(number[:, -1], "y", "turn x", "turn z"),
        "crown": held(number[0], "x", "turn y", "turn z"),
    }
    return -displacements(mesh, shell, constraints, load)[number[-1, -1], 2] / 0.3024


def pinched_cylinder(n):
    """An eighth, with diaphragms: 1.8248e-5 under the unit force."""
    mesh, number = grid(n, n, lambda s, t: (300 * np.sin(np.pi / 2 * s), 300 * t, 300 * np.cos(np.pi / 2 * s)))
    shell = jm.force.Shell.from_mesh("f", mesh, 3e6, 0.3, 3.0)
    load = {"pinch": jm.force.ConstantForce(("f", [number[0, -1]]), [0.0, 0.0, -0.25])}
    constraints = {
        "diaphragm": held(number[:, 0], "x", "z", "turn y"),
        "middle": held(number[:, -1], "y", "turn x", "turn z"),
        "top": held(number[0], "x", "turn y", "turn z"),
        "side": held(number[-1], "z", "turn x", "turn y"),
    }
    return -displacements(mesh, shell, constraints, load)[number[0, -1], 2] / 1.8248e-5


def hemisphere(n):
    """A quarter with a hole of 18 degrees: 0.094 under two pairs of forces."""

    def place(s, t):
        up, around = np.radians(72) * t, np.pi / 2 * s
        return 10 * np.cos(up) * np.cos(around), 10 * np.cos(up) * np.sin(around), 10 * np.sin(up)

    mesh, number = grid(n, n, place)
    shell = jm.force.Shell.from_mesh("f", mesh, 6.825e7, 0.3, 0.04)
    ends = [number[0, 0], number[-1, 0]]
    load = {"pairs": jm.force.ConstantForce(("f", ends), [[1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])}
    constraints = {
        "y": held(number[0], "y", "turn x", "turn z"),
        "x": held(number[-1], "x", "turn y", "turn z"),
        "height": held([number[0, 0]], "z"),
    }
    return displacements(mesh, shell, constraints, load)[ends[0], 0] / 0.094


@pytest.mark.slow
@pytest.mark.parametrize("case", [scordelis_lo, hemisphere])
def test_obstacle_course(case):
    """To 2 % with 16 by 16 quads in two triangles."""
    np.testing.assert_allclose(case(16), 1.0, rtol=0.02)


@pytest.mark.exhaustive
def test_obstacle_course_converges():
    """The cylinder too, and meshes of one diagonal; the coarser hemisphere to 3 %, where flat facets would lock."""
    np.testing.assert_allclose(pinched_cylinder(16), 1.0, rtol=0.02)
    np.testing.assert_allclose(hemisphere(8), 1.0, rtol=0.03)
    np.testing.assert_allclose([pinched_cylinder(32), scordelis_lo(32), hemisphere(32)], 1.0, rtol=0.01)


def test_drilling_follows_curvature():
    """Flat plates keep all of the stiffness, folds too; `1 / (1 + 4 A d^2 / t^2)` of a ridge of 0.1 rad."""

    def sheet(angle, thickness=0.1, **options):
        points = [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1.0, 1, 0]]
        points[3] = [*(0.5 + np.sqrt(0.5) * np.cos(angle) * np.array([np.sqrt(0.5)] * 2)), np.sqrt(0.5) * np.sin(angle)]
        mesh = jm.mesh.Mesh(points, [[0, 1, 2], [1, 3, 2]], "triangle")
        return np.asarray(jm.force.Shell.from_mesh("f", mesh, 1.0, 0.3, thickness, **options).drilling)

    np.testing.assert_array_equal(sheet(0.0), 1.0)
    np.testing.assert_array_equal(sheet(1.0), 1.0)
    np.testing.assert_array_equal(sheet(0.1, drilling=0.3), 0.3)
    bent = 1 / (1 + 2 * (2 * np.sin(0.05)) ** 2 / np.array([0.1, 0.2]) ** 2)
    np.testing.assert_allclose(sheet(0.1, [0.1, 0.2]), bent, rtol=1e-12)
    walls = jm.mesh.Mesh(
        [[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0.1], [0, 0, 1]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]], "triangle"
    )
    np.testing.assert_array_equal(jm.force.Shell.from_mesh("f", walls, 1.0, 0.3, 0.1).drilling, 1.0)


def test_in_plane_bending_is_exact():
    """Two triangles bend in their plane as a beam does, however long they are: what the membrane triangle is known for."""
    number = jnp.asarray(0.25)
    for long in (1.0, 4.0, 16.0):
        X = jnp.array([[-long, -1.0], [long, -1.0], [long, 1.0], [-long, 1.0]]) / 2
        u, turns = jnp.stack([X[:, 0] * X[:, 1], -(X[:, 0] ** 2) / 2], axis=1), -X[:, 0]
        parts = [membrane_energy(X[c], u[c], turns[c], jnp.asarray(1.0), number, 1.0) for c in (CELLS[0], CELLS[1])]
        np.testing.assert_allclose(sum(parts), 0.5 / 12 * long, rtol=1e-12)  # E I / 2 kappa^2 L


def test_uniform_bending_and_strain_are_exact():
    """A triangle of any shape: moments of a constant curvature, and stress of a constant strain with its turn."""
    X = jnp.array([[0.0, 0.0], [1.3, 0.2], [0.4, 1.1]])
    area, E = 0.5 * (1.3 * 1.1 - 0.2 * 0.4), plane_stress(jnp.asarray(2.0), jnp.asarray(0.3))
    curvature, gradient = jnp.array([[0.7, 0.2], [0.2, -0.4]]), jnp.array([[0.3, 0.5], [-0.2, 0.1]])
    director = X @ curvature
    # The plane of the corners cuts off what is linear; the Kirchhoff triangle knows the deflection between them.
    edges = jnp.roll(X, -1, axis=0) - X
    deflection = -0.5 * jnp.einsum("ka,ab,kb->k", X, curvature, X)
    slope = jnp.linalg.solve(edges[:2], jnp.roll(deflection, -1)[:2] - deflection[:2])
    director = director + slope
    turns = jnp.stack([-director[:, 1], director[:, 0]], axis=1)
    strain = jnp.array([0.7, -0.4, 0.4])
    plate = bending_energy(X, turns, jnp.asarray(2.0), jnp.asarray(0.3))
    np.testing.assert_allclose(plate, 0.5 * area * strain @ E @ strain, rtol=1e-12)
    turn = jnp.full(3, 0.5 * (gradient[1, 0] - gradient[0, 1]))
    plane = membrane_energy(X, X @ gradient.T, turn, jnp.asarray(2.0), jnp.asarray(0.3), 0.1)
    strain = jnp.array([0.3, 0.1, 0.3])
    np.testing.assert_allclose(plane, 0.5 * area * strain @ E @ strain, rtol=1e-12)


def test_hinges_store_the_bending_of_a_cylinder():
    """A sheet that is rolled up: `D/2 kappa^2` per area, of both models, on squares and on equilateral triangles."""
    radius, n = 2.0, 16

    def equilateral(s, t):  # rows of triangles along y, shifted against each other
        return n * s * np.sqrt(0.75) / 16, t + n * s / 32, 0 * s

    for place, model in (((lambda s, t: (s, t, 0 * s)), "quadratic"), (equilateral, "angle")):
        flat, _ = grid(n, n, place, alternate=False)
        x = np.asarray(flat.points)
        rolled = np.stack([radius * np.sin(x[:, 0] / radius), x[:, 1], radius * (1 - np.cos(x[:, 0] / radius))], 1)
        hinge = jm.force.HingeBending.from_mesh("p", flat, 3.0, model=model)
        scene = jm.System({"p": jm.Vec3()}, forces={"hinge": hinge})
        energy = float(jm.energy(scene, scene.at_rest({"p": rolled})))
        inner = (n - 1) / n * float(flat.measure())  # hinges lie between the rows
        np.testing.assert_allclose(energy, 0.5 * 3.0 / radius**2 * inner, rtol=0.02)
