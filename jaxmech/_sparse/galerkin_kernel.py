"""`P^T A P` of a symmetric block-sparse matrix as one loop over its rows, compiled for a CPU.

Row `i` of `A P` is summed up in an array of all columns, and multiplied with the blocks of row `i` of `P` into the rows of
the result, from their diagonal on: nothing of the size of `A P` is ever there. The lower half is the upper one, transposed.
F. G. Gustavson, ACM Trans. Math. Softw. 4 (1978) 250, doi:10.1145/355791.355796.
"""

import functools
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import jax
import numpy as np

from .._llvm.ffi import ForeignFunction, number_type
from .._llvm.ir_builder import Text
from .._runtime.array_types import Array
from .._runtime.plain_form import NotCompilable
from .block_multiply_kernel import LARGEST, Block, add_product
from .spmv_kernel import Pattern, blocks_of


def galerkin(A: Array, P: Array, places: tuple[Array, ...]) -> Array:
    """`P^T A P`, `(scenes, z, m, m)`, of `(scenes, p, b, b)` and `(scenes, q, b, m)`, either of one scene for all.

    `places`: where rows begin and which columns their blocks have, of `A`, of `P` and of the result; its diagonal, and the
    order that sorts it column-major. On one CPU only. Raises `NotCompilable` for numbers that it has no instructions for,
    and for large blocks.
    """
    scenes, (b, m) = max(A.shape[0], P.shape[0]), P.shape[-2:]
    rows, q, width = places[0].shape[0] - 1, places[3].shape[0], places[4].shape[0] - 1
    z = places[5].shape[0]
    function = _function(b, m, A.dtype, P.dtype)
    is_own = [a.shape[0] > 1 for a in (A, P)]
    operands = [*(a if own else a[0] for a, own in zip((A, P), is_own, strict=True)), *places]
    shapes = (((scenes, z, m, m), A.dtype), ((width, b, m), A.dtype), ((width,), np.int32))
    results = [jax.ShapeDtypeStruct(shape, np.dtype(dtype)) for shape, dtype in shapes]
    flags = [*is_own, *len(places) * [False], True, False, False]
    return function(operands, results, (rows, A.shape[1], q, z, width), flags)[0]


@functools.cache
def _function(b: int, m: int, dtype: Any, narrow: Any) -> ForeignFunction:
    """The loop for blocks `b x b` of one type, and `b x m` of another that is as wide or narrower."""
    if max(b, m) > LARGEST:
        raise NotCompilable(f"lines for products of blocks {(b, m)}")
    text, scalar = Text(), number_type(dtype)
    of_A = Pattern("%a3", "%a2", "%blocks", "%rows")
    of_P = Pattern("%a5", "%a4", "%columns", "%width")
    half, result = f"[{b * m} x {scalar}]", f"[{m * m} x {scalar}]"
    _clear(text, scalar, "%r0", text.let(f"mul i64 %results, {m * m}"))
    with text.each(0, "%width") as column:
        text.do(f"store i32 -1, ptr {text.place('i32', '%r2', column)}")

    def block_of_P(at: str, *, transposed: bool = False) -> Block:
        return Block(text.place(f"[{b * m} x {number_type(narrow)}]", "%a1", at), narrow, m, transposed)

    with text.each(0, "%rows") as row:
        mark = text.let(f"trunc i64 {row} to i32")
        with _blocks(text, of_A, row) as (block, inner), _blocks(text, of_P, inner) as (other, column):
            total = text.place(half, "%r1", column)
            with text.when(text.let(f"xor i1 {_is_marked(text, mark, column)}, true")):
                text.do(f"store i32 {mark}, ptr {text.place('i32', '%r2', column)}")
                _clear(text, scalar, total, b * m)
            factor = Block(text.place(f"[{b * b} x {scalar}]", "%a0", block), dtype, b)
            add_product(text, (b, b, m), dtype, factor, block_of_P(other), total)
        with (
            _blocks(text, of_P, row) as (own, coarse),
            _upper(text, coarse) as (slot, column),
            text.when(_is_marked(text, mark, column)),
        ):
            factors = block_of_P(own, transposed=True), Block(text.place(half, "%r1", column), dtype, m)
            add_product(text, (m, b, m), dtype, *factors, text.place(result, "%r0", slot))
    with text.each(0, "%width") as coarse, _upper(text, coarse) as (slot, _):
        mirrored = text.index("%a9", slot)
        with text.when(text.let(f"icmp ult i64 {mirrored}, %results")):
            _mirror(text, scalar, m, text.place(result, "%r0", slot), text.place(result, "%r0", mirrored))
    return text.function(10, 3, ("rows", "blocks", "columns", "results", "width"))


@contextmanager
def _blocks(text: Text, pattern: Pattern, row: str, first: str | None = None) -> Iterator[tuple[str, str]]:
    """A loop over the blocks of a row whose columns there are (from the `first` on): of each its number and its column."""
    begin, end, _ = blocks_of(text, pattern, row)
    if first is not None:
        begin = text.let(f"select i1 {text.let(f'icmp sgt i64 {first}, {begin}')}, i64 {first}, i64 {begin}")
    with text.each(begin, end) as block:
        column = text.index(pattern.columns, block)
        with text.when(text.let(f"icmp ult i64 {column}, {pattern.nodes}")):
            yield block, column


def _upper(text: Text, row: str) -> AbstractContextManager[tuple[str, str]]:
    """The blocks of a row of the result from its diagonal on."""
    return _blocks(text, Pattern("%a7", "%a6", "%results", "%width"), row, text.index("%a8", row))


def _is_marked(text: Text, mark: str, column: str) -> str:
    """Whether the row that is summed up has a block in a column."""
    last = text.let(f"load i32, ptr {text.place('i32', '%r2', column)}")
    return text.let(f"icmp eq i32 {last}, {mark}")


def _clear(text: Text, scalar: str, place: str, count: str | int) -> None:
    with text.each(0, count) as entry:
        text.do(f"store {scalar} 0.0, ptr {text.place(scalar, place, entry)}")


def _mirror(text: Text, scalar: str, m: int, upper: str, lower: str) -> None:
    for i in range(m):
        for j in range(m):
            number = text.let(f"load {scalar}, ptr {text.place(scalar, upper, i * m + j)}")
            text.do(f"store {scalar} {number}, ptr {text.place(scalar, lower, j * m + i)}")
