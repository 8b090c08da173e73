"""SciPy's SuperLU: the direct solver that is always there, and the slowest of the three."""

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from .host_backend import AbstractHostBackend, SingularMatrixError
from .ordering import order

# Prefer the diagonal pivot, which keeps the symmetric ordering's fill, unless it is this much smaller than
# its column.
_SYMMETRIC_PIVOT_THRESHOLD = 1e-3


class SuperLUBackend(AbstractHostBackend):
    """`scipy.sparse.linalg.splu`. No separate symbolic phase, but for the order of a symmetric pattern, found by us."""

    name = "superlu"
    extra = None
    handles_unsymmetric = True
    orderings = ("auto", "natural", "minimum_degree", "colamd", "rcm")
    most_unknowns = 150_000
    most_fill = 10.0

    @classmethod
    def available(cls) -> bool:
        return True

    def analyze(self, indptr: np.ndarray, indices: np.ndarray, symmetric: bool, ordering: str) -> None:
        self._symmetric = symmetric
        if ordering == "auto":
            ordering = "minimum_degree" if symmetric else "colamd"
        self._columns = "COLAMD" if ordering == "colamd" else "NATURAL"
        self._lu: spla.SuperLU | None = None
        self._matrix: sp.csc_array | None = None
        size = indptr.size - 1
        self._order: np.ndarray | None = None
        numbered = sp.csr_array((np.arange(indices.size), indices, indptr), shape=(size, size))
        if ordering in ("minimum_degree", "rcm"):
            self._order = order(indptr, indices, ordering)
            numbered = numbered[self._order][:, self._order]
            numbered.sort_indices()
        self._indptr, self._indices, self._taken = numbered.indptr, numbered.indices, numbered.data

    def factor(self, values: np.ndarray) -> None:
        self._lu = None  # let the old factor go before the new one is built: peak memory
        size = self._indptr.size - 1
        # SuperLU reads columns. The CSR arrays of A are the CSC arrays of A^T: no conversion, solve()
        # transposes back.
        self._matrix = sp.csc_array((values[self._taken], self._indices, self._indptr), shape=(size, size))
        self._lu = self._factored(_SYMMETRIC_PIVOT_THRESHOLD)

    def _factored(self, pivot_threshold: float) -> spla.SuperLU:
        try:
            if not self._symmetric:
                return spla.splu(self._matrix, permc_spec=self._columns)
            return spla.splu(
                self._matrix,
                permc_spec=self._columns,
                diag_pivot_thresh=pivot_threshold,
                options={"SymmetricMode": True},
            )
        except RuntimeError as error:
            if "singular" in str(error):
                raise SingularMatrixError(str(error)) from None
            raise

    def negative_pivots(self) -> int | None:
        lu = self._lu
        assert lu is not None and self._symmetric
        if not np.array_equal(lu.perm_r, lu.perm_c):
            # Rows were exchanged, which loses the signs. Without exchanges they are those of `L D L^T`, exact where the
            # matrix is definite, and where it is not, as good as elimination without exchanges.
            try:
                lu = self._factored(0.0)
            except SingularMatrixError:
                return None
        return int(np.sum(lu.U.diagonal() < 0))

    def solve(self, rhs: np.ndarray, *, transposed: bool) -> np.ndarray:
        assert self._lu is not None
        trans = "N" if transposed or self._symmetric else "T"
        if self._order is None:
            return self._lu.solve(rhs, trans=trans)
        x = np.empty_like(rhs)
        x[self._order] = self._lu.solve(rhs[self._order], trans=trans)
        return x

    def release(self) -> None:
        self._lu = self._matrix = None
