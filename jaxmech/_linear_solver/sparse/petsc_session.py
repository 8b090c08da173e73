"""What is kept of PETSc on the host: a matrix and a solver for each pattern, used by one thread. NumPy only."""

import hashlib
import importlib.util
import itertools
from collections import OrderedDict
from functools import partial
from typing import Any

import numpy as np

from ..base.outcome import BREAKDOWN, EXHAUSTED, FINE, INDEFINITE, SINGULAR, STAGNATION
from ..base.rigid_body_modes import rigid_body_modes
from .csr_layout import layout_of
from .worker_thread import WorkerThread

NEEDS = (
    'PETSc needs petsc4py: pip install "jaxmech[petsc]" (with PETSC_DIR where PETSc is installed, as docs/linear_systems.md '
    "says), or the package of your system."
)
_KEPT = 4  # solvers, of as many patterns and choices
_sessions: OrderedDict[Any, "_Session"] = OrderedDict()
_worker = WorkerThread("jaxmech-petsc", at_exit=_sessions.clear)
_numbers = itertools.count()
_OF_SCALARS = ("gamg",)  # of PETSc 3.18, knows no matrices of blocks
_TRUE_NORM = ("cg", "gmres", "fgmres", "bcgs")  # methods that can watch the residual itself
# PETSc's KSPConvergedReason, of those that are failures.
_REASONS = {-3: EXHAUSTED, -4: SINGULAR, -5: BREAKDOWN, -6: BREAKDOWN, -8: INDEFINITE, -10: INDEFINITE, -11: SINGULAR}


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
    x, flaw, steps, residual = _sessions[key].solve(values.astype(np.float64), rhs.astype(np.float64), transposed)
    return x.astype(rhs.dtype), np.int32(flaw), np.int32(steps), np.asarray(residual, rhs.dtype)


def solver_of(matrix: Any, what: dict[str, Any]) -> Any:
    """A solver of PETSc for a matrix, of one process or of several, as its options say."""
    from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

    ksp = PETSc.KSP().create(matrix.getComm())
    ksp.setOptionsPrefix(f"jaxmech{next(_numbers)}_")
    table = PETSc.Options(ksp.getOptionsPrefix())
    chosen = {"ksp_type": what["ksp"], "pc_type": what["pc"]}
    if what["ksp"] in _TRUE_NORM:
        chosen |= {"ksp_norm_type": "unpreconditioned"} | ({} if what["ksp"] == "cg" else {"ksp_pc_side": "right"})
    for name, value in (chosen | dict(what["more"])).items():
        table[name] = value
    ksp.setTolerances(rtol=what["rtol"], atol=0.0, max_it=what["max_steps"])
    return ksp


def flaw_of(reason: int) -> int:
    """What PETSc's KSPConvergedReason means."""
    return FINE if reason > 0 else _REASONS.get(reason, SINGULAR)


class _Session:
    """A matrix, of blocks (BAIJ) if there is one state, and its solver; values come with every solve."""

    def __init__(self, pairs: Any, blocks: Any, sizes: Any, what: Any, symmetric: bool, places: Any, points: Any):
        from petsc4py import PETSc  # pyright: ignore[reportMissingImports]

        stands = np.split(places, np.cumsum(np.repeat([shape[0] for shape in blocks], 2))[:-1])
        self._order, self._values, size = None, np.zeros(0), sum(n * d for _, n, d in sizes)
        b = sizes[0][2] if len(sizes) == 1 else 1
        if len(sizes) == 1 and what["pc"] not in _OF_SCALARS:
            rows, columns = stands
            starts = np.searchsorted(rows, np.arange(sizes[0][1] + 1)).astype(np.int32)
            self._csr = starts, columns.astype(np.int32)
            nothing = np.zeros(columns.size * b * b)
            make = partial(PETSc.Mat().createBAIJ, bsize=b)
        else:
            layout = layout_of(pairs, sizes, list(zip(blocks, stands[::2], stands[1::2], strict=True)))
            self._csr, self._order = (layout.indptr.astype(np.int32), layout.indices.astype(np.int32)), layout.order
            nothing, make = np.zeros(layout.indices.size), partial(PETSc.Mat().createAIJ, bsize=b)
        self._matrix = make(size=(size, size), csr=(*self._csr, nothing), comm=PETSc.COMM_SELF)
        self._matrix.setOption(PETSc.Mat.Option.SYMMETRIC, symmetric)
        if points.size:
            modes = rigid_body_modes(points, b).reshape(size, -1)
            basis = [PETSc.Vec().createWithArray(q.copy(), comm=PETSc.COMM_SELF) for q in np.linalg.qr(modes)[0].T]
            self._matrix.setNearNullSpace(PETSc.NullSpace().create(vectors=basis, comm=PETSc.COMM_SELF))
        self._ksp = solver_of(self._matrix, what)
        self._rtol = what["rtol"]
        self._is_set = False

    def solve(self, values: np.ndarray, rhs: np.ndarray, transposed: bool) -> tuple[np.ndarray, int, int, float]:
        if self._order is not None:
            values = values[self._order]
        if not np.array_equal(values, self._values):
            self._put(values)
        x, b = self._matrix.createVecs()
        b.setArray(rhs)
        (self._ksp.solveTranspose if transposed else self._ksp.solve)(b, x)
        reason, steps, r = int(self._ksp.getConvergedReason()), int(self._ksp.getIterationNumber()), b.duplicate()
        (self._matrix.multTranspose if transposed else self._matrix.mult)(x, r)
        residual = float(np.linalg.norm(rhs - r.getArray()))
        flaw = flaw_of(reason)
        if flaw == FINE and not residual <= 10 * self._rtol * np.linalg.norm(rhs) + 1e-300:
            flaw = STAGNATION
        return x.getArray().copy(), flaw, steps, residual

    def _put(self, values: np.ndarray) -> None:
        """Other values of the same pattern; the preconditioner is made anew."""
        if self._order is None:
            self._matrix.setValuesBlockedCSR(*self._csr, values)
        else:
            self._matrix.setValuesCSR(*self._csr, values)
        self._matrix.assemble()
        self._values = values.copy()
        self._ksp.setOperators(self._matrix)
        if not self._is_set:
            self._ksp.setFromOptions()
            self._is_set = True
