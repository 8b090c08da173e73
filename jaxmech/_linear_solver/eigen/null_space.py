"""The lowest eigenpairs of a pencil whose vectors obey equations: `(K, B^T; B, -C) (x, l) = lambda (M, 0; 0, 0) (x, l)`.

`x = Z y` with `B Z = 0` has the pencil `Z^T K Z y = lambda Z^T M Z y`, definite where the constrained one is. `Z` is made
part by part: rows of `B` that share no unknown do not meet in it, and what no row touches stays as it is. Rows that give
way, `C > 0`, are springs, `B^T C^-1 B`. Sources: G. H. Golub, SIAM Review 15 (1973) 318, doi:10.1137/1015032; M. Benzi, G.
H. Golub, J. Liesen, Acta Numerica 14 (2005) 1, doi:10.1017/S0962492904000212, section 6.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph as graph
import scipy.sparse.linalg as spla

from .shift_invert import NOT_FINITE, TOO_FEW, HostPairs, lowest

_RANK = 1e-10  # of the largest singular value of rows of unit length: what less belongs to a row that others say


def lowest_held(K: Any, M: Any, count: int, held: np.ndarray, *, unit: float = 2.0**-52, summed: float = 0.0) -> HostPairs:
    """The `count` lowest pairs; `held` `(n,)`: which unknowns are multipliers. Vectors hold the multipliers too."""
    free, rows = np.flatnonzero(~held), np.flatnonzero(held)
    B, C = sp.csr_array(K[rows][:, free]), np.negative(K.diagonal())[rows]
    K, M = sp.csr_array(K[free][:, free]), sp.csr_array(M[free][:, free])
    soft = C > 0
    gives = sp.csr_array(B[soft])
    K = K + gives.T @ sp.diags_array(1 / C[soft]) @ gives
    if not np.isfinite(B.data).all():
        return HostPairs.failed(NOT_FINITE, held.size, count)
    Z: Any = null_space(sp.csr_array(B[~soft]))
    if Z.shape[1] < count:
        return HostPairs.failed(TOO_FEW, held.size, count)
    pairs = lowest(*_shared(Z.T @ K @ Z, Z.T @ M @ Z), count, shifted=True, unit=unit, summed=summed)
    whole = _whole(pairs, Z, held)
    x = whole.vectors[free]
    force = -(K @ x - M @ x * pairs.values)
    l = np.zeros((rows.size, count))
    l[soft] = (gives @ x) / C[soft][:, None]
    if np.isfinite(x).all() and not soft.all():
        hard = sp.csr_array(B[~soft].T)
        l[~soft] = np.stack([spla.lsqr(hard, f, atol=1e-14, btol=1e-14)[0] for f in force.T], axis=1)
    whole.vectors[rows] = l
    return whole


def _whole(pairs: HostPairs, Z: Any, held: np.ndarray) -> HostPairs:
    """Pairs in all unknowns, multipliers nil."""

    def spread(x: np.ndarray) -> np.ndarray:
        full = np.zeros((held.size, *x.shape[1:]))
        full[~held] = Z @ x
        return full

    free = None if pairs.unconstrained is None else spread(pairs.unconstrained)
    return replace(pairs, vectors=spread(pairs.vectors), unconstrained=free)


def _shared(K: Any, M: Any) -> tuple[sp.csr_array, sp.csr_array]:
    """Both in one pattern that holds the whole diagonal."""
    size = K.shape[0]
    pattern: Any = abs(K) + abs(M) + sp.eye_array(size)
    pattern = sp.csr_array(pattern + pattern.T)
    pattern.sort_indices()
    entries = np.repeat(np.arange(size), np.diff(pattern.indptr)), pattern.indices

    def in_pattern(A: sp.csr_array) -> sp.csr_array:
        return sp.csr_array((np.asarray(sp.csr_array(A)[entries]).ravel(), pattern.indices, pattern.indptr), pattern.shape)

    return in_pattern(K), in_pattern(M)


def null_space(B: Any) -> sp.csr_array:
    """`Z` with orthonormal columns and `B Z = 0`, of all that `B` leaves free."""
    size = B.shape[1]
    B = sp.csr_array(B)
    B.eliminate_zeros()
    touched = np.zeros(size, bool)
    touched[B.indices] = True
    pattern: Any = abs(B)  # in which nothing cancels
    _, part = graph.connected_components(pattern.T @ pattern, directed=False)
    untouched = np.flatnonzero(~touched)
    ones = np.ones(untouched.size), (untouched, np.arange(untouched.size))
    parts = [sp.coo_array(ones, (size, untouched.size))]
    of_row = part[B.indices[B.indptr[:-1][np.diff(B.indptr) > 0]]]
    full_rows = np.flatnonzero(np.diff(B.indptr) > 0)
    for number in np.unique(part[touched]):
        unknowns = np.flatnonzero((part == number) & touched)
        rows = full_rows[of_row == number]
        dense = B[rows][:, unknowns].toarray()
        dense /= np.linalg.norm(dense, axis=1, keepdims=True)
        _, s, v = np.linalg.svd(dense)
        rank = int(np.count_nonzero(s > _RANK * s[0]))
        basis = v[rank:].T
        i, j = np.meshgrid(unknowns, np.arange(basis.shape[1]), indexing="ij")
        parts.append(sp.coo_array((basis.ravel(), (i.ravel(), j.ravel())), (size, basis.shape[1])))
    return sp.csr_array(sp.hstack(parts))
