"""Positive definite matrices within a narrow band, by LAPACK: those of bars, sheets and small solids."""

import numpy as np
from scipy.linalg import get_lapack_funcs

from .host_backend import AbstractHostBackend
from .ordering import order

_MOST_NUMBERS = 20_000_000
# LAPACK takes bands of up to 64 column by column, and wider ones by blocks (`ilaenv`): from 48 on a band that is filled up
# with zeros is factored in up to 0.6 of the time.
_BY_BLOCKS, _WORTH_IT = 65, 48


class Band:
    """Where the entries of a symmetric pattern stand in a band: `ab[i - j, j]` of the lower half, in columns.

    `Band.of` gives None where it is too wide. Source: E. Cuthill and J. McKee, "Reducing the bandwidth of sparse symmetric
    matrices", ACM 1969, doi:10.1145/800195.805928.
    """

    def __init__(self, indptr: np.ndarray, indices: np.ndarray, order: np.ndarray | None):
        size = indptr.size - 1
        place = np.arange(size)
        if order is not None:
            place[order] = np.arange(size)
        rows, columns = place[np.repeat(np.arange(size), np.diff(indptr))], place[indices]
        self.order, self.width = order, int(np.max(rows - columns, initial=0))
        if _WORTH_IT <= self.width < _BY_BLOCKS:
            self.width = min(_BY_BLOCKS, size - 1)
        self._shape = (self.width + 1, size)
        self._taken = np.flatnonzero(rows >= columns)
        self._stands = (rows - columns + columns * self._shape[0])[self._taken]
        self._diagonal = np.flatnonzero(rows == columns)

    @classmethod
    def of(cls, indptr: np.ndarray, indices: np.ndarray, most_fill: float) -> "Band | None":
        """The narrowest: with rows as they stand, by Cuthill and McKee, or in layers from an end. None where more than so
        many numbers are stored for each of the matrix."""
        size, rows = indptr.size - 1, order(indptr, indices, "narrow")
        band = cls(indptr, indices, None if np.array_equal(rows, np.arange(size)) else rows)
        return band if (band.width + 1) * size <= min(most_fill * indices.size, _MOST_NUMBERS) else None

    def filled(self, values: np.ndarray) -> np.ndarray | None:
        """The band of a matrix with these values; None where its diagonal shows that it is not definite."""
        if not (values[self._diagonal] > 0).all():
            return None
        numbers = np.zeros(self._shape[0] * self._shape[1])
        numbers[self._stands] = values[self._taken]
        return numbers.reshape(self._shape, order="F")


class BandFirst(AbstractHostBackend):
    """LAPACK's `pbtrf` for positive definite matrices, and for others of the pattern the backend `rest`.

    Each matrix is judged by itself, whatever came before: what is solved again is solved alike.
    """

    name = "band"
    extra = None
    handles_unsymmetric = False
    orderings = ("auto",)
    most_unknowns = 20_000
    most_fill = 0.0

    def __init__(self, band: Band, rest: type[AbstractHostBackend]):
        self._band, self._rest = band, rest
        self._factor: np.ndarray | None = None
        self._other: AbstractHostBackend | None = None  # analysed when the first matrix asks for it
        self._pbtrf, self._pbtrs = get_lapack_funcs(("pbtrf", "pbtrs"), dtype=np.float64)

    @classmethod
    def available(cls) -> bool:
        return True

    def analyze(self, indptr: np.ndarray, indices: np.ndarray, symmetric: bool, ordering: str) -> None:
        self._pattern = indptr, indices, symmetric, ordering

    def factor(self, values: np.ndarray) -> None:
        self._factor, numbers = None, self._band.filled(values)
        if numbers is not None:
            factor, info = self._pbtrf(numbers, lower=1, overwrite_ab=1)
            if info == 0:
                self._factor = factor
                return
        if self._other is None:
            self._other = self._rest()
            self._other.analyze(*self._pattern)
        self._other.factor(values)

    def solve(self, rhs: np.ndarray, *, transposed: bool) -> np.ndarray:
        if self._factor is None:
            assert self._other is not None
            return self._other.solve(rhs, transposed=transposed)
        places = self._band.order
        if places is None:
            return self._pbtrs(self._factor, rhs, lower=1)[0]
        x = np.empty_like(rhs)
        x[places] = self._pbtrs(self._factor, rhs[places], lower=1)[0]
        return x

    def condition_limit(self) -> float:
        return np.inf if self._factor is not None or self._other is None else self._other.condition_limit()

    def has_cholesky(self) -> bool:
        if self._factor is None:
            return self._other is not None and self._other.has_cholesky()
        return True

    def negative_pivots(self) -> int | None:
        return 0 if self._factor is not None or self._other is None else self._other.negative_pivots()

    def release(self) -> None:
        self._factor = None
        if self._other is not None:
            self._other.release()
