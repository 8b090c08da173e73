"""The product of block rows with a vector as one loop over the blocks, compiled for a CPU.

The entries of a block are multiplied where they stand in memory, each with the part of the vector that its column has, and
added to those of the row's other blocks: sums of entries, of which a row of the result adds up a few. So the matrix is read
once, in order, and nothing else is large.

The pattern is data, and may be anything: a column that does not exist is one of NaN, and so is a row that does not begin and
end at blocks.
"""

import functools
import math
from collections.abc import Callable, Iterator
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
_ASKED = 256  # rows whose numbers are looked at before they are multiplied: their columns are still in the cache then
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
    columns, row_starts = (a.astype(jnp.int32) for a in (columns, row_starts))
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
        pattern = Pattern(columns, row_starts, "%blocks", "%nodes")
        with text.each(0, text.let(f"sdiv i64 {text.let(f'add i64 %count, {_ASKED - 1}')}, {_ASKED}")) as part:
            begin, end = _asked_together(text, part)
            rows = tuple(text.let(f"add i64 %first, {number}") for number in (begin, end))
            is_right = _are_right(text, pattern, *rows)
            with text.when(is_right), text.each(begin, end) as number:
                row = text.let(f"add i64 %first, {number}")
                product = row_product(text, (r, c), dtype, matrix, pattern, row, vector, asked=True)
                _store(text, scalar, result, number, product)
            with text.when(text.let(f"xor i1 {is_right}, true")), text.each(begin, end) as number:
                _store(text, scalar, result, number, r * [constant(np.asarray(np.nan))])
    return text.function(6, 1, ("first", "count", "scenes", "blocks", "nodes"))


def _store(text: Text, scalar: str, result: str, number: str, row: list[str]) -> None:
    for i, y in enumerate(row):
        at = text.place(scalar, text.place(f"[{len(row)} x {scalar}]", result, number), i)
        text.do(f"store {scalar} {y}, ptr {at}")


def _asked_together(text: Text, part: str) -> tuple[str, str]:
    """The first of some rows that are looked at together, and the one after the last."""
    begin = text.let(f"mul i64 {part}, {_ASKED}")
    end = text.let(f"add i64 {begin}, {_ASKED}")
    return begin, text.let(f"select i1 {text.let(f'icmp slt i64 {end}, %count')}, i64 {end}, i64 %count")


def _are_right(text: Text, pattern: "Pattern", first: str, end: str) -> str:
    """Whether rows begin one after the other within the blocks, and all their columns exist.

    Asked of many at once, just before they are read: of every block by itself it takes a fifth of a product in the cache.
    """
    start, stop = (text.index(pattern.row_starts, row) for row in (first, end))
    right = text.variable("i1", text.let(f"icmp ule i64 {stop}, {pattern.blocks}"))  # no number below 0 is, without sign

    def falls(kind: str, row: str) -> str:
        own, following = (_load(text, kind, pattern.row_starts, at) for at in (row, text.let(f"add i64 {row}, 1")))
        return text.let(f"icmp ugt {kind} {own}, {following}")

    def is_none(kind: str, block: str) -> str:
        nodes = _all_of(text, kind, text.let(f"trunc i64 {pattern.nodes} to i32"))
        return text.let(f"icmp uge {kind} {_load(text, kind, pattern.columns, block)}, {nodes}")

    text.set(right, text.let(f"and i1 {text.get(right)}, {_none(text, first, end, falls)}"))
    with text.when(text.get(right)):
        text.set(right, _none(text, start, stop, is_none))
    return text.get(right)


def _none(text: Text, first: str, end: str, wrong: Callable[[str, str], str]) -> str:
    """Whether no number of a range is wrong, looked at `_WIDTH` at once; `wrong(type, number)`."""
    many, flags = f"<{_WIDTH} x i32>", f"<{_WIDTH} x i1>"
    whole = text.let(f"and i64 {text.let(f'sub i64 {end}, {first}')}, {-_WIDTH}")
    whole = text.let(f"add i64 {first}, {whole}")
    found, number, last = text.variable(flags, "zeroinitializer"), text.variable("i64", first), text.variable("i1", "false")
    with text.repeated(lambda: text.let(f"icmp slt i64 {text.get(number)}, {whole}")):
        now = text.get(number)
        text.set(found, text.let(f"or {flags} {text.get(found)}, {wrong(many, now)}"))
        text.set(number, text.let(f"add i64 {now}, {_WIDTH}"))
    with text.each(whole, end) as now:
        text.set(last, text.let(f"or i1 {text.get(last)}, {wrong('i32', now)}"))
    bits = text.let(f"bitcast {flags} {text.get(found)} to i{_WIDTH}")
    fine = text.let(f"icmp eq i{_WIDTH} {bits}, 0")
    return text.let(f"and i1 {fine}, {text.let(f'xor i1 {text.get(last)}, true')}")


def _load(text: Text, kind: str, array: str, at: str) -> str:
    return text.let(f"load {kind}, ptr {text.place('i32', array, at)}, align 4")


def _all_of(text: Text, kind: str, number: str) -> str:
    """A number of 32 bits in every place of a vector, or as it is."""
    if kind == "i32":
        return number
    one = text.let(f"insertelement {kind} poison, i32 {number}, i32 0")
    return text.let(f"shufflevector {kind} {one}, {kind} poison, {kind} zeroinitializer")


class Pattern(NamedTuple):
    """Where the columns and the beginnings of rows of a matrix are; how many blocks and columns there are."""

    columns: str
    row_starts: str
    blocks: str
    nodes: str


def row_product(
    text: Text,
    shape: tuple[int, int],
    dtype: Any,
    matrix: str,
    pattern: Pattern,
    row: str,
    vector: str,
    *,
    asked: bool = False,
) -> list[str]:
    """The `r` numbers of one row of the product, from where things are. Raises `NotCompilable` for large blocks.

    `asked`: whether the row and its columns are known to exist."""
    if max(shape) > _LARGEST:
        raise NotCompilable(f"lines for each entry of blocks {shape}")
    (r, c), scalar, align = shape, number_type(dtype), np.dtype(dtype).itemsize
    parts = [(first, width, f"<{width} x {scalar}>") for first, width in pieces(r * c)]
    if asked:
        start, stop = (text.index(pattern.row_starts, at) for at in (row, text.let(f"add i64 {row}, 1")))
        is_row = "true"
    else:
        start, stop, is_row = blocks_of(text, pattern, row)
    sums = [text.variable(kind, "zeroinitializer") for _, _, kind in parts]
    with text.each(start, stop) as block:
        column = text.index(pattern.columns, block)
        own = text.place(f"[{c} x {scalar}]", vector, column)
        if not asked:
            exists = text.let(f"icmp ult i64 {column}, {pattern.nodes}")
            own = text.let(f"select i1 {exists}, ptr {own}, ptr {text.missing(scalar, c)}")
        x = _part(text, c, dtype, own)
        entries = text.place(f"[{r * c} x {scalar}]", matrix, block)
        for (first, width, kind), total in zip(parts, sums, strict=True):
            own = text.let(f"load {kind}, ptr {text.place(scalar, entries, first)}, align {align}")
            order = ", ".join(f"i32 {(first + i) % c}" for i in range(width))
            part = f"<{_width(c)} x {scalar}>"
            factors = text.let(f"shufflevector {part} {x}, {part} poison, <{width} x i32> <{order}>")
            product = text.let(f"fmul contract {kind} {own}, {factors}")
            text.set(total, text.let(f"fadd contract {kind} {text.get(total)}, {product}"))
    found = [text.get(total) for total in sums]
    each = [
        text.let(f"extractelement {kind} {total}, i32 {i}")
        for (_, width, kind), total in zip(parts, found, strict=True)
        for i in range(width)
    ]
    rows = []
    for i in range(r):
        rows.append(each[c * i])
        for j in range(1, c):
            rows[-1] = text.let(f"fadd {scalar} {rows[-1]}, {each[c * i + j]}")
    if asked:
        return rows
    nan = constant(np.asarray(np.nan))
    return [text.let(f"select i1 {is_row}, {scalar} {y}, {scalar} {nan}") for y in rows]


def blocks_of(text: Text, pattern: Pattern, row: str) -> tuple[str, str, str]:
    """The first block of a row, the one after its last, and whether there are such: otherwise it has none."""
    start = text.index(pattern.row_starts, row)
    stop = text.index(pattern.row_starts, text.let(f"add i64 {row}, 1"))
    ends = text.let(f"icmp ule i64 {stop}, {pattern.blocks}")  # no number below 0 is, without sign
    is_row = text.let(f"and i1 {ends}, {text.let(f'icmp ule i64 {start}, {stop}')}")
    start, stop = (text.let(f"select i1 {is_row}, i64 {number}, i64 0") for number in (start, stop))
    return start, stop, is_row


def pieces(size: int) -> Iterator[tuple[int, int]]:
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
