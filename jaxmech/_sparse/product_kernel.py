"""The product of block rows with a vector as one loop over the blocks, in the language of LLVM.

The entries of a block are multiplied where they stand in memory, each with the part of the vector that its column has, and
added to those of the row's other blocks: sums of entries, of which a row of the result adds up a few. So the matrix is read
once, in order, and nothing else is large.
"""

import functools
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._devices import device_count, in_shares
from .._llvm import ForeignFunction, number_type
from .._typing import Array, Float, Int

_WIDTH = 8  # entries at once
_DIVIDED = 1000  # rows, of fewer of which the devices have told each other nothing in the time that they take


def multiply_rows(
    values: Float[Array, "... z r c"], row_starts: Int[Array, " n+1"], columns: Int[Array, " z"], x: Float[Array, "... m c"]
) -> Float[Array, "... n r"]:
    """`y_i = sum of values[b] x[columns[b]]` over the blocks `b` from `row_starts[i]` to `row_starts[i + 1]`; of a batch,
    axes before these broadcast. On one CPU only. Raises `NotOfThisMachine` for numbers that it has no instructions for."""
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

    divides = not batch and rows >= _DIVIDED and device_count() > 1
    return in_shares(share, rows) if divides else share(0, rows)


def _numbers(own: tuple[int, ...], batch: tuple[int, ...]) -> Array:
    """For every member of a batch, which of one's `own` matrices or vectors belongs to it."""
    return jnp.asarray(np.broadcast_to(np.arange(math.prod(own), dtype=np.int32).reshape(own), batch).reshape(-1))


@functools.cache
def _function(r: int, c: int, dtype: Any) -> ForeignFunction:
    """The loop for blocks of `r` rows and `c` columns."""
    scalar, align = number_type(dtype), np.dtype(dtype).itemsize
    sums, loop, totals, stores = [], _part(c, scalar, align), [], []
    for n, (first, width) in enumerate(_pieces(r * c)):
        vector = f"<{width} x {scalar}>"
        loop += [
            f"  %b{n}.at = getelementptr {scalar}, ptr %block.at, i64 {first}",
            f"  %b{n} = load {vector}, ptr %b{n}.at, align {align}",
            f"  %x{n} = {_spread(c, scalar, [(first + i) % c for i in range(width)])}",
            f"  %p{n} = fmul contract {vector} %b{n}, %x{n}",
            f"  %sum{n}.next = fadd contract {vector} %sum{n}, %p{n}",
        ]
        sums.append(f"  %sum{n} = phi {vector} [ zeroinitializer, %row ], [ %sum{n}.next, %block ]")
        totals.append(f"  %total{n} = phi {vector} [ zeroinitializer, %row ], [ %sum{n}.next, %block ]")
        stores += [f"  %y{first + i}.0 = extractelement {vector} %total{n}, i32 {i}" for i in range(width)]
    for i in range(r):
        for j in range(1, c):
            stores.append(f"  %y{c * i}.{j} = fadd {scalar} %y{c * i}.{j - 1}, %y{c * i + j}.0")
        stores.append(f"  %y{c * i}.at = getelementptr {scalar}, ptr %result.at, i64 {i}")
        stores.append(f"  store {scalar} %y{c * i}.{c - 1}, ptr %y{c * i}.at, align {align}")
    return ForeignFunction(_text(r, c, scalar, (sums, loop, totals, stores)), arguments=6, results=1, numbers=5)


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    """The entries of a block in vectors: the first of each, and how many."""
    first = 0
    while first < size:
        width = min(_WIDTH, 1 << ((size - first).bit_length() - 1))
        yield first, width
        first += width


def _part(c: int, scalar: str, align: int) -> list[str]:
    """The part of the vector that a block is multiplied with, in a vector at least as wide."""
    width = _width(c)
    vector = f"<{width} x {scalar}>"
    if width == c:
        return [f"  %x = load {vector}, ptr %x.at, align {align}"]
    inside = ", ".join(f"i1 {'true' if i < c else 'false'}" for i in range(width))
    given = f"ptr %x.at, i32 {align}, <{width} x i1> <{inside}>, {vector} zeroinitializer"
    return [f"  %x = call {vector} @llvm.masked.load.v{width}f{8 * align}.p0({given})"]


def _width(c: int) -> int:
    return 1 << (c - 1).bit_length()


def _spread(c: int, scalar: str, entries: list[int]) -> str:
    """These entries of the part of the vector."""
    vector = f"<{_width(c)} x {scalar}>"
    order = ", ".join(f"i32 {i}" for i in entries)
    return f"shufflevector {vector} %x, {vector} poison, <{len(entries)} x i32> <{order}>"


def _text(r: int, c: int, scalar: str, parts: tuple[list[str], list[str], list[str], list[str]]) -> str:
    """Scene by scene, row by row, block by block: the sums so far, what a block adds, the sums of a row, what is written."""
    sums, loop, totals, stores = parts
    width, bits = _width(c), 64 if scalar == "double" else 32
    vector = f"<{width} x {scalar}>"
    arguments = [*(f"ptr noalias readonly %a{i}" for i in range(6)), "ptr noalias %r0"]
    numbers = [f"i64 %{name}" for name in ("first", "count", "scenes", "blocks", "nodes")]
    return "\n".join(
        [
            f"declare {vector} @llvm.masked.load.v{width}f{bits}.p0(ptr, i32, <{width} x i1>, {vector})",
            f"define internal void @each({', '.join([*arguments, *numbers])}) {{",
            "begin:",
            "  br label %scene",
            "scene:",
            "  %s = phi i64 [ 0, %begin ], [ %s.next, %scene.end ]",
            *_number("matrix", "%a4", "%s"),
            *_number("vector", "%a5", "%s"),
            *_row("matrix", scalar, "%a0", "%blocks", r * c),
            *_row("vector", scalar, "%a3", "%nodes", c),
            *_row("s", scalar, "%r0", "%count", r),
            "  br label %row",
            "row:",
            "  %i = phi i64 [ 0, %scene ], [ %i.next, %row.end ]",
            "  %number = add i64 %first, %i",
            "  %number.next = add i64 %number, 1",
            *_number("start", "%a2", "%number"),
            *_number("stop", "%a2", "%number.next"),
            "  %filled = icmp slt i64 %start, %stop",
            "  br i1 %filled, label %block, label %row.end",
            "block:",
            "  %k = phi i64 [ %start, %row ], [ %k.next, %block ]",
            *sums,
            *_number("column", "%a1", "%k"),
            f"  %block.at = getelementptr [{r * c} x {scalar}], ptr %matrix.at, i64 %k",
            f"  %x.at = getelementptr [{c} x {scalar}], ptr %vector.at, i64 %column",
            *loop,
            "  %k.next = add i64 %k, 1",
            "  %more = icmp slt i64 %k.next, %stop",
            "  br i1 %more, label %block, label %row.end",
            "row.end:",
            *totals,
            f"  %result.at = getelementptr [{r} x {scalar}], ptr %s.at, i64 %i",
            *stores,
            "  %i.next = add i64 %i, 1",
            "  %i.more = icmp slt i64 %i.next, %count",
            "  br i1 %i.more, label %row, label %scene.end",
            "scene.end:",
            "  %s.next = add i64 %s, 1",
            "  %s.more = icmp slt i64 %s.next, %scenes",
            "  br i1 %s.more, label %scene, label %end",
            "end:",
            "  ret void",
            "}",
        ]
    )


def _number(name: str, array: str, at: str) -> list[str]:
    """A number from an array of those."""
    return [
        f"  %{name}.number = getelementptr i32, ptr {array}, i64 {at}",
        f"  %{name}.short = load i32, ptr %{name}.number",
        f"  %{name} = sext i32 %{name}.short to i64",
    ]


def _row(name: str, scalar: str, array: str, length: str, size: int) -> list[str]:
    """Where the matrix or the vector of this number begins, of which each has `length` rows of `size`."""
    return [
        f"  %{name}.rows = mul i64 %{name}, {length}",
        f"  %{name}.at = getelementptr [{size} x {scalar}], ptr {array}, i64 %{name}.rows",
    ]
