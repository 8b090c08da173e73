"""Sums of groups of rows without scatter: the numeric half of assembly, of products and of nodal sums.

`sums[s] = sum of values[c] over the contributions c with slots[c] = s`. Contributions are bucketed by the length of
their group; each bucket is gathered and summed in one pass, and one permutation puts the sums in order. The
transpose, `spread`, is a plain gather. Both are one JAX primitive that knows its own transpose, so that reverse mode
(which would turn a gather into a scatter) gathers as well. The order of summation is fixed: results repeat bitwise.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import expand
from .._math.indexing import rows_or_zeros, take_rows
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .._runtime.jax_internals import (
    Primitive,
    ShapedArray,
    define,
    is_zero,
    lower_fun,
    register_lowering,
    zero_of,
    zero_tangent,
)
from .segment_sum import sum_lanes

_FEW = 512  # groups: those of a smaller bucket are padded no further than to their longest
_SMALL = 4096  # so few contributions share one bucket, whatever the padding
# Bucket widths: groups are padded to the next one, which wastes at most an eighth of the gathered rows.
_WIDTHS = np.unique(np.concatenate([np.arange(1, 9), (8 * 2 ** (np.arange(1, 110) / 6)).astype(np.int64)]))


class Reduction(eqx.Module):
    """The fixed plan of a grouped sum of `n` contributions into `m` slots. Data, not static: equal sizes, one trace."""

    slots: Int[Array, " n"]
    position: Int[Array, " m"]  # where the sum of each slot stands among the concatenated buckets
    tables: tuple[Int[Array, "groups width"], ...]  # contributions of each group; `n` pads
    is_identity: bool = eqx.field(static=True, default=False)  # one contribution for each slot, in order

    @classmethod
    def build(cls, slots: Any, size: int) -> "Reduction":
        """The plan for contributions that go to `slots` (host integers), of `size` slots in all."""
        slots = np.asarray(slots)
        counts = np.bincount(slots, minlength=size)
        starts = np.cumsum(counts) - counts
        in_order = slots.size < 2 or bool(np.all(slots[1:] >= slots[:-1]))
        order = np.arange(slots.size) if in_order else np.argsort(slots, kind="stable")
        bucket = np.where(counts == 0, -1, np.searchsorted(_WIDTHS, counts))
        if slots.size and size * counts.max() <= _SMALL:
            bucket[counts > 0] = bucket.max()
        position = np.empty(size, np.int32)
        tables, offset = [], 0
        for b in np.unique(bucket[bucket >= 0]):
            groups = np.flatnonzero(bucket == b)
            width = int(_WIDTHS[b])
            if len(groups) < _FEW:
                width = int(counts[groups].max())
            lane = np.arange(width)
            table = np.full((len(groups), width), slots.size, np.int32)
            filled = lane < counts[groups, None]
            table[filled] = order[(starts[groups, None] + lane)[filled]]
            tables.append(as_data(table))
            position[groups] = offset + np.arange(len(groups))
            offset += len(groups)
        position[bucket < 0] = offset  # beyond the end: an empty group sums to zero
        is_identity = in_order and bool(np.all(counts == 1))
        return cls(as_data(slots, np.int32), as_data(position), tuple(tables), is_identity)

    @property
    def size(self) -> int:
        """The number of slots."""
        return self.position.shape[0]

    def __call__(self, values: Float[Array, "n ..."]) -> Float[Array, "m ..."]:
        """The sum of each group. `ValueError` unless there are as many contributions as the plan was made for."""
        if values.shape[0] != self.slots.shape[0]:
            raise ValueError(
                f"{values.shape[0]} contributions, where the pattern was built for {self.slots.shape[0]}: build it again."
            )
        return self._bound(values, spread=False)

    def spread(self, sums: Float[Array, "m ..."]) -> Float[Array, "n ..."]:
        """The transpose: each contribution reads its slot."""
        return self._bound(sums, spread=True)

    def _bound(self, rows: Array, spread: bool) -> Array:
        return rows if self.is_identity else _reduce_p.bind(rows, self.slots, self.position, *self.tables, spread=spread)


def _evaluate(values: Array, slots: Array, position: Array, *tables: Array, spread: bool) -> Array:
    if spread:
        return take_rows(values, slots)
    if len(tables) == 1 and tables[0].shape[1] == 1:  # one contribution at most: where it stands is known of numbers alone
        each = jnp.append(tables[0][:, 0], jnp.int32(values.shape[0]))
        return rows_or_zeros(values, take_rows(each, position))
    sums = [sum_lanes(rows_or_zeros(values, table)) for table in tables]
    sums = jnp.concatenate(sums) if sums else jnp.zeros((0, *values.shape[1:]), values.dtype)
    return rows_or_zeros(sums, position)


def _abstract(values, slots, position, *tables, spread):
    del tables
    count = slots.shape[0] if spread else position.shape[0]
    return ShapedArray((count, *values.shape[1:]), values.dtype)


def _jvp(primals, tangents, **static):
    out = _reduce_p.bind(*primals, **static)
    if is_zero(tangents[0]):
        return out, zero_tangent(out)
    return out, _reduce_p.bind(tangents[0], *primals[1:], **static)


def _transpose(cotangent, values, *plan, spread):
    if is_zero(cotangent):
        return (zero_of(values.aval), *(None for _ in plan))
    return (_reduce_p.bind(cotangent, *plan, spread=not spread), *(None for _ in plan))


def _batch(args, axes, **static):
    values, *plan = args
    if all(axis is None for axis in axes[1:]):
        values = jnp.moveaxis(values, axes[0], 1)
        return _reduce_p.bind(values, *plan, **static), 1
    return jax.vmap(lambda *a: _evaluate(*a, **static), in_axes=axes)(*args), 0


_reduce_p = Primitive("jaxmech_reduce")
_reduce_p.def_impl(jax.jit(_evaluate, static_argnames="spread"))
_reduce_p.def_abstract_eval(_abstract)
define(_reduce_p, jvp=_jvp, transpose=_transpose, batch=_batch)
register_lowering(_reduce_p, lower_fun(_evaluate, multiple_results=False))
expand(_reduce_p, _evaluate)
