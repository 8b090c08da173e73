"""The processes of MPI, and what they tell each other of the nodes that lie between them. NumPy only."""

import importlib.util
import sys
import traceback
from typing import Any

import numpy as np

NEEDS = (
    'jm.distributed needs mpi4py and petsc4py: pip install "jaxmech[mpi]" (with PETSC_DIR where PETSc is installed, as '
    "docs/linear_systems.md says)."
)
Rows = dict[str, np.ndarray]


def world() -> Any:
    """All processes, `MPI.COMM_WORLD`. From here on one that fails ends the others, which would wait for it for ever."""
    if any(importlib.util.find_spec(name) is None for name in ("mpi4py", "petsc4py")):
        raise ImportError(NEEDS)
    from mpi4py import MPI  # pyright: ignore[reportMissingImports]

    if MPI.COMM_WORLD.size > 1:
        sys.excepthook = _abort
    return MPI.COMM_WORLD


def _abort(kind: Any, error: BaseException, trace: Any) -> None:
    """What is raised and not caught, on one rank or on all."""
    from mpi4py import MPI  # pyright: ignore[reportMissingImports]

    traceback.print_exception(kind, error, trace)
    print(f"rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size} failed, and ends the others.", file=sys.stderr, flush=True)
    MPI.COMM_WORLD.Abort(1)


def summed(comm: Any, array: Any) -> np.ndarray:
    """The sum over all ranks."""
    mine = np.array(array, order="C")
    total = np.empty_like(mine)
    comm.Allreduce(mine, total)
    return total


class Halo:
    """What a rank reads of others: for each state its ghosts, which follow the nodes that it owns, and whose they are."""

    def __init__(self, comm: Any, nodes: Rows, owned: dict[str, int], whose: Rows):
        """`nodes`: the numbers in the whole scene of the nodes of the part, of which the first, `owned`, are its own;
        `whose` the others are."""
        self._comm = comm
        asked: list[Any] = [None] * comm.size
        self._ghosts: dict[int, Rows] = {}
        for rank in np.unique(np.concatenate([np.zeros(0, np.int32), *whose.values()])):
            self._ghosts[int(rank)] = {s: owned[s] + np.flatnonzero(w == rank) for s, w in whose.items()}
            asked[rank] = {s: nodes[s][at] for s, at in self._ghosts[int(rank)].items()}
        wanted = comm.alltoall(asked)
        self._sent = {
            rank: {s: np.searchsorted(nodes[s][: owned[s]], a) for s, a in rows.items()}  # its own are in order
            for rank, rows in enumerate(wanted)
            if rows is not None
        }

    def _exchanged(self, fields: Rows, sent: dict[int, Rows], received: dict[int, Rows]) -> list[tuple[str, Any, Any]]:
        """The rows `received` of what the neighbours have at `sent`."""
        width = {s: a.shape[1] for s, a in fields.items()}
        out = {r: np.concatenate([fields[s][rows].ravel() for s, rows in at.items()]) for r, at in sent.items()}
        into = {r: np.empty(sum(len(rows) * width[s] for s, rows in at.items())) for r, at in received.items()}
        waiting = [self._comm.Irecv(buffer, r) for r, buffer in into.items()]
        waiting += [self._comm.Isend(buffer, r) for r, buffer in out.items()]
        for request in waiting:
            request.Wait()
        found = []
        for r, at in received.items():
            ends = np.cumsum([len(rows) * width[s] for s, rows in at.items()])[:-1]
            for (s, rows), part in zip(at.items(), np.split(into[r], ends), strict=True):
                found.append((s, rows, part.reshape(-1, width[s])))
        return found

    def filled(self, fields: Rows) -> Rows:
        """With what the owners have, at the ghosts."""
        fields = {s: np.array(a, np.float64) for s, a in fields.items()}
        for s, rows, values in self._exchanged(fields, self._sent, self._ghosts):
            fields[s][rows] = values
        return fields

    def returned(self, fields: Rows) -> Rows:
        """With what the ghosts of others have, added at the owners, and none at the ghosts: the transpose of `filled`."""
        fields = {s: np.array(a, np.float64) for s, a in fields.items()}
        found = self._exchanged(fields, self._ghosts, self._sent)
        for at in self._ghosts.values():
            for s, rows in at.items():
                fields[s][rows] = 0.0
        for s, rows, values in found:
            fields[s][rows] += values
        return fields
