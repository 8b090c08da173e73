"""The host half of algebraic multigrid: rigid-body modes, and the levels that pyamg makes of a matrix."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import eigsh


class HostLevel(NamedTuple):
    """A matrix, the inverses of its diagonal blocks, the largest eigenvalue of their product, and the way from below."""

    matrix: Any  # BSR
    inverse: np.ndarray  # (n, b, b)
    largest: float
    prolongation: Any  # BSR, or None at the coarsest level


def rigid_body_modes(positions: np.ndarray, deriv_size: int) -> np.ndarray:
    """The motions that strain nothing, `(n, deriv_size, m)`: translations and infinitesimal rotations about the centre.

    `positions` `(n, c)`: points of a line, a plane or of space [m], `deriv_size` as many; or frames of space, whose first
    three coordinates are a point, with `deriv_size` 6. `ValueError` for anything else.
    """
    x = np.asarray(positions, dtype=np.float64)
    n = x.shape[0]
    dim = 3 if deriv_size == 6 else deriv_size
    if x.ndim != 2 or dim not in (1, 2, 3) or (x.shape[1] < 3 if deriv_size == 6 else x.shape[1] != dim):
        raise ValueError(
            f"rigid-body modes: positions of shape {x.shape} do not fit {deriv_size} unknowns per node; give the modes "
            "(nodes, unknowns per node, number of modes) themselves."
        )
    x = x[:, :dim] - x[:, :dim].mean(axis=0)
    translations = np.broadcast_to(np.eye(dim), (n, dim, dim))
    if dim == 1:
        return translations.copy()
    if dim == 2:
        turn = np.stack([-x[:, 1], x[:, 0]], axis=1)[:, :, None]
        return np.concatenate([translations, turn], axis=2)
    turns = np.stack([np.cross(axis, x) for axis in np.eye(3)], axis=2)
    modes = np.concatenate([translations, turns], axis=2)
    if deriv_size == 3:
        return modes
    spins = np.concatenate([np.zeros((n, 3, 3)), np.broadcast_to(np.eye(3), (n, 3, 3))], axis=2)
    return np.concatenate([modes, spins], axis=1)


def aggregated_levels(matrix: Any, modes: np.ndarray, *, coarsest: int) -> list[HostLevel]:
    """Smoothed aggregation of a symmetric positive definite BSR matrix; `ImportError` without pyamg."""
    try:
        import pyamg  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('SmoothedAggregation needs pyamg: pip install "jaxmech[amg]".') from error

    matrix = sparse.bsr_matrix(matrix, copy=True)  # pyamg knows the matrices of SciPy, not its arrays
    matrix.eliminate_zeros()
    matrix.sort_indices()
    flat = modes.reshape(-1, modes.shape[-1]).copy()
    flat[_isolated(matrix)] = 0.0  # what is constrained neither moves nor turns
    state = np.random.get_state()
    np.random.seed(0)  # pyamg estimates spectral radii from random vectors: hierarchies must repeat
    try:
        solver = pyamg.smoothed_aggregation_solver(matrix, B=flat, max_coarse=coarsest, max_levels=12, keep=False)
    finally:
        np.random.set_state(state)
    levels = []
    for number, level in enumerate(solver.levels):
        A = sparse.bsr_matrix(level.A)
        A.sort_indices()
        last = number == len(solver.levels) - 1
        inverse = _diagonal_inverse(A)
        levels.append(HostLevel(A, inverse, 0.0 if last else _largest(A), None if last else sparse.bsr_matrix(level.P)))
    return levels


def _isolated(matrix: Any) -> np.ndarray:
    """The scalar rows that hold nothing but their diagonal."""
    rows = matrix.tocsr()
    rows.eliminate_zeros()
    off = rows - sparse.diags(rows.diagonal())
    off.eliminate_zeros()
    return np.diff(off.tocsr().indptr) == 0


def _diagonal_blocks(matrix: Any) -> np.ndarray:
    n, b = matrix.indptr.size - 1, matrix.blocksize[0]
    rows = np.repeat(np.arange(n), np.diff(matrix.indptr))
    blocks = np.zeros((n, b, b))
    where = matrix.indices == rows
    blocks[rows[where]] = matrix.data[where]
    return blocks


def _diagonal_inverse(matrix: Any) -> np.ndarray:
    return np.linalg.pinv(_diagonal_blocks(matrix), rcond=1e-10, hermitian=True)


def _largest(matrix: Any) -> float:
    """The largest eigenvalue of `D^-1 A`, a little overestimated."""
    values, vectors = np.linalg.eigh(_diagonal_blocks(matrix))
    root = np.sqrt(np.where(values > 1e-10 * values.max(axis=1, keepdims=True), values, np.inf))
    half = np.einsum("nij,nj->nij", vectors, 1 / root)
    n, b = half.shape[:2]
    scale = sparse.bsr_matrix((half, np.arange(n), np.arange(n + 1)), shape=(n * b, n * b))
    scaled = scale.T @ matrix @ scale
    start = np.random.default_rng(0).standard_normal(n * b)
    if n * b < 20:
        return 1.05 * float(np.linalg.eigvalsh(scaled.toarray())[-1])
    return 1.05 * float(eigsh(scaled, k=1, which="LA", tol=1e-2, v0=start, return_eigenvectors=False)[0])
