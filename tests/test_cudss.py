"""cuDSS itself where spineax finds a GPU; elsewhere the way to it, with a stand-in of spineax's interface that solves."""

import importlib.util
import sys
import types

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from small_matrices import SIZES, TWO, blocks, dense, flat, floating_chain, named, near, split

import jaxmech as jm
from jaxmech._linear_solver.sparse import cudss as _cudss

INSTALLED = importlib.util.find_spec("spineax") is not None
missing = pytest.mark.skipif(INSTALLED, reason="spineax is installed")


@pytest.fixture
def cudss(monkeypatch):
    """`analyze`, `factorize`, `solve` and `query` on CSR arrays as spineax 0.0.5 has them, by dense LU with cuDSS's least
    pivot; what it is told is kept.

    Nothing where there is the real one.
    """
    if INSTALLED and jax.default_backend() == "gpu":
        return None
    module, told = types.ModuleType("spineax.cudss"), []

    def analyze(values, offsets, columns, *, mtype_id="symmetric", mview_id="upper"):
        told.append((mtype_id, mview_id, values.dtype, offsets.dtype, columns.dtype))
        return offsets, columns

    def factorize(token, values):
        offsets, columns = token
        n = offsets.size - 1
        rows = jnp.repeat(jnp.arange(n), jnp.diff(offsets), total_repeat_length=columns.size)
        lu, order = jax.scipy.linalg.lu_factor(jnp.zeros((n, n), values.dtype).at[rows, columns].add(values))
        pivots, least = jnp.diag(lu), 1e-13 if values.dtype == jnp.float64 else 1e-5
        return lu + jnp.diag(jnp.where(jnp.abs(pivots) < least, least - pivots, 0)), order

    def solve(token, b, ir_nsteps=None):
        assert isinstance(ir_nsteps, int)
        return jax.scipy.linalg.lu_solve(token, b)

    def query(token):
        return {"diag": jnp.diag(token[0])}

    vars(module).update(analyze=analyze, factorize=factorize, solve=solve, query=query)
    monkeypatch.setattr(_cudss, "available", lambda: True)
    monkeypatch.setitem(sys.modules, "spineax", types.ModuleType("spineax"))
    monkeypatch.setitem(sys.modules, "spineax.cudss", module)
    return told


@missing
def test_the_missing_package_is_named():
    with pytest.raises(ImportError, match=r"spineax, which is not installed: pip install \"jaxmech\[cuda\]\"; Python 3.12"):
        jm.solver.SparseDirect("cudss")


def big(symmetric: bool, n=70):
    sizes = (("a", n, 1),)
    return blocks(dense("definite" if symmetric else "unsymmetric", sizes), sizes, symmetric=symmetric)


@missing
def test_without_it_a_gpu_iterates():
    solver, why = jm.solver.AutoLinearSolver(platform="gpu").choose(big(True))
    assert isinstance(solver, jm.solver.PCG) and "without spineax" in why and "CUDA 13" in why
    solver, why = jm.solver.AutoLinearSolver(platform="gpu").choose(big(False))
    assert isinstance(solver, jm.solver.GMRES) and "SparseDirect() factors it on the host" in why
    assert isinstance(jm.solver.AutoLinearSolver(platform="tpu").choose(big(True))[0], jm.solver.PCG)
    assert isinstance(jm.solver.AutoLinearSolver(platform="cpu").choose(big(True))[0], jm.solver.SparseDirect)
    with pytest.raises(ValueError, match="platform must be one of"):
        jm.solver.AutoLinearSolver(platform="cuda")


def test_with_it_a_gpu_factors(cudss):
    solver, why = jm.solver.AutoLinearSolver(platform="gpu").choose(big(True))
    assert solver == jm.solver.SparseDirect("cudss") and "cuDSS" in why
    with pytest.raises(ValueError, match="'cudss' does not offer the ordering 'rcm'"):
        jm.solver.SparseDirect("cudss", ordering="rcm")


@pytest.mark.slow_cases("indefinite-symmetric")
@pytest.mark.parametrize(("kind", "told"), [("indefinite", "symmetric"), ("unsymmetric", "general")])
def test_solutions_and_adjoints(cudss, kind, told, rng):
    """Several right-hand sides with one factor, and the gradient by the transposed matrix; two states of unequal sizes."""
    D, b, w = dense(kind), rng.standard_normal((3, 14)), rng.standard_normal(14)
    A = blocks(D, TWO, symmetric=kind != "unsymmetric")

    def number(b):
        solution = lx.linear_solve(A, split(b, TWO), jm.solver.SparseDirect("cudss"))
        return flat(solution.value) @ w, (flat(solution.value), solution.stats["residual"])

    adjoint, (x, residual) = jax.jit(jax.vmap(jax.grad(number, has_aux=True)))(b)
    near(x, np.linalg.solve(D, b.T).T, 1e-12)
    near(adjoint[0], np.linalg.solve(D.T, w), 1e-12)
    assert (residual < 1e-12).all()
    if cudss is not None:
        assert set(cudss) == {(told, "full", jnp.dtype("float64"), jnp.dtype("int32"), jnp.dtype("int32"))}


def test_a_batch_of_matrices_and_what_is_singular(cudss, rng):
    A = blocks(floating_chain(), SIZES, symmetric=True)
    held = floating_chain()
    held[:2, :2] += np.eye(2)
    values = jnp.stack([M["a", "a"].values for M in (A, blocks(held, SIZES, symmetric=True))])
    b = rng.standard_normal(14)

    def solve(values):
        entry = jm.matrix.BlockSparse(values, A["a", "a"].pattern)
        matrix = jm.matrix.BlockMatrix({("a", "a"): entry}, SIZES, True, A.dtype)
        solution = lx.linear_solve(matrix, split(b), jm.solver.SparseDirect("cudss"), throw=False)
        return flat(solution.value), solution.stats["reason"]

    x, reasons = jax.jit(jax.vmap(solve))(values)
    assert [named(jax.tree.map(lambda a: a[i], reasons)) for i in range(2)] == ["singular", "successful"]  # noqa: B023
    near(x[1], np.linalg.solve(held, b), 1e-12)


def test_a_broken_promise_is_named(cudss, rng):
    A = blocks(dense("unsymmetric"), symmetric=True)
    solution = lx.linear_solve(A, split(rng.standard_normal(14)), jm.solver.SparseDirect("cudss"), throw=False)
    assert named(solution.stats["reason"]) == "unsymmetric"


def test_single_precision(cudss, rng):
    D, b = dense("definite"), rng.standard_normal(14)
    A = blocks(D, symmetric=True, dtype=jnp.float32)
    x = flat(lx.linear_solve(A, split(jnp.asarray(b, jnp.float32)), jm.solver.SparseDirect("cudss")).value)
    assert x.dtype == jnp.float32 and (cudss is None or cudss[0][2] == jnp.float32)
    near(x, np.linalg.solve(D, b), 1e-5)
