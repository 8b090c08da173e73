"""Sums of the blocks of a few elements at a time, while they are still in the cache of a core.

The elements of a mesh come in an order in which neighbours, who share nodes, are near each other. Their blocks are summed
chunk by chunk where they are made. Of 48,000 tetrahedra of a box a sixth as many sums are written to memory as elements have
blocks, and XLA's temporaries take 16 MB, beside a matrix of 9.
"""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from .._rows import take_rows
from .._straight_line.chunks import AbstractChunkSums
from .._typing import Array, Float, Int
from .lane_sums import sum_lanes
from .reduction import Reduction

Places = tuple[np.ndarray, np.ndarray]

_BLOCKS = 12_000  # of one chunk; lengths that are multiples of 512 took 6 to 9 % longer on 12,288 tetrahedra
_FEWEST = 4_096  # elements that are worth it
_WORTH = 0.5  # the part of the blocks that is left, at most
# Bucket widths: fewer than those of a `Reduction`, for a kernel on one chunk takes no longer than it takes to call it.
_WIDTHS = np.unique(np.concatenate([[1, 2, 4], (2 ** np.arange(1, 60) * np.array([[3], [4]])).ravel()]))


class Buckets(eqx.Module):
    """Sums of rows of each chunk, group by group, groups of like length together."""

    tables: tuple[Int[Array, "chunks groups width"], ...]  # the rows of the chunk in each group; one of zeros pads
    slots: Int[Array, " rows"]  # the group, among those of all chunks, that each row of all chunks goes to

    @property
    def number(self) -> int:
        """The groups of a chunk."""
        return sum(table.shape[1] for table in self.tables)

    def of_chunk(self, rows: Float[Array, "n+1 r c"], number: Int[Array, ""]) -> Float[Array, "u r c"]:
        """The sums of one chunk, from its rows."""
        return _sums(rows, [table[number] for table in self.tables])

    def of_all(self, rows: Float[Array, "m r c"], starts: Int[Array, " chunks"], pad: int = -1) -> Array:
        """The sums of all chunks `(chunks, u, r, c)`. `starts`: what the tables' numbers are counted from in each chunk;
        `pad`: the number in the tables of a row that is not there."""
        chunks = starts.shape[0]
        tables = [jnp.where(t == pad, rows.shape[0], t + starts[:, None, None]) for t in self.tables]
        ends = np.cumsum([0, *(t.shape[1] for t in tables)])
        # A `Reduction` goes bucket by bucket, with all chunks in each; the sums are wanted chunk by chunk.
        places = [
            chunks * a + np.arange(chunks)[:, None] * (b - a) + np.arange(b - a)
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]
        position = jnp.asarray(np.concatenate(places, axis=1).reshape(-1), jnp.int32)
        flat = tuple(t.reshape(-1, t.shape[2]).astype(jnp.int32) for t in tables)
        return Reduction(self.slots, position, flat)(rows).reshape(chunks, self.number, *rows.shape[1:])


class ListSums(eqx.Module):
    """The sums of one list of blocks, `k` of every element.

    Of the matrix `K` of elements that feel no translation a list has the blocks off the diagonal, one of each pair of nodes,
    `(i, j)` or `(j, i)`: `E`, of `E + E^T`. As every row of `K` adds up to nothing, `K_ii = D_i + D_i^T` with
    `D_i = -1/2 sum of E_ab over the pairs (a, b) that i is one of`, and the sums `D` follow those of the list.
    """

    blocks: Buckets
    diagonal: Buckets | None  # of the sums of blocks

    def of_chunk(self, blocks: Float[Array, "n r c"], number: Int[Array, ""]) -> Float[Array, "u r c"]:
        """The sums of one chunk, from its blocks."""
        # With a row of zeros for the padding no read has to ask whether it is in bounds.
        blocks = jnp.concatenate([blocks, jnp.zeros((1, *blocks.shape[1:]), blocks.dtype)])
        # A function of its own: as a part of the loop's writes to the whole, the sums would be made by one core.
        with set_xla_metadata(inlineable="false"):
            sums = self.blocks.of_chunk(blocks, number)
            return sums if self.diagonal is None else _with_diagonal(sums, self.diagonal.of_chunk(sums, number), 0)

    def of_all(self, blocks: Float[Array, "blocks r c"], firsts: Int[Array, " chunks"], pad: int) -> Float[Array, "m r c"]:
        """The sums of all chunks, from the blocks of all elements. `firsts`: the first block of every chunk."""
        sums = self.blocks.of_all(blocks, firsts, pad)
        if self.diagonal is not None:
            rows = sums.reshape(-1, *blocks.shape[1:])
            both = jnp.concatenate([rows, rows])  # as a row and as a column: the tables name the first, `slots` knows both
            starts = self.blocks.number * jnp.arange(sums.shape[0])
            sums = _with_diagonal(sums, self.diagonal.of_all(both, starts), 1)
        return sums.reshape(-1, *blocks.shape[1:])


def _with_diagonal(sums: Array, diagonal: Array, axis: int) -> Array:
    return jnp.concatenate([sums, -0.5 * diagonal], axis)


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

    @property
    def know_diagonal(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return any(one.diagonal is not None for one in self.lists)

    @classmethod
    def build(cls, places: Sequence[Places], *, diagonal: bool = False) -> tuple["ChunkSums", list[Places]] | None:
        """The plan for blocks that stand at `(rows, columns)`, each `(elements, k)`, and where its sums stand; host work.

        `diagonal`: with the sums that are said to follow in `ListSums`. None where it is not worth it: few elements, or
        elements in an order that knows nothing of neighbours. A chunk of fewer sums than another has sums of nothing in
        their stead, which stand where others of its sums do.
        """
        elements = places[0][0].shape[0]
        if elements < _FEWEST:
            return None
        most = max(rows.shape[1] for rows, _ in places)
        length = -(-elements // -(-elements * most // _BLOCKS))
        chunks = -(-elements // length)
        # The last chunk starts early enough to be whole, and leaves out what the one before it has.
        starts = np.minimum(length * np.arange(chunks), elements - length)
        built = [_list_sums(rows, columns, starts, length, diagonal) for rows, columns in places]
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


def _list_sums(
    rows: np.ndarray, columns: np.ndarray, starts: np.ndarray, length: int, diagonal: bool
) -> tuple[ListSums, Places]:
    k, chunks = rows.shape[1], len(starts)
    keys = rows.astype(np.int64) * (int(columns.max(initial=0)) + 1) + columns
    fresh = length * np.arange(chunks)
    own = [keys[at : start + length].reshape(-1) for at, start in zip(fresh, starts, strict=True)]
    inside = [k * (at - start) + np.arange(part.size) for at, start, part in zip(fresh, starts, own, strict=True)]
    blocks, places, kept, real = _bucketed(own, inside, k * length, spare=diagonal)
    stand = np.concatenate([k * at + first for at, first in zip(fresh, kept, strict=True)])
    rows, columns = (side.reshape(-1)[stand].reshape(chunks, -1) for side in (rows, columns))
    if not diagonal:
        return ListSums(blocks, None), (rows.reshape(-1), columns.reshape(-1))
    numbers = [np.flatnonzero(is_real) for is_real in real]
    ends = [np.concatenate([rows[c, n], columns[c, n]]) for c, n in enumerate(numbers)]
    sums, places, kept, _ = _bucketed(ends, [np.tile(n, 2) for n in numbers], blocks.number - 1)
    slots = np.zeros((2, chunks, blocks.number), np.int32)
    for c, (n, place) in enumerate(zip(numbers, places, strict=True)):
        slots[:, c, n] = place.reshape(2, -1) + c * sums.number
    sums = Buckets(sums.tables, jnp.asarray(slots.reshape(-1)))
    nodes = np.stack([end[first] for end, first in zip(ends, kept, strict=True)])
    where = (np.concatenate([side, nodes], axis=1).reshape(-1) for side in (rows, columns))
    return ListSums(blocks, sums), tuple(where)  # pyright: ignore[reportReturnType]


def _bucketed(
    keys: Sequence[np.ndarray], members: Sequence[np.ndarray], pad: int, *, spare: bool = False
) -> tuple[Buckets, list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """The members of each chunk in groups of equal keys; `pad` fills. Beside the buckets, for every chunk: the group of each
    member, a member of each group, and whether a group has any. `spare`: the last group of a chunk never has."""
    found = []
    for own in keys:
        order = np.argsort(own, kind="stable")
        first = np.flatnonzero(np.concatenate([[True], own[order][1:] != own[order][:-1]]))
        counts = np.diff(np.append(first, own.size))
        found.append((order, first, counts, _WIDTHS[np.searchsorted(_WIDTHS, counts)]))
    widths = np.unique(np.concatenate([width for _, _, _, width in found]))
    groups = [max(int(np.sum(width == w)) for _, _, _, width in found) for w in widths]
    groups[-1] += spare
    tables = [np.full((len(keys), g, w), pad, np.int32) for g, w in zip(groups, widths, strict=True)]
    places, kept, real = [], [], []
    for number, (order, first, counts, width) in enumerate(found):
        place = np.empty(order.size, np.int64)
        some = np.resize(order[first], sum(groups))
        filled = np.zeros(sum(groups), bool)
        begin = 0
        for table, size, w in zip(tables, groups, widths, strict=True):
            which = np.flatnonzero(width == w)
            lane = np.arange(w)
            taken = lane < counts[which, None]
            own = order[(first[which, None] + lane)[taken]]
            table[number, : which.size][taken] = members[number][own]
            at = begin + np.arange(which.size)
            place[own] = np.broadcast_to(at[:, None], taken.shape)[taken]
            some[at], filled[at] = order[first[which]], True
            begin += size
        places.append(place)
        kept.append(some)
        real.append(filled)
    slots = np.concatenate([place + number * sum(groups) for number, place in enumerate(places)])
    return Buckets(tuple(jnp.asarray(t) for t in tables), jnp.asarray(slots, jnp.int32)), places, kept, real
