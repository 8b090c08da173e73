"""Levels of smoothed aggregation whose rows are divided: each process has its rows of what one process would make of all."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import linalg
from test_multigrid import bar

from jaxmech._linear_solver.base.rigid_body_modes import rigid_body_modes
from jaxmech._linear_solver.sparse import aggregated_rows
from jaxmech._linear_solver.sparse.aggregated_rows import Alone, BlockRows, levels_of

pytest.importorskip("pyamg")
CELLS = (12, 3, 3)
EXACT = 1e-12  # sums in another order


class Rank:
    """One of several threads that speak as processes of MPI do."""

    def __init__(self, rank, size, board, barrier):
        self.rank, self.size, self._board, self._barrier = rank, size, board, barrier

    def allgather(self, part):
        self._board[self.rank] = part
        self._barrier.wait()
        found = list(self._board)
        self._barrier.wait()
        return found

    def alltoall(self, parts):
        return [row[self.rank] for row in self.allgather(parts)]


def of_ranks(count, work):
    """What `work(comm)` gives on each of so many."""
    board, barrier = [None] * count, threading.Barrier(count, timeout=60)

    def run(rank):
        try:
            return work(Rank(rank, count, board, barrier))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.fixture(scope="module")
def rows():
    """The stiffness of a bar, dense, its modes, and its rows of blocks."""
    A, _, points, _ = bar(1e5, CELLS)
    block = A["bar", "bar"]
    starts, columns, values = (np.asarray(a) for a in (block.pattern.row_starts, block.pattern.columns, block.values))
    return A.to_scipy("csr").toarray(), rigid_body_modes(np.asarray(points), 3), BlockRows(starts, columns, values)


def whole(parts, columns):
    """Rows of all, dense."""
    return np.vstack([part.scalar(columns).toarray() for part in parts])


@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.3, 0.0, 0.3, 0.4)])
def test_products_over_ranks_are_those_of_the_whole(rows, shares, monkeypatch):
    monkeypatch.setattr(aggregated_rows, "COARSEST", 40)
    matrix, modes, all_rows = rows
    starts, columns, values = all_rows.starts, all_rows.columns, all_rows.values
    ends = np.round(np.cumsum([0.0, *shares]) * len(modes)).astype(int)

    def work(comm):
        first, last = ends[comm.rank : comm.rank + 2]
        at = slice(starts[first], starts[last])
        own = BlockRows(starts[first : last + 1] - starts[first], columns[at], values[at])
        return levels_of(comm, own, modes[first:last], [])

    found = of_ranks(len(shares), work)
    assert {len(levels) for levels in found} == {2}, "several levels, and as many on every rank"
    for number in range(2):
        levels = [levels[number] for levels in found]
        count = sum(level.aggregates.shape[1] for level in levels)
        P, C = (whole([getattr(level, name) for level in levels], count) for name in ("prolongation", "coarse"))
        expected = P.T @ matrix @ P
        nil = np.diag(expected) <= 1e-14 * np.diag(expected).max()
        expected += np.diag(np.where(nil, np.diag(expected).max(), 0.0))
        np.testing.assert_allclose(C, expected, rtol=0, atol=EXACT * abs(expected).max())
        exact = linalg.eigvalsh(matrix, _diagonal(matrix, 3 if number == 0 else 6))[-1]
        assert all(0.9 * exact < level.largest <= 1.1 * exact for level in levels)
        assert len({level.largest for level in levels}) == 1
        matrix = C


def _diagonal(matrix, b):
    return linalg.block_diag(*(matrix[i : i + b, i : i + b] for i in range(0, len(matrix), b)))


def test_aggregates_serve_other_values(rows, monkeypatch):
    monkeypatch.setattr(aggregated_rows, "COARSEST", 40)
    _, modes, one = rows
    first = levels_of(Alone(), one, modes, [])
    kept = [level.aggregates for level in first]
    assert kept
    again = levels_of(Alone(), BlockRows(one.starts, one.columns, 2.0 * one.values), modes, kept)
    for before, two in zip(first, again, strict=True):
        assert two.aggregates is before.aggregates
        np.testing.assert_allclose(
            two.coarse.values, 2.0 * before.coarse.values, rtol=1e-9, atol=EXACT * abs(two.coarse.values).max()
        )
