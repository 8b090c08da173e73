"""Algebraic multigrid: levels, cycles, refreshed values, batches, derivatives, and when it is the default."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from scipy import sparse

import jaxmech as jm
from jaxmech._linear_solver.base.rigid_body_modes import rigid_body_modes
from jaxmech._solve import multigrid_default
from jaxmech._sparse.block_multiply import BlockRows, block_multiply
from jaxmech._sparse.galerkin import galerkin_product
from jaxmech._sparse.pattern import BlockPattern, unique_pairs

pytest.importorskip("pyamg")


def graph(n, m, seed):
    found = sparse.random(n, m, 0.2, random_state=seed, format="csr")
    found.sort_indices()
    return found


@pytest.mark.parametrize("sizes", [(3, 3, 6), (6, 3, 6), (2, 2, 3), (1, 1, 1)])
@pytest.mark.parametrize("form", ["llvm", "xla"])
def test_products_of_matrices_are_those_of_scipy(sizes, form, rng):
    r, s, c = sizes
    a, b = graph(12, 9, 1), graph(9, 11, 2)
    left, right = rng.standard_normal((2, a.nnz, r, s)), rng.standard_normal((b.nnz, s, c))
    pattern = a.astype(bool) @ b.astype(bool)
    pattern.sort_indices()
    rows = [BlockRows.of(g.indptr, g.indices, g.shape[1]) for g in (a, b, pattern)]
    with jm.runtime.element_compiler(form):
        found = jax.jit(jax.vmap(lambda left: block_multiply(left, rows[0], right, rows[1], rows[2])))(left)
    B = sparse.bsr_matrix((right, b.indices, b.indptr), shape=(9 * s, 11 * c))
    for values, one in zip(np.asarray(found), left, strict=True):
        A = sparse.bsr_matrix((one, a.indices, a.indptr), shape=(12 * r, 9 * s))
        C = sparse.bsr_matrix((values, pattern.indices, pattern.indptr), shape=(12 * r, 11 * c))
        np.testing.assert_allclose(C.toarray(), (A @ B).toarray(), atol=1e-13)  # sums of some ten products


@pytest.mark.parametrize("form", ["llvm", "xla"])
@pytest.mark.parametrize("narrow", [np.float64, np.float32])
def test_coarse_matrices_are_those_of_scipy(form, narrow, rng):
    """A batch of symmetric matrices of blocks of three, between columns of six; no block of the lower half is computed."""
    joined = graph(12, 12, 1)
    a, p = (joined + joined.T + sparse.eye(12)).tocsr(), graph(12, 5, 2)
    c = (p.T.astype(bool) @ a.astype(bool) @ p.astype(bool)).tocsr()
    patterns = [BlockPattern.build(*unique_pairs(*g.tocoo().coords, g.shape)[:2], g.shape) for g in (a, p, c)]
    values = rng.standard_normal((2, 36, 36))
    values = values + values.swapaxes(1, 2)
    at = [np.asarray(i) for i in (patterns[0].rows, patterns[0].columns)]
    A = values.reshape(2, 12, 3, 12, 3)[:, at[0], :, at[1]].swapaxes(0, 1)
    P = rng.standard_normal((patterns[1].blocks, 3, 6)).astype(narrow)
    half = (a.astype(bool) @ p.astype(bool)).tocsr()
    half.sort_indices()
    AP = BlockRows.of(half.indptr, half.indices, 5)
    with jm.runtime.element_compiler(form):
        make = jax.vmap(lambda A: galerkin_product(A, patterns[0], jnp.asarray(P), patterns[1], AP, patterns[2]))
        found = jax.jit(make)(A)
    dense = np.asarray(jm.matrix.BlockSparse(jnp.asarray(P, float), patterns[1]).to_dense())
    for values, one in zip(found, A, strict=True):
        expected = dense.T @ np.asarray(jm.matrix.BlockSparse(jnp.asarray(one), patterns[0]).to_dense()) @ dense
        C = np.asarray(jm.matrix.BlockSparse(values, patterns[2]).to_dense())
        np.testing.assert_allclose(C, expected, rtol=0, atol=1e-13 * abs(expected).max())  # sums of some hundred products


def bar(young, cells=(12, 4, 4)):
    """The stiffness of a clamped elastic bar, its load, its points, and the scene."""
    mesh = jm.mesh.box_mesh(cells=cells, size=(3.0, 1.0, 1.0))
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    system = jm.System(
        {"bar": jm.Vec3()},
        forces={"elastic": jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.LinearElastic(young, 0.3))},
        constraints={"clamp": jm.constraint.Fixed(("bar", root))},
        gravity=(0.0, 0.0, -1.0),
        masses={"mass": jm.mass.UniformMass(("bar", np.arange(len(mesh.points))), 0.1)},
    )
    rest = system.at_rest({"bar": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    A = eqx.filter_jit(linear_system.assemble)(system, rest, jm.Factors.only("stiffness"))
    b = {"bar": jnp.zeros_like(mesh.points).at[-1, 2].set(1.0)}
    return A, b, mesh.points, (system, rest, linear_system)


@pytest.fixture(scope="module")
def scene():
    return bar(1e5)


@pytest.mark.slow
def test_a_plan_serves_every_matrix_of_its_pattern(scene):
    """Under `jit`, in a batch, in both modes of derivatives: `u = K^-1 b`, of `f K` it is `u / f`, its slope `-u / f^2`."""
    A, b, points, _ = scene
    M = jm.solver.SmoothedAggregation.from_matrix(A, {"bar": points}, refresh=True)
    assert M.hierarchies is None

    def tip(factor):
        found = lx.linear_solve(A.scaled(factor), b, jm.solver.PCG(1e-10, preconditioner=M), throw=False)
        return found.value["bar"][-1, 2], found.stats["num_steps"]

    def both(factor):
        u, rate, steps = jax.jvp(tip, (factor,), (1.0,), has_aux=True)
        return u, rate, steps, jax.grad(tip, has_aux=True)(factor)[0]

    u, rate, steps, slope = jax.jit(jax.vmap(both))(jnp.array([1.0, 2e9]))
    exact = lx.linear_solve(A, b, jm.solver.SparseDirect()).value["bar"][-1, 2]
    np.testing.assert_allclose(u, [exact, exact / 2e9], rtol=1e-8)  # residual 1e-10, condition 1e2 for this load
    np.testing.assert_allclose(rate, [-exact, -exact / 4e18], rtol=1e-8)
    np.testing.assert_allclose(slope, rate, rtol=1e-8)
    assert int(steps[0]) <= 20


@pytest.mark.slow
def test_refreshed_levels_are_those_of_the_new_matrix(scene):
    A, b, points, _ = scene
    M = jm.solver.SmoothedAggregation.from_matrix(A, {"bar": points})
    elements = 12 * 4 * 4 * 6
    B = bar(jnp.where(jnp.arange(elements) < elements // 2, 1e5, 1e8))[0]

    @eqx.filter_jit
    def steps(M, B):
        def of(M):
            return lx.linear_solve(B, b, jm.solver.PCG(1e-8, preconditioner=M), throw=False).stats["num_steps"]

        return of(M), of(M.refreshed(B))

    stale, fresh = steps(M, B)
    assert fresh < 0.7 * stale  # one half is 1000 times as stiff
    again = M.refreshed(A)
    old, new = (jax.tree.leaves(m.hierarchies["bar"].levels[0].transfer) for m in (M, again))
    assert all(one is other for one, other in zip(old, new, strict=True)), "what is kept is not copied"
    same, first = (np.asarray(m.hierarchies["bar"].coarsest) for m in (again, M))
    np.testing.assert_allclose(same, first, rtol=0, atol=1e-5 * abs(first).max())  # P was rounded to 32 bits


@pytest.mark.parametrize("smoother", ["chebyshev", "block_jacobi", "jacobi"])
def test_every_smoother_is_symmetric_and_converges(scene, smoother):
    A, b, points, _ = scene
    M = jm.solver.SmoothedAggregation.from_matrix(A, {"bar": points}, smoother=smoother, single=False)

    @eqx.filter_jit
    def asked(M, u, v):
        found = lx.linear_solve(A, b, jm.solver.PCG(preconditioner=M), throw=False)
        apply = M.build(A)
        return found.stats["num_steps"], jnp.vdot(apply(u)["bar"], v["bar"]), jnp.vdot(u["bar"], apply(v)["bar"])

    u, v = ({"bar": jnp.asarray(np.random.default_rng(i).standard_normal(points.shape))} for i in range(2))
    steps, left, right = asked(M, u, v)
    assert steps <= 30
    np.testing.assert_allclose(left, right, rtol=1e-9)


@pytest.mark.slow
def test_a_cycle_in_32_bits_reaches_as_far(scene):
    A, b, points, _ = scene
    small = A.scaled(1e-30)  # a product of two such numbers is nil in 32 bits
    M = jm.solver.SmoothedAggregation.from_matrix(small, {"bar": points})
    found = lx.linear_solve(small, b, jm.solver.PCG(1e-12, preconditioner=M), throw=False)
    assert found.stats["reason"] == jm.RESULTS.successful and found.stats["num_steps"] <= 25


@pytest.mark.slow
def test_a_floating_body_keeps_its_modes():
    """Nothing is held: `K` annuls its rigid-body modes, and a load in balance is carried."""
    mesh = jm.mesh.box_mesh(cells=(8, 4, 4), size=(2.0, 1.0, 1.0))
    elastic = jm.force.TetrahedronFEM.from_mesh("a", mesh, jm.material.LinearElastic(1e3, 0.3))
    system = jm.System({"a": jm.Vec3()}, forces={"elastic": elastic})
    rest = system.at_rest({"a": mesh.points})
    A = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False)).assemble(system, rest)
    b = np.random.default_rng(0).standard_normal(mesh.points.shape)
    Q = np.linalg.qr(rigid_body_modes(np.asarray(mesh.points), 3).reshape(-1, 6))[0]
    b = b - (Q @ (Q.T @ b.ravel())).reshape(b.shape)
    M = jm.solver.SmoothedAggregation.from_matrix(A, {"a": mesh.points}, single=False)
    found = lx.linear_solve(A, {"a": jnp.asarray(b)}, jm.solver.PCG(1e-8, preconditioner=M), throw=False)
    assert found.stats["num_steps"] <= 30
    assert np.linalg.norm(A.mv(found.value)["a"] - b) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.slow
def test_large_static_problems_take_it(scene, monkeypatch):
    _, _, _, (system, rest, linear_system) = scene
    assert multigrid_default.multigrid_solver(system, rest, linear_system) is None  # 975 unknowns
    monkeypatch.setattr(multigrid_default, "LARGE", 500)
    chosen = multigrid_default.multigrid_solver(system, rest, linear_system)
    first = chosen.first if isinstance(chosen, jm.solver.Fallback) else chosen  # a GPU has none to fall back on
    assert isinstance(first.preconditioner, jm.solver.SmoothedAggregation)
    found = jm.static_solve(system, rest, linear_system)
    assert 0 < found.info.linear_steps <= 25
    direct = jm.static_solve(system, rest, linear_system, jm.solver.SparseDirect())
    np.testing.assert_allclose(found.position["bar"], direct.position["bar"], atol=1e-9)  # residual 1e-10
    # No host makes levels within jit: there is the factor of a CPU, and other iterations elsewhere.
    inside = jax.jit(lambda r: jm.static_solve(system, r, linear_system).info.linear_steps)(rest)
    assert inside == 0 if jax.default_backend() == "cpu" else inside > 25


def test_bad_input_is_named(scene):
    A, _, points, _ = scene
    make = jm.solver.SmoothedAggregation.from_matrix
    with pytest.raises(ValueError, match="smoother"):
        make(A, {"bar": points}, smoother="ssor")
    with pytest.raises(ValueError, match="threshold must be at least 0 and below 1, got 1.5"):
        make(A, {"bar": points}, threshold=1.5)
    with pytest.raises(ValueError, match="do not fit a pattern"):
        jm.solver.SmoothedAggregation.from_pattern({"bar": A["bar", "bar"].pattern}, {"bar": points[:9]})
