"""Rates of every element: a solution made by hand, its body force, and the errors on two meshes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm

POINTS = {2: jm.Vec2(), 3: jm.Vec3()}
BASE = {
    "triangle6": "triangle",
    "quad8": "quad",
    "quad9": "quad",
    "tetrahedron10": "tetrahedron",
    "hexahedron20": "hexahedron",
    "hexahedron27": "hexahedron",
    "prism15": "prism",
    "pyramid13": "pyramid",
}


def bricks(n, d, base):
    """A box of `n` cells along each axis, cut into prisms or pyramids where these are asked for."""
    if base not in ("prism", "pyramid"):
        return jm.mesh.box_mesh(cells=(n,) * d, size=(1.0,) * d, kind=base)
    box = jm.mesh.box_mesh(cells=(n,) * 3, size=(1.0,) * 3, kind="hexahedron")
    if base == "prism":
        return jm.mesh.hexahedra_to_prisms(box).mesh
    return cut_into_pyramids(box)


def cut_into_pyramids(box):
    """Six pyramids in each hexahedron, on its sides, their apices in its middle."""
    cells, points = np.asarray(box.cells), np.asarray(box.points)
    middle = np.arange(len(cells)) + len(points)
    sides = [cells[:, face[::-1]] for face in jm.mesh.reference_element("hexahedron").faces]
    pyramids = np.concatenate([np.column_stack([side, middle]) for side in sides])
    return jm.mesh.Mesh(np.vstack([points, points[cells].mean(axis=1)]), pyramids, "pyramid")


def meshed(kind, n):
    base = BASE.get(kind, kind)
    mesh = bricks(n, jm.mesh.reference_element(kind).dimension, base)
    return mesh if base == kind else jm.mesh.quadratic_mesh(mesh, kind)


def errors(kind, n, displacement, law, **options):
    """`|u_h - u|` in L2 and H1."""
    mesh = meshed(kind, n)
    d, element = mesh.points.shape[1], jm.mesh.reference_element(kind)

    def stress(x):
        H = jax.jacfwd(displacement)(x)
        F = jnp.eye(3).at[:d, :d].add(H)
        return jax.grad(law.energy_density)(F)[:d, :d]

    force = lambda x: -jnp.trace(jax.jacfwd(stress)(x), axis1=1, axis2=2)  # noqa: E731
    at, weights = element.quadrature(6)
    points, cells = np.asarray(mesh.points), np.asarray(mesh.cells)
    shapes, slopes = np.asarray(element.shape(at)), element.shape_gradients(at)
    x = np.einsum("qk,ekd->eqd", shapes, points[cells])
    J = np.einsum("eka,qkb->eqab", points[cells], slopes)
    volumes = weights * np.linalg.det(J)
    gradients = np.einsum("qkb,eqba->eqka", slopes, np.linalg.inv(J))
    body = np.asarray(jax.jit(jax.vmap(jax.vmap(force)))(x))
    load = np.zeros_like(points)
    np.add.at(load, cells, np.einsum("eq,eqa,qk->eka", volumes, body, shapes))
    skin = mesh.nodes_where(lambda x: ((x < 1e-9) | (x > 1 - 1e-9)).any(axis=1))
    u = np.asarray(jax.vmap(displacement)(points))
    dofs, rest = {"box": POINTS[d]}, {"box": points}
    if options.pop("mixed", False):
        solid = jm.force.MixedSolidFEM.from_mesh("box", "pressure", mesh, law)
        dofs, rest = dofs | {"pressure": jm.Vec1()}, rest | {"pressure": np.zeros((len(solid.pressure_nodes(mesh)), 1))}
    else:
        solid = jm.force.SolidFEM.from_mesh("box", mesh, law, **options)
    system = jm.System(
        dofs,
        forces={
            "solid": solid,
            "load": jm.force.ConstantForce(("box", np.arange(len(points))), load),
        },
        constraints={"skin": jm.constraint.PrescribedMotion(("box", skin), points[skin], u[skin][:, None])},
    )
    solution = jm.static_solve(system, system.at_rest(rest))
    u_h = np.asarray(solution.position["box"]) - points
    gap = np.einsum("qk,eka->eqa", shapes, u_h[cells]) - np.asarray(jax.vmap(jax.vmap(displacement))(x))
    H = np.asarray(jax.vmap(jax.vmap(jax.jacfwd(displacement)))(x))
    gap_of_slopes = np.einsum("eka,eqkb->eqab", u_h[cells], gradients) - H
    return np.sqrt([np.sum(volumes * np.sum(gap**2, -1)), np.sum(volumes * np.sum(gap_of_slopes**2, (-1, -2)))])


def waves(x):
    """Smooth, and in no way polynomial."""
    if x.shape[0] == 2:
        return 0.01 * jnp.array([jnp.sin(2 * x[0] + x[1]), jnp.exp(x[0]) * jnp.cos(2 * x[1])])
    parts = [jnp.sin(x[0] + x[1]), jnp.cos(x[1] - x[2]) * x[0], jnp.exp(0.5 * x[2]) * jnp.sin(x[0])]
    return 0.01 * jnp.array(parts)


def swirl(x):
    """Without divergence: `curl` of a stream function."""
    return 0.01 * jnp.array([jnp.sin(2 * x[0]) * jnp.cos(2 * x[1]), -jnp.cos(2 * x[0]) * jnp.sin(2 * x[1])])


def rates(kind, n, displacement, law, **options):
    coarse, fine = (errors(kind, m, displacement, law, **options) for m in (n, 2 * n))
    return np.log2(coarse / fine)


SIZES = {"triangle6": 4, "quad8": 3, "quad9": 3, "tetrahedron10": 3, "hexahedron20": 2, "hexahedron27": 2}
SIZES |= {"prism": 3, "prism15": 2, "pyramid": 3, "pyramid13": 2}


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(k, marks=pytest.mark.slow if k in ("quad8", "quad9", "triangle6") else pytest.mark.exhaustive)
        for k in SIZES
    ],
)
def test_rates_of_every_element(kind):
    """`p + 1` in L2 and `p` in H1, within 0.1."""
    order = jm.mesh.reference_element(kind).order
    found = rates(kind, SIZES[kind], waves, jm.material.LinearElastic(10.0, 0.3))
    np.testing.assert_allclose(found, [order + 1, order], rtol=0, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "formulation"), [("quad", "b-bar"), ("quad9", "b-bar"), ("quad", "reduced")])
def test_rates_are_kept_where_hardly_anything_changes_its_volume(kind, formulation):
    order = jm.mesh.reference_element(kind).order
    found = rates(kind, 6 if order == 1 else 3, swirl, jm.material.LinearElastic(10.0, 0.4999), formulation=formulation)
    np.testing.assert_allclose(found, [order + 1, order], rtol=0, atol=0.1)


@pytest.mark.slow
def test_rates_of_a_pressure_of_its_own():
    """Taylor and Hood's triangles: those of quadratic cells, at `nu = 0.4999`."""
    found = rates("triangle6", 4, swirl, jm.material.LinearElastic(10.0, 0.4999), mixed=True)
    np.testing.assert_allclose(found, [3, 2], rtol=0, atol=0.1)
