"""The product of two block-sparse matrices as one loop over the rows, compiled for a CPU.

F. G. Gustavson, ACM Trans. Math. Softw. 4 (1978) 250, doi:10.1145/355791.355796: a row of the product is the sum of rows of
the right matrix; where a column of it stands is looked up in an array of all columns.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._llvm.ffi import ForeignFunction, number_type
from .._llvm.ir_builder import Text
from .._runtime.array_types import Array
from .._runtime.plain_form import NotCompilable
from .spmv_kernel import Pattern, blocks_of, pieces

LARGEST = 12  # rows or columns of a block: the lines to compile are as many as the products of three of them


def multiply(
    left: Array,
    right: Array,
    left_starts: Array,
    left_columns: Array,
    right_starts: Array,
    right_columns: Array,
    starts: Array,
    columns: Array,
    *,
    width: int,
) -> Array:
    """`(scenes, z, r, c)` from `(scenes, p, r, s)` and `(scenes, q, s, c)`, either of one scene for all.

    On one CPU only. Raises `NotCompilable` for numbers that it has no instructions for, and for large blocks.
    """
    scenes, dtype = max(left.shape[0], right.shape[0]), jnp.result_type(left, right)
    (r, s), c = left.shape[-2:], right.shape[-1]
    z, rows = columns.shape[0], starts.shape[0] - 1
    if 0 in (z, rows, left.shape[1], right.shape[1], scenes):
        return jnp.zeros((scenes, z, r, c), dtype)
    function = _function(r, s, c, dtype)
    is_own = [a.shape[0] > 1 for a in (left, right)]
    operands = [a.astype(dtype) if own else a[0].astype(dtype) for a, own in zip((left, right), is_own, strict=True)]
    operands += [left_starts, left_columns, right_starts, right_columns, starts, columns]
    results = [jax.ShapeDtypeStruct((scenes, z, r, c), dtype), jax.ShapeDtypeStruct((width,), np.dtype(np.int32))]
    sizes = (rows, left.shape[1], right_starts.shape[0] - 1, right.shape[1], z, width)
    return function(operands, results, sizes, [*is_own, *6 * [False], True, False])[0]


@functools.cache
def _function(r: int, s: int, c: int, dtype: Any) -> ForeignFunction:
    """The loop for blocks `r x s` and `s x c`."""
    if max(r, s, c) > LARGEST:
        raise NotCompilable(f"lines for products of blocks {(r, s, c)}")
    scalar, text = number_type(dtype), Text()
    left, right, product = ((f"[{n} x {scalar}]", at) for n, at in ((r * s, "%a0"), (s * c, "%a1"), (r * c, "%r0")))
    of_left = Pattern("%a3", "%a2", "%lefts", "%inner")
    of_right = Pattern("%a5", "%a4", "%rights", "%width")
    own = Pattern("%a7", "%a6", "%blocks", "%width")
    with text.each(0, "%width") as column:
        text.do(f"store i32 -1, ptr {text.place('i32', '%r1', column)}")
    with text.each(0, "%rows") as row:
        first, end, _ = blocks_of(text, own, row)
        with text.each(first, end) as slot:
            _enter(text, slot, product, r * c)
        begin, stop, _ = blocks_of(text, of_left, row)
        with text.each(begin, stop) as block:
            inner = text.index(of_left.columns, block)
            factor = text.place(*left, block)
            with text.when(text.let(f"icmp ult i64 {inner}, %inner")):
                start, last, _ = blocks_of(text, of_right, inner)
                with text.each(start, last) as other:
                    _add(text, (r, s, c), dtype, factor, text.place(*right, other), product, (other, first, end))
    return text.function(8, 2, ("rows", "lefts", "inner", "rights", "blocks", "width"))


def _enter(text: Text, slot: str, product: tuple[str, str], size: int) -> None:
    """A block of the row: nil, and where its column is to be found."""
    scalar = product[0].split()[-1][:-1]
    block = text.place(*product, slot)
    for i in range(size):
        text.do(f"store {scalar} 0.0, ptr {text.place(scalar, block, i)}")
    column = text.index("%a7", slot)
    with text.when(text.let(f"icmp ult i64 {column}, %width")):
        short = text.let(f"trunc i64 {slot} to i32")
        text.do(f"store i32 {short}, ptr {text.place('i32', '%r1', column)}")


def _add(
    text: Text,
    shape: tuple[int, int, int],
    dtype: Any,
    left: str,
    right: str,
    product: tuple[str, str],
    at: tuple[str, str, str],
) -> None:
    """`C_ij += L_ik R_kj`, if the row has a block `j`."""
    (_, s, c), (other, first, end) = shape, at
    column = text.index("%a5", other)
    with text.when(text.let(f"icmp ult i64 {column}, %width")):
        slot = text.index("%r1", column)
        past, length = text.let(f"sub i64 {slot}, {first}"), text.let(f"sub i64 {end}, {first}")
        with text.when(text.let(f"icmp ult i64 {past}, {length}")):
            factors = Block(left, dtype, s), Block(right, dtype, c)
            add_product(text, shape, dtype, *factors, text.place(*product, slot))


class Block(NamedTuple):
    """Where a block stands that is read, of which type its numbers are, and how many of them are in a row of it."""

    place: str
    dtype: Any
    columns: int
    transposed: bool = False  # whether it is multiplied as its transpose

    def load(self, text: Text, row: int, column: int, kind: str, dtype: Any) -> str:
        """The numbers from one on, as so many (`kind` of a type) of another type that is as wide or wider."""
        at = column * self.columns + row if self.transposed else row * self.columns + column
        own, wanted, align = number_type(self.dtype), number_type(dtype), np.dtype(self.dtype).itemsize
        found = text.let(f"load {kind.format(own)}, ptr {text.place(own, self.place, at)}, align {align}")
        return found if own == wanted else text.let(f"fpext {kind.format(own)} {found} to {kind.format(wanted)}")


def add_product(text: Text, shape: tuple[int, int, int], dtype: Any, left: Block, right: Block, block: str) -> None:
    """`C += L R` of blocks `r x s` and `s x c`, of `C` where it is."""
    (r, s, c), scalar, align = shape, number_type(dtype), np.dtype(dtype).itemsize
    for begin, width in pieces(c):
        kind = f"<{width} x {scalar}>"
        below = [right.load(text, k, begin, f"<{width} x {{}}>", dtype) for k in range(s)]
        for i in range(r):
            where = text.place(scalar, block, i * c + begin)
            total = text.let(f"load {kind}, ptr {where}, align {align}")
            for k in range(s):
                number = left.load(text, i, k, "{}", dtype)
                one = text.let(f"insertelement {kind} poison, {scalar} {number}, i32 0")
                all_ = text.let(f"shufflevector {kind} {one}, {kind} poison, <{width} x i32> zeroinitializer")
                term = text.let(f"fmul contract {kind} {all_}, {below[k]}")
                total = text.let(f"fadd contract {kind} {total}, {term}")
            text.do(f"store {kind} {total}, ptr {where}, align {align}")
