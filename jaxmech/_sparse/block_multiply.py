"""Products of two block-sparse matrices whose pattern is known: the numeric half, under `jit`."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import expand
from .._llvm.ffi import compile_on_cpu
from .._math.indexing import add_rows, take_rows
from .._math.small_matmul import times_blocks
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .._runtime.jax_internals import Primitive, ShapedArray, define
from .block_multiply_kernel import multiply
from .pattern import BlockPattern

_CHUNK = 1 << 20  # products of blocks that are written down at once where there is no kernel


class BlockRows(eqx.Module):
    """Where the blocks of a matrix stand, and nothing else: row `i` has those from `row_starts[i]` on, columns ascending.

    `length`: those of the longest row; `width`: how many columns there are.
    """

    row_starts: Int[Array, " n+1"]
    columns: Int[Array, " z"]
    width: int = eqx.field(static=True)
    length: int = eqx.field(static=True)

    @classmethod
    def of(cls, row_starts: np.ndarray, columns: np.ndarray, width: int) -> "BlockRows":
        """From host arrays."""
        longest = int(np.diff(row_starts).max(initial=0))
        return cls(as_data(row_starts, np.int32), as_data(columns, np.int32), int(width), longest)

    @classmethod
    def of_pattern(cls, pattern: BlockPattern) -> "BlockRows":
        """Those of a pattern."""
        longest = max(pattern.row_products.longest, default=0)
        return cls(pattern.row_starts, pattern.columns, pattern.shape[1], longest)


def block_multiply(
    left: Float[Array, "p r s"], left_rows: BlockRows, right: Float[Array, "q s c"], right_rows: BlockRows, rows: BlockRows
) -> Float[Array, "z r c"]:
    """The blocks of `L R` that stand in `rows`, each the sum over `k` of `L_ik R_kj`; others are left out.

    By one loop on a CPU (`block_multiply_kernel.py`), elsewhere by operations on arrays, some products at a time. No
    derivative: what is made of it only changes how fast iterations converge.
    """
    found = (len(left_rows.columns), len(right_rows.columns), len(right_rows.row_starts) - 1)
    if found != (left.shape[0], right.shape[0], left_rows.width):
        raise ValueError(f"block_multiply: {left.shape[0]} and {right.shape[0]} blocks do not fit patterns of {found}.")
    operands = jax.lax.stop_gradient((left[None], right[None]))
    index = (left_rows, right_rows, rows)
    arrays = [a for one in index for a in (one.row_starts, one.columns)]
    return _multiply_p.bind(*operands, *arrays, width=rows.width, longest=(left_rows.length, right_rows.length))[0]


def _as_arrays(left, right, *arrays, width, longest):
    del width
    count = max(left.shape[0], right.shape[0])
    left, right = (jnp.broadcast_to(a, (count, *a.shape[1:])) for a in (left, right))
    return jax.lax.map(lambda pair: _expanded(*pair, *arrays, longest=longest), (left, right))


def _expanded(left, right, left_starts, left_columns, right_starts, right_columns, starts, columns, *, longest):
    """Every block of `L` with every block of its row of `R`, rows of `R` padded to the longest."""
    lanes, blocks = max(longest[1], 1), max(left.shape[0], 1)
    total = jnp.zeros((columns.shape[0], left.shape[1], right.shape[2]), jnp.result_type(left, right))
    if not (left.shape[0] and right.shape[0] and columns.shape[0]):
        return total
    chunk = min(max(_CHUNK // lanes, 1), blocks)
    row_of = jnp.searchsorted(left_starts, jnp.arange(blocks), side="right").astype(jnp.int32) - 1

    def add(number, total):
        block = number * chunk + jnp.arange(chunk)
        own = jnp.minimum(block, blocks - 1)
        k, row = take_rows(left_columns, own), take_rows(row_of, own)
        place = take_rows(right_starts, k)[:, None] + jnp.arange(lanes)
        there = (place < take_rows(right_starts, k + 1)[:, None]) & (block < blocks)[:, None]
        place = jnp.where(there, place, 0)
        slot, found = _slot(
            columns, take_rows(starts, row)[:, None], take_rows(starts, row + 1)[:, None], right_columns[place]
        )
        products = times_blocks(take_rows(left, own)[:, None], take_rows(right, place))
        products = jnp.where((there & found)[..., None, None], products, 0)
        return add_rows(total, slot.reshape(-1), products.reshape(-1, *products.shape[2:]))

    return jax.lax.fori_loop(0, -(-blocks // chunk), add, total)


def _slot(columns: Array, first: Array, end: Array, wanted: Array) -> tuple[Array, Array]:
    """Where a column stands between two places of an ascending list, and whether it does."""
    low, high = jnp.broadcast_to(first, wanted.shape), jnp.broadcast_to(end, wanted.shape)

    def halve(_, bounds):
        low, high = bounds
        middle = (low + high) // 2
        below = (take_rows(columns, jnp.minimum(middle, columns.shape[0] - 1)) < wanted) & (low < high)
        return jnp.where(below, middle + 1, low), jnp.where(below, high, middle)

    low, _ = jax.lax.fori_loop(0, 32, halve, (low, high))
    inside = low < end
    place = jnp.where(inside, low, 0)
    return place, inside & (take_rows(columns, place) == wanted)


def _as_kernel(left, right, *arrays, width, longest):
    del longest
    return multiply(left, right, *arrays, width=width)


def _abstract(left, right, *arrays, width, longest):
    del width, longest
    count = max(left.shape[0], right.shape[0])
    return ShapedArray((count, arrays[-1].shape[0], left.shape[-2], right.shape[-1]), jnp.result_type(left, right))


def batched(primitive: Primitive, operands: Any, axes: Any, static: dict[str, Any]) -> tuple[Array, int]:
    """A batch is more scenes, in front of the first two operands; a matrix that all share stays one."""
    size = next(a.shape[axis] for a, axis in zip(operands, axes, strict=True) if axis is not None)
    if any(axis is not None for axis in axes[2:]):
        whole = [jnp.moveaxis(a, x, 0) if x is not None else None for a, x in zip(operands, axes, strict=True)]
        parts = [
            primitive.bind(*(a if w is None else w[i] for a, w in zip(operands, whole, strict=True)), **static)
            for i in range(size)
        ]
        return jnp.stack(parts), 0
    pairs = [(a if x is None else jnp.moveaxis(a, x, 0), x is not None) for a, x in zip(operands[:2], axes[:2], strict=True)]
    scenes = max(a.shape[int(own)] for a, own in pairs)

    def folded(a: Array, own: bool) -> Array:
        if not own and a.shape[0] == 1:
            return a
        a = a if own else a[None]
        return jnp.broadcast_to(a, (size, scenes, *a.shape[2:])).reshape(size * scenes, *a.shape[2:])

    found = primitive.bind(*(folded(a, own) for a, own in pairs), *operands[2:], **static)
    return found.reshape(size, scenes, *found.shape[1:]), 0


def _batch(operands, axes, **static):
    return batched(_multiply_p, operands, axes, static)


_multiply_p = Primitive("jaxmech_block_multiply")
_multiply_p.def_abstract_eval(_abstract)
define(_multiply_p, batch=_batch)
compile_on_cpu(_multiply_p, _as_arrays, _as_kernel)
expand(_multiply_p, _as_arrays)
