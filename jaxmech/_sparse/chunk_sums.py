"""Sums of the blocks of a few elements at a time, while they are still in the cache of a core.

The elements of a mesh come in an order in which neighbours, who share nodes, are near each other. Their blocks are summed
chunk by chunk where they are made. Of 48,000 tetrahedra of a box a quarter as many sums are written to memory as there are
blocks, and XLA's temporaries take 12 MB instead of 41.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from .._straight_line.chunks import AbstractChunkSums
from .._typing import Array, Float, Int
from .lane_sums import sum_lanes
from .reduction import Reduction
from .rows import take_rows

Places = tuple[np.ndarray, np.ndarray]

_BLOCKS = 20_000  # of one chunk; lengths that are multiples of 512 took 6 to 9 % longer on 12,288 tetrahedra
_FEWEST = 4_096  # elements that are worth it
_WORTH = 0.5  # the part of the blocks that is left, at most
# Bucket widths: fewer than those of a `Reduction`, for a kernel on one chunk takes no longer than it takes to call it.
_WIDTHS = np.unique(np.concatenate([[1, 2, 4], (2 ** np.arange(1, 60) * np.array([[3], [4]])).ravel()]))


class ListSums(eqx.Module):
    """The sums of one list of blocks, `k` of every element, in the order of the buckets of each chunk."""

    tables: tuple[Int[Array, "chunks groups width"], ...]  # the blocks of the chunk in each sum; their number pads
    slots: Int[Array, " blocks"]  # the sum, among those of all chunks, that each block goes to

    def of_chunk(self, blocks: Float[Array, "n r c"], number: Int[Array, ""]) -> Float[Array, "u r c"]:
        """The sums of one chunk, from its blocks."""
        # With a row of zeros for the padding no read has to ask whether it is in bounds.
        blocks = jnp.concatenate([blocks, jnp.zeros((1, *blocks.shape[1:]), blocks.dtype)])
        # A function of its own: as a part of the loop's writes to the whole, the sums would be made by one core.
        with set_xla_metadata(inlineable="false"):
            return _sums(blocks, [table[number] for table in self.tables])

    def of_all(self, blocks: Float[Array, "blocks r c"], firsts: Int[Array, " chunks"], pad: int) -> Float[Array, "m r c"]:
        """The sums of all chunks, from the blocks of all elements. `firsts`: the first block of every chunk."""
        chunks, total = firsts.shape[0], blocks.shape[0]
        tables = [jnp.where(t == pad, total, t + firsts[:, None, None]) for t in self.tables]
        ends = np.cumsum([0, *(t.shape[1] for t in tables)])
        # A `Reduction` goes bucket by bucket, with all chunks in each; the sums are wanted chunk by chunk.
        places = [
            chunks * a + np.arange(chunks)[:, None] * (b - a) + np.arange(b - a)
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]
        position = jnp.asarray(np.concatenate(places, axis=1).reshape(-1), jnp.int32)
        flat = tuple(t.reshape(-1, t.shape[2]).astype(jnp.int32) for t in tables)
        return Reduction(self.slots, position, flat)(blocks)


@jax.jit
def _sums(blocks: Array, tables: Sequence[Array]) -> Array:
    return jnp.concatenate([sum_lanes(take_rows(blocks, table)) for table in tables])


class ChunkSums(AbstractChunkSums):
    """The plan of the sums of every list of blocks that one element function gives."""

    starts: Int[Array, " chunks"]
    length: int = eqx.field(static=True)
    lists: tuple[ListSums, ...]

    @property
    def summed(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.lists)

    @classmethod
    def build(cls, places: Sequence[Places]) -> tuple["ChunkSums", list[Places]] | None:
        """The plan for blocks that stand at `(rows, columns)`, each `(elements, k)`, and where its sums stand; host work.

        None where it is not worth it: few elements, or elements in an order that knows nothing of neighbours. A chunk of
        fewer sums than another has sums of nothing in their stead, which stand where others of its sums do.
        """
        elements = places[0][0].shape[0]
        if elements < _FEWEST:
            return None
        most = max(rows.shape[1] for rows, _ in places)
        length = -(-elements // -(-elements * most // _BLOCKS))
        chunks = -(-elements // length)
        # The last chunk starts early enough to be whole, and leaves out what the one before it has.
        starts = np.minimum(length * np.arange(chunks), elements - length)
        built = [_list_sums(rows, columns, starts, length) for rows, columns in places]
        if sum(rows.size for _, (rows, _) in built) > _WORTH * sum(rows.size for rows, _ in places):
            return None
        sums = cls(jnp.asarray(starts, jnp.int32), length, tuple(one for one, _ in built))
        return sums, [where for _, where in built]

    def of_chunk(self, outputs: Sequence[Array], number: Array) -> list[Array]:
        return [
            sums.of_chunk(blocks.reshape(-1, *blocks.shape[2:]), number)
            for sums, blocks in zip(self.lists, outputs, strict=True)
        ]

    def of_all(self, outputs: Sequence[Array]) -> list[Array]:
        return [
            sums.of_all(blocks.reshape(-1, *blocks.shape[2:]), blocks.shape[1] * self.starts, blocks.shape[1] * self.length)
            for sums, blocks in zip(self.lists, outputs, strict=True)
        ]


def _list_sums(rows: np.ndarray, columns: np.ndarray, starts: np.ndarray, length: int) -> tuple[ListSums, Places]:
    k, chunks = rows.shape[1], len(starts)
    keys = rows.astype(np.int64) * (int(columns.max(initial=0)) + 1) + columns
    found = []
    for number, start in enumerate(starts):
        fresh = number * length
        own = keys[fresh : start + length].reshape(-1)
        order = np.argsort(own, kind="stable")
        first = np.flatnonzero(np.concatenate([[True], own[order][1:] != own[order][:-1]]))
        counts = np.diff(np.append(first, own.size))
        found.append((order, first, counts, _WIDTHS[np.searchsorted(_WIDTHS, counts)], k * (fresh - start), k * fresh))
    widths = np.unique(np.concatenate([width for _, _, _, width, _, _ in found]))
    slots = np.empty(rows.size, np.int32)
    groups = [max(int(np.sum(f[3] == w)) for f in found) for w in widths]
    tables = [np.full((chunks, g, w), k * length, np.int32) for g, w in zip(groups, widths, strict=True)]
    kept = np.empty((chunks, sum(groups)), np.int64)  # the block that says where each sum stands
    for number, (order, first, counts, width, inside, before) in enumerate(found):
        kept[number] = before + np.resize(order[first], sum(groups))
        begin = 0
        for table, size, w in zip(tables, groups, widths, strict=True):
            which = np.flatnonzero(width == w)
            lane = np.arange(w)
            filled = lane < counts[which, None]
            own = order[(first[which, None] + lane)[filled]]
            table[number, : which.size][filled] = own + inside
            at = number * sum(groups) + begin + np.arange(which.size)
            slots[before + own] = np.broadcast_to(at[:, None], filled.shape)[filled]
            kept[number, begin : begin + which.size] = before + order[first[which]]
            begin += size
    stand = kept.reshape(-1)
    where = (rows.reshape(-1)[stand], columns.reshape(-1)[stand])
    return ListSums(tuple(jnp.asarray(t) for t in tables), jnp.asarray(slots)), where
