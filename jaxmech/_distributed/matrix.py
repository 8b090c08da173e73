"""A matrix of PETSc of which each rank has the rows of its nodes, and its solver. NumPy only."""

from typing import Any

import numpy as np
from scipy import sparse

from .._linear_solver.base.outcome import FINE, outcome
from .._linear_solver.sparse.csr_layout import layout_of
from .._linear_solver.sparse.petsc_multigrid import multigrid_for
from .._linear_solver.sparse.petsc_solver import PetscSolver, takes_blocks
from .._runtime.failure_messages import describe_result
from .._runtime.results import FailedComputation
from .._sparse.block_matrix import BlockMatrix
from .division import Division


class DividedSolver:
    """The solver of one pattern: blocks (BAIJ) where there is one state and the preconditioner knows them, else numbers.

    Unknowns are numbered rank by rank, and on each rank by state and node.
    """

    def __init__(self, division: Division, A: BlockMatrix, what: dict[str, Any], points: np.ndarray | None):
        from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

        self._division, self._sizes, self._symmetric = division, A.sizes, A.symmetric
        self._own = np.concatenate([np.repeat(np.arange(n) < division.owned[s], d) for s, n, d in A.sizes])
        b = A.sizes[0][2] if len(A.sizes) == 1 else 1
        self._by_block = takes_blocks(A.sizes, what)
        csr, self._order = self._rows(A, b if self._by_block else 1)
        part = (int(self._own.sum()), PETSc.DETERMINE)
        levels = multigrid_for(what, A.symmetric, points, b, division.comm)
        self._solver = PetscSolver(csr, (part, part), b, self._by_block, A.symmetric, what, PETSc.COMM_WORLD, levels)
        if points is not None and b in (2, 3) and levels is None:
            at = PETSc.Vec().createWithArray(np.ascontiguousarray(points), bsize=b, comm=PETSc.COMM_WORLD)
            self._solver.matrix.setNearNullSpace(PETSc.NullSpace().createRigidBody(at))

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
        if not self._division.everywhere(self._solver.has(values)):
            self._solver.put(values)

    def solve(self, rhs: dict[str, Any], who: str, transposed: bool = False) -> tuple[dict[str, np.ndarray], int]:
        """`A^-1 b` at all nodes of the part, ghosts too, and iterations. Raises `FailedComputation` on every rank."""
        b = np.concatenate([np.asarray(rhs[s], np.float64).ravel() for s, _, _ in self._sizes])[self._own]
        x, flaw, steps, _ = self._solver.solve(b, transposed and not self._symmetric)
        if flaw != FINE:
            why = outcome(np.asarray(flaw))[1]
            raise FailedComputation(f"{who}: {describe_result(why)} ({steps} iterations of PETSc)", why)
        values = np.zeros(self._own.size)
        values[self._own] = x
        parts = np.split(values, np.cumsum([n * d for _, n, d in self._sizes])[:-1])
        fields = {s: part.reshape(n, d) for (s, n, d), part in zip(self._sizes, parts, strict=True)}
        return self._division.halo.filled(fields), steps
