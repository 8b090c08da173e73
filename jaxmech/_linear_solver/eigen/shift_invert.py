"""The lowest eigenpairs of a symmetric pencil on the host: shift, invert, iterate, and count that none was missed.

`K x = lambda M x` becomes `M x = nu (K - sigma M) x`, `nu = 1 / (lambda - sigma)`, with a shift `sigma` below every
eigenvalue. Then `K - sigma M` is positive definite, the lowest `lambda` are the largest `nu`, and directions without mass
have `nu = 0`, out of the way. T. Ericsson and A. Ruhe, Math. Comp. 35 (1980) 1251, doi 10.1090/S0025-5718-1980-0583502-2;
R. B. Lehoucq, D. C. Sorensen and C. Yang, *ARPACK Users' Guide*, 1998. NumPy only, on the thread of native solvers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from ..base.outcome import FINE, INDEFINITE, SINGULAR, UNSYMMETRIC
from ..sparse.host_backend import AbstractHostBackend, SingularMatrixError
from ..sparse.host_choice import analysed
from ..sparse.singularity import CONDITION_LIMIT, ScaledMatrix, condition_estimate, null_vector
from .inertia import UNKNOWN, negative_pivots

TOO_FEW, UNCONVERGED, NOT_FINITE = 100, 101, 102  # flaws beside those of linear solves
_SHIFTS = (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1, 1e1)  # times the largest ratio of diagonal entries, tried in turn
_ASYMMETRY = 1e4  # rounding units of the largest entry
_CANCELLED = 1e2, 1e4  # rounding units of what cancelled: how unsymmetric the rest may be, and how large if it is nil
_DENSE = 200  # unknowns below which LAPACK is faster than iterating
_NIL = 1e-13  # of the largest nu: what has less is a direction without mass
_BACKWARD_ERROR = 1e-9
_APART = 1e-6  # relative gap between eigenvalues that are told apart when they are counted


@dataclass(frozen=True)
class HostPairs:
    """`count` lowest pairs, and the eigenvalue after them; NaN where `flaw` is not `FINE`."""

    values: np.ndarray  # (count,), ascending
    vectors: np.ndarray  # (n, count), x^T A x = 1 with the positive definite A = K - sigma M
    following: float  # infinite where there is none
    errors: np.ndarray  # (count,) scaled backward errors
    flaw: int
    unconstrained: np.ndarray | None  # what has neither stiffness nor mass, where singular

    @staticmethod
    def failed(flaw: int, size: int, count: int, unconstrained: np.ndarray | None = None) -> "HostPairs":
        nothing = np.full(count, np.nan)
        return HostPairs(nothing, np.full((size, count), np.nan), np.nan, nothing, flaw, unconstrained)


def lowest(
    K: sp.csr_array, M: sp.csr_array, count: int, *, shifted: bool, unit: float = 2.0**-52, summed: float = 0.0
) -> HostPairs:
    """The lowest eigenpairs of `K x = lambda M x`: all of them with `shifted` (`M` positive semi-definite), or else the
    lowest positive ones (`K` positive definite, `M` of any sign). Both have one pattern that holds the whole diagonal.
    `unit`: the rounding unit of those who assembled them, to which they must be symmetric. `summed`: the size of the numbers
    whose sums the entries of `M` are, where that is more than what is left of them.
    """
    made = prepared(K, M, count, unit, summed)
    if isinstance(made, HostPairs):
        return made
    K, M, scale = made
    with analysed(K) as backend:
        pairs = _lowest(backend, K, M, count, shifted)
    return replace(pairs, values=scale * pairs.values, following=scale * pairs.following)


def prepared(
    K: sp.csr_array, M: sp.csr_array, count: int, unit: float, summed: float
) -> "tuple[sp.csr_array, sp.csr_array, float] | HostPairs":
    """The symmetric parts, `M` scaled to the size of `K`, and that scale; or how a search fails at once."""
    size = K.indptr.size - 1
    if not (np.isfinite(K.data).all() and np.isfinite(M.data).all()):
        return HostPairs.failed(NOT_FINITE, size, count)
    unequal, nil = (units * unit * summed for units in _CANCELLED)
    if _asymmetry(K) > _ASYMMETRY * unit * _largest_entry(K):
        return HostPairs.failed(UNSYMMETRIC, size, count)
    if _asymmetry(M) > max(_ASYMMETRY * unit * _largest_entry(M), unequal):
        return HostPairs.failed(UNSYMMETRIC, size, count)
    if _largest_entry(M) <= nil:
        return HostPairs.failed(TOO_FEW, size, count)
    K, M = _symmetric(K), _symmetric(M)
    if np.count_nonzero(abs(M).sum(axis=1)) < count:
        return HostPairs.failed(TOO_FEW, size, count)
    # ARPACK takes all numbers below 1e-11 for equal: eigenvalues of the order of one.
    scale = float(np.abs(K.data).max() or 1.0) / float(np.abs(M.data).max())
    M = sp.csr_array((scale * M.data, M.indices, M.indptr), M.shape)
    return K, M, scale


def _asymmetry(matrix: sp.csr_array) -> float:
    return float(abs(matrix - matrix.T).max())


def _largest_entry(matrix: sp.csr_array) -> float:
    return float(np.abs(matrix.data).max(initial=0.0))


def _symmetric(matrix: sp.csr_array) -> sp.csr_array:
    """The symmetric part in the same pattern, which sums of SciPy's matrices do not keep."""
    turned = sp.csr_array(matrix.T)
    turned.sort_indices()
    assert np.array_equal(turned.indices, matrix.indices)
    return sp.csr_array((0.5 * (matrix.data + turned.data), matrix.indices, matrix.indptr), matrix.shape)


def _lowest(backend: AbstractHostBackend, K: sp.csr_array, M: sp.csr_array, count: int, shifted: bool) -> HostPairs:
    size = K.indptr.size - 1
    k, m = np.abs(K.diagonal()), np.abs(M.diagonal())
    scale = float(np.max(k[m > 0] / m[m > 0], initial=0.0)) or 1.0
    sigma, A, flaw = _shift(backend, K, M, [-part * scale for part in _SHIFTS] if shifted else [0.0])
    if A is None:
        unconstrained = _unconstrained(backend, K, M) if flaw == SINGULAR else None
        return HostPairs.failed(flaw, size, count, unconstrained)
    most = int(np.count_nonzero(abs(M).sum(axis=1)))  # no more rows with mass, no more modes
    asked = min(count + 1, most)  # one more, to know how far it is to the next
    nu, X = _largest(backend, M, A.matrix, asked)
    reach = np.abs(sigma + 1 / _massive(nu)).max(initial=0.0)
    if sigma and -reach < 2 * sigma:
        # Rounding is relative to the largest nu, which a shift far smaller than the eigenvalues blows up.
        rough = sigma
        sigma, A, _ = _shift(backend, K, M, [-reach, rough])
        assert A is not None
        nu, X = _largest(backend, M, A.matrix, asked)
    missed = _missed(K, M, sigma, nu, count, shifted)
    if missed:
        nu, X = _largest(backend, M, A.matrix, min(asked + missed, most), patience=4)
        missed = _missed(K, M, sigma, nu, count, shifted)
    found = _massive(nu).size
    if found < count and nu.size >= asked:
        return HostPairs.failed(TOO_FEW, size, count)
    if found < count or missed:
        return HostPairs.failed(UNCONVERGED, size, count)
    values = sigma + 1 / _massive(nu)
    errors = backward_errors(A, K, M, values[:count], X[:, :count])
    if not errors.max() < _BACKWARD_ERROR:
        return HostPairs.failed(UNCONVERGED, size, count)
    signs = np.sign(X[np.abs(A.scale[:, None] * X).argmax(axis=0), np.arange(X.shape[1])])
    # An extra one that was asked for and not found may be as near as can be.
    following = float(values[min(count, found - 1)]) if found > count or nu.size < asked else np.inf
    return HostPairs(values[:count], (X * signs)[:, :count], following, errors, FINE, None)


def _shift(
    backend: AbstractHostBackend, K: sp.csr_array, M: sp.csr_array, shifts: Sequence[float]
) -> tuple[float, ScaledMatrix | None, int]:
    """The first of these shifts for which `K - sigma M` is positive definite and well enough conditioned, factored."""
    flaw = SINGULAR
    for sigma in shifts:
        A = sp.csr_array((K.data - sigma * M.data, K.indices, K.indptr), shape=K.shape)
        scaled = ScaledMatrix.of(A)
        try:
            backend.factor(A.data)
        except SingularMatrixError:
            continue
        if condition_estimate(backend, scaled) > min(CONDITION_LIMIT, backend.condition_limit()):
            continue
        if backend.negative_pivots() == 0:
            return sigma, scaled, FINE
        flaw = INDEFINITE
    return 0.0, None, flaw


def _largest(
    backend: AbstractHostBackend, M: sp.csr_array, A: sp.csr_array, count: int, patience: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """The largest `nu` of `M x = nu A x`, descending, `A` positive definite and factored; fewer where it gives up."""
    size = A.indptr.size - 1
    if size <= _DENSE or 3 * count >= size:
        nu, X = scipy.linalg.eigh(M.toarray(), A.toarray(), subset_by_index=[size - count, size - 1])
        return nu[::-1], X[:, ::-1]
    solve = spla.LinearOperator(A.shape, matvec=lambda b: backend.solve(b[:, None], transposed=False)[:, 0], dtype=float)
    start = solve @ (M @ np.random.default_rng(0).standard_normal(size))
    space = min(size, patience * max(2 * count + 1, 20))
    try:
        nu, X = spla.eigsh(M, count, M=A, Minv=solve, which="LA", v0=start, ncv=space)
    except spla.ArpackNoConvergence as partial:
        nu, X = partial.eigenvalues, partial.eigenvectors
    order = np.argsort(nu)[::-1]
    return nu[order], X[:, order]


def _massive(nu: np.ndarray) -> np.ndarray:
    """Those of directions that have a mass (or are softened); they come first."""
    return nu[nu > _NIL * nu.max(initial=0.0)]


def _missed(K: sp.csr_array, M: sp.csr_array, sigma: float, nu: np.ndarray, count: int, shifted: bool) -> int:
    """How many eigenvalues below the highest clear gap among those found are not among them: a count of negative pivots.

    Lanczos iterations can overlook copies of a repeated eigenvalue. S. Parlett, *The Symmetric Eigenvalue Problem*, 1980,
    section 3.3 (spectrum slicing).
    """
    size = K.indptr.size - 1
    nu = _massive(nu)
    if size <= _DENSE or 3 * (count + 1) >= size or nu.size < 2:
        return 0
    values = sigma + 1 / nu
    apart = np.flatnonzero(np.diff(values) > _APART * np.maximum(np.abs(values[1:]), np.abs(values[:-1])))
    if apart.size == 0:
        return 0
    below = int(apart[-1]) + 1
    between = 0.5 * (values[below - 1] + values[below])
    counted = negative_pivots(K, K.data - between * M.data)
    return 0 if counted == UNKNOWN else abs(counted - below)


def _unconstrained(backend: AbstractHostBackend, K: sp.csr_array, M: sp.csr_array) -> np.ndarray | None:
    A = sp.csr_array((K.data + np.abs(K.data).max() / (np.abs(M.data).max() or 1.0) * M.data, K.indices, K.indptr), K.shape)
    rows = np.repeat(np.arange(K.indptr.size - 1), np.diff(K.indptr))
    return null_vector(backend, ScaledMatrix.of(A), np.flatnonzero(rows == K.indices))


def backward_errors(A: ScaledMatrix, K: sp.csr_array, M: sp.csr_array, values: np.ndarray, X: np.ndarray) -> np.ndarray:
    """The relative change of the scaled pencil that would make each pair exact."""
    d = A.scale[:, None]
    residual = np.abs((K @ X - M @ X * values) / d).max(axis=0)
    return residual / (A.norm * np.abs(d * X).max(axis=0))
