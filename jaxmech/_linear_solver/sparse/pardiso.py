"""MKL PARDISO through pypardiso: the fastest direct solver up to some 50 000 unknowns, on x86-64.

pypardiso's own `solve` compares whole matrices and analyses again whenever a value changes, so the phases are
called one by one. The parameters (`iparm`) are those of Intel's oneMKL reference, "pardiso iparm Parameter",
numbered from 1.
"""

import copy
import functools
import importlib.util
from typing import Any

import numpy as np
import scipy.sparse as sp

from .host_backend import AbstractHostBackend, SingularMatrixError, upper_triangle

_POSITIVE_DEFINITE, _INDEFINITE, _UNSYMMETRIC = 2, -2, 11  # matrix types
_ANALYSE_AND_FACTOR, _FACTOR, _SOLVE, _RELEASE = 12, 22, 33, -1  # phases
_ZERO_PIVOT, _SINGULAR_DIAGONAL = -4, -7  # error codes
# After a Cholesky factorisation failed, this many LDL^T ones before Cholesky is tried again: a structure on
# its way through a buckling stays indefinite for a while, and each change of mind costs an analysis.
_PATIENCE = 20
_PERTURBED_CONDITION_LIMIT = 1e10  # a pivot raised to 1e-13 of the norm hides all that is much worse than this


class PardisoBackend(AbstractHostBackend):
    """Cholesky while the symmetric matrix allows it, LDL^T when it turns indefinite, LU when unsymmetric."""

    name = "pardiso"
    extra = "mkl"
    handles_unsymmetric = True
    orderings = ("auto", "minimum_degree", "nested_dissection")
    most_unknowns = 500_000
    most_fill = 4.0

    @classmethod
    @functools.cache
    def available(cls) -> bool:
        return importlib.util.find_spec("pypardiso") is not None

    def analyze(self, indptr: np.ndarray, indices: np.ndarray, symmetric: bool, ordering: str) -> None:
        self._symmetric, self._ordering = symmetric, ordering
        self._kept: np.ndarray | slice = slice(None)
        if symmetric:
            indptr, indices, self._kept = upper_triangle(indptr, indices)
        size = indptr.size - 1
        self._matrix = sp.csr_array((np.zeros(indices.size), indices, indptr), shape=(size, size))
        self._solver: Any = None  # the symbolic phase looks at values too, so it waits for the first ones
        self._patience = 0

    def factor(self, values: np.ndarray) -> None:
        self._matrix.data = np.ascontiguousarray(values[self._kept])
        if not self._symmetric:
            self._factor_as(_UNSYMMETRIC)
            return
        if self._patience == 0:
            if self._factor_as(_POSITIVE_DEFINITE):
                return
            self._patience = _PATIENCE
        self._patience -= 1
        self._factor_as(_INDEFINITE)

    def _factor_as(self, kind: int) -> bool:
        """Factor as one matrix type; False when the matrix turned out not to be positive definite."""
        from pypardiso.pardiso_wrapper import PyPardisoError  # pyright: ignore[reportMissingImports]

        solver = self._solver
        try:
            if solver is not None and solver.mtype == kind:
                self._call(_FACTOR)
                # The permutation was chosen for other values: where pivots had to be perturbed, choose again.
                if solver.get_iparm(14) == 0:
                    return True
            self._start(kind)
            self._call(_ANALYSE_AND_FACTOR)
            return True
        except PyPardisoError as error:
            self.release()
            if error.value not in (_ZERO_PIVOT, _SINGULAR_DIAGONAL):
                raise
            if kind == _POSITIVE_DEFINITE:
                return False
            raise SingularMatrixError(str(error)) from None

    def _start(self, kind: int) -> None:
        self.release()
        self._solver = copy.copy(_template())
        self._solver.mtype = kind
        self._solver.pt = np.zeros_like(self._solver.pt)  # PARDISO's handle
        self._solver.iparm = iparm = np.zeros_like(self._solver.iparm)
        iparm[1 - 1] = 1  # no defaults: all of them are below
        iparm[2 - 1] = 0 if self._ordering == "minimum_degree" else 2  # nested dissection (METIS)
        iparm[10 - 1] = 13  # perturb pivots below 1e-13 of the norm; the usual 1e-8 hides free bodies
        if kind != _POSITIVE_DEFINITE:
            iparm[11 - 1] = iparm[13 - 1] = 1  # scaling and weighted matching, for zero diagonal blocks
            iparm[21 - 1] = 1  # Bunch-Kaufman pivoting

    def condition_limit(self) -> float:
        return np.inf if self._solver.get_iparm(14) == 0 else _PERTURBED_CONDITION_LIMIT

    def has_cholesky(self) -> bool:
        return self._solver.mtype == _POSITIVE_DEFINITE

    def negative_pivots(self) -> int | None:
        if self._solver.mtype == _POSITIVE_DEFINITE:
            return 0
        return int(self._solver.get_iparm(23)) if self._solver.get_iparm(14) == 0 else None

    def solve(self, rhs: np.ndarray, *, transposed: bool) -> np.ndarray:
        self._solver.iparm[12 - 1] = 2 if transposed and not self._symmetric else 0
        return self._call(_SOLVE, np.asfortranarray(rhs))

    def release(self) -> None:
        if self._solver is not None:
            self._call(_RELEASE)
            self._solver = None

    def _call(self, phase: int, rhs: np.ndarray | None = None) -> np.ndarray:
        self._solver.set_phase(phase)
        return self._solver._call_pardiso(self._matrix, np.zeros((1, 1)) if rhs is None else rhs)


@functools.cache
def _template() -> Any:
    """A solver to copy: to make one is to search the disk for MKL, half a second."""
    from pypardiso import PyPardisoSolver  # pyright: ignore[reportMissingImports]

    return PyPardisoSolver()
