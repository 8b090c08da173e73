"""The sums over the rows of a product, each made where its blocks and the parts of the vector are read.

A product of blocks with vectors, written down and summed afterwards, goes through memory three times. The blocks of a row
stand one after the other, so the sum of a row is known from where it begins and how long it is: rows are bucketed by
length, and each bucket is summed in one pass.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._math.indexing import all_within, marked, nearest_rows, nearest_rows_or_zeros, take_rows
from .._runtime.array_types import Array, Bool, Float, Int
from .._runtime.devices import divided
from .._runtime.host_arrays import as_data
from .segment_sum import sum_entries

_FILL = 0.15  # padding that is allowed, as a share of the blocks, for fewer buckets to compile
_SMALL = 512  # blocks of padding that are allowed in any case


class RowProducts(eqx.Module):
    """The plan for the rows of one pattern. Data, not static: patterns of equal sizes share a trace."""

    starts: tuple[Int[Array, " rows"], ...]  # the first block of every row, bucket by bucket
    lengths: tuple[Int[Array, " rows"], ...]  # its blocks
    position: Int[Array, " n"]  # where each row stands among the concatenated buckets
    longest: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def build(cls, row_starts: np.ndarray) -> "RowProducts":
        """The plan for rows that begin at `row_starts` (n + 1); host work."""
        lengths = np.diff(row_starts)
        buckets = _buckets(lengths)
        position = np.full(lengths.size, lengths.size, np.int32)  # an empty row: beyond the end, where zeros are read
        place = 0
        for rows in buckets:
            position[rows] = place + np.arange(rows.size)
            place += rows.size
        return cls(
            tuple(as_data(row_starts[rows], np.int32) for rows in buckets),
            tuple(as_data(lengths[rows], np.int32) for rows in buckets),
            as_data(position),
            tuple(int(lengths[rows].max()) for rows in buckets),
        )

    def __call__(
        self,
        values: Float[Array, "... z r c"],
        columns: Int[Array, " z"],
        x: Float[Array, "... m c"],
        *,
        divides: bool,
    ) -> Float[Array, "... n r"]:
        """`y_i = sum of values[b] x[columns[b]]` over the blocks `b` of row `i`; of a batch, axes before these broadcast.
        `divides`: of one product, each device its share."""
        return (self._divided if divides else self._whole)(values, columns, x)

    def _whole(
        self, values: Float[Array, "... z r c"], columns: Int[Array, " z"], x: Float[Array, "... m c"]
    ) -> Float[Array, "... n r"]:
        (z, r, c), m = values.shape[-3:], x.shape[-2]
        batch = np.broadcast_shapes(values.shape[:-3], x.shape[:-2])
        # The matrices of a batch are one, block by block along its diagonal.
        first_block, first_node = _numbers(values.shape[:-3], batch) * z, _numbers(x.shape[:-2], batch) * m
        values, x = values.reshape(-1, r, c), x.reshape(-1, c)

        def bucket(start: Array, length: Array, longest: int) -> Array:
            number = jnp.arange(longest, dtype=start.dtype)
            inside = number < length[:, None]
            at = jnp.where(inside, start[:, None] + number, start[:, None])
            blocks = nearest_rows(values, first_block[:, None, None] + at)
            vectors = nearest_rows(x, first_node[:, None, None] + nearest_rows(columns, at))
            # Entry by entry: as small products they would be half as fast.
            entries = [sum(blocks[..., i, j] * vectors[..., j] for j in range(c)) for i in range(r)]
            return sum_entries([jnp.where(inside, entry, 0) for entry in entries], axis=2)

        sums = [bucket(*each) for each in zip(self.starts, self.lengths, self.longest, strict=True)]
        nothing = jnp.zeros((first_block.size, 0, r), jnp.result_type(values, x))
        sums = jnp.concatenate(sums, axis=1) if sums else nothing
        places = _numbers(batch, batch)[:, None] * sums.shape[1] + self.position
        places = jnp.where(self.position < sums.shape[1], places, first_block.size * sums.shape[1])
        found = nearest_rows_or_zeros(sums.reshape(-1, r), places).reshape(*batch, -1, r)
        return marked(found, self._are_right(columns, z, m))

    def _are_right(self, columns: Int[Array, " z"], blocks: int, nodes: int) -> Bool[Array, ""]:
        """Whether all numbers are those of rows, of blocks of rows, and of places that there are."""
        ends = [start + length for start, length in zip(self.starts, self.lengths, strict=True)]
        within = [(start, blocks) for start in self.starts] + [(end, blocks + 1) for end in ends]
        lengths = [(n, longest + 1) for n, longest in zip(self.lengths, self.longest, strict=True)]
        return all_within(*within, *lengths, (columns, nodes), (self.position, self.position.shape[0] + 1))

    def _divided(
        self, values: Float[Array, "z r c"], columns: Int[Array, " z"], x: Float[Array, "m c"]
    ) -> Float[Array, "n r"]:
        """The same, each device with its share of the rows of every bucket."""
        counts = [start.shape[0] for start in self.starts]

        def of_device(numbers: Sequence[Array]) -> Array:
            starts, lengths = (tuple(map(take_rows, each, numbers)) for each in (self.starts, self.lengths))
            in_order = jnp.arange(sum(n.shape[0] for n in numbers), dtype=jnp.int32)
            return RowProducts(starts, lengths, in_order, self.longest)._whole(values, columns, x)

        sums = divided(of_device, counts)
        # A row's place among all is not that among the sums of every device.
        devices, rows, r = sums.shape
        places = jnp.full_like(self.position, devices * rows)
        before, begin = 0, 0
        for count in counts:
            share = -(-count // devices)
            number = self.position - before
            at = number // share * rows + begin + number % share
            places = jnp.where((number >= 0) & (number < count), at, places)
            before, begin = before + count, begin + share
        return nearest_rows_or_zeros(sums.reshape(-1, r), places)


def _numbers(own: tuple[int, ...], batch: tuple[int, ...]) -> np.ndarray:
    """For every member of a batch, which of one's `own` matrices or vectors belongs to it."""
    return np.broadcast_to(np.arange(math.prod(own), dtype=np.int32).reshape(own), batch).reshape(-1)


def _buckets(lengths: np.ndarray) -> list[np.ndarray]:
    """The rows, in groups of like length: neighbours in length are joined while that adds little to read."""
    widths, counts = np.unique(lengths[lengths > 0], return_counts=True)
    widths, counts = list(widths), list(counts)
    allowance = max(_FILL * lengths.sum(), _SMALL)
    while len(widths) > 1:
        costs = np.diff(widths) * counts[:-1]
        cheapest = int(np.argmin(costs))
        allowance -= costs[cheapest]
        if allowance < 0:
            break
        counts[cheapest + 1] += counts[cheapest]
        del widths[cheapest], counts[cheapest]
    limits = zip([0, *widths], widths, strict=False)
    return [np.flatnonzero((lengths > below) & (lengths <= width)) for below, width in limits]
