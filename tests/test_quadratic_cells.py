"""Quadratic cells: their table, meshes of them, and the one solid that takes any of them."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._mesh.reference import reference_element

QUADRATIC = {
    "triangle6": "triangle",
    "quad8": "quad",
    "quad9": "quad",
    "tetrahedron10": "tetrahedron",
    "hexahedron20": "hexahedron",
    "hexahedron27": "hexahedron",
}
LINEAR_FACES = {"edge3": "edge", "triangle6": "triangle", "quad8": "quad", "quad9": "quad"}
kinds = pytest.mark.parametrize("kind", QUADRATIC)
YOUNG, POISSON = 7.0, 0.3


def distorted(kind, *, affine=False):
    """Cells of straight sides, no two alike, and how many dimensions they have; `affine`: only images of the reference
    cell by affine maps, in which quadratics of place are quadratics of `xi`."""
    base = QUADRATIC[kind]
    dimension = reference_element(base).dimension
    mesh = jm.mesh.box_mesh(cells=(2,) * dimension, size=(1.0,) * dimension, kind=base)
    points = np.asarray(mesh.points)
    inside = np.all((points > 0) & (points < 1), axis=1)
    simplex = base in ("triangle", "tetrahedron")
    shift = 0.1 if simplex or (dimension == 2 and not affine) else 0.0  # sides of moved hexahedra are no planes
    points = points + shift * inside[:, None] * np.sin(1 + np.arange(points.size)).reshape(points.shape)
    return jm.mesh.quadratic_mesh(jm.mesh.Mesh(points, mesh.cells, base), kind), dimension


def scene(mesh, dimension, **others):
    dof = jm.Vec2() if dimension == 2 else jm.Vec3()
    solid = jm.force.SolidFEM.from_mesh("body", mesh, jm.material.LinearElastic(YOUNG, POISSON))
    return jm.System({"body": dof}, forces={"solid": solid, **others})


@pytest.mark.parametrize("kind", [*QUADRATIC, "edge3"])
def test_shape_functions_are_those_of_lagrange(kind):
    element = reference_element(kind)
    places = np.asarray(element.vertices, float)
    np.testing.assert_allclose(element.shape(places), np.eye(element.nodes), atol=1e-13)
    xi = np.random.default_rng(0).uniform(-0.3, 0.4, (5, element.dimension))
    np.testing.assert_allclose(element.shape(jnp.asarray(xi)), element.shape(xi), atol=1e-14)
    field = element.shape(xi) @ (places**2)  # any quadratic is met exactly
    np.testing.assert_allclose(field, xi**2, atol=1e-13)
    slopes = np.einsum("qka,kb->qba", element.shape_gradients(xi), places**2)
    np.testing.assert_allclose(slopes, 2 * xi[:, :, None] * np.eye(element.dimension), atol=1e-13)


@kinds
def test_faces_are_cells_of_their_own(kind):
    element = reference_element(kind)
    face, places = reference_element(element.face_kind), np.asarray(element.vertices, float)
    linear = reference_element(LINEAR_FACES[element.face_kind])
    for nodes in element.faces:
        corners = places[list(nodes[: linear.nodes])]
        expected = linear.shape(np.asarray(face.vertices, float)) @ corners
        np.testing.assert_allclose(places[list(nodes)], expected, atol=1e-14)
    mesh, dimension = distorted(kind)
    boundary = mesh.boundary()
    assert boundary.kind == element.face_kind
    assert float(boundary.measure()) == pytest.approx(2 * dimension, rel=1e-12)
    assert float(mesh.measure()) == pytest.approx(1.0, rel=1e-12)
    assert len(mesh.edges()) == len(jm.mesh.Mesh(mesh.points, mesh.cells[:, element.corners], QUADRATIC[kind]).edges())


@kinds
def test_the_energy_of_a_quadratic_displacement_is_exact(kind):
    mesh, dimension = distorted(kind, affine=True)
    rng = np.random.default_rng(1)
    linear, quadratic = rng.normal(size=(dimension, dimension)), rng.normal(size=(dimension, dimension, dimension))
    lame, shear = YOUNG * POISSON / (1 + POISSON) / (1 - 2 * POISSON), YOUNG / 2 / (1 + POISSON)

    def displacement(X):
        return X @ linear.T + np.einsum("abc,nb,nc->na", quadratic, X, X)

    line, weights = np.polynomial.legendre.leggauss(3)
    grid = np.stack(np.meshgrid(*[(line + 1) / 2] * dimension, indexing="ij"), -1).reshape(-1, dimension)
    volume = np.prod(np.stack(np.meshgrid(*[weights / 2] * dimension, indexing="ij"), -1).reshape(-1, dimension), axis=1)
    gradient = linear + np.einsum("abc,nc->nab", quadratic + quadratic.swapaxes(1, 2), grid)
    strain = (gradient + gradient.swapaxes(1, 2)) / 2
    trace = np.trace(strain, axis1=1, axis2=2)
    expected = volume @ (lame / 2 * trace**2 + shear * np.sum(strain**2, axis=(1, 2)))
    system = scene(mesh, dimension)
    points = np.asarray(mesh.points)
    state = eqx.tree_at(lambda s: s.position["body"], system.at_rest({"body": mesh.points}), points + displacement(points))
    assert float(jm.energy(system, state)) == pytest.approx(expected, rel=1e-12)


@kinds
def test_a_constant_stress_pulls_at_no_node_inside(kind):
    mesh, dimension = distorted(kind)
    stretch = np.eye(dimension) + 0.1 * np.random.default_rng(2).normal(size=(dimension, dimension))
    system = scene(mesh, dimension)
    state = system.at_rest({"body": mesh.points})
    state = eqx.tree_at(lambda s: s.position["body"], state, mesh.points @ stretch.T)
    force = np.asarray(jm.total_force(system, state)["body"])
    points = np.asarray(mesh.points)
    inside = np.all((points > 1e-9) & (points < 1 - 1e-9), axis=1)
    assert inside.any() and np.abs(force[~inside]).max() > 0.1
    assert np.abs(force[inside]).max() < 1e-12


@pytest.mark.slow_cases("hexahedron27", "hexahedron20")
@kinds
def test_loads_and_masses_know_them(kind):
    mesh, dimension = distorted(kind)
    end = mesh.faces_where(lambda X: X[:, 0] == 1.0)
    pull = np.arange(1.0, dimension + 1)
    system = scene(mesh, dimension, pull=jm.force.Traction.from_mesh("body", end, pull))
    state = system.at_rest({"body": mesh.points})
    np.testing.assert_allclose(jnp.sum(jm.total_force(system, state)["body"], axis=0), pull, rtol=1e-12)
    mass = jm.mass.ConsistentMass.from_mesh("body", mesh, 3.0)
    heavy = jm.System(system.dofs, masses={"body": mass})
    moving = eqx.tree_at(lambda s: s.velocity["body"], heavy.at_rest({"body": mesh.points}), jnp.ones_like(mesh.points))
    momentum = jm.mass.momentum(heavy, moving)["body"]
    np.testing.assert_allclose(jnp.sum(momentum, axis=0), 3.0, rtol=1e-12)


@pytest.mark.parametrize("kind, old", [("tetrahedron", jm.force.TetrahedronFEM), ("hexahedron", jm.force.HexahedronFEM)])
def test_linear_kinds_are_what_they_were(kind, old):
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind=kind)
    moved = mesh.points + 0.1 * jnp.sin(jnp.arange(mesh.points.size)).reshape(mesh.points.shape)
    law, forces = jm.material.NeoHookean(YOUNG, POISSON), []
    for solid in (old.from_mesh("body", mesh, law), jm.force.SolidFEM.from_mesh("body", mesh, law)):
        system = jm.System({"body": jm.Vec3()}, forces={"solid": solid})
        state = eqx.tree_at(lambda s: s.position["body"], system.at_rest({"body": mesh.points}), moved)
        forces.append(np.asarray(jm.total_force(system, state)["body"]))
    np.testing.assert_array_equal(*forces)


def test_what_has_no_volume_or_no_plane_is_refused():
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    law = jm.material.LinearElastic(YOUNG, POISSON)
    with pytest.raises(ValueError, match="kind 'edge' is that of lines"):
        jm.force.SolidFEM(("body", [[0, 1]]), [[0.0], [1.0]], law, "edge")
    with pytest.raises(ValueError, match="plane and thickness are those of cells in the plane"):
        jm.force.SolidFEM.from_mesh("body", mesh, law, thickness=2.0)
    with pytest.raises(ValueError, match="plane and thickness are those of cells in the plane"):
        jm.force.SolidFEM.from_mesh("body", mesh, law, plane="stress")
    with pytest.raises(ValueError, match="have no quadratic kind"):
        jm.mesh.quadratic_mesh(jm.mesh.quadratic_mesh(mesh))
    with pytest.raises(ValueError, match="quadratic_mesh: kind"):
        jm.mesh.quadratic_mesh(mesh, "quad8")


def test_quadratic_cells_pass_through_files(tmp_path):
    pytest.importorskip("meshio")
    for kind in QUADRATIC:
        mesh, dimension = distorted(kind)
        jm.mesh.write_mesh(tmp_path / f"{kind}.vtu", mesh)
        read = jm.mesh.read_mesh(tmp_path / f"{kind}.vtu", dimension=dimension if dimension == 2 else None)
        assert read.kind == kind
        np.testing.assert_array_equal(read.cells, mesh.cells)
        np.testing.assert_allclose(read.points, mesh.points, atol=1e-15)
