"""A matrix of few entries in a full array, factored by the host: its pattern changes with what touches."""

import jax
import numpy as np

from .._linear_solver.sparse.factor_cache import solve
from .._runtime.array_types import Array
from .._runtime.host_function import call_by_name


def sparse_solve(M: Array, b: Array) -> Array:
    """`M^-1 b`, NaN where nothing determines it. Solves one after another with the same matrix have one factor."""
    shapes = (jax.ShapeDtypeStruct(b.shape, b.dtype),)
    return call_by_name("contact.sparse_solve", _solved, shapes, M, b, vmap_method="sequential")[0]


def _solved(M: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
    there = M != 0
    np.fill_diagonal(there, True)
    at = np.flatnonzero(there)
    rows, columns = np.divmod(at, b.size)
    starts = np.searchsorted(rows, np.arange(b.size + 1))
    found = solve(starts, columns, M.reshape(-1)[at], b[:, None], symmetric=False, rounding=float(np.finfo(M.dtype).eps))
    return (np.full_like(b, np.nan) if found.singular else found.x[:, 0].astype(b.dtype),)
