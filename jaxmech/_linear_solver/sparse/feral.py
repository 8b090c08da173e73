"""feral: a sparse symmetric LDL^T in Rust (MIT), for definite and indefinite matrices, on every platform."""

import functools
import importlib.util
from typing import Any

import numpy as np

from .host_backend import AbstractHostBackend, SingularMatrixError, upper_triangle


class FeralBackend(AbstractHostBackend):
    """`feral.Solver`. Native objects stay in attributes, never in local variables.

    A `feral.Solver` panics when it is dropped on a thread that did not create it, and an exception that
    travels to the caller's thread keeps the local variables of the frames it crossed alive.
    """

    name = "feral"
    extra = "direct"
    handles_unsymmetric = False
    orderings = ("auto", "minimum_degree", "nested_dissection")
    most_unknowns = 250_000
    most_fill = 8.0

    @classmethod
    @functools.cache
    def available(cls) -> bool:
        return importlib.util.find_spec("feral") is not None

    def analyze(self, indptr: np.ndarray, indices: np.ndarray, symmetric: bool, ordering: str) -> None:
        import feral

        assert symmetric
        upper_indptr, upper_indices, self._upper = upper_triangle(indptr, indices)
        size = indptr.size - 1
        columns = np.repeat(np.arange(size), np.diff(upper_indptr))
        self._matrix: Any = feral.CscMatrix.from_triplet(
            size, upper_indices.astype(np.int64), columns, np.ones(columns.size)
        )
        assert self._matrix.nnz == columns.size
        self._solver: Any = feral.Solver(ordering={"minimum_degree": "amd", "nested_dissection": "metis"}.get(ordering))
        self._is_analysed = False  # feral analyses the pattern within the first factorisation

    def factor(self, values: np.ndarray) -> None:
        import feral

        self._matrix.set_values(values[self._upper])
        try:
            again = self._solver.refactor if self._is_analysed else self._solver.factor
            status = again(self._matrix)
        except (feral.SingularError, feral.NumericFailure) as error:
            raise SingularMatrixError(str(error)) from None
        self._is_analysed = True
        if status == feral.FactorStatus.SINGULAR or self._solver.inertia.n_zero > 0:
            raise SingularMatrixError(f"feral found {self._solver.inertia.n_zero} zero pivots")

    def solve(self, rhs: np.ndarray, *, transposed: bool) -> np.ndarray:
        del transposed  # symmetric
        return self._solver.solve(np.ascontiguousarray(rhs))

    def negative_pivots(self) -> int | None:
        return int(self._solver.inertia.n_neg)

    def release(self) -> None:
        self._solver = self._matrix = None
