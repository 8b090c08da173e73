"""A matrix of PETSc, of one process or with the rows of each of several, and its solver. NumPy only."""

import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..base.outcome import BREAKDOWN, EXHAUSTED, FINE, INDEFINITE, SINGULAR, STAGNATION

_numbers = itertools.count()
_OF_SCALARS = ("gamg",)  # of PETSc 3.18, knows no matrices of blocks
_FACTORS = ("lu", "cholesky")  # whose symbolic part is worth keeping, with the matrix
_TRUE_NORM = ("cg", "gmres", "fgmres", "bcgs")  # methods that can watch the residual itself
_SLACK = 10.0  # the residual may be so many times what was asked for
# PETSc's KSPConvergedReason, of those that are failures.
_REASONS = {-3: EXHAUSTED, -4: SINGULAR, -5: BREAKDOWN, -6: BREAKDOWN, -8: INDEFINITE, -10: INDEFINITE, -11: SINGULAR}


def takes_blocks(sizes: Any, what: dict[str, Any]) -> bool:
    """Whether a matrix is made of blocks (BAIJ): there is one state, and the preconditioner knows them."""
    return len(sizes) == 1 and what["pc"] not in _OF_SCALARS


class PetscSolver:
    """Values of one pattern (`csr`, rows and columns of blocks or of numbers), and what solves with them.

    `size` and `comm` are PETSc's: of the matrix, or of its local and global parts, and of the processes that share it.
    `levels`: a `PetscMultigrid`, whose levels the preconditioner takes.
    """

    def __init__(
        self,
        csr: Any,
        size: Any,
        b: int,
        by_block: bool,
        symmetric: bool,
        what: dict[str, Any],
        comm: Any,
        levels: Any = None,
    ):
        from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

        self._csr, self._values, self._by_block = csr, np.zeros(0), by_block

        def made(*values: np.ndarray) -> Any:
            make = PETSc.Mat().createBAIJ if by_block else PETSc.Mat().createAIJ
            matrix = make(size=size, bsize=b, csr=(*csr, *values), comm=comm)
            matrix.setOption(PETSc.Mat.Option.SYMMETRIC, symmetric)
            return matrix

        self._made, self.matrix = made, made()
        self._what, self._prefix = what, f"jaxmech{next(_numbers)}_"
        self.ksp, self._rtol, self._is_set = _ksp_of(self.matrix, what, self._prefix), what["rtol"], False
        self._levels = levels

    def has(self, values: np.ndarray) -> bool:
        """Whether these are the values that were put last."""
        return np.array_equal(values, self._values)

    def put(self, values: np.ndarray) -> None:
        """Other values of the same pattern, which are kept; the preconditioner is made anew.

        Raises `ValueError` in PETSc's words for what it cannot do.
        """
        with _explained(self._what):
            self._put(values)

    def _put(self, values: np.ndarray) -> None:
        if self._levels is not None and self._is_set:  # PCMG takes residuals with the matrices of its first time for ever
            self.ksp.destroy()
        if self._by_block and self._what["pc"] not in _FACTORS:
            # One that is kept keeps the inverses of its diagonal blocks, too (3.18): those of former values.
            self.matrix.destroy()
            self.matrix = self._made(values)
        else:
            (self.matrix.setValuesBlockedCSR if self._by_block else self.matrix.setValuesCSR)(*self._csr, values)
            self.matrix.assemble()
        self._values = values
        if self._levels is not None and self._is_set:
            self.ksp, self._is_set = _ksp_of(self.matrix, self._what, self._prefix), False
        self.ksp.setOperators(self.matrix)
        if not self._is_set:  # what an option says of the matrix is asked of one that has values
            self.ksp.setFromOptions()
            self._is_set = True
        if self._levels is not None:
            self._levels.put(self.ksp, self._csr, values)

    def solve(self, rhs: np.ndarray, transposed: bool) -> tuple[np.ndarray, int, int, float]:
        """`A^-1 b` in the rows of this process, what was wrong, iterations, and the norm of the true residual.

        Raises `ValueError` as `put` does.
        """
        with _explained(self._what):
            return self._solve(rhs, transposed)

    def _solve(self, rhs: np.ndarray, transposed: bool) -> tuple[np.ndarray, int, int, float]:
        x, b = self.matrix.createVecs()
        b.setArray(rhs)
        (self.ksp.solveTranspose if transposed else self.ksp.solve)(b, x)
        steps, r = int(self.ksp.getIterationNumber()), b.duplicate()
        (self.matrix.multTranspose if transposed else self.matrix.mult)(x, r)
        size, reason = b.norm(), int(self.ksp.getConvergedReason())
        flaw = FINE if reason > 0 else _REASONS.get(reason, SINGULAR)
        r.axpy(-1.0, b)
        residual = r.norm()
        if flaw == FINE and not residual <= _SLACK * self._rtol * size + 1e-300:
            flaw = EXHAUSTED if steps >= self._what["max_steps"] else STAGNATION
        return x.getArray().copy(), flaw, steps, residual


@contextmanager
def _explained(what: dict[str, Any]) -> Iterator[None]:
    """Errors of PETSc as `ValueError`: what was asked for, and its words without the functions that it was in."""
    from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

    try:
        yield
    except PETSc.Error as error:
        lines = [re.sub(r"^\[\d+\] ", "", line) for line in str(error).splitlines()]
        words = [line for line in lines[1:] if "() at " not in line and not line.startswith("See http")]
        asked = f"PETSc(pc='{what['pc']}', ksp='{what['ksp']}', options={dict(what['more'])})"
        raise ValueError(f"{asked}: PETSc says: {' '.join(words) or lines[0]}") from error


def _ksp_of(matrix: Any, what: dict[str, Any], prefix: str) -> Any:
    """A solver of PETSc as its options say."""
    from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

    ksp = PETSc.KSP().create(matrix.getComm())
    ksp.setOptionsPrefix(prefix)
    table = PETSc.Options(ksp.getOptionsPrefix())
    chosen = {"ksp_type": what["ksp"], "pc_type": what["pc"]}
    if what["ksp"] in _TRUE_NORM:
        chosen |= {"ksp_norm_type": "unpreconditioned"} | ({} if what["ksp"] == "cg" else {"ksp_pc_side": "right"})
    for name, value in (chosen | dict(what["more"])).items():
        table[name] = value
    ksp.setTolerances(rtol=what["rtol"], atol=0.0, max_it=what["max_steps"])
    return ksp
