"""The product of block rows with a vector as one loop over the blocks, compiled for a CPU.

The entries of a block are multiplied where they stand in memory, each with the part of the vector that its column has, and
added to those of the row's other blocks: sums of entries, of which a row of the result adds up a few. So the matrix is read
once, in order, and nothing else is large.

The pattern is data, and may be anything: a column that does not exist is one of NaN, and so is a row that does not begin and
end at blocks.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._llvm.ffi import ForeignFunction, number_type
from .._llvm.ir_builder import Text, constant
from .._runtime.array_types import Array, Float, Int
from .._runtime.devices import in_shares
from .._runtime.plain_form import NotCompilable

_WIDTH = 8  # entries at once
_LARGEST = 36  # rows or columns of a block: the lines to compile are as many as its entries


def multiply_rows(
    values: Float[Array, "... z r c"],
    row_starts: Int[Array, " n+1"],
    columns: Int[Array, " z"],
    x: Float[Array, "... m c"],
    *,
    divides: bool,
) -> Float[Array, "... n r"]:
    """`y_i = sum of values[b] x[columns[b]]` over the blocks `b` from `row_starts[i]` to `row_starts[i + 1]`; of a batch,
    axes before these broadcast. `divides`: of one product, each device its share.

    On one CPU only. Raises `NotCompilable` for numbers that it has no instructions for, and for large blocks.
    """
    dtype, rows = jnp.result_type(values, x), row_starts.shape[0] - 1
    (z, r, c), m = values.shape[-3:], x.shape[-2]
    batch = np.broadcast_shapes(values.shape[:-3], x.shape[:-2])
    if 0 in (rows, z, r, c, *batch):
        return jnp.zeros((*batch, rows, r), dtype)
    function = _function(r, c, dtype)
    matrices, vectors = _numbers(values.shape[:-3], batch), _numbers(x.shape[:-2], batch)
    operands = values.astype(dtype), columns, row_starts, x.astype(dtype), matrices, vectors

    def share(first: Array | int, count: int) -> Array:
        result = jax.ShapeDtypeStruct((*batch, count, r), dtype)
        return function(operands, [result], (first, count, matrices.size, z, m))[0]

    return in_shares(share, rows) if divides else share(0, rows)


def _numbers(own: tuple[int, ...], batch: tuple[int, ...]) -> Array:
    """For every member of a batch, which of one's `own` matrices or vectors belongs to it."""
    return jnp.asarray(np.broadcast_to(np.arange(math.prod(own), dtype=np.int32).reshape(own), batch).reshape(-1))


@functools.cache
def _function(r: int, c: int, dtype: Any) -> ForeignFunction:
    """The loop for blocks of `r` rows and `c` columns: scene by scene, row by row, block by block."""
    scalar, text = number_type(dtype), Text()
    values, columns, row_starts, x, matrices, vectors = (f"%a{i}" for i in range(6))
    with text.each(0, "%scenes") as scene:
        block = text.let(f"mul i64 {text.index(matrices, scene)}, %blocks")
        matrix = text.place(f"[{r * c} x {scalar}]", values, block)
        node = text.let(f"mul i64 {text.index(vectors, scene)}, %nodes")
        vector = text.place(f"[{c} x {scalar}]", x, node)
        result = text.place(f"[{r} x {scalar}]", "%r0", text.let(f"mul i64 {scene}, %count"))
        with text.each(0, "%count") as number:
            row = text.let(f"add i64 %first, {number}")
            pattern = Pattern(columns, row_starts, "%blocks", "%nodes")
            for i, y in enumerate(row_product(text, (r, c), dtype, matrix, pattern, row, vector)):
                at = text.place(scalar, text.place(f"[{r} x {scalar}]", result, number), i)
                text.do(f"store {scalar} {y}, ptr {at}")
    return text.function(6, 1, ("first", "count", "scenes", "blocks", "nodes"))


class Pattern(NamedTuple):
    """Where the columns and the beginnings of rows of a matrix are; how many blocks and columns there are."""

    columns: str
    row_starts: str
    blocks: str
    nodes: str


def row_product(
    text: Text, shape: tuple[int, int], dtype: Any, matrix: str, pattern: Pattern, row: str, vector: str
) -> list[str]:
    """The `r` numbers of one row of the product, from where things are. Raises `NotCompilable` for large blocks."""
    if max(shape) > _LARGEST:
        raise NotCompilable(f"lines for each entry of blocks {shape}")
    (r, c), scalar, align = shape, number_type(dtype), np.dtype(dtype).itemsize
    pieces = [(first, width, f"<{width} x {scalar}>") for first, width in _pieces(r * c)]
    start, stop, is_row = _blocks_of(text, pattern, row)
    sums = [text.variable(kind, "zeroinitializer") for _, _, kind in pieces]
    with text.each(start, stop) as block:
        column = text.index(pattern.columns, block)
        exists = text.let(f"icmp ult i64 {column}, {pattern.nodes}")
        own = text.place(f"[{c} x {scalar}]", vector, column)
        x = _part(text, c, dtype, text.let(f"select i1 {exists}, ptr {own}, ptr {text.missing(scalar, c)}"))
        entries = text.place(f"[{r * c} x {scalar}]", matrix, block)
        for (first, width, kind), total in zip(pieces, sums, strict=True):
            own = text.let(f"load {kind}, ptr {text.place(scalar, entries, first)}, align {align}")
            order = ", ".join(f"i32 {(first + i) % c}" for i in range(width))
            part = f"<{_width(c)} x {scalar}>"
            factors = text.let(f"shufflevector {part} {x}, {part} poison, <{width} x i32> <{order}>")
            product = text.let(f"fmul contract {kind} {own}, {factors}")
            text.set(total, text.let(f"fadd contract {kind} {text.get(total)}, {product}"))
    found = [text.get(total) for total in sums]
    each = [
        text.let(f"extractelement {kind} {total}, i32 {i}")
        for (_, width, kind), total in zip(pieces, found, strict=True)
        for i in range(width)
    ]
    rows = []
    for i in range(r):
        rows.append(each[c * i])
        for j in range(1, c):
            rows[-1] = text.let(f"fadd {scalar} {rows[-1]}, {each[c * i + j]}")
    nan = constant(np.asarray(np.nan))
    return [text.let(f"select i1 {is_row}, {scalar} {y}, {scalar} {nan}") for y in rows]


def _blocks_of(text: Text, pattern: Pattern, row: str) -> tuple[str, str, str]:
    """The first block of a row, the one after its last, and whether there are such: otherwise it has none."""
    start = text.index(pattern.row_starts, row)
    stop = text.index(pattern.row_starts, text.let(f"add i64 {row}, 1"))
    ends = text.let(f"icmp ule i64 {stop}, {pattern.blocks}")  # no number below 0 is, without sign
    is_row = text.let(f"and i1 {ends}, {text.let(f'icmp ule i64 {start}, {stop}')}")
    start, stop = (text.let(f"select i1 {is_row}, i64 {number}, i64 0") for number in (start, stop))
    return start, stop, is_row


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    """The entries of a block in vectors: the first of each, and how many."""
    first = 0
    while first < size:
        width = min(_WIDTH, 1 << ((size - first).bit_length() - 1))
        yield first, width
        first += width


def _part(text: Text, c: int, dtype: Any, place: str) -> str:
    """The part of the vector that a block is multiplied with, in a vector at least as wide."""
    width, align = _width(c), np.dtype(dtype).itemsize
    kind = f"<{width} x {number_type(dtype)}>"
    if width == c:
        return text.let(f"load {kind}, ptr {place}, align {align}")
    function = f"@llvm.masked.load.v{width}f{8 * align}.p0"
    text.declare(f"{kind} {function}(ptr, i32, <{width} x i1>, {kind})")
    inside = ", ".join(f"i1 {'true' if i < c else 'false'}" for i in range(width))
    return text.let(f"call {kind} {function}(ptr {place}, i32 {align}, <{width} x i1> <{inside}>, {kind} zeroinitializer)")


def _width(c: int) -> int:
    return 1 << (c - 1).bit_length()
