"""Reference solutions of ArcaneFEM, from element matrices given to `assemble` and its four Dirichlet treatments.

Parameters, meshes and solutions are upstream data (Apache-2.0) that is not part of this project: it is read from a folder
beside it, and the tests are skipped where that is absent. The elements are isoparametric, found from their monomials.
"""

import functools
import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.sparse.linalg import splu, spsolve

import jaxmech as jm

FOLDER = Path(__file__).parents[3] / "shared" / "cases" / "arcanefem"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason=f"the reference cases are not at {FOLDER}")
REFERENCE = 1e-8  # of the largest reference value: the files hold 9 to 15 digits

SQUARE = [(-1, -1), (1, -1), (1, 1), (-1, 1)]
CUBE = [(*p, z) for z in (-1, 1) for p in SQUARE]
MIDDLES = {  # the edges that carry the nodes after the corners, in the order of Gmsh
    "line3": [(0, 1)],
    "quad8": [(0, 1), (1, 2), (2, 3), (3, 0)],
    "hex20": [(a, b) for a, b in itertools.combinations(range(8), 2) if np.abs(np.subtract(CUBE[a], CUBE[b])).sum() == 2],
}
CORNERS = {
    "line2": [(-1,), (1,)],
    "line3": [(-1,), (1,)],
    "tri3": [(0, 0), (1, 0), (0, 1)],
    "quad4": SQUARE,
    "quad8": SQUARE,
    "tet4": [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)],
    "hex20": CUBE,
}
SIMPLEX_RULES = {"tri3": ([(0.5, 0.5), (0.5, 0.0), (0.0, 0.5)], [1 / 6] * 3), "tet4": ([(0.25,) * 3], [1 / 6])}


@functools.cache
def element(kind):
    """Shape functions `(q, k)` and their gradients `(q, k, d)` at the Gauss points, and the weights."""
    corners = np.array(CORNERS[kind], float)
    nodes = np.array([*corners, *(0.5 * (corners[a] + corners[b]) for a, b in MIDDLES.get(kind, []))])
    k, d = nodes.shape
    powers = np.array(list(itertools.product(range(3 if kind in MIDDLES else 2), repeat=d)))
    # Simplices: of total degree 1. Serendipity: one square at most. Else all products.
    kept = powers.sum(axis=1) < 2 if kind in SIMPLEX_RULES else (powers == 2).sum(axis=1) < 2
    powers = powers[kept]
    assert len(powers) == k

    def monomials(x):
        return np.prod(x[:, None, :] ** powers, axis=-1)

    def slope(x, axis):
        lower = np.maximum(powers - np.eye(d, dtype=int)[axis], 0)
        return powers[:, axis] * np.prod(x[:, None, :] ** lower, axis=-1)

    if kind in SIMPLEX_RULES:
        points, weights = map(np.array, SIMPLEX_RULES[kind])
    else:
        x, w = np.polynomial.legendre.leggauss(3 if kind in MIDDLES else 2)
        points = np.array(list(itertools.product(x, repeat=d)))
        weights = np.prod(list(itertools.product(w, repeat=d)), axis=1)
    to_shape = np.linalg.inv(monomials(nodes))
    gradients = np.stack([slope(points, i) @ to_shape for i in range(d)], axis=-1)
    return monomials(points) @ to_shape, gradients, weights


def integral(kind, integrand):
    """The element function `sum_q w_q det J integrand(N, dN/dx)`."""
    shapes, gradients, weights = element(kind)

    def of_element(x):
        def at(N, G, w):
            J = x.T @ G
            if J.shape[0] == J.shape[1]:
                return w * jnp.linalg.det(J) * integrand(N, G @ jnp.linalg.inv(J))
            return w * jnp.sqrt(jnp.linalg.det(J.T @ J)) * integrand(N, None)  # a face in space, an edge in the plane

        return jnp.sum(jax.vmap(at)(jnp.asarray(shapes), jnp.asarray(gradients), jnp.asarray(weights)), axis=0)

    return jax.jit(of_element)


def elasticity(lame, shear):
    """`int (lame div u div v + 2 shear e(u) : e(v))`; in the plane, plane strain."""

    def integrand(N, G):
        k, d = G.shape
        eye = jnp.eye(d)
        both = jnp.einsum("ai,bj->aibj", G, G) * lame + shear * jnp.einsum("aj,bi->aibj", G, G)
        return (both + shear * jnp.einsum("ak,bk,ij->aibj", G, G, eye)).reshape(k * d, k * d)

    return integrand


def mass(density, size):
    """`int density u . v`."""
    return lambda N, G: density * jnp.kron(jnp.outer(N, N), jnp.eye(size))


def distributed(points, cells, kind, density):
    """`int N density` over these cells, added up at their nodes."""
    shares = jax.vmap(integral(kind, lambda N, G: N))(points[cells])
    load = np.zeros((len(points), len(density)))
    np.add.at(load, cells, np.asarray(shares)[:, :, None] * np.asarray(density))
    return load


@functools.cache
def case(name):
    """Parameters, mesh and reference `(rows of the nodes, values)` of a case."""
    data = next(c for c in json.loads((FOLDER / "cases.json").read_text()) if c["id"] == name)
    mesh = json.loads((FOLDER / data["mesh_json"]).read_text())
    reference = np.loadtxt(FOLDER / data["ref"])
    row = {tag: i for i, tag in enumerate(mesh["node_tags"])}
    nodes = [row[int(tag)] for tag in reference[:, 0]]
    return data, mesh, (nodes, reference[:, 1 : 1 + data["ncomp"]])


def group(mesh, name, dim):
    """The cells of a named part of the mesh, and what kind they are."""
    found = next(g for g in mesh["groups"] if g["name"] == name and g["dim"] == dim)
    return np.array(found["conn"]), found["type"]


def held(data, mesh):
    """Unknowns and values, condition by condition: where a node is in several groups, the later one has it."""
    taken = {}
    for number, (name, dim, values) in enumerate(data["dirichlet"]):
        nodes = np.unique(group(mesh, name, dim)[0])
        taken |= {len(values) * n + c: (number, v) for c, v in enumerate(values) if v is not None for n in nodes}
    owned = [[(dof, v) for dof, (owner, v) in taken.items() if owner == i] for i in range(len(data["dirichlet"]))]
    return [(np.array([dof for dof, _ in own]), np.array([v for _, v in own])) for own in owned]


@functools.cache
def static_equations(name):
    """Matrix and right-hand side before the boundary conditions."""
    data, mesh, _ = case(name)
    points = np.array(mesh["x"])[:, : mesh["dim"]]
    if data["pde"] == "poisson":
        integrand, body = lambda N, G: G @ G.T, [data["f"]]
    else:
        E, nu = data["E"], data["nu"]
        integrand, body = elasticity(E * nu / ((1 + nu) * (1 - 2 * nu)), E / (2 * (1 + nu))), data["body_force"]
    kinds = {kind: np.array(cells) for kind, cells in mesh["cells"].items()}
    A = jm.matrix.assemble(list(kinds.values()), [integral(kind, integrand) for kind in kinds], points)
    b = sum(distributed(points, cells, kind, body) for kind, cells in kinds.items())
    for name_of, value in [*data.get("traction", []), *data.get("neumann", [])]:
        cells, kind = group(mesh, name_of, mesh["dim"] - 1)
        b = b + distributed(points, cells, kind, value)
    return A, jnp.asarray(b)


def agrees(u, reference):
    nodes, values = reference
    np.testing.assert_allclose(u[nodes], values, rtol=0, atol=REFERENCE * np.abs(values).max())


TREATMENTS = (
    jm.matrix.impose_penalty,
    jm.matrix.impose_weak_penalty,
    jm.matrix.eliminate_rows,
    jm.matrix.eliminate_rows_and_columns,
)


@pytest.mark.slow_cases("C12a-mixed", "C05", "C03")
@pytest.mark.covering(1)
@pytest.mark.parametrize("how", [*TREATMENTS, "mixed"], ids=lambda h: getattr(h, "__name__", h))
@pytest.mark.parametrize("name", ["C01", "C03", "C05", "C11a", "C12a"])
def test_static_cases(name, how):
    """Triangles, quads, tetrahedra, and quadratic quads and hexahedra; an outside solver takes the matrix in CSR form."""
    data, mesh, reference = case(name)
    A, b = static_equations(name)
    shape = b.shape
    for dofs, values in held(data, mesh):
        if how == "mixed":
            for i, impose in enumerate(TREATMENTS):
                A, b = impose(A, b, dofs[i::4], values[i::4])
        else:
            A, b = how(A, b, dofs, values)
    agrees(spsolve(A.to_scipy("csr"), np.asarray(b).reshape(-1)).reshape(shape), reference)


@pytest.mark.slow
def test_mixed_triangles_and_quads_in_motion():
    """C10a: Newmark's average acceleration, the right end moved by 1 at once."""
    data, mesh, reference = case("C10a")
    points = np.array(mesh["x"])[:, :2]
    kinds = {kind: np.array(cells) for kind, cells in mesh["cells"].items()}
    plan = jm.matrix.AssemblyPattern.build(list(kinds.values()), len(points))
    law = elasticity(data["lambda"], data["mu"])
    K = jm.matrix.assemble(plan, [integral(kind, law) for kind in kinds], points)
    M = jm.matrix.assemble(plan, [integral(kind, mass(data["rho"], 2)) for kind in kinds], points)
    h = data["dt"]
    A = jm.matrix.BlockSparse(K.values + 4 / h**2 * M.values, plan.pattern)
    dofs, values = (np.concatenate(parts) for parts in zip(*held(data, mesh), strict=True))
    impose = jax.jit(lambda b: jm.matrix.eliminate_rows_and_columns(A, b, dofs, values))
    factor = splu(impose(jnp.zeros(points.shape))[0].to_scipy("csc"))
    right_side = jax.jit(lambda u, v, a: impose(M.mv(4 / h**2 * u + 4 / h * v + a))[1])
    u = v = a = np.zeros(points.shape)
    for _ in range(data["steps"]):
        new = factor.solve(np.asarray(right_side(u, v, a)).reshape(-1)).reshape(points.shape)
        rate = 2 / h * (new - u) - v
        a = 2 / h * (rate - v) - a
        u, v = new, rate
    agrees(u, reference)
