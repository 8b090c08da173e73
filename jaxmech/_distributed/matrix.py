"""A matrix of PETSc of which each rank has the rows of its nodes, and its solver. NumPy only."""

from typing import Any

import numpy as np
from scipy import sparse

from .._linear_solver.base.outcome import FINE, STAGNATION, outcome
from .._linear_solver.sparse.csr_layout import layout_of
from .._linear_solver.sparse.petsc_session import flaw_of, solver_of
from .._runtime.failure_messages import describe_result
from .._runtime.results import FailedComputation
from .._sparse.block_matrix import BlockMatrix
from .division import Division

_OF_SCALARS = ("gamg",)  # knows no matrices of blocks (PETSc 3.18)
_SLACK = 10.0  # the residual may be so many times what was asked for


class DividedSolver:
    """The solver of one pattern: blocks (BAIJ) where there is one state and the preconditioner knows them, else numbers.

    Unknowns are numbered rank by rank, and on each rank by state and node.
    """

    def __init__(self, division: Division, A: BlockMatrix, what: dict[str, Any], points: np.ndarray | None):
        from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

        self._division, self._sizes, self._values = division, A.sizes, np.zeros(0)
        self._own = np.concatenate([np.repeat(np.arange(n) < division.owned[s], d) for s, n, d in A.sizes])
        b = A.sizes[0][2] if len(A.sizes) == 1 else 1
        self._by_block = len(A.sizes) == 1 and what["pc"] not in _OF_SCALARS
        self._csr, self._order = self._rows(A, b if self._by_block else 1)
        local = int(self._own.sum())
        make = PETSc.Mat().createBAIJ if self._by_block else PETSc.Mat().createAIJ
        nothing = np.zeros(self._csr[1].size * (b * b if self._by_block else 1))
        shape = ((local, PETSc.DETERMINE), (local, PETSc.DETERMINE))
        self._matrix = make(size=shape, bsize=b, csr=(*self._csr, nothing), comm=PETSc.COMM_WORLD)
        self._matrix.setOption(PETSc.Mat.Option.SYMMETRIC, A.symmetric)
        if points is not None and b in (2, 3):
            at = PETSc.Vec().createWithArray(np.ascontiguousarray(points), bsize=b, comm=PETSc.COMM_WORLD)
            self._matrix.setNearNullSpace(PETSc.NullSpace().createRigidBody(at))
        self._rtol, self._symmetric = what["rtol"], A.symmetric
        self._ksp = solver_of(self._matrix, what)
        self._is_set = False

    def _rows(self, A: BlockMatrix, b: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Which of the values stand in the rows of this rank, in order, and where."""
        own = self._own[::b]
        first = self._division.comm.exscan(int(own.sum())) or 0
        number = np.where(own, first + np.cumsum(own) - 1, 0).astype(np.float64)
        parts = np.split(number, np.cumsum([n * d // b for _, n, d in A.sizes])[:-1])
        fields = {s: part.reshape(n, d // b) for (s, n, d), part in zip(A.sizes, parts, strict=True)}
        filled = self._division.halo.filled(fields)
        number = np.concatenate([filled[s].ravel() for s, _, _ in A.sizes]).astype(np.int32)
        entries = [(e.values.shape, np.asarray(e.pattern.rows), np.asarray(e.pattern.columns)) for e in A.entries.values()]
        if b > 1:
            _, rows, columns = entries[0]
            indptr, order = np.searchsorted(rows, np.arange(own.size + 1)), np.arange(rows.size)
        else:
            layout = layout_of(tuple(A.entries), A.sizes, entries)
            indptr, columns, order = layout.indptr, layout.indices, layout.order
        # Ghosts stand last here and anywhere there: rows are sorted anew.
        total = int(max(number.max(initial=0), columns.max(initial=0))) + 1
        table = sparse.csr_array((order, number[columns], indptr), shape=(own.size, total))[np.flatnonzero(own)]
        table.sort_indices()
        return (table.indptr.astype(np.int32), table.indices.astype(np.int32)), table.data

    def put(self, A: BlockMatrix) -> None:
        """Values of the same pattern; the preconditioner is made anew where some rank has others than before."""
        entries = [np.asarray(e.values, np.float64) for e in A.entries.values()]
        values = entries[0][self._order] if self._by_block else np.concatenate([e.ravel() for e in entries])[self._order]
        if self._division.everywhere(np.array_equal(values, self._values)):
            return
        set_values = self._matrix.setValuesBlockedCSR if self._by_block else self._matrix.setValuesCSR
        set_values(*self._csr, values)
        self._matrix.assemble()
        self._values = values.copy()
        self._ksp.setOperators(self._matrix)
        if not self._is_set:
            self._ksp.setFromOptions()
            self._is_set = True

    def solve(self, rhs: dict[str, Any], who: str, transposed: bool = False) -> tuple[dict[str, np.ndarray], int]:
        """`A^-1 b` at all nodes of the part, ghosts too, and iterations. Raises `FailedComputation` on every rank."""
        x, b = self._matrix.createVecs()
        b.setArray(np.concatenate([np.asarray(rhs[s], np.float64).ravel() for s, _, _ in self._sizes])[self._own])
        backwards = transposed and not self._symmetric
        (self._ksp.solveTranspose if backwards else self._ksp.solve)(b, x)
        steps, r = int(self._ksp.getIterationNumber()), b.duplicate()
        (self._matrix.multTranspose if backwards else self._matrix.mult)(x, r)
        size, flaw = b.norm(), flaw_of(int(self._ksp.getConvergedReason()))
        r.axpy(-1.0, b)
        if flaw == FINE and not r.norm() <= _SLACK * self._rtol * size + 1e-300:
            flaw = STAGNATION
        if flaw != FINE:
            why = outcome(np.asarray(flaw))[1]
            raise FailedComputation(f"{who}: {describe_result(why)} ({steps} iterations of PETSc)", why)
        values = np.zeros(self._own.size)
        values[self._own] = x.getArray()
        parts = np.split(values, np.cumsum([n * d for _, n, d in self._sizes])[:-1])
        fields = {s: part.reshape(n, d) for (s, n, d), part in zip(self._sizes, parts, strict=True)}
        return self._division.halo.filled(fields), steps
