"""Levels of smoothed aggregation of a matrix whose rows are divided among processes. NumPy, SciPy and pyamg only.

Each joins nodes of its own, and keeps rows of its own of every matrix, with the columns that they reach: nothing is whole on
any process but what is left at the coarsest level. Blocks have one number for all processes, rank by rank.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

COARSEST = 1200  # unknowns, or fewer, that are left to a factor
_MOST_LEVELS = 12
_JOINED = 0.8  # of the nodes: where more than this are left, joining them is given up
_NIL = 1e-10  # of the largest: eigenvalues below are none
_LANCZOS = 8  # steps to find the largest eigenvalue
_MARGIN = 1.05  # that what they find may be too small by


class Alone:
    """What a process says to others where there are none: of mpi4py's communicators, as much as is asked here."""

    rank, size = 0, 1

    def alltoall(self, parts: list[Any]) -> list[Any]:
        return parts

    def allgather(self, part: Any) -> list[Any]:
        return [part]


@dataclass(frozen=True)
class BlockRows:
    """Rows of blocks `(z, b, c)` of a matrix: where each begins, and the numbers of columns among those of all processes."""

    starts: np.ndarray
    columns: np.ndarray
    values: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(self.starts.size - 1), np.diff(self.starts))

    def scalar(self, columns: int) -> Any:
        """As rows of numbers, of so many columns of blocks."""
        b, c = self.values.shape[1:]
        shape = (b * (self.starts.size - 1), c * columns)
        return sparse.bsr_array((self.values, self.columns, self.starts), shape=shape).tocsr()


@dataclass(frozen=True)
class Level:
    """A prolongation to a level from the next, the matrix of that, and the largest eigenvalue of `D^-1 A` on this one."""

    prolongation: BlockRows
    coarse: BlockRows
    largest: float
    aggregates: Any  # which nodes are joined to which, to be kept for other values


def levels_of(comm: Any, matrix: BlockRows, modes: np.ndarray, known: list[Any]) -> list[Level]:
    """The levels of a symmetric matrix, from the finest on; its `modes` `(rows, b, m)` are what strains nothing.

    `known`: the aggregates of a matrix of this pattern, if there are any. Raises `ImportError` without pyamg.
    Source: P. Vanek, J. Mandel, M. Brezina, Computing 56 (1996) 179, doi:10.1007/BF02238511.
    """
    levels: list[Level] = []
    ends = _ends(comm, matrix.starts.size - 1)
    while ends[-1] * matrix.values.shape[1] > COARSEST and len(levels) < _MOST_LEVELS:
        level = _LevelBuilder(comm, ends, matrix, modes, known[len(levels)] if len(levels) < len(known) else None)
        if not 0 < level.ends[-1] <= _JOINED * ends[-1]:
            break
        found = level.built()
        levels.append(found)
        ends, matrix, modes = level.ends, found.coarse, level.coarse_modes
    return levels


def _ends(comm: Any, count: int) -> np.ndarray:
    """Where the blocks of each process begin, and where the last ones end."""
    return np.cumsum([0, *comm.allgather(count)])


class _Reach:
    """The columns of other processes that rows of this one reach, after its own; and what those have there."""

    def __init__(self, comm: Any, ends: np.ndarray, columns: np.ndarray):
        self._comm, first, last = comm, ends[comm.rank], ends[comm.rank + 1]
        inside = (columns >= first) & (columns < last)
        others = np.unique(columns[~inside])
        self.local = np.where(inside, columns - first, last - first + np.searchsorted(others, columns)).astype(np.int32)
        whose = np.searchsorted(ends, others, side="right") - 1
        self._sent = [a - first for a in comm.alltoall([others[whose == r] for r in range(comm.size)])]
        self.count = int(last - first) + others.size

    def filled(self, a: np.ndarray) -> np.ndarray:
        """Rows of own blocks, and then those of others."""
        return np.concatenate([a, *self._comm.alltoall([a[rows] for rows in self._sent])])[: self.count]

    def filled_rows(self, P: BlockRows) -> BlockRows:
        """The same for rows of blocks."""
        counts, parts = np.diff(P.starts), []
        for rows in self._sent:
            at = np.repeat(P.starts[rows] - np.cumsum([0, *counts[rows]])[:-1], counts[rows]) + np.arange(counts[rows].sum())
            parts.append((counts[rows], P.columns[at], P.values[at]))
        got = self._comm.alltoall(parts)
        counts, columns, values = (np.concatenate(a) for a in zip((counts, P.columns, P.values), *got, strict=True))
        return BlockRows(np.cumsum([0, *counts]).astype(np.int32), columns, values)


class _LevelBuilder:
    """Of a matrix, the aggregates and modes of the next level at once; the matrices when they are asked for."""

    def __init__(self, comm: Any, ends: np.ndarray, matrix: BlockRows, modes: np.ndarray, known: Any):
        self._comm, self._matrix, rows = comm, matrix, matrix.rows
        self._first = ends[comm.rank]
        n, b = matrix.starts.size - 1, matrix.values.shape[1]
        self._near = _Reach(comm, ends, matrix.columns)
        self._here: Any = sparse.bsr_matrix(
            (matrix.values, self._near.local, matrix.starts), shape=(n * b, self._near.count * b)
        )
        blocks = matrix.values[np.flatnonzero(self._near.local == rows)]
        entries = np.diagonal(blocks, axis1=1, axis2=2)
        self._inverse = np.linalg.inv(blocks + np.where(entries == 0, 1.0, 0.0)[:, :, None] * np.eye(b))
        x = np.random.default_rng(0).uniform(1.0, 2.0, (self._near.count, b))
        alone = (self._here @ x.ravel()).reshape(n, b) == entries * x[:n]  # zeros are added without rounding
        modes = np.where(alone[:, :, None], 0.0, modes)
        self.aggregates = _joined(n, rows, self._near.local, matrix.values) if known is None else known
        self.ends = _ends(comm, self.aggregates.shape[1])
        self._tentative, self.coarse_modes = _bases(self.aggregates, modes)

    def built(self) -> Level:
        largest = self._largest()
        P = self._smoothed(4 / 3 / largest)
        return Level(P, self._coarse(P), largest, self.aggregates)

    def _largest(self) -> float:
        """The largest eigenvalue of `D^-1 A`, from steps of conjugate gradients preconditioned by `D`: those of Lanczos."""
        n, b = self._inverse.shape[:2]

        def over(x: np.ndarray) -> np.ndarray:
            return np.einsum("nij,nj->ni", self._inverse, x.reshape(n, b)).ravel()

        def dot(x: np.ndarray, y: np.ndarray) -> float:
            return sum(self._comm.allgather(float(x @ y)))

        r = np.random.default_rng(self._comm.rank).standard_normal(n * b)
        p = z = over(r)
        rz, alphas, betas = dot(r, z), [], []
        for _ in range(_LANCZOS):
            q = self._here @ self._near.filled(p.reshape(n, b)).ravel()
            pq = dot(p, q)
            if not (pq > 0 and rz > 0):
                break
            alphas.append(rz / pq)
            r = r - alphas[-1] * q
            z = over(r)
            rz, before = dot(r, z), rz
            betas.append(rz / before)
            p = z + betas[-1] * p
        if not alphas:
            return 1.0
        a, c = np.array(alphas), np.array(betas[:-1])
        diagonal = 1 / a + np.concatenate([[0.0], c / a[:-1]])
        beside = np.sqrt(np.maximum(c, 0)) / a[:-1]
        return _MARGIN * float(np.linalg.eigvalsh(np.diag(diagonal) + np.diag(beside, 1) + np.diag(beside, -1))[-1])

    def _smoothed(self, weight: float) -> BlockRows:
        """`P = (I - w D^-1 A) T`."""
        aggregate = np.full(self.aggregates.shape[0], -1)
        inside = np.diff(self.aggregates.indptr) > 0
        aggregate[inside] = self.aggregates.indices + self.ends[self._comm.rank]
        everywhere, T = self._near.filled(aggregate), self._near.filled(self._tentative)
        there = everywhere >= 0
        numbers, columns = np.unique(everywhere[there], return_inverse=True)
        shape = (T.shape[0] * T.shape[1], numbers.size * T.shape[2])
        moved = self._here @ sparse.bsr_matrix((T[there], columns, np.cumsum([0, *there])), shape=shape)
        found = BlockRows(moved.indptr, numbers[moved.indices], moved.data)
        np.matmul((-weight * self._inverse)[found.rows], found.values, out=found.values)
        at = np.flatnonzero(found.columns == aggregate[found.rows])
        found.values[at] += self._tentative[found.rows[at]]
        return found

    def _coarse(self, P: BlockRows) -> BlockRows:
        """`P^T A P`, of which each process has the rows of its aggregates."""
        (b, m), whole = P.values.shape[1:], self._near.filled_rows(P)
        numbers, columns = np.unique(whole.columns, return_inverse=True)
        wide = numbers.size * m
        all_rows = sparse.bsr_matrix((whole.values, columns, whole.starts), shape=(self._near.count * b, wide))
        half = self._here @ all_rows
        own = sparse.bsr_matrix((P.values, columns[: P.columns.size], P.starts), shape=(half.shape[0], wide))
        product = (own.T @ half).tobsr((m, m))
        rows = numbers[BlockRows(product.indptr, product.indices, product.data).rows]
        whose = np.searchsorted(self.ends, rows, side="right") - 1
        mine = (rows, numbers[product.indices], product.data)
        got = self._comm.alltoall([tuple(a[whose == r] for a in mine) for r in range(self._comm.size)])
        rows, columns, values = (np.concatenate(parts) for parts in zip(*got, strict=True))
        return self._with_unit_diagonal(
            _summed(rows - self.ends[self._comm.rank], columns, values, self.aggregates.shape[1])
        )

    def _with_unit_diagonal(self, C: BlockRows) -> BlockRows:
        """With the largest number of the diagonal in directions that are nil."""
        at = np.flatnonzero(C.columns == C.rows + self.ends[self._comm.rank])
        entries = np.diagonal(C.values[at], axis1=1, axis2=2)
        size = max(self._comm.allgather(float(np.abs(entries).max(initial=0.0))))
        fill = np.where(np.abs(entries) <= 1e-14 * size, size, 0.0)
        C.values[at] += fill[:, :, None] * np.eye(entries.shape[1])
        return C


def _joined(n: int, rows: np.ndarray, columns: np.ndarray, values: np.ndarray) -> Any:
    """Which own nodes are joined to which aggregate, along blocks that are not nil."""
    try:
        from pyamg.aggregation.aggregate import standard_aggregation  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('PETSc(pc="mg") needs pyamg: pip install "jaxmech[amg]".') from error
    if not n:
        return sparse.csr_matrix((0, 0))
    kept = (columns < n) & (values.any(axis=(1, 2)) | (columns == rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=n))]).astype(np.int32)
    found: Any = standard_aggregation(sparse.csr_matrix((np.ones(starts[-1]), columns[kept], starts), shape=(n, n)))
    return found[0].tocsr()


def _bases(aggregates: Any, modes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of the modes on each aggregate, a block `(b, m)` for each node; and the modes in it.

    Directions that the modes of an aggregate do not span are nil.
    """
    n, _, m = modes.shape
    gram = (aggregates.T @ np.einsum("nbi,nbj->nij", modes, modes).reshape(n, m * m)).reshape(-1, m, m)
    values, vectors = np.linalg.eigh(gram)
    there = values > _NIL * values[:, -1:]
    root = np.sqrt(np.where(there, values, 1.0))
    basis = vectors * np.where(there, 1 / root, 0.0)[:, None, :]
    coarse = np.where(there, root, 0.0)[:, :, None] * vectors.swapaxes(1, 2)
    tentative, inside = np.zeros_like(modes), np.diff(aggregates.indptr) > 0
    tentative[inside] = modes[inside] @ basis[aggregates.indices]
    return tentative, coarse


def _summed(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, count: int) -> BlockRows:
    """Blocks of so many rows, those of one place added."""
    order = np.lexsort((columns, rows))
    rows, columns = rows[order], columns[order]
    new = np.flatnonzero(np.diff(rows, prepend=-1) | np.diff(columns, prepend=-1))
    values = values[order] if new.size == rows.size else np.add.reduceat(values[order], new)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[new], minlength=count))]).astype(np.int32)
    return BlockRows(starts, columns[new].astype(np.int32), values)
