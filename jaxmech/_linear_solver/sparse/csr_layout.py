"""From the blocks of a `BlockMatrix` to the scalar rows that host libraries take. NumPy only."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

_KEPT = 8  # layouts remembered
_layouts: "OrderedDict[int, Layout]" = OrderedDict()
_lock = Lock()
_counter = iter(range(1 << 62))


@dataclass(frozen=True)
class BlockEntry:
    """One pair of states: the scalar offsets of its rows and columns, the block places, the block size, and how
    many rows and columns of blocks there are."""

    offsets: tuple[int, int]
    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]
    nodes: tuple[int, int]


@dataclass(frozen=True)
class Layout:
    """Sorted scalar CSR of a block pattern: `data = flat block values[order]`."""

    entries: tuple[BlockEntry, ...]
    size: int
    indptr: np.ndarray
    indices: np.ndarray
    order: np.ndarray

    def fits(self, entries: Sequence[BlockEntry], size: int) -> bool:
        """Whether this is the layout of these entries. Exact: no hash stands in for the indices."""
        return self.size == size and len(self.entries) == len(entries) and all(map(_same, self.entries, entries))


def _same(a: BlockEntry, b: BlockEntry) -> bool:
    return (
        a.offsets == b.offsets
        and a.shape == b.shape
        and a.nodes == b.nodes
        and np.array_equal(a.rows, b.rows)
        and np.array_equal(a.columns, b.columns)
    )


def scalar_layout(entries: Sequence[BlockEntry], size: int) -> Layout:
    """The layout of a pattern; remembered for the patterns used last."""
    with _lock:
        for key in reversed(_layouts):
            if _layouts[key].fits(entries, size):
                _layouts.move_to_end(key)
                return _layouts[key]
    layout = _analyse(entries, size)
    with _lock:
        _layouts[next(_counter)] = layout
        while len(_layouts) > _KEPT:
            _layouts.popitem(last=False)
    return layout


def layout_of(pairs: Sequence[tuple[str, str]], sizes: Sequence[tuple[str, int, int]], arrays: Sequence[Any]) -> Layout:
    """The layout of a `BlockMatrix`: its pairs of states, its sizes, and `(shape, rows, columns)` of the blocks of each."""
    ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
    offset = {s: int(o) for (s, _, _), o in zip(sizes, ends, strict=False)}
    nodes = {s: n for s, n, _ in sizes}
    entries = [
        BlockEntry((offset[r], offset[c]), rows, columns, shape[1:], (nodes[r], nodes[c]))
        for (r, c), (shape, rows, columns) in zip(pairs, arrays, strict=True)
    ]
    return scalar_layout(entries, int(ends[-1]))


def _check(entry: BlockEntry) -> None:
    """Raise `ValueError` for blocks outside the matrix: native libraries would look for them all the same."""
    for what, numbers, count in zip(("row", "column"), (entry.rows, entry.columns), entry.nodes, strict=True):
        if numbers.size and not (numbers.min() >= 0 and numbers.max() < count):
            worst = int(numbers.min() if numbers.min() < 0 else numbers.max())
            raise ValueError(f"block {what} {worst} of a pattern is not in a matrix of {entry.nodes} blocks.")


def _analyse(entries: Sequence[BlockEntry], size: int) -> Layout:
    rows, columns = [], []
    for e in entries:
        _check(e)
        r, c = np.arange(e.shape[0]), np.arange(e.shape[1])
        shape = (e.rows.size, *e.shape)
        row = e.offsets[0] + e.rows[:, None, None].astype(np.int64) * e.shape[0] + r[:, None]
        column = e.offsets[1] + e.columns[:, None, None].astype(np.int64) * e.shape[1] + c
        rows.append(np.broadcast_to(row, shape).ravel())
        columns.append(np.broadcast_to(column, shape).ravel())
    row, column = np.concatenate(rows), np.concatenate(columns)
    # Counting from 1: a stored zero would be indistinguishable from the first entry if anything were dropped.
    numbered = sparse.coo_array((np.arange(1, row.size + 1), (row, column)), shape=(size, size)).tocsr()
    numbered.sort_indices()
    if numbered.nnz != row.size:
        raise ValueError(f"a pattern names {row.size - numbered.nnz} entries of a matrix of {size} unknowns twice.")
    # XLA may reuse the memory of the indices it handed over: keep copies.
    kept = tuple(BlockEntry(e.offsets, e.rows.copy(), e.columns.copy(), e.shape, e.nodes) for e in entries)
    return Layout(kept, size, numbered.indptr.astype(np.int32), numbered.indices.astype(np.int32), numbered.data - 1)
