"""How many eigenvalues of a symmetric matrix are negative: what tells a stable equilibrium from an unstable one."""

from functools import partial
from typing import Any

import jax
import numpy as np
from scipy import sparse

from ..._runtime.array_types import Array
from ..._sparse.block_matrix import BlockMatrix
from ..sparse.csr_layout import layout_of
from ..sparse.factor_cache import on_worker
from ..sparse.host_backend import SingularMatrixError
from ..sparse.host_call import call_host
from ..sparse.host_choice import analysed
from ..sparse.singularity import ScaledMatrix

UNKNOWN = -1
_DENSE = 200  # unknowns below which LAPACK is faster, and never in doubt


def negative_eigenvalues(K: BlockMatrix) -> Array:
    """The number of negative eigenvalues, `UNKNOWN` where a factor does not tell. A constant for differentiation.

    By the signs of the pivots of `L D L^T` (Sylvester's law of inertia), which scaling rows and columns alike leaves as they
    are, and beside rows of larger units alone: B. N. Parlett, *The Symmetric Eigenvalue Problem*, 1980, section 3.3.
    """
    arrays = jax.lax.stop_gradient([(e.values, e.pattern.rows, e.pattern.columns) for e in K.entries.values()])
    host = partial(_on_host, tuple(K.entries), K.sizes)
    return call_host("the count of eigenvalues", host, jax.ShapeDtypeStruct((), np.int32), arrays, vmap_method="sequential")


def _on_host(pairs: Any, sizes: Any, arrays: Any) -> np.int32:
    arrays = [tuple(np.asarray(a) for a in entry) for entry in arrays]
    layout = layout_of(pairs, sizes, [(v.shape, rows, columns) for v, rows, columns in arrays])
    values = np.concatenate([v.ravel() for v, _, _ in arrays]).astype(np.float64)[layout.order]
    if not np.isfinite(values).all():
        return np.int32(UNKNOWN)
    scale = ScaledMatrix.of(
        sparse.csr_array((values, layout.indices, layout.indptr), shape=(layout.size, layout.size))
    ).scale
    values = values / (np.repeat(scale, np.diff(layout.indptr)) * scale[layout.indices])
    if layout.size <= _DENSE:
        matrix = np.zeros((layout.size, layout.size))
        matrix[np.repeat(np.arange(layout.size), np.diff(layout.indptr)), layout.indices] = values
        return np.int32(np.count_nonzero(np.linalg.eigvalsh(matrix) < 0))
    return np.int32(on_worker(partial(negative_pivots, layout, values)))


def negative_pivots(pattern: Any, values: np.ndarray) -> int:
    """The number of negative pivots of a symmetric matrix, `UNKNOWN` where it is singular or the backend does not tell.

    `pattern`: of rows, `indptr` and `indices`. Where factors may be made, in the thread that they belong to.
    """
    with analysed(pattern) as backend:
        try:
            backend.factor(values)
            counted = backend.negative_pivots()
        except SingularMatrixError:
            counted = None
    return UNKNOWN if counted is None else counted
