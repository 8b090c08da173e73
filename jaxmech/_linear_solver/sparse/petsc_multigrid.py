"""Levels of smoothed aggregation in PETSc's multigrid (PCMG), which smooths and cycles. NumPy only."""

from typing import Any

import numpy as np

from ..base.rigid_body_modes import rigid_body_modes
from .aggregated_rows import BlockRows, Level, levels_of

_SPECTRUM = 10.0  # Chebyshev damps what is between the largest eigenvalue and this fraction of it


def multigrid_for(what: dict[str, Any], symmetric: bool, points: Any, b: int, comm: Any) -> "PetscMultigrid | None":
    """The levels that `pc="mg"` takes, from the points `(rows, b)` of the rows of this process; else none."""
    if what["pc"] != "mg":
        return None
    if points is None or points.shape[1:] != (b,) or not symmetric:
        raise ValueError('PETSc(pc="mg") is for a symmetric matrix of one state, of points, and needs their positions.')
    return PetscMultigrid(rigid_body_modes(points, b), comm)


class PetscMultigrid:
    """The levels of one pattern, of `modes` `(rows, b, m)` of the rows of this process; `comm` as mpi4py's."""

    def __init__(self, modes: np.ndarray, comm: Any):
        self._modes, self._comm, self._aggregates = modes, comm, []

    def put(self, ksp: Any, csr: Any, values: np.ndarray) -> None:
        """Levels of these values, with the same aggregates as before, into the preconditioner of a solver."""
        from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

        b = self._modes.shape[1]
        fine, pc, comm = BlockRows(csr[0], csr[1], values.reshape(-1, b, b)), ksp.getPC(), ksp.getComm()
        levels = levels_of(self._comm, fine, self._modes, self._aggregates)
        self._aggregates = [level.aggregates for level in levels]
        pc.setMGLevels(len(levels) + 1)
        table = PETSc.Options(ksp.getOptionsPrefix())
        if not table.hasName("pc_mg_cycle_type"):  # what one pass leaves of coarse levels costs a fifth of the steps
            pc.setMGCycleType(PETSc.PC.MGCycleType.W)
        matrix, rows = ksp.getOperators()[0], csr[0].size - 1
        for number, level in zip(range(len(levels), 0, -1), levels, strict=True):
            count = level.coarse.starts.size - 1
            pc.setMGInterpolation(number, _numbers(level.prolongation, rows, count, self._comm, comm))
            _smooth(pc.getMGSmoother(number), matrix, level, number)
            make = _blocks if number > 1 else _numbers
            matrix, rows = make(level.coarse, count, count, self._comm, comm), count
        pc.getMGCoarseSolve().setOperators(matrix)


def _smooth(ksp: Any, matrix: Any, level: Level, number: int) -> None:
    """Chebyshev's polynomial of the blocks on the diagonal, unless options say otherwise."""
    from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

    ksp.setOperators(matrix)
    table = PETSc.Options(ksp.getOptionsPrefix())
    table["ksp_chebyshev_eigenvalues"] = f"{level.largest / _SPECTRUM:.17g},{1.1 * level.largest:.17g}"
    if not table.hasName("pc_type"):
        table["pc_type"] = "pbjacobi"
    ksp.setFromOptions()


def _numbers(rows: BlockRows, own: int, columns: int, world: Any, comm: Any) -> Any:
    """A matrix of numbers, of so many own rows and columns of blocks."""
    from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

    b, c = rows.values.shape[1:]
    scalar = rows.scalar(sum(world.allgather(columns)))
    csr = scalar.indptr.astype(np.int32), scalar.indices.astype(np.int32), scalar.data
    size = (own * b, PETSc.DETERMINE), (columns * c, PETSc.DETERMINE)
    return PETSc.Mat().createAIJ(size=size, csr=csr, comm=comm)


def _blocks(rows: BlockRows, own: int, columns: int, world: Any, comm: Any) -> Any:
    """A square matrix of blocks."""
    from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

    del world, columns
    b = rows.values.shape[1]
    part = own * b, PETSc.DETERMINE
    csr = rows.starts.astype(np.int32), rows.columns.astype(np.int32), rows.values
    return PETSc.Mat().createBAIJ(size=(part, part), bsize=b, csr=csr, comm=comm)
