"""A matrix that all elements share, a layer's weights say, times a vector that each has: a loop that a kernel calls.

Written out, the thousand products of a layer are one block of instructions, which LLVM puts in an order that has more sums
at work than there are registers, and every number of the matrix waits in memory for each of them: the stiffness of a network
of 2 x 32 then takes twice as long, most of it in stores and loads, and three times as long to compile.
"""

from typing import Any, NamedTuple

import numpy as np

from ..._llvm.ffi import number_type
from ..._llvm.ir_builder import Text
from ..scalarize.arithmetic import is_number
from ..scalarize.rules import written_out
from .vector import Vector, vector_of

WORTH = 256  # products, below which they are written out: 16 x 16
_BYTES = 256  # of sums at work, half of AVX2's registers
_FEWEST = 4  # elements; of fewer, the sums are as many


class SharedMatrix(NamedTuple):
    """Where the numbers of a matrix `(rows, columns)` stand: those of an argument of the kernel, in regular steps."""

    argument: int
    first: int
    row_step: int
    column_step: int


def shared_product(arithmetic: Any, dtype: Any, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """`left right^T` of scalars `(m, k)` and `(n, k)`, one of which is a matrix that all elements share and worth it."""
    for matrix, vectors in ((left, right), (right, left)):
        shared = shared_matrix(matrix) if np.dtype(dtype).kind == "f" and matrix.size >= WORTH else None
        if shared is not None:
            columns = np.stack([_times(arithmetic, shared, matrix, x) for x in vectors])
            return columns if matrix is right else columns.T
    return None


def _times(arithmetic: Any, shared: SharedMatrix, matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The matrix times a vector; written out where most of that is known."""
    rows, dtype = len(matrix), x[0].dtype
    if rows * sum(not is_number(entry) for entry in x) < WORTH:
        return written_out(arithmetic, dtype, matrix, x[None])[:, 0]

    def made() -> np.ndarray:
        names = _called(arithmetic, shared, rows, list(map(arithmetic.named, x)), dtype)
        return np.array([Vector(name, dtype) for name in names], object)

    return arithmetic.once(f"{shared} {rows}", x, made)


def shared_matrix(scalars: np.ndarray) -> SharedMatrix | None:
    """The matrix that scalars `(rows, columns)` are, if it is one."""
    places = [x.place for x in scalars.flat if isinstance(x, Vector) and x.place is not None]
    if len(places) < scalars.size or len({argument for argument, _ in places}) != 1:
        return None
    at = np.asarray([entry for _, entry in places]).reshape(scalars.shape)
    down, right = (int(np.diff(line[:2]).sum()) for line in (at[:, 0], at[0]))  # 0 of a single one
    rows, columns = np.indices(at.shape)
    is_regular = np.array_equal(at, at[0, 0] + down * rows + right * columns)
    return SharedMatrix(places[0][0], int(at[0, 0]), down, right) if is_regular else None


def _called(arithmetic: Any, matrix: SharedMatrix, rows: int, x: list[str], dtype: Any) -> list[str]:
    """The names of the `rows` entries of a matrix times a vector of named values, by a call."""
    scalar, lines = number_type(dtype), arithmetic.lines
    vector = vector_of(scalar, arithmetic.width)
    given, made, start = arithmetic.fresh(), arithmetic.fresh(), arithmetic.fresh()
    arithmetic.declarations[_function(dtype, arithmetic.width)] = None
    arithmetic.before += [f"  {given} = alloca [{len(x)} x {vector}]", f"  {made} = alloca [{rows} x {vector}]"]
    for k, value in enumerate(x):
        at = arithmetic.named_line(f"getelementptr {vector}, ptr {given}, i64 {k}")
        lines.append(f"  store {vector} {value}, ptr {at}")
    sizes = f"i64 {rows}, i64 {matrix.row_step}, i64 {len(x)}, i64 {matrix.column_step}"
    lines += [
        f"  {start} = getelementptr {scalar}, ptr %a{matrix.argument}, i64 {matrix.first}",
        f"  call void @product.{scalar}(ptr {start}, {sizes}, ptr {given}, ptr {made})",
    ]
    places = [arithmetic.named_line(f"getelementptr {vector}, ptr {made}, i64 {k}") for k in range(rows)]
    return [arithmetic.named_line(f"load {vector}, ptr {at}") for at in places]


def _function(dtype: Any, width: int) -> str:
    """`y = W x` of so many elements at once: a few rows of `W` at a time, each sum in a register.

    Its arguments: `W`, its rows, the step between them, its columns, the step between these, `x`, `y`.
    """
    text, scalar = Text(), number_type(dtype)
    vector = vector_of(scalar, width)
    together = _BYTES // (max(width, _FEWEST) * np.dtype(dtype).itemsize)

    def of_all(entry: str) -> str:
        if width == 1:
            return entry
        one = text.let(f"insertelement {vector} poison, {scalar} {entry}, i32 0")
        return text.let(f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer")

    def rows(first: str, count: int) -> None:
        sums = [text.variable(vector, "zeroinitializer") for _ in range(count)]
        numbers = [text.let(f"add i64 {first}, {r}") for r in range(count)]
        starts = [text.place(scalar, "%matrix", text.let(f"mul i64 {number}, %down")) for number in numbers]
        with text.each(0, "%columns") as k:
            x, offset = text.let(f"load {vector}, ptr {text.place(vector, '%x', k)}"), text.let(f"mul i64 {k}, %right")
            for total, start in zip(sums, starts, strict=True):
                entry = text.let(f"load {scalar}, ptr {text.place(scalar, start, offset)}")
                product = text.let(f"fmul contract {vector} {of_all(entry)}, {x}")
                text.set(total, text.let(f"fadd contract {vector} {text.get(total)}, {product}"))
        for total, number in zip(sums, numbers, strict=True):
            text.do(f"store {vector} {text.get(total)}, ptr {text.place(vector, '%y', number)}")

    whole = text.let(f"udiv i64 %rows, {together}")
    with text.each(0, whole) as block:
        rows(text.let(f"mul i64 {block}, {together}"), together)
    with text.each(text.let(f"mul i64 {whole}, {together}"), "%rows") as row:
        rows(row, 1)
    parameters = "ptr readonly %matrix, i64 %rows, i64 %down, i64 %columns, i64 %right, ptr noalias readonly %x"
    head = f"define internal void @product.{scalar}({parameters}, ptr noalias writeonly %y) noinline nounwind willreturn"
    return text.internal(head)
