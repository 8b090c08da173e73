"""Every linear solver on small matrices of every kind it is for, against dense NumPy; and what it says when it cannot."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._linear_solver._factor_cache import factor_counts
from jaxmech._linear_solver._preconditioner import jacobi

SIZES = (("a", 7, 2),)
TWO = (("a", 4, 2), ("b", 2, 3))
CHAIN = SIZES
DIRECT = 1e-12  # conditions are below 100, rounding is 1e-16
TIGHT = 1e-11  # what iterations are asked for
ITERATED = 1e-9  # relative error of a solution whose residual is TIGHT
SLOPE = 1e-7  # central differences with a step of 1e-5: truncation 1e-10, rounding 1e-11
SINGLE = 2e-4  # float32: conditions below 100, rounding 1e-7, and iterations that stop at 1e-5


def installed(extra: str) -> bool:
    try:
        return bool(__import__(extra))
    except ImportError:
        return False


def dense(kind: str, sizes=SIZES, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n = sum(k * d for _, k, d in sizes)
    X = rng.standard_normal((n, n))
    if kind == "definite":
        A = X @ X.T + n * np.eye(n)
    elif kind == "indefinite":
        Q = np.linalg.qr(X)[0]
        A = Q @ np.diag(np.concatenate([-np.linspace(1, 5, n // 3), np.linspace(1, 9, n - n // 3)])) @ Q.T
    else:
        return X + 3 * np.sqrt(n) * np.eye(n)
    return (A + A.T) / 2


def chained(A: np.ndarray) -> np.ndarray:
    """The block tridiagonal part."""
    node = np.repeat(np.arange(7), 2)
    return np.where(np.abs(node[:, None] - node) <= 1, A, 0.0)


def blocks(A, sizes=SIZES, *, symmetric: bool, dtype=jnp.float64) -> jm.BlockMatrix:
    """A dense matrix as blocks; those that vanish (of NumPy matrices) are left out."""
    ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
    entries = {}
    for i, (r, n, p) in enumerate(sizes):
        for j, (c, m, q) in enumerate(sizes):
            part = np.asarray(A)[ends[i] : ends[i + 1], ends[j] : ends[j + 1]].reshape(n, p, m, q).swapaxes(1, 2)
            rows, columns = np.nonzero((np.abs(part).max((2, 3)) > 0) | ((r == c) & np.eye(n, m, dtype=bool)))
            values = jnp.asarray(part[rows, columns], dtype)
            triplets = jm.Triplets((r, c), jnp.asarray(rows), jnp.asarray(columns), values)
            entries[r, c] = triplets.assemble((n, m))
    return jm.BlockMatrix(entries, sizes, symmetric, jnp.dtype(dtype))


def split(b, sizes=SIZES):
    ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
    return {s: b[..., ends[i] : ends[i + 1]].reshape(*b.shape[:-1], n, d) for i, (s, n, d) in enumerate(sizes)}


def flat(x):
    return jnp.concatenate([x[s].reshape(-1) for s in sorted(x)])


def stale(A):
    return jm.StaleFactor(jax.tree.map(lambda v: v * 1.2 if jnp.issubdtype(v.dtype, jnp.floating) else v, A), jm.Dense())


def multigrid(A):
    positions = {s: np.random.default_rng(5).standard_normal((n, d)) for s, n, d in A.sizes}
    return jm.SmoothedAggregation.from_matrix(A, positions)


ANY, SYMMETRIC, DEFINITE = ("definite", "indefinite", "unsymmetric"), ("definite", "indefinite"), ("definite",)
SOLVERS = {  # what makes it from the matrix, the kinds it is for, the accuracy of its solutions
    "Dense": (lambda A, tol: jm.Dense(), ANY, DIRECT),
    "Cholesky": (lambda A, tol: jm.Cholesky(), DEFINITE, DIRECT),
    "SVD": (lambda A, tol: jm.SVD(), ANY, DIRECT),
    "SuperLU": (lambda A, tol: jm.SparseDirect("superlu"), ANY, DIRECT),
    "SuperLU rcm": (lambda A, tol: jm.SparseDirect("superlu", ordering="rcm"), ANY, DIRECT),
    "feral": (lambda A, tol: jm.SparseDirect("feral", ordering="minimum_degree"), SYMMETRIC, DIRECT),
    "pardiso": (lambda A, tol: jm.SparseDirect("pardiso"), ANY, DIRECT),
    "Auto": (lambda A, tol: jm.AutoLinearSolver(), ("definite",), DIRECT),
    "PCG": (lambda A, tol: jm.PCG(tol), DEFINITE, ITERATED),
    "PCG none": (lambda A, tol: jm.PCG(tol, preconditioner=jm.NoPreconditioner()), DEFINITE, ITERATED),
    "PCG Jacobi": (lambda A, tol: jm.PCG(tol, preconditioner=jm.Jacobi()), DEFINITE, ITERATED),
    "PCG SSOR": (lambda A, tol: jm.PCG(tol, preconditioner=jm.SSOR(1.2)), DEFINITE, ITERATED),
    "PCG incomplete": (lambda A, tol: jm.PCG(tol, preconditioner=jm.IncompleteFactor()), DEFINITE, ITERATED),
    "PCG stale": (lambda A, tol: jm.PCG(tol, preconditioner=stale(A)), DEFINITE, ITERATED),
    "PCG multigrid": (lambda A, tol: jm.PCG(tol, preconditioner=multigrid(A)), DEFINITE, ITERATED),
    "MINRES": (lambda A, tol: jm.MINRES(tol), SYMMETRIC, ITERATED),
    "BiCGStab": (lambda A, tol: jm.BiCGStab(tol), ("definite", "unsymmetric"), ITERATED),
    "BiCGStab SSOR": (lambda A, tol: jm.BiCGStab(tol, preconditioner=jm.SSOR()), ("unsymmetric",), ITERATED),
    "GMRES": (lambda A, tol: jm.GMRES(tol, restart=10), ("definite", "unsymmetric"), ITERATED),
    "GMRES whole": (lambda A, tol: jm.GMRES(tol, restart=30), ("indefinite",), ITERATED),
    "GMRES incomplete": (lambda A, tol: jm.GMRES(tol, preconditioner=jm.IncompleteFactor()), ("unsymmetric",), ITERATED),
}
# To compile is what a case costs: the rest of them, which differ by a preconditioner or a backend, need --slow.
QUICK = {("Dense", "unsymmetric"), ("Cholesky", "definite"), ("SVD", "indefinite"), ("SuperLU", "unsymmetric")}
QUICK |= {("SuperLU rcm", "indefinite"), ("feral", "indefinite"), ("pardiso", "unsymmetric"), ("PCG", "definite")}
QUICK |= {("MINRES", "indefinite"), ("BiCGStab", "unsymmetric"), ("GMRES", "unsymmetric")}
QUICK |= {("BlockTridiagonal", "definite"), ("BlockTridiagonal", "unsymmetric")}
ALL = [(name, kind) for name, (_, kinds, _) in SOLVERS.items() for kind in kinds]
ALL += [("BlockTridiagonal", kind) for kind in ANY]
CASES = [pytest.param(*c, marks=() if c in QUICK else pytest.mark.slow) for c in ALL]
NEEDS = {"feral": "feral", "pardiso": "pypardiso", "PCG multigrid": "pyamg"}


def case(name: str, kind: str, dtype=jnp.float64):
    """The dense matrix, its blocks, the solver, the tolerance, the sizes."""
    if name in NEEDS and not installed(NEEDS[name]):
        pytest.skip(f"{NEEDS[name]} is not installed")
    single = dtype == jnp.float32
    if name == "BlockTridiagonal":
        sizes, D, make, tolerance = CHAIN, chained(dense(kind, CHAIN)), lambda A, tol: jm.BlockTridiagonal(), DIRECT
    else:
        sizes, D = SIZES, dense(kind)
        make, _, tolerance = SOLVERS[name]
    A = blocks(D, sizes, symmetric=kind != "unsymmetric", dtype=dtype)
    return D, A, make(A, 1e-5 if single else TIGHT), SINGLE if single else tolerance, sizes


def near(x, reference, tolerance):
    x, reference = np.asarray(x), np.asarray(reference)
    assert x.shape == reference.shape
    assert np.abs(x - reference).max() <= tolerance * max(np.abs(reference).max(), 1e-30)


def varied(A, sizes, theta):
    """A family of matrices of one pattern, symmetric where `A` is."""
    entries = {
        pair: eqx.tree_at(lambda e: e.values, e, (1 + theta * jnp.sin(e.values)) * e.values) for pair, e in A.entries.items()
    }
    return jm.BlockMatrix(entries, sizes, A.symmetric, A.dtype)


def family(D, theta):
    return (1 + theta * np.sin(D)) * D


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


def named(reason) -> str:
    return next(n for n in jm.RESULTS._name_to_item if bool(reason == getattr(jm.RESULTS, n)))


def reason_of(solver, A, b) -> str:
    """The name of the reason a solve ends with; it must agree with lineax's result on whether it failed."""
    solution = jax.jit(lambda A, b: lx.linear_solve(A, b, solver, throw=False))(A, b)
    reason = solution.stats["reason"]
    assert (solution.result == lx.RESULTS.successful) == (reason == jm.RESULTS.successful)
    return named(reason)


ITERATIVE = ("PCG", "MINRES", "BiCGStab", "GMRES")
FACTORS = ("Dense", "Cholesky", "SuperLU", "feral", "pardiso", "BlockTridiagonal")


def floating_chain() -> np.ndarray:
    """Seven nodes in a row, springs between neighbours, nothing holds them."""
    A, spring = np.zeros((14, 14)), np.array([[1.0, -0.5], [-0.5, 2.0]])
    for e in range(6):
        A[2 * e : 2 * e + 4, 2 * e : 2 * e + 4] += np.kron([[1, -1], [-1, 1]], spring)
    return A


@pytest.mark.parametrize(
    "name", [*FACTORS, *(pytest.param(n, marks=() if n == "PCG" else pytest.mark.slow) for n in ITERATIVE)]
)
def test_singular_matrices_are_named(name, rng):
    """A chain that floats, one with a row of zeros, and one that hardly anything holds."""
    if name in NEEDS and not installed(NEEDS[name]):
        pytest.skip(NEEDS[name])
    floating, empty = floating_chain(), floating_chain()
    empty[:2, :2] += np.eye(2)
    empty[7, :] = empty[:, 7] = 0.0
    weak = floating_chain()
    weak[:2, :2] += 1e-14 * np.eye(2)
    solver = SOLVERS.get(name, (lambda A, tol: jm.BlockTridiagonal(),))[0](None, 1e-8)
    A, b = blocks(floating, CHAIN, symmetric=True), split(rng.standard_normal(14), CHAIN)
    values = jnp.stack([M["a", "a"].values for M in (A, blocks_like(A, empty), blocks_like(A, weak))])

    def solve(values):
        matrix = eqx.tree_at(lambda M: M.entries["a", "a"].values, A, values)
        return lx.linear_solve(matrix, b, solver, throw=False)

    solution = jax.jit(jax.vmap(solve))(values)
    for i in range(3):
        found = named(jax.tree.map(lambda a: a[i], solution.stats["reason"]))  # noqa: B023
        assert found in ({"singular"} if name in FACTORS else {"singular", "stagnation", "max_steps_reached", "breakdown"})


def blocks_like(A, D):
    """A dense matrix in the pattern of another of one state."""
    (s, n, d), entry = A.sizes[0], A.entries["a", "a"]
    parts = jnp.asarray(D).reshape(n, d, n, d).swapaxes(1, 2)
    return eqx.tree_at(lambda M: M.entries[s, s].values, A, parts[entry.pattern.rows, entry.pattern.columns])


def test_what_reaches_of_a_singular_system_is_iterated_to(rng):
    """A load in equilibrium on a floating chain has a solution, and its residual is true."""
    A = floating_chain()
    b, matrix = A @ rng.standard_normal(14), blocks(A, CHAIN, symmetric=True)
    solution = jax.jit(lambda b: lx.linear_solve(matrix, b, jm.PCG(1e-10), throw=False))(split(b, CHAIN))
    assert solution.result == lx.RESULTS.successful
    assert np.linalg.norm(b - A @ np.asarray(flat(solution.value))) <= 1e-10 * np.linalg.norm(b)


def test_the_pseudo_inverse_of_a_singular_matrix(rng):
    A, b = floating_chain(), rng.standard_normal(14)
    solution = lx.linear_solve(blocks(A, CHAIN, symmetric=True), split(b, CHAIN), jm.SVD())
    near(flat(solution.value), np.linalg.pinv(A, rcond=1e-12) @ b, 1e-10)
    assert solution.stats["rank"] == 12 and solution.stats["condition"] > 1e14
    strict = lx.linear_solve(blocks(dense("definite"), symmetric=True), split(rng.standard_normal(14)), jm.SVD(0.9))
    assert strict.stats["rank"] < 14


@pytest.mark.parametrize("name", ["PCG", "Cholesky"])
def test_indefinite_matrices_are_named(name, rng):
    A = blocks(dense("indefinite"), symmetric=True)
    assert reason_of(SOLVERS[name][0](A, 1e-8), A, split(rng.standard_normal(14))) == "indefinite"


@pytest.mark.parametrize("name", ["PCG", "MINRES", "Cholesky", "SuperLU", "feral", "pardiso"])
@pytest.mark.parametrize("skew", [1e-3, 1.0])
def test_broken_promises_are_named(name, skew, rng):
    """A matrix that is said to be symmetric and is not; or the solution is right all the same."""
    if name in NEEDS and not installed(NEEDS[name]):
        pytest.skip(NEEDS[name])
    D = dense("definite")
    D = D + skew * np.triu(rng.standard_normal(D.shape), 1)
    A, b = blocks(D, symmetric=True), rng.standard_normal(14)
    solver = SOLVERS[name][0](A, 1e-8)
    found = reason_of(solver, A, split(b))
    if found == "successful":
        assert name in ("SuperLU", "feral", "pardiso")
        near(flat(lx.linear_solve(A, split(b), solver).value), np.linalg.solve(D, b), 1e-8)
    else:
        assert found == "unsymmetric"


@pytest.mark.parametrize("solver", [jm.PCG(), jm.MINRES(), jm.Cholesky()])
def test_symmetric_solvers_refuse_what_does_not_promise(solver, rng):
    A = blocks(dense("definite"), symmetric=False)
    with pytest.raises(ValueError, match="needs a symmetric operator.*use"):
        lx.linear_solve(A, split(rng.standard_normal(14)), solver)


def test_the_floor_of_single_precision_is_named(rng):
    A = blocks(dense("definite"), symmetric=True, dtype=jnp.float32)
    b = split(jnp.asarray(rng.standard_normal(14), jnp.float32))
    solution = jax.jit(lambda b: lx.linear_solve(A, b, jm.PCG(1e-12), throw=False))(b)
    assert solution.stats["reason"] == jm.RESULTS.stagnation
    assert solution.stats["residual"] <= 1e-5


def test_too_few_steps_are_named(rng):
    A, b = blocks(dense("definite"), symmetric=True), split(rng.standard_normal(14))
    solution = jax.jit(lambda b: lx.linear_solve(A, b, jm.PCG(max_steps=2), throw=False))(b)
    assert solution.stats["reason"] == jm.RESULTS.max_steps_reached and solution.stats["num_steps"] == 2


@pytest.mark.parametrize("solver", [jm.PCG(TIGHT), pytest.param(jm.GMRES(TIGHT), marks=pytest.mark.slow)])
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
    "solver", [pytest.param(jm.PCG(TIGHT), marks=pytest.mark.slow), jm.Cholesky(), jm.SparseDirect("superlu")]
)
def test_states_of_different_sizes(solver, rng):
    D, b = dense("definite"), rng.standard_normal(14)
    A = blocks(D, TWO, symmetric=True)
    near(flat(jax.jit(lambda b: lx.linear_solve(A, b, solver).value)(split(b, TWO))), np.linalg.solve(D, b), ITERATED)


@pytest.mark.parametrize("solver", [jm.Dense(), jm.Cholesky(), jm.SVD(), jm.BlockTridiagonal()])
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
    jax.vmap(lambda b: flat(lx.linear_solve(A, split(b), jm.SparseDirect()).value))(rng.standard_normal((4, 14)))
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
            blocks(chained(dense("definite")), TWO, symmetric=True), split(np.ones(14), TWO), jm.BlockTridiagonal()
        )
    A = blocks(dense("definite", CHAIN), CHAIN, symmetric=True)
    assert reason_of(jm.BlockTridiagonal(), A, split(rng.standard_normal(14), CHAIN)) == "not_block_tridiagonal"


def test_preconditioners_refuse_what_they_are_not_for(rng):
    operator = lx.FunctionLinearOperator(lambda x: 2 * x, jax.ShapeDtypeStruct((4,), jnp.float64), lx.symmetric_tag)
    assert lx.linear_solve(operator, jnp.ones(4), jm.PCG()).stats["num_steps"] == 1
    for preconditioner in (jm.Jacobi(), jm.BlockJacobi(), jm.SSOR(), jm.IncompleteFactor()):
        with pytest.raises(ValueError, match="BlockMatrix.*NoPreconditioner"):
            lx.linear_solve(operator, jnp.ones(4), jm.PCG(preconditioner=preconditioner))
    with pytest.raises(ValueError, match="MINRES: the preconditioner SSOR"):
        jm.MINRES(preconditioner=jm.SSOR())
    with pytest.raises(ValueError, match="omega must be between 0 and 2"):
        jm.SSOR(2.0)
    with pytest.raises(ValueError, match="does not offer the ordering 'nested_dissection'"):
        jm.SparseDirect("superlu", ordering="nested_dissection")
    with pytest.raises(ValueError, match="ordering 'best' is not one of"):
        jm.SparseDirect(ordering="best")


def test_the_rule_says_what_it_takes_and_why():
    rule = jm.AutoLinearSolver()
    small = blocks(dense("definite"), symmetric=True)
    assert rule.choose(small) == (jm.Dense(), "14 unknowns: a dense factor is the fastest to 60.")
    sizes = (("a", 40, 2),)
    D = dense("definite", sizes)
    big, unsymmetric = (blocks(D, sizes, symmetric=promise) for promise in (True, False))
    assert isinstance(rule.choose(big)[0], jm.SparseDirect) and "80 unknowns, symmetric" in rule.choose(big)[1]
    assert isinstance(jm.AutoLinearSolver(batched=True).choose(big)[0], jm.PCG)
    assert isinstance(jm.AutoLinearSolver(inertial=True).choose(unsymmetric)[0], jm.BiCGStab)
    node = np.repeat(np.arange(40), 2)
    chain = blocks(np.where(np.abs(node[:, None] - node) <= 1, D, 0.0), sizes, symmetric=True)
    assert isinstance(jm.AutoLinearSolver(chain=True).choose(chain)[0], jm.BlockTridiagonal)
    assert isinstance(jm.default_solver(chain), jm.SparseDirect)

    def products(n, *tags):
        return lx.FunctionLinearOperator(lambda x: 2 * x, jax.ShapeDtypeStruct((n,), jnp.float64), tags)

    assert isinstance(rule.choose(products(100, lx.symmetric_tag))[0], jm.PCG)
    assert isinstance(rule.choose(products(100))[0], jm.GMRES)
    huge = jm.BlockMatrix({("a", "a"): big["a", "a"]}, (("a", 10**6, 3),), True, big.dtype)
    with pytest.raises(ValueError, match="3000000 unknowns are more than .*SmoothedAggregation"):
        rule.choose(huge)


def bar(cells):
    """The stiffness of a clamped elastic bar of nearly incompressible tetrahedra, and its points."""
    mesh = jm.box_mesh(cells=cells, size=(3.0, 1.0, 1.0))
    root = mesh.nodes_where(lambda x: x[:, 0] == 0.0)
    elastic = jm.TetrahedronFEM.from_mesh("bar", mesh, jm.LinearElastic(young=1e5, poisson=0.4))
    system = jm.System({"bar": jm.Vec3()}, forces={"elastic": elastic}, constraints={"clamp": jm.Fixed(("bar", root))})
    rest = system.at_rest({"bar": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, rest, jm.Terms(mass=False, damping=False))
    return eqx.filter_jit(linear_system.assemble)(system, rest), mesh


def test_multigrid_takes_few_iterations_and_keeps_serving():
    pytest.importorskip("pyamg")
    A, mesh = bar((9, 3, 3))
    b = {"bar": jnp.zeros_like(mesh.points).at[-1, 2].set(1.0)}
    M = jm.SmoothedAggregation.from_matrix(A, {"bar": mesh.points})
    again = jm.SmoothedAggregation.from_matrix(A, {"bar": mesh.points})
    assert all(np.array_equal(p, q) for p, q in zip(jax.tree.leaves(M), jax.tree.leaves(again), strict=True))
    solve = eqx.filter_jit(lambda A, M: lx.linear_solve(A, b, jm.PCG(preconditioner=M)))
    solution = solve(A, M)
    assert solution.stats["num_steps"] <= 20
    direct = lx.linear_solve(A, b, jm.SparseDirect()).value["bar"]
    near(solution.value["bar"], direct, 1e-5)  # residual 1e-8, condition 1e4
    assert solve(A.scaled(1.7), M).stats["num_steps"] <= 25
    with pytest.raises(ValueError, match="positions lacks state 'bar'"):
        jm.SmoothedAggregation.from_matrix(A, {})
    with pytest.raises(TypeError, match="outside jit"):
        eqx.filter_jit(lambda A: jm.SmoothedAggregation.from_matrix(A, {"bar": mesh.points}))(A)


def test_multigrid_names_its_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyamg", None)
    A = blocks(dense("definite"), symmetric=True)
    with pytest.raises(ImportError, match="jaxmech\\[amg\\]"):
        jm.SmoothedAggregation.from_matrix(A, {"a": np.zeros((7, 2))})


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_blocks_are_inverted_and_judged(size, dtype, rng):
    """The blocks of three have formulas of their own."""
    a = rng.normal(size=(20, size, size))
    definite = a @ a.swapaxes(1, 2) + 0.5 * np.eye(size)
    stiff = jnp.asarray(1e13 * definite, dtype)  # the product of three entries is beyond float32
    inverse = jacobi._inverse(stiff)
    np.testing.assert_allclose(inverse @ stiff, np.tile(np.eye(size), (20, 1, 1)), atol=1e3 * jnp.finfo(dtype).eps)
    assert jacobi._definite(stiff, inverse)
    for eigenvalue in range(size):
        values = np.ones(size)
        values[eigenvalue] = -0.1
        rotation = np.linalg.qr(a[0])[0]
        spoilt = stiff.at[7].set(jnp.asarray(rotation @ np.diag(values) @ rotation.T, dtype))
        assert not jacobi._definite(spoilt, jacobi._inverse(spoilt))
    unheld = stiff.at[3].set(0.0)  # a singular block is for the solver to find
    assert jacobi._definite(unheld, jacobi._inverse(unheld))
