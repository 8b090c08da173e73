"""Small matrices of every kind, and every solver with what it is for."""

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest

import jaxmech as jm

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


def blocks(A, sizes=SIZES, *, symmetric: bool, dtype=jnp.float64) -> jm.matrix.BlockMatrix:
    """A dense matrix as blocks; those that vanish (of NumPy matrices) are left out."""
    ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
    entries = {}
    for i, (r, n, p) in enumerate(sizes):
        for j, (c, m, q) in enumerate(sizes):
            part = np.asarray(A)[ends[i] : ends[i + 1], ends[j] : ends[j + 1]].reshape(n, p, m, q).swapaxes(1, 2)
            rows, columns = np.nonzero((np.abs(part).max((2, 3)) > 0) | ((r == c) & np.eye(n, m, dtype=bool)))
            values = jnp.asarray(part[rows, columns], dtype)
            triplets = jm.matrix.Triplets((r, c), jnp.asarray(rows), jnp.asarray(columns), values)
            entries[r, c] = triplets.assemble((n, m))
    return jm.matrix.BlockMatrix(entries, sizes, symmetric, jnp.dtype(dtype))


def split(b, sizes=SIZES):
    ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
    return {s: b[..., ends[i] : ends[i + 1]].reshape(*b.shape[:-1], n, d) for i, (s, n, d) in enumerate(sizes)}


def flat(x):
    return jnp.concatenate([x[s].reshape(-1) for s in sorted(x)])


def stale(A):
    return jm.solver.StaleFactor(
        jax.tree.map(lambda v: v * 1.2 if jnp.issubdtype(v.dtype, jnp.floating) else v, A), jm.solver.Dense()
    )


def multigrid(A):
    positions = {s: np.random.default_rng(5).standard_normal((n, d)) for s, n, d in A.sizes}
    return jm.solver.SmoothedAggregation.from_matrix(A, positions)


ANY, SYMMETRIC, DEFINITE = ("definite", "indefinite", "unsymmetric"), ("definite", "indefinite"), ("definite",)
SOLVERS = {  # what makes it from the matrix, the kinds it is for, the accuracy of its solutions
    "Dense": (lambda A, tol: jm.solver.Dense(), ANY, DIRECT),
    "Cholesky": (lambda A, tol: jm.solver.Cholesky(), DEFINITE, DIRECT),
    "SVD": (lambda A, tol: jm.solver.SVD(), ANY, DIRECT),
    "SuperLU": (lambda A, tol: jm.solver.SparseDirect("superlu"), ANY, DIRECT),
    "SuperLU rcm": (lambda A, tol: jm.solver.SparseDirect("superlu", ordering="rcm"), ANY, DIRECT),
    "feral": (lambda A, tol: jm.solver.SparseDirect("feral", ordering="minimum_degree"), SYMMETRIC, DIRECT),
    "pardiso": (lambda A, tol: jm.solver.SparseDirect("pardiso"), ANY, DIRECT),
    "Auto": (lambda A, tol: jm.solver.AutoLinearSolver(), ("definite",), DIRECT),
    "PCG": (lambda A, tol: jm.solver.PCG(tol), DEFINITE, ITERATED),
    "PCG none": (lambda A, tol: jm.solver.PCG(tol, preconditioner=jm.solver.NoPreconditioner()), DEFINITE, ITERATED),
    "PCG Jacobi": (lambda A, tol: jm.solver.PCG(tol, preconditioner=jm.solver.Jacobi()), DEFINITE, ITERATED),
    "PCG SSOR": (lambda A, tol: jm.solver.PCG(tol, preconditioner=jm.solver.SSOR(1.2)), DEFINITE, ITERATED),
    "PCG incomplete": (lambda A, tol: jm.solver.PCG(tol, preconditioner=jm.solver.IncompleteFactor()), DEFINITE, ITERATED),
    "PCG stale": (lambda A, tol: jm.solver.PCG(tol, preconditioner=stale(A)), DEFINITE, ITERATED),
    "PCG multigrid": (lambda A, tol: jm.solver.PCG(tol, preconditioner=multigrid(A)), DEFINITE, ITERATED),
    "MINRES": (lambda A, tol: jm.solver.MINRES(tol), SYMMETRIC, ITERATED),
    "BiCGStab": (lambda A, tol: jm.solver.BiCGStab(tol), ("definite", "unsymmetric"), ITERATED),
    "BiCGStab SSOR": (lambda A, tol: jm.solver.BiCGStab(tol, preconditioner=jm.solver.SSOR()), ("unsymmetric",), ITERATED),
    "GMRES": (lambda A, tol: jm.solver.GMRES(tol, restart=10), ("definite", "unsymmetric"), ITERATED),
    "GMRES whole": (lambda A, tol: jm.solver.GMRES(tol, restart=30), ("indefinite",), ITERATED),
    "Fallback": (
        lambda A, tol: jm.solver.Fallback(jm.solver.PCG(tol), jm.solver.SparseDirect("superlu")),
        SYMMETRIC,
        ITERATED,
    ),
    "Fallback taken": (
        lambda A, tol: jm.solver.Fallback(jm.solver.BiCGStab(max_steps=1), jm.solver.SparseDirect("superlu")),
        ANY,
        DIRECT,
    ),
    "GMRES incomplete": (
        lambda A, tol: jm.solver.GMRES(tol, preconditioner=jm.solver.IncompleteFactor()),
        ("unsymmetric",),
        ITERATED,
    ),
}
NEEDS = {"feral": "feral", "pardiso": "pypardiso", "PCG multigrid": "pyamg"}


def case(name: str, kind: str, dtype=jnp.float64):
    """The dense matrix, its blocks, the solver, the tolerance, the sizes."""
    if name in NEEDS and not installed(NEEDS[name]):
        pytest.skip(f"{NEEDS[name]} is not installed")
    single = dtype == jnp.float32
    if name == "BlockTridiagonal":
        sizes, D, make, tolerance = CHAIN, chained(dense(kind, CHAIN)), lambda A, tol: jm.solver.BlockTridiagonal(), DIRECT
    else:
        sizes, D = SIZES, dense(kind)
        make, _, tolerance = SOLVERS[name]
    A = blocks(D, sizes, symmetric=kind != "unsymmetric", dtype=dtype)
    return D, A, make(A, 1e-5 if single else TIGHT), SINGLE if single else tolerance, sizes


def near(x, reference, tolerance):
    x, reference = np.asarray(x), np.asarray(reference)
    assert x.shape == reference.shape
    assert np.abs(x - reference).max() <= tolerance * max(np.abs(reference).max(), 1e-30)


def named(reason) -> str:
    return next(n for n in jm.RESULTS._name_to_item if bool(reason == getattr(jm.RESULTS, n)))


def reason_of(solver, A, b) -> str:
    """The name of the reason a solve ends with; it must agree with lineax's result on whether it failed."""
    solution = jax.jit(lambda A, b: lx.linear_solve(A, b, solver, throw=False))(A, b)
    reason = solution.stats["reason"]
    assert (solution.result == lx.RESULTS.successful) == (reason == jm.RESULTS.successful)
    return named(reason)


def floating_chain() -> np.ndarray:
    """Seven nodes in a row, springs between neighbours, nothing holds them."""
    A, spring = np.zeros((14, 14)), np.array([[1.0, -0.5], [-0.5, 2.0]])
    for e in range(6):
        A[2 * e : 2 * e + 4, 2 * e : 2 * e + 4] += np.kron([[1, -1], [-1, 1]], spring)
    return A
