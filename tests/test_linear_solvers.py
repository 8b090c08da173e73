"""Every linear solver on small matrices of every kind it is for, against dense NumPy; and what it says when it cannot."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from small_matrices import (
    ANY,
    CHAIN,
    DIRECT,
    ITERATED,
    SLOPE,
    SOLVERS,
    TIGHT,
    TWO,
    blocks,
    case,
    chained,
    dense,
    flat,
    near,
    reason_of,
    split,
)

import jaxmech as jm
from jaxmech._linear_solver.krylov.preconditioned_gmres import Nearby
from jaxmech._linear_solver.preconditioner import jacobi
from jaxmech._linear_solver.sparse.factor_cache import factor_counts

# To compile is what a case costs: the rest of them, which differ by a preconditioner or a backend, need --exhaustive.
QUICK = {("Dense", "unsymmetric"), ("Cholesky", "definite"), ("SVD", "indefinite"), ("SuperLU", "unsymmetric")}
QUICK |= {("SuperLU rcm", "indefinite"), ("feral", "indefinite"), ("pardiso", "unsymmetric"), ("PCG", "definite")}
QUICK |= {("MINRES", "indefinite"), ("BiCGStab", "unsymmetric"), ("GMRES", "unsymmetric")}
QUICK |= {("BlockTridiagonal", "definite"), ("BlockTridiagonal", "unsymmetric")}
QUICK |= {("Fallback", "indefinite"), ("Fallback taken", "unsymmetric")}
ALL = [(name, kind) for name, (_, kinds, _) in SOLVERS.items() for kind in kinds]
ALL += [("BlockTridiagonal", kind) for kind in ANY]
CASES = [pytest.param(*c, marks=() if c in QUICK else pytest.mark.exhaustive) for c in ALL]


def varied(A, sizes, theta):
    """A family of matrices of one pattern, symmetric where `A` is."""
    entries = {
        pair: eqx.tree_at(lambda e: e.values, e, (1 + theta * jnp.sin(e.values)) * e.values) for pair, e in A.entries.items()
    }
    return jm.matrix.BlockMatrix(entries, sizes, A.symmetric, A.dtype)


def family(D, theta):
    return (1 + theta * np.sin(D)) * D


@pytest.mark.slow_cases("GMRES-unsymmetric", "Fallback taken-unsymmetric")
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_solves_and_gradients(name, kind, rng):
    """A batch of matrices and right-hand sides, and the gradients of its solutions by both: one program, twenty times."""
    D, A, solver, tolerance, sizes = case(name, kind)
    w, several, thetas = rng.standard_normal(len(D)), rng.standard_normal((2, len(D))), np.array([0.0, 0.1])

    def work(theta, b):
        solution = lx.linear_solve(varied(A, sizes, theta), split(b, sizes), solver, throw=False)
        return flat(solution.value) @ w, (flat(solution.value), solution.result, solution.stats)

    program = jax.jit(jax.vmap(jax.grad(work, argnums=(0, 1), has_aux=True)))
    (slopes, adjoints), (x, result, stats) = program(thetas, several)
    assert bool(jnp.all(result == lx.RESULTS.successful))
    assert bool(jnp.all(stats["reason"] == jm.RESULTS.successful))
    for i, (theta, b) in enumerate(zip(thetas, several, strict=True)):
        matrix = family(D, theta)
        near(x[i], np.linalg.solve(matrix, b), tolerance)
        true = np.linalg.norm(b - matrix @ np.asarray(x[i]))
        assert true <= (TIGHT if tolerance == ITERATED else DIRECT) * np.linalg.norm(b)
        assert abs(float(stats["residual"][i]) - true) <= 1e-14 * np.linalg.norm(b)
        near(adjoints[i], np.linalg.solve(matrix.T, w), tolerance)
        h = 1e-5
        ahead, behind = (np.linalg.solve(family(D, theta + t), b) for t in (h, -h))
        near(slopes[i], w @ (ahead - behind) / (2 * h), SLOPE)
    for _ in range(20):
        assert np.array_equal(program(thetas, several)[1][0], x)


@pytest.mark.parametrize("name", ["Dense", "SVD", "SuperLU", "PCG", "BlockTridiagonal"])
def test_forward_mode(name, rng):
    D, A, solver, _, sizes = case(name, "definite")
    b = rng.standard_normal(len(D))

    def solve(theta):
        return flat(lx.linear_solve(varied(A, sizes, theta), split(b, sizes), solver).value)

    h = 1e-5
    difference = (np.linalg.solve(family(D, h), b) - np.linalg.solve(family(D, -h), b)) / (2 * h)
    near(jax.jit(lambda: jax.jvp(solve, (0.0,), (1.0,))[1])(), difference, SLOPE)


OTHERS = [c for c in ALL if c not in QUICK and c[0] not in ("Dense", "SVD", "SuperLU", "Auto", "BlockTridiagonal")]


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param(*c, marks=() if "PCG" in c[0] else pytest.mark.slow) for c in OTHERS if "PCG" in c[0] or " " in c[0]],
)
def test_solutions(name, kind, rng):
    """With every other preconditioner: the solution alone."""
    D, A, solver, tolerance, sizes = case(name, kind)
    b = rng.standard_normal(len(D))
    solution = jax.jit(lambda b: lx.linear_solve(A, split(b, sizes), solver, throw=False))(b)
    assert solution.stats["reason"] == jm.RESULTS.successful
    near(flat(solution.value), np.linalg.solve(D, b), tolerance)


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param(*c, marks=pytest.mark.slow if c[0] in ("GMRES", "BiCGStab") else ()) for c in ALL if c in QUICK],
)
def test_single_precision(name, kind, rng):
    D, A, solver, tolerance, sizes = case(name, kind, jnp.float32)
    b = rng.standard_normal(D.shape[0])
    solution = jax.jit(lambda b: lx.linear_solve(A, split(b, sizes), solver, throw=False))(jnp.asarray(b, jnp.float32))
    x = flat(solution.value)
    assert solution.result == lx.RESULTS.successful
    assert x.dtype == jnp.float32
    near(x, np.linalg.solve(D, b), tolerance)


@pytest.mark.parametrize("solver", [jm.solver.PCG(TIGHT), pytest.param(jm.solver.GMRES(TIGHT), marks=pytest.mark.slow)])
def test_warm_starts(solver, rng):
    D = dense("definite")
    A, b = blocks(D, symmetric=True), rng.standard_normal(14)
    x = np.linalg.solve(D, b)

    @jax.jit
    def run(start):
        return lx.linear_solve(A, split(b), solver, options={"x0": split(start)}, throw=False)

    cold = run(np.zeros(14)).stats["num_steps"]
    assert run(x).stats["num_steps"] == 0
    assert run(x + 1e-6).stats["num_steps"] < cold
    bad = run(1e9 * np.ones(14))  # worse than nothing: dropped
    assert bad.stats["num_steps"] == cold
    near(flat(bad.value), x, ITERATED)
    with pytest.raises(ValueError, match="knows the option 'x0', not \\['y0'\\]"):
        lx.linear_solve(A, split(b), solver, options={"y0": split(x)})


@pytest.mark.parametrize(
    "solver",
    [pytest.param(jm.solver.PCG(TIGHT), marks=pytest.mark.slow), jm.solver.Cholesky(), jm.solver.SparseDirect("superlu")],
)
def test_states_of_different_sizes(solver, rng):
    D, b = dense("definite"), rng.standard_normal(14)
    A = blocks(D, TWO, symmetric=True)
    near(flat(jax.jit(lambda b: lx.linear_solve(A, b, solver).value)(split(b, TWO))), np.linalg.solve(D, b), ITERATED)


@pytest.mark.parametrize("solver", [jm.solver.Dense(), jm.solver.Cholesky(), jm.solver.SVD(), jm.solver.BlockTridiagonal()])
def test_right_hand_sides_share_a_factor(solver):
    """A batch of right-hand sides factorises one matrix: no operation on a batch of matrices is in the program."""
    A = blocks(chained(dense("definite", CHAIN)), CHAIN, symmetric=True)
    program = str(jax.make_jaxpr(jax.vmap(lambda b: lx.linear_solve(A, {"a": b}, solver).value))(jnp.ones((5, 7, 2))))
    for line in program.splitlines():
        if any(f" {op}" in line for op in ("lu[", "cholesky[", "svd[")):
            assert not line.split("=")[0].strip().startswith("5"), line
            assert "f64[5," not in line.split("=")[0], line


def test_sparse_right_hand_sides_share_a_factor(rng):
    A = blocks(dense("definite", seed=77), symmetric=True)
    before = factor_counts().factorisations
    jax.vmap(lambda b: flat(lx.linear_solve(A, split(b), jm.solver.SparseDirect()).value))(rng.standard_normal((4, 14)))
    assert factor_counts().factorisations == before + 1


@pytest.mark.parametrize(
    "name", ["Dense", "SVD", "SuperLU", "pardiso", "BlockTridiagonal", pytest.param("GMRES", marks=pytest.mark.slow)]
)
def test_transposed_systems_take_the_same_factor(name, rng):
    """`init` once; `A x = b` for several right-hand sides, and `A^T y = c`, with its state."""
    D, A, solver, tolerance, sizes = case(name, "unsymmetric")
    b, c = rng.standard_normal((3, len(D))), rng.standard_normal(len(D))

    @jax.jit
    def both(A, b, c):
        state = solver.init(A, {})
        turned, _ = solver.transpose(state, {})
        x = jax.vmap(lambda b: flat(lx.linear_solve(A, split(b, sizes), solver, state=state).value))(b)
        return x, flat(lx.linear_solve(A.T, split(c, sizes), solver, state=turned).value)

    before = factor_counts().factorisations
    x, y = both(A.scaled(1.0 + 0.01 * len(name)), b, c)
    assert factor_counts().factorisations == before + (name in ("SuperLU", "pardiso"))
    D = D * (1.0 + 0.01 * len(name))
    near(x, np.linalg.solve(D, b.T).T, tolerance)
    near(y, np.linalg.solve(D.T, c), tolerance)


def test_a_batch_of_matrices_of_one_pattern_with_many_right_hand_sides_each(rng):
    D, A, solver, tolerance, sizes = case("SuperLU", "unsymmetric")
    thetas, b = np.array([0.3, 0.4, 0.5]), rng.standard_normal((3, 4, len(D)))
    solve = jax.vmap(lambda A, b: flat(lx.linear_solve(A, split(b, sizes), solver).value), (None, 0))
    before = factor_counts().factorisations
    x = jax.jit(jax.vmap(lambda theta, b: solve(varied(A, sizes, theta), b)))(thetas, b)
    assert factor_counts().factorisations == before + 3
    for i, theta in enumerate(thetas):
        near(x[i], np.linalg.solve(family(D, theta), b[i].T).T, tolerance)


def test_block_tridiagonal_refuses_other_patterns(rng):
    with pytest.raises(ValueError, match="couples states 'a' and 'b'.*SparseDirect"):
        lx.linear_solve(
            blocks(chained(dense("definite")), TWO, symmetric=True), split(np.ones(14), TWO), jm.solver.BlockTridiagonal()
        )
    A = blocks(dense("definite", CHAIN), CHAIN, symmetric=True)
    assert reason_of(jm.solver.BlockTridiagonal(), A, split(rng.standard_normal(14), CHAIN)) == "not_block_tridiagonal"


def test_preconditioners_refuse_what_they_are_not_for(rng):
    operator = lx.FunctionLinearOperator(lambda x: 2 * x, jax.ShapeDtypeStruct((4,), jnp.float64), lx.symmetric_tag)
    assert lx.linear_solve(operator, jnp.ones(4), jm.solver.PCG()).stats["num_steps"] == 1
    for preconditioner in (jm.solver.Jacobi(), jm.solver.BlockJacobi(), jm.solver.SSOR(), jm.solver.IncompleteFactor()):
        with pytest.raises(ValueError, match="BlockMatrix.*NoPreconditioner"):
            lx.linear_solve(operator, jnp.ones(4), jm.solver.PCG(preconditioner=preconditioner))
    with pytest.raises(ValueError, match="MINRES: the preconditioner SSOR"):
        jm.solver.MINRES(preconditioner=jm.solver.SSOR())
    with pytest.raises(ValueError, match="omega must be between 0 and 2"):
        jm.solver.SSOR(2.0)
    with pytest.raises(ValueError, match="does not offer the ordering 'nested_dissection'"):
        jm.solver.SparseDirect("superlu", ordering="nested_dissection")
    with pytest.raises(ValueError, match="ordering 'best' is not one of"):
        jm.solver.SparseDirect(ordering="best")


@pytest.mark.cpu
def test_the_rule_says_what_it_takes_and_why():
    rule = jm.solver.AutoLinearSolver()
    small = blocks(dense("definite"), symmetric=True)
    assert rule.choose(small) == (jm.solver.Dense(), "14 unknowns: a dense factor is the fastest to 60.")
    sizes = (("a", 40, 2),)
    D = dense("definite", sizes)
    big, unsymmetric = (blocks(D, sizes, symmetric=promise) for promise in (True, False))
    assert isinstance(rule.choose(big)[0], jm.solver.SparseDirect) and "80 unknowns, symmetric" in rule.choose(big)[1]
    assert isinstance(jm.solver.AutoLinearSolver(batched=True).choose(big)[0], jm.solver.PCG)
    for A, first in ((big, jm.solver.PCG), (unsymmetric, jm.solver.BiCGStab)):
        solver, why = jm.solver.AutoLinearSolver(inertial=True, rtol=1e-6).choose(A)
        assert isinstance(solver.first, first) and solver.first.rtol == 1e-6 and solver.otherwise == jm.solver.SparseDirect()
        assert "iterations if few are enough. Otherwise: 80 unknowns" in why
        assert jm.solver.default_solver(A, inertial=True).first.rtol == 1e-10
    assert isinstance(jm.solver.AutoLinearSolver(inertial=True, platform="tpu").choose(big)[0], jm.solver.PCG)
    frames = (("a", 12, 6),)
    assert (
        jm.solver.default_solver(blocks(dense("definite", frames), frames, symmetric=True), inertial=True)
        == jm.solver.SparseDirect()
    )
    node = np.repeat(np.arange(40), 2)
    chain = blocks(np.where(np.abs(node[:, None] - node) <= 1, D, 0.0), sizes, symmetric=True)
    assert isinstance(jm.solver.AutoLinearSolver(chain=True).choose(chain)[0], jm.solver.BlockTridiagonal)
    assert isinstance(jm.solver.default_solver(chain), jm.solver.SparseDirect)

    def products(n, *tags):
        return lx.FunctionLinearOperator(lambda x: 2 * x, jax.ShapeDtypeStruct((n,), jnp.float64), tags)

    assert isinstance(rule.choose(products(100, lx.symmetric_tag))[0], jm.solver.PCG)
    assert isinstance(rule.choose(products(100))[0], jm.solver.GMRES)
    huge = jm.matrix.BlockMatrix({("a", "a"): big["a", "a"]}, (("a", 10**6, 3),), True, big.dtype)
    with pytest.raises(ValueError, match="3000000 unknowns are more than .*SmoothedAggregation"):
        rule.choose(huge)
    assert isinstance(jm.solver.AutoLinearSolver(inertial=True).choose(huge)[0], jm.solver.PCG)


def bar(cells):
    """The stiffness of a clamped elastic bar of nearly incompressible tetrahedra, and its points."""
    mesh = jm.mesh.box_mesh(cells=cells, size=(3.0, 1.0, 1.0))
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    elastic = jm.force.TetrahedronFEM.from_mesh("bar", mesh, jm.material.LinearElastic(young=1e5, poisson=0.4))
    system = jm.System(
        {"bar": jm.Vec3()}, forces={"elastic": elastic}, constraints={"clamp": jm.constraint.Fixed(("bar", root))}
    )
    rest = system.at_rest({"bar": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    return eqx.filter_jit(linear_system.assemble)(system, rest), mesh


@pytest.mark.slow
def test_multigrid_takes_few_iterations_and_keeps_serving():
    pytest.importorskip("pyamg")
    A, mesh = bar((9, 3, 3))
    b = {"bar": jnp.zeros_like(mesh.points).at[-1, 2].set(1.0)}
    M = jm.solver.SmoothedAggregation.from_matrix(A, {"bar": mesh.points})
    again = jm.solver.SmoothedAggregation.from_matrix(A, {"bar": mesh.points})
    # A GPU adds in any order, and the inverse of the coarsest level makes the most of its rounding.
    units = 0 if jax.default_backend() == "cpu" else 1e4
    for p, q in zip(jax.tree.leaves(M), jax.tree.leaves(again), strict=True):
        rounding = units * np.finfo(p.dtype).eps if jnp.issubdtype(p.dtype, jnp.inexact) else 0
        np.testing.assert_allclose(p, q, rtol=0, atol=rounding * np.abs(p).max(initial=0))
    solve = eqx.filter_jit(lambda A, M: lx.linear_solve(A, b, jm.solver.PCG(preconditioner=M)))
    solution = solve(A, M)
    assert solution.stats["num_steps"] <= 20
    direct = lx.linear_solve(A, b, jm.solver.SparseDirect()).value["bar"]
    near(solution.value["bar"], direct, 1e-5)  # residual 1e-8, condition 1e4
    assert solve(A.scaled(1.7), M).stats["num_steps"] <= 25
    with pytest.raises(ValueError, match="positions lacks state 'bar'"):
        jm.solver.SmoothedAggregation.from_matrix(A, {})
    with pytest.raises(TypeError, match="outside jit"):
        eqx.filter_jit(lambda A: jm.solver.SmoothedAggregation.from_matrix(A, {"bar": mesh.points}))(A)


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_incomplete_factor_is_near_the_whole_one(symmetric):
    """6 and 8 iterations where block Jacobi takes 163 and 738; a hundred in the order in which a box numbers its nodes."""
    A, mesh = bar((9, 3, 3))
    b = {"bar": jnp.zeros_like(mesh.points).at[-1, 2].set(1.0)}
    A = jm.matrix.BlockMatrix(A.entries, A.sizes, symmetric, A.dtype)
    solver = (jm.solver.PCG if symmetric else jm.solver.GMRES)(preconditioner=jm.solver.IncompleteFactor())
    solution = eqx.filter_jit(lambda A: lx.linear_solve(A, b, solver))(A)
    assert solution.stats["num_steps"] <= 12


def test_multigrid_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyamg", None)
    A = blocks(dense("definite"), symmetric=True)
    with pytest.raises(ImportError, match="jaxmech\\[amg\\]"):
        jm.solver.SmoothedAggregation.from_matrix(A, {"a": np.zeros((7, 2))})


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_blocks_are_inverted_and_judged(size, dtype, rng):
    """The blocks of three have formulas of their own."""
    a = rng.normal(size=(20, size, size))
    definite = a @ a.swapaxes(1, 2) + 0.5 * np.eye(size)
    stiff = jnp.asarray(1e13 * definite, dtype)  # the product of three entries is beyond float32
    inverted, are_definite = jax.jit(jacobi.block_inverse), jax.jit(jacobi._definite)
    inverse = inverted(stiff)
    np.testing.assert_allclose(inverse @ stiff, np.tile(np.eye(size), (20, 1, 1)), atol=1e3 * jnp.finfo(dtype).eps)
    assert are_definite(stiff, inverse)
    for eigenvalue in range(size):
        values = np.ones(size)
        values[eigenvalue] = -0.1
        rotation = np.linalg.qr(a[0])[0]
        spoilt = stiff.at[7].set(jnp.asarray(rotation @ np.diag(values) @ rotation.T, dtype))
        assert not are_definite(spoilt, inverted(spoilt))
    unheld = stiff.at[3].set(0.0)  # a singular block is for the solver to find
    assert are_definite(unheld, inverted(unheld))


@pytest.mark.parametrize("unit", [1.0, 1e-40, 1e40])
def test_gmres_by_a_nearby_matrix_has_no_unit_of_its_own(unit):
    """A right-hand side of any size: the gradient of what has nearly decayed is one."""
    matrix = np.array([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [1.0, 0.0, 4.0]])
    like = jax.eval_shape(lambda: {"p": jnp.zeros(3)})
    operator, diagonal = (
        lx.FunctionLinearOperator(lambda x, a=a: {"p": jnp.asarray(a) @ x["p"]}, like)
        for a in (matrix, np.diag(np.diag(matrix)))
    )
    b = unit * np.array([1.0, -2.0, 3.0])
    found = lx.linear_solve(operator, {"p": jnp.asarray(b)}, Nearby(diagonal, lx.LU()), throw=False)
    assert found.result == lx.RESULTS.successful
    np.testing.assert_allclose(found.value["p"], np.linalg.solve(matrix, b), rtol=1e-12)


def test_gmres_by_a_nearby_matrix_stops_at_rounding():
    """Of a matrix of bodies with multipliers, whose rows are of unlike units: it went on for as long as it might."""
    rng = np.random.default_rng(3)
    n, m, h = 60, 40, 5e-3
    root, J, turned = rng.normal(size=(n, n)), h * rng.normal(size=(m, n)), rng.normal(size=(n, n))
    A = np.block([[root @ root.T + np.eye(n), J.T], [J, np.zeros((m, m))]])
    exact = A + np.pad(1e-3 * turned, (0, m))
    operator, near = (lx.MatrixLinearOperator(jnp.asarray(a)) for a in (exact, A))
    x = rng.normal(size=n + m)
    found = lx.linear_solve(operator, jnp.asarray(exact @ x), Nearby(near, lx.LU()), throw=False)
    assert found.result == lx.RESULTS.successful
    assert 0 < found.stats["num_steps"] <= 25
    np.testing.assert_allclose(found.value, x, atol=1e-14 * np.linalg.cond(exact))
