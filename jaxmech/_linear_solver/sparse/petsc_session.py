"""What is kept of PETSc on the host: a matrix and a solver for each pattern, used by one thread. NumPy only."""

import hashlib
import importlib.util
from collections import OrderedDict
from typing import Any

import numpy as np

from ..base.rigid_body_modes import rigid_body_modes
from .aggregated_rows import Alone
from .csr_layout import layout_of
from .petsc_multigrid import multigrid_for
from .petsc_solver import PetscSolver, takes_blocks
from .worker_thread import WorkerThread

NEEDS = (
    'PETSc needs petsc4py: pip install "jaxmech[petsc]" (with PETSC_DIR where PETSc is installed, as docs/linear_systems.md '
    "says), or the package of your system."
)
_KEPT = 4  # solvers, of as many patterns and choices
_sessions: OrderedDict[Any, "_Session"] = OrderedDict()
_worker = WorkerThread("jaxmech-petsc", at_exit=_sessions.clear)


def check_installed() -> None:
    """Raise `ImportError` without petsc4py."""
    if importlib.util.find_spec("petsc4py") is None:
        raise ImportError(NEEDS)


def solve(
    pairs: Any, blocks: Any, sizes: Any, what: Any, symmetric: bool, transposed: bool, *arrays: Any
) -> tuple[np.ndarray, np.int32, np.int32, np.ndarray]:
    """The solution, what was wrong, iterations, and the norm of the true residual."""
    given = [np.asarray(a) for a in arrays]
    return _worker.run(lambda: _solve(pairs, blocks, sizes, what, symmetric, transposed, *given))


def _solve(pairs, blocks, sizes, what, symmetric, transposed, values, places, points, rhs):
    key = (pairs, blocks, sizes, repr(what), symmetric, hashlib.sha256(places.tobytes() + points.tobytes()).digest())
    if key not in _sessions:
        _sessions[key] = _Session(pairs, blocks, sizes, what, symmetric, places, points)
        while len(_sessions) > _KEPT:
            _sessions.popitem(last=False)
    _sessions.move_to_end(key)
    try:
        x, flaw, steps, residual = _sessions[key].solve(values.astype(np.float64), rhs.astype(np.float64), transposed)
    except ValueError:
        del _sessions[key]  # what is left of it is not known
        raise
    return x.astype(rhs.dtype), np.int32(flaw), np.int32(steps), np.asarray(residual, rhs.dtype)


class _Session:
    """The solver of one pattern; values come with every solve."""

    def __init__(self, pairs: Any, blocks: Any, sizes: Any, what: Any, symmetric: bool, places: Any, points: Any):
        from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

        stands = np.split(places, np.cumsum(np.repeat([shape[0] for shape in blocks], 2))[:-1])
        size, self._order = sum(n * d for _, n, d in sizes), None
        b = sizes[0][2] if len(sizes) == 1 else 1
        if takes_blocks(sizes, what):
            rows, columns = stands
            starts = np.searchsorted(rows, np.arange(sizes[0][1] + 1))
        else:
            layout = layout_of(pairs, sizes, list(zip(blocks, stands[::2], stands[1::2], strict=True)))
            starts, columns, self._order = layout.indptr, layout.indices, layout.order
        csr = starts.astype(np.int32), columns.astype(np.int32)
        levels = multigrid_for(what, symmetric, points if points.size else None, b, Alone())
        self._solver = PetscSolver(csr, (size, size), b, self._order is None, symmetric, what, PETSc.COMM_SELF, levels)
        if points.size and levels is None:
            modes = rigid_body_modes(points, b).reshape(size, -1)
            basis = [PETSc.Vec().createWithArray(q.copy(), comm=PETSc.COMM_SELF) for q in np.linalg.qr(modes)[0].T]
            self._solver.matrix.setNearNullSpace(PETSc.NullSpace().create(vectors=basis, comm=PETSc.COMM_SELF))

    def solve(self, values: np.ndarray, rhs: np.ndarray, transposed: bool) -> tuple[np.ndarray, int, int, float]:
        if self._order is not None:
            values = values[self._order]
        if not self._solver.has(values):
            self._solver.put(values)
        return self._solver.solve(rhs, transposed)
