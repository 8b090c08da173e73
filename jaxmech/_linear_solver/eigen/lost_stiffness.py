"""The factors at which a stable saddle loses its stiffness: the lowest positive `mu` of `K x = mu S x` with multipliers.

`K = (K, J^T; J, -C)` is regular, with one negative eigenvalue for each multiplier where the constrained state is stable, and
`S = -dK/dmu` is anything: it turns the rows of `J` too. As `K` is not definite, eigenvalues may come in complex pairs; where
stiffness is lost they are real, and `x^T K x > 0`. Those are the largest real `nu = 1/mu` of `K^-1 S`, made exact by
Rayleigh and Ritz in their span, where `K` is definite.
M. Benzi, G. H. Golub, J. Liesen, Acta Numerica 14 (2005) 1, section 3,
doi:10.1017/S0962492904000212; B. N. Parlett, *The Symmetric Eigenvalue Problem*, 1980, chapter 11. NumPy only.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from ..base.outcome import FINE, INDEFINITE, SINGULAR
from ..sparse.host_backend import AbstractHostBackend, SingularMatrixError
from ..sparse.host_choice import analysed
from ..sparse.singularity import CONDITION_LIMIT, ScaledMatrix, condition_estimate
from .inertia import UNKNOWN, negative_pivots
from .shift_invert import TOO_FEW, UNCONVERGED, HostPairs, backward_errors, prepared

_DENSE = 200  # unknowns below which LAPACK is faster than iterating
_NIL = 1e-6  # of the largest nu: `K^-1 S` has Jordan blocks at nil, whose eigenvalues rounding spreads by its root
_ISOTROPIC = 1e-7  # x^T K x relative to |K x| |x|: of those blocks
_PURIFIED = 2  # products with K^-1 S, which take away what a vector has of those blocks (LAPACK's balancing puts it there)
_REAL = 1e-6  # an imaginary part below this, relative, is what rounding makes of a repeated eigenvalue
_APART = 1e-6  # relative gap between eigenvalues that are told apart when they are counted
_BACKWARD_ERROR = 1e-9


def lowest_lost(K: Any, S: Any, count: int, held: np.ndarray, *, unit: float = 2.0**-52, summed: float = 0.0) -> HostPairs:
    """The `count` lowest pairs; `held` `(n,)`: which unknowns are multipliers; the rest as in `lowest`."""
    made = prepared(K, S, count, unit, summed)
    if isinstance(made, HostPairs):
        return made
    K, S, scale = made
    with analysed(K) as backend:
        pairs = _lowest_lost(backend, K, S, count, int(np.count_nonzero(held & (K.diagonal() <= 0))))
    return replace(pairs, values=scale * pairs.values, following=scale * pairs.following)


def _lowest_lost(backend: AbstractHostBackend, K: sp.csr_array, S: sp.csr_array, count: int, rows: int) -> HostPairs:
    size = K.indptr.size - 1
    A = ScaledMatrix.of(K)
    negative = _negative(backend, A)
    if negative is None or negative != rows:
        return HostPairs.failed(SINGULAR if negative is None else INDEFINITE, size, count)
    for patience in (1, 4):
        lost, gained = _pairs(backend, A, S, count + 1, patience)
        nu, X = lost
        if nu.size >= count and _all_found(K, S, nu, gained, rows):
            break
    else:
        whole = size <= _DENSE or 3 * (count + 1) >= size
        return HostPairs.failed(TOO_FEW if whole and nu.size < count else UNCONVERGED, size, count)
    values = 1 / nu
    errors = backward_errors(A, K, S, values[:count], X[:, :count])
    if not errors.max() < _BACKWARD_ERROR:
        return HostPairs.failed(UNCONVERGED, size, count)
    signs = np.sign(X[np.abs(A.scale[:, None] * X).argmax(axis=0), np.arange(X.shape[1])])
    following = float(values[count]) if nu.size > count else np.inf
    return HostPairs(values[:count], (X * signs)[:, :count], following, errors, FINE, None)


def _negative(backend: AbstractHostBackend, A: ScaledMatrix) -> int | None:
    """The negative eigenvalues of `A`, which `backend` then has factored; None where it is singular."""
    try:
        backend.factor(A.matrix.data)
    except SingularMatrixError:
        return None
    if condition_estimate(backend, A) > min(CONDITION_LIMIT, backend.condition_limit()):
        return None
    if A.scale.size > _DENSE:
        return backend.negative_pivots()
    dense = A.matrix.toarray() / np.outer(A.scale, A.scale)
    return int(np.count_nonzero(np.linalg.eigvalsh(dense) < 0))


def _pairs(
    backend: AbstractHostBackend, A: ScaledMatrix, S: sp.csr_array, asked: int, patience: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The largest real `nu > 0` of pairs that lose stiffness, descending, `x^T K x = 1`; and `nu` of those that gain."""
    K, d, size = A.matrix, A.scale, A.scale.size
    if size <= _DENSE or 3 * asked >= size:
        dense = np.linalg.solve(K.toarray() / np.outer(d, d), S.toarray() / np.outer(d, d))
        found: Any = scipy.linalg.eig(dense)
        nu, X = found
        X = X / d[:, None]
    else:
        product = spla.LinearOperator(
            (size, size), matvec=lambda x: backend.solve((S @ x)[:, None], transposed=False)[:, 0], dtype=float
        )
        start = product @ np.random.default_rng(0).standard_normal(size)
        space = min(size, patience * max(4 * asked + 1, 30))
        try:
            found = spla.eigs(product, min(2 * asked, size - 2), which="LR", v0=start, ncv=space)
            nu, X = found
        except spla.ArpackNoConvergence as partial:
            nu, X = np.asarray(partial.eigenvalues), np.asarray(partial.eigenvectors)
    real = (np.real(nu) > _NIL * np.abs(nu).max(initial=0.0)) & (np.abs(np.imag(nu)) <= _REAL * np.abs(nu))
    nu, X = nu[real], X[:, real]
    stiffness, size_of = np.einsum("in,in->n", X.conj(), K @ X).real, np.linalg.norm(d[:, None] * X, axis=0)
    told = np.abs(stiffness) > _ISOTROPIC * size_of * np.linalg.norm((K @ X) / d[:, None], axis=0)
    lost = np.flatnonzero(told & (stiffness > 0))
    first = lost[np.argsort(-np.real(nu[lost]))][: 2 * asked]
    return _in_span(backend, K, S, X[:, first]), np.real(nu[told & (stiffness < 0)])


def _in_span(backend: AbstractHostBackend, K: sp.csr_array, S: sp.csr_array, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rayleigh and Ritz: errors of the vectors are squared in the values, and copies become real and orthogonal."""
    if X.shape[1] == 0:
        return np.zeros(0), np.zeros((X.shape[0], 0))
    both = np.concatenate([np.real(X), np.imag(X)], axis=1)
    length = np.linalg.norm(both, axis=0)
    both = both[:, length > _REAL * length.max()]
    V, s, _ = np.linalg.svd(both / np.linalg.norm(both, axis=0), full_matrices=False)
    V = V[:, : min(X.shape[1], int(np.count_nonzero(s > _REAL * s[0])))]
    for _ in range(_PURIFIED):
        V = np.linalg.qr(backend.solve(S @ V, transposed=False))[0]
    k, m = (V.T @ (matrix @ V) for matrix in (K, S))
    try:
        nu, Y = scipy.linalg.eigh(0.5 * (m + m.T), 0.5 * (k + k.T))
    except np.linalg.LinAlgError:  # not definite: nothing that could be told apart
        return np.zeros(0), np.zeros((X.shape[0], 0))
    kept = np.flatnonzero(nu > 0)[::-1]
    return nu[kept], (V @ Y)[:, kept]


def _all_found(K: sp.csr_array, S: sp.csr_array, nu: np.ndarray, gained: np.ndarray, rows: int) -> bool:
    """Whether the negative pivots at the highest clear gap say that none below it was missed."""
    size = K.indptr.size - 1
    values = 1 / nu
    apart = np.flatnonzero(np.diff(values) > _APART * np.abs(values[1:]))
    if size <= _DENSE or 3 * (nu.size + 1) >= size or apart.size == 0:
        return True
    below = int(apart[-1]) + 1
    between = 0.5 * (values[below - 1] + values[below])
    expected = rows + below - int(np.count_nonzero(1 / gained < between))
    return negative_pivots(K, K.data - between * S.data) in (UNKNOWN, expected)
