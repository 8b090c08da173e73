"""Element matrices of a user to one matrix, and prescribed values imposed on it in four ways."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from tolerances import FINITE_DIFFERENCE, ROUND_OFF

import jaxmech as jm

# Two quads and two triangles of the plane, and a node that nothing touches.
POINTS = np.array([[0, 0], [1, 0.1], [2, 0], [0, 1], [1.1, 0.9], [2, 1], [3, 0.2], [2.9, 1], [9, 9]])
QUADS = np.array([[0, 1, 4, 3], [1, 2, 5, 4]])
TRIANGLES = np.array([[2, 6, 5], [6, 7, 5]])
# A path of edges for systems small enough to be worked out by hand.
EDGES = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])


def close(a, b, tolerance=ROUND_OFF):
    """Equal to rounding of the largest entry."""
    a, b = np.asarray(a), np.asarray(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1.0, np.abs(b).max(initial=0)))


def every_pair(x, *own):
    """An element matrix without symmetry that depends on all there is: `(k b, k b)` with `b` the size of a point."""
    scale = sum(jnp.sum(a) for a in own) if own else 1.0
    y = x.reshape(-1)
    return scale * (jnp.outer(y, jnp.sin(y)) + jnp.diag(y**2))


def diffusion(x):
    """`grad phi_i . grad phi_j` of a triangle or a quad (2 x 2 points): one unknown per node."""
    element = jm.mesh.reference_element({3: "triangle", 4: "quad"}[len(x)])
    xi, weight = element.quadrature("stiffness")

    def at(gradients, w):
        jacobian = x.T @ gradients
        slope = gradients @ jnp.linalg.inv(jacobian)
        return w * jnp.linalg.det(jacobian) * slope @ slope.T

    return jnp.sum(jax.vmap(at)(jnp.asarray(element.shape_gradients(xi)), jnp.asarray(weight)), axis=0)


def dense(groups, nodes, size):
    """The definition, entry by entry."""
    total = np.zeros((nodes, size, nodes, size))
    for cells, matrices in groups:
        for nodes_of, matrix in zip(cells, matrices, strict=True):
            blocks = np.asarray(matrix).reshape(len(nodes_of), size, len(nodes_of), size)
            for i, row in enumerate(nodes_of):
                for j, column in enumerate(nodes_of):
                    total[row, :, column] += blocks[i, :, j]
    return total.reshape(nodes * size, nodes * size)


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_any_block_size(size, rng):
    points = jnp.asarray(rng.standard_normal((5, size)))
    young = jnp.asarray(rng.standard_normal(4))
    A = jm.matrix.assemble(EDGES, every_pair, points, each=(young,))
    expected = dense([(EDGES, [every_pair(points[e], y) for e, y in zip(EDGES, young, strict=True)])], 5, size)
    assert A.shape == (5 * size, 5 * size)
    close(A.to_dense(), expected)
    close(A.to_scipy("csr").toarray(), expected)


@pytest.mark.slow
def test_types_of_element_are_mixed():
    kinds = [QUADS, TRIANGLES]
    A = jm.matrix.assemble(kinds, [diffusion, diffusion], POINTS)
    each = jax.jit(jax.vmap(diffusion))
    expected = dense([(c, np.asarray(each(POINTS[np.asarray(c)]))) for c in kinds], 9, 1)
    close(A.to_dense(), expected)
    # The format: columns ascend, every node has its diagonal, the node that nothing touches as well.
    starts, columns = np.asarray(A.row_index), np.asarray(A.columns)
    assert starts.tolist() == [0, 4, 10, 15, 19, 25, 31, 35, 38, 39] and columns[-1] == 8
    assert all((np.diff(columns[a:b]) > 0).all() for a, b in zip(starts, starts[1:], strict=False))
    # Linear fields are exact in any mesh: nothing flows out of an inner node, and the whole energy is |grad|^2 times area.
    field = POINTS @ [2.0, -1.0]
    area = 0.5 * sum(
        np.sum(p[:, 0] * np.roll(p[:, 1], -1) - p[:, 1] * np.roll(p[:, 0], -1)) for c in kinds for p in POINTS[c]
    )
    full = np.asarray(A.to_dense())
    close(field @ full @ field, 5.0 * area)
    close(full @ np.ones(9), 0.0)
    loads = [(young,) for young in (np.full(2, 3.0), np.full(2, 3.0))]
    tripled = jm.matrix.assemble(kinds, [lambda x, e: e * diffusion(x)] * 2, POINTS, each=loads)
    close(tripled.to_dense(), 3 * expected)


def test_solids_are_assembled_as_their_components_are(rng):
    """Three dimensions: tetrahedra by a function of the user, and by the package."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.2, 0.8))
    points = np.asarray(mesh.points) + 0.05 * rng.standard_normal((8, 3))
    solid = jm.force.TetrahedronFEM(("body", mesh.cells), points, jm.material.LinearElastic(1e3, 0.3))
    system = jm.System({"body": jm.Vec3()}, forces={"solid": solid})
    state = system.at_rest({"body": points})
    lame, shear = 1e3 * 0.3 / (1.3 * 0.4), 1e3 / 2.6

    def stiffness(x):
        edges = x[1:] - x[0]
        slope = jnp.concatenate([-jnp.ones((1, 3)), jnp.eye(3)]) @ jnp.linalg.inv(edges).T

        def energy(u):
            gradient = u.reshape(4, 3).T @ slope
            strain = 0.5 * (gradient + gradient.T)
            return jnp.linalg.det(edges) / 6 * (0.5 * lame * jnp.trace(strain) ** 2 + shear * jnp.sum(strain**2))

        return jax.hessian(energy)(jnp.zeros(12))

    @jax.jit
    def both(system, state, points):
        own = jm.matrix.component_matrix(system, state, "solid")["body", "body"].to_dense((8, 8))
        return jm.matrix.assemble(mesh.cells, stiffness, points).to_dense(), own

    close(*both(system, state, points))


def test_gather_repeats_bitwise_and_equals_scatter(rng):
    points = jnp.asarray(rng.standard_normal((30, 3)))
    cells = rng.permuted(np.tile(np.arange(30), (60, 1)), axis=1)[:, :4]
    plan = jm.matrix.AssemblyPattern.build(cells, 30)
    assemble = jax.jit(
        lambda plan, points, method: jm.matrix.assemble(plan, every_pair, points, method=method), static_argnums=2
    )
    first = assemble(plan, points, "gather")
    assert eqx.tree_equal(first, assemble(plan, points, "gather"))
    close(first.to_dense(), assemble(plan, points, "scatter").to_dense())


def test_a_pattern_is_made_once_and_traced_once(rng):
    traces = []

    @jax.jit
    def assemble(plan, points):
        traces.append(0)
        return jm.matrix.assemble(plan, every_pair, points)

    plan = jm.matrix.AssemblyPattern.build(EDGES, 5)
    for _ in range(3):
        points = jnp.asarray(rng.standard_normal((5, 2)))
        close(assemble(plan, points).to_dense(), jm.matrix.assemble(EDGES, every_pair, points).to_dense())
    # Another mesh of the same sizes: the pattern is data.
    other = np.array([[4, 3], [3, 2], [2, 1], [1, 0]])
    assemble(jm.matrix.AssemblyPattern.build(other, 5), points)
    assert len(traces) == 1
    many = jax.vmap(lambda p: jm.matrix.assemble(plan, every_pair, p).values)(jnp.stack([points, 2 * points]))
    close(many[1], jm.matrix.assemble(plan, every_pair, 2 * points).values)


@pytest.mark.slow_cases("gather")
@pytest.mark.parametrize("method", ["gather", "scatter"])
def test_assembly_is_differentiable(method, rng):
    plan = jm.matrix.AssemblyPattern.build([QUADS, TRIANGLES], 9)
    load = jnp.asarray(rng.standard_normal((9, 1)))

    def work(points, factor):
        functions = [lambda x, e: factor * e * diffusion(x)] * 2
        A = jm.matrix.assemble(plan, functions, points, each=[(jnp.ones(2),), (jnp.array([2.0, 3.0]),)], method=method)
        return jnp.sum(load * A.mv(jnp.cos(load)))

    points, direction = jnp.asarray(POINTS), jnp.asarray(rng.standard_normal(POINTS.shape))
    by_points, by_factor = jax.jit(jax.grad(work, (0, 1)))(points, 1.5)
    close(by_factor, work(points, 1.5) / 1.5)
    h = 1e-3
    ends = [work(points + s * h * direction, 1.5) for s in (-2, -1, 1, 2)]
    slope = (8 * (ends[2] - ends[1]) - (ends[3] - ends[0])) / (12 * h)
    close(jnp.sum(by_points * direction), slope, FINITE_DIFFERENCE)


def test_wrong_elements_are_refused():
    x = np.zeros((5, 2))
    with pytest.raises(ValueError, match="connectivity 0 names node 5, of 5 nodes"):
        jm.matrix.assemble([[[0, 5]]], [every_pair], x)
    with pytest.raises(TypeError, match=r"connectivity 1 must be whole numbers of shape .*, got float64"):
        jm.matrix.AssemblyPattern.build([EDGES, 1.0 * EDGES], 5)
    with pytest.raises(ValueError, match=r"matrix of type 0 has shape \(3, 3\), expected \(2 b, 2 b\)"):
        jm.matrix.assemble(EDGES, lambda x: jnp.eye(3), x)
    with pytest.raises(ValueError, match=r"matrix of type 0 has shape \(\)"):
        jm.matrix.assemble(EDGES, lambda x: 0.0, x)
    with pytest.raises(ValueError, match=r"different block sizes, \[2, 1\]"):
        jm.matrix.assemble([EDGES, EDGES], [every_pair, lambda x: jnp.eye(2)], x)
    with pytest.raises(ValueError, match="2 connectivities need as many functions"):
        jm.matrix.assemble([EDGES, EDGES], every_pair, x)
    with pytest.raises(ValueError, match=r"each\[0\] has shape \(3,\), type 0 has 4 elements"):
        jm.matrix.assemble(EDGES, every_pair, x, each=(np.ones(3),))
    with pytest.raises(ValueError, match=r"points has shape \(5, 2\), but the pattern is of 6 nodes"):
        jm.matrix.assemble(jm.matrix.AssemblyPattern.build(EDGES, 6), every_pair, x)
    with pytest.raises(ValueError, match="method must be one of"):
        jm.matrix.assemble(EDGES, every_pair, x, method="atomic")
    with pytest.raises(ValueError, match="outside jit"):
        jax.jit(lambda cells: jm.matrix.AssemblyPattern.build(cells, 5))(EDGES)


# --- prescribed values --------------------------------------------------------------

TREATMENTS = {
    "penalty": jm.matrix.impose_penalty,
    "weak": jm.matrix.impose_weak_penalty,
    "rows": jm.matrix.eliminate_rows,
    "both": jm.matrix.eliminate_rows_and_columns,
}
# Unknowns of a system of 5 nodes with 2 each; the first of all, whole nodes, and single components.
HELD = {"first": [0], "node": [0, 1], "scattered": [3, 0, 8], "last": [9]}


@pytest.fixture(scope="module")
def equations():
    """A matrix that is neither symmetric nor singular, and its right-hand side."""
    rng = np.random.default_rng(7)
    points = jnp.asarray(rng.standard_normal((5, 2)))
    matrix = jm.matrix.assemble(EDGES, lambda x: every_pair(x) + 4 * jnp.eye(4), points)
    return matrix, jnp.asarray(rng.standard_normal((5, 2)))


def solved(matrix, rhs):
    """The solution by NumPy, each row divided by its largest entry: a penalty upsets the pivoting of rows as they are."""
    A, b = np.asarray(matrix.to_dense()), np.asarray(rhs).reshape(-1)
    scale = np.abs(A).max(axis=1)
    return np.linalg.solve(A / scale[:, None], b / scale)


def reduced(matrix, rhs, dofs, values):
    """The solution of what remains when the held unknowns are taken out."""
    A, b = np.asarray(matrix.to_dense()), np.asarray(rhs).ravel()
    x = np.zeros(b.size)
    x[dofs] = values
    free = np.setdiff1d(np.arange(b.size), dofs)
    x[free] = np.linalg.solve(A[np.ix_(free, free)], (b - A @ x)[free])
    return x


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("how", TREATMENTS)
def test_a_treatment_gives_the_reduced_solution(equations, how, held):
    matrix, rhs = equations
    dofs = np.array(HELD[held])
    values = 0.3 + 0.1 * np.arange(len(dofs))
    A, b = TREATMENTS[how](matrix, rhs, dofs, values)
    x = solved(A, b)
    close(x, reduced(matrix, rhs, dofs, values))
    assert eqx.tree_equal(A.pattern, matrix.pattern)
    if how == "both":
        # Row and column are those of the identity, column 0 among them.
        assert (np.asarray(A.to_dense())[:, dofs] == np.eye(10)[:, dofs]).all()
        assert (np.asarray(A.to_dense())[dofs] == np.eye(10)[dofs]).all()
    if how == "rows":
        # The columns of a row-only condition stay where they were.
        free = np.setdiff1d(np.arange(10), dofs)
        assert (np.asarray(A.to_dense())[free] == np.asarray(matrix.to_dense())[free]).all()


@pytest.mark.parametrize("first", TREATMENTS)
@pytest.mark.parametrize("second", TREATMENTS)
def test_treatments_may_be_mixed_in_any_order(equations, first, second):
    matrix, rhs = equations
    one, other = np.array([0, 5]), np.array([2, 1, 7])
    A, b = TREATMENTS[first](matrix, rhs, one, [0.4, -0.2])
    A, b = TREATMENTS[second](A, b, other, 0.7)
    everything = np.concatenate([one, other])
    expected = reduced(matrix, rhs, everything, [0.4, -0.2, 0.7, 0.7, 0.7])
    close(solved(A, b), expected)


def test_all_four_at_once(equations):
    matrix, rhs = equations
    A, b = matrix, rhs
    for dof, impose in zip([4, 0, 9, 3], TREATMENTS.values(), strict=True):
        A, b = impose(A, b, [dof], 0.1 * dof)
    expected = reduced(matrix, rhs, [4, 0, 9, 3], [0.4, 0.0, 0.9, 0.3])
    close(solved(A, b), expected)


def test_symmetry_stays_but_for_rows():
    matrix = jm.matrix.assemble(EDGES, lambda x: jnp.array([[2.0, -1.0], [-1.0, 2.0]]), np.zeros((5, 1)))
    rhs = jnp.ones((5, 1))
    for how, impose in TREATMENTS.items():
        A = np.asarray(impose(matrix, rhs, [0, 3], 1.0)[0].to_dense())
        assert (A == A.T).all() == (how != "rows")


def test_a_weak_penalty_is_a_spring():
    """Of any stiffness: a chain on a spring of 3 N/m that is pulled by 0.5 m."""
    chain = jm.matrix.assemble(EDGES, lambda x: 2 * jnp.array([[1.0, -1.0], [-1.0, 1.0]]), np.zeros((5, 1)))
    A, b = jm.matrix.impose_weak_penalty(chain, jnp.zeros((5, 1)).at[4].set(6.0), [0], 0.5, weight=3.0)
    expected = 0.5 + 6 / 3 + 6 / 2 * np.arange(5)
    close(solved(A, b), expected)


@pytest.mark.slow_cases("penalty-Dense", "weak-Dense")
@pytest.mark.parametrize("solver", [jm.solver.Dense(), jm.solver.SparseDirect("superlu")], ids=["Dense", "SparseDirect"])
@pytest.mark.parametrize("how", TREATMENTS)
def test_treatments_are_differentiable_and_our_solvers_take_them(equations, how, solver):
    """By the values, the right-hand side and the matrix, through a solve of the package."""
    matrix, rhs = equations
    dofs = np.array([0, 5])

    @jax.jit
    def solution(values, rhs, factor):
        scaled = eqx.tree_at(lambda m: m.values, matrix, factor * matrix.values)
        A, b = TREATMENTS[how](scaled, rhs, dofs, values)
        return lx.linear_solve(jm.matrix.BlockMatrix.from_entries({("u", "u"): A}), {"u": b}, solver).value["u"]

    values = jnp.array([0.4, -0.2])
    x = solution(values, rhs, 1.0)
    close(x.reshape(-1), reduced(matrix, rhs, dofs, values))
    # The solution is linear in values and right-hand side, and a factor of the matrix divides the latter.
    tangent = jax.jvp(solution, (values, rhs, 1.0), (values, rhs, 0.0))[1]
    close(tangent, x)
    tangent = jax.jvp(solution, (values, rhs, 1.0), (jnp.zeros(2), jnp.zeros((5, 2)), 1.0))[1]
    close(tangent, jax.jvp(solution, (values, rhs, 1.0), (jnp.zeros(2), -rhs, 0.0))[1])


def test_wrong_conditions_are_refused(equations):
    matrix, rhs = equations
    with pytest.raises(ValueError, match="eliminate_rows: dofs names unknowns 0 to 10 of a system of 10"):
        jm.matrix.eliminate_rows(matrix, rhs, [0, 10], 0.0)
    with pytest.raises(ValueError, match="impose_penalty: dofs names unknown 3, which is given twice"):
        jm.matrix.impose_penalty(matrix, rhs, [3, 1, 3], 0.0)
    with pytest.raises(ValueError, match=r"values has shape \(3,\), expected one number or 2"):
        jm.matrix.impose_weak_penalty(matrix, rhs, [3, 1], [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"rhs has shape \(10,\), expected \(5, 2\)"):
        jm.matrix.eliminate_rows_and_columns(matrix, rhs.reshape(-1), [3], 0.0)
    with pytest.raises(ValueError, match="dofs must be a list of whole numbers"):
        jm.matrix.eliminate_rows(matrix, rhs, [0.5], 0.0)
    oblong = jm.matrix.Triplets(("a", "b"), jnp.arange(2), jnp.arange(2), jnp.ones((2, 2, 2))).assemble((2, 3))
    with pytest.raises(ValueError, match="must be square and store its whole diagonal"):
        jm.matrix.eliminate_rows(oblong, jnp.zeros((2, 2)), [0], 0.0)
    with pytest.raises(TypeError, match="matrix must be of type BlockSparse"):
        jm.matrix.eliminate_rows(np.eye(3), rhs, [0], 0.0)
