"""What a sparse direct solver of the host must do: analyse a pattern once, factor values often, solve more
often still.

Host backends see NumPy only. They are used from inside a JAX callback, where touching `jax.numpy` can
deadlock, and they own native memory that is tied to a thread: see `_factor_cache`, their only caller.
"""

import abc
from typing import ClassVar

import numpy as np


class SingularMatrixError(ArithmeticError):
    """The factorisation met a pivot that is exactly zero."""


class AbstractHostBackend(abc.ABC):
    """One analysed pattern and its current numeric factor.

    The three phases are called in order, all on one thread: `analyze` once, then `factor` for each set of
    values, then any number of `solve`. `release` ends the life of the native memory, on that same thread.
    """

    name: ClassVar[str]
    extra: ClassVar[str | None]  # the optional dependency of jaxmech that brings it; None: always there
    handles_unsymmetric: ClassVar[bool]
    orderings: ClassVar[tuple[str, ...]]  # of `_ordering.ORDERINGS`, what it offers
    # Unknowns of a solid beyond which a factor takes minutes or the memory of a workstation (measured to 150 000).
    most_unknowns: ClassVar[int]
    # Up to how many stored numbers for each of the matrix Cholesky in a band is quicker. Measured, single-threaded, of bars,
    # sheets and cubes of 960 to 25,000 unknowns: bars have 1 to 3, and take a half to an eighth of the time.
    most_fill: ClassVar[float]

    @classmethod
    @abc.abstractmethod
    def available(cls) -> bool:
        """Whether its library is installed; importing the library is left to `analyze`."""

    @abc.abstractmethod
    def analyze(self, indptr: np.ndarray, indices: np.ndarray, symmetric: bool, ordering: str) -> None:
        """Take the CSR pattern of a square matrix, and the fill-reducing ordering wanted.

        Both triangles are stored, columns are sorted (int32) and every diagonal entry is present, zero or
        not. `symmetric` declares that the values will be symmetric as well.
        """

    @abc.abstractmethod
    def factor(self, values: np.ndarray) -> None:
        """Factor the matrix with these values `(nnz,)`. Raises `SingularMatrixError` if it notices."""

    @abc.abstractmethod
    def solve(self, rhs: np.ndarray, *, transposed: bool) -> np.ndarray:
        """`A^-1 rhs`, or `A^-T rhs` when `transposed`, for a block `(n, m)` of right-hand sides."""

    def condition_limit(self) -> float:
        """The condition number above which an estimate made with the current factor means singular.

        A backend that replaces small pivots cannot see condition numbers beyond its replacement.
        """
        return np.inf

    def has_cholesky(self) -> bool:
        """Whether the current factor is one that none but positive definite matrices have."""
        return False

    @abc.abstractmethod
    def negative_pivots(self) -> int | None:
        """How many negative eigenvalues the factored symmetric matrix has: as many as its `D` has negative pivots
        (Sylvester's law of inertia). None where the factor does not tell.
        """

    @abc.abstractmethod
    def release(self) -> None:
        """Give the native memory back now, on the calling thread."""


def upper_triangle(indptr: np.ndarray, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The upper triangle of a CSR pattern: its `indptr`, its `indices`, and the positions of its values.

    Read as CSC, the same arrays are the lower triangle: a symmetric matrix does not tell rows from columns.
    """
    rows = np.repeat(np.arange(indptr.size - 1, dtype=np.int32), np.diff(indptr))
    kept = np.flatnonzero(indices >= rows)
    counts = np.bincount(rows[kept], minlength=indptr.size - 1)
    upper_indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return upper_indptr, indices[kept], kept
