"""Triangular factors on the host: of symmetric successive over-relaxation, and incomplete ones. NumPy and SciPy only.

A factor is made by one callback, which returns its number, and applied by others, which are given the number: the values
of the matrix travel once. The same values find the same factor again; the factors used last are kept, by their size.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from ..base.outcome import FINE, INDEFINITE, SINGULAR
from ..sparse.ordering import order

_BUDGET = 60_000_000  # entries kept in all, some 1 GB; the last two factors are kept whatever their size
_NATURAL = {"permc_spec": "NATURAL", "diag_pivot_thresh": 0.0}


@dataclass(frozen=True)
class HostFactor:
    """`M^-1` and `M^-T` as functions of flat vectors `(n,)`; `flaw`: a code of `_outcome`."""

    kind: tuple[Any, ...]
    matrix: sp.csr_array  # what it was made of
    apply: Callable[[np.ndarray], np.ndarray]
    apply_transposed: Callable[[np.ndarray], np.ndarray]
    entries: int
    flaw: int


class _Kept:
    """The factors used last, by number."""

    def __init__(self):
        self._factors: OrderedDict[int, HostFactor] = OrderedDict()
        self._next = 1
        self._lock = Lock()

    def number(self, kind: tuple[Any, ...], matrix: sp.csr_array, make: Callable[[], HostFactor]) -> tuple[int, int]:
        """The number of the factor of a matrix, made if it is not there, and its flaw."""
        with self._lock:
            for number, known in reversed(self._factors.items()):
                if known.kind == kind and _equal(known.matrix, matrix):
                    self._factors.move_to_end(number)
                    return number, known.flaw
            factor = make()
            number, self._next = self._next, self._next + 1
            self._factors[number] = factor
            while len(self._factors) > 2 and sum(f.entries for f in self._factors.values()) > _BUDGET:
                self._factors.popitem(last=False)
            return number, factor.flaw

    def get(self, number: int) -> HostFactor:
        """`RuntimeError` for a factor that was dropped."""
        with self._lock:
            if number not in self._factors:
                raise RuntimeError(
                    "a preconditioner's factor was dropped to make room for others: solve with fewer different matrices in "
                    "one batch."
                )
            self._factors.move_to_end(number)
            return self._factors[number]


KEPT = _Kept()


def _equal(a: sp.csr_array, b: sp.csr_array) -> bool:
    same = a.shape == b.shape and np.array_equal(a.data, b.data)
    return same and np.array_equal(a.indices, b.indices) and np.array_equal(a.indptr, b.indptr)


def ssor_factor(kind: tuple[Any, ...], A: sp.csr_array, omega: float) -> HostFactor:
    """`M = w / (2 - w) (D / w + L) D^-1 (D / w + U)`, the sweeps in the order of the unknowns."""
    d = A.diagonal()
    d = np.where(d != 0, d, 1.0)
    scaled = sp.diags_array(d / omega)
    lower = spla.splu(sp.csc_matrix(sp.tril(A, -1) + scaled), **_NATURAL)
    upper = spla.splu(sp.csc_matrix((sp.triu(A, 1) + scaled).T), **_NATURAL)  # transposed: lower as well
    weight = (2 - omega) / omega * d

    def forward(r: np.ndarray) -> np.ndarray:
        return upper.solve(weight * lower.solve(r), trans="T")

    def transposed(r: np.ndarray) -> np.ndarray:
        return lower.solve(weight * upper.solve(r), trans="T")

    return HostFactor(kind, A, forward, transposed, 2 * A.nnz, FINE if (d > 0).all() else INDEFINITE)


@lru_cache(maxsize=4)
def _order_of_little_fill(indptr: bytes, indices: bytes) -> np.ndarray:
    return order(np.frombuffer(indptr, np.int32), np.frombuffer(indices, np.int32), "minimum_degree")


def incomplete_factor(
    kind: tuple[Any, ...], A: sp.csr_array, drop_tolerance: float, fill: float, *, symmetric: bool
) -> HostFactor:
    """`A ~ L U`, entries below the tolerance dropped; `L D L^T` with the `D` of `U` for a symmetric matrix.

    The unknowns of a symmetric matrix are put in an order of little fill first: what is dropped is less, and weighs less.
    """
    options: dict[str, Any] = {"drop_tol": drop_tolerance, "fill_factor": fill}
    try:
        if not symmetric:
            lu = spla.spilu(sp.csc_matrix(A), **options)
            return HostFactor(kind, A, lu.solve, lambda r: lu.solve(r, trans="T"), lu.nnz + A.nnz, FINE)
        places = _order_of_little_fill(A.indptr.astype(np.int32).tobytes(), A.indices.astype(np.int32).tobytes())
        # Without exchanges, so that the two triangles are of one matrix.
        lu = spla.spilu(sp.csc_matrix(A[places][:, places]), **options, **_NATURAL)
    except RuntimeError:  # a zero pivot
        return HostFactor(kind, A, np.copy, np.copy, A.nnz, SINGULAR)
    pivots = lu.U.diagonal()
    if not (np.array_equal(lu.perm_r, np.arange(pivots.size)) and np.isfinite(pivots).all() and (pivots > 0).all()):
        return HostFactor(kind, A, np.copy, np.copy, A.nnz, INDEFINITE)
    lower = spla.splu(sp.csc_matrix(lu.L), **_NATURAL)

    def solve(r: np.ndarray) -> np.ndarray:
        z = np.empty_like(r)
        z[places] = lower.solve(lower.solve(r[places]) / pivots, trans="T")
        return z

    return HostFactor(kind, A, solve, solve, lu.L.nnz + A.nnz, FINE)
