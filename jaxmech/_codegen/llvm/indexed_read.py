"""An entry of a table that elements share, read where its number says: a choice from among all takes as many operations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from ..._llvm.ir_builder import constant
from ..scalarize.arithmetic import Scalar, is_number
from .shared_product import shared_matrix
from .stored import Stored, value_at
from .vector import Vector, vector_of


def indexed_read(arithmetic: Any, scalars: np.ndarray, number: Scalar) -> Vector | None:
    """One of some scalars, which are numbers that are known or those of an argument in regular steps, else None.

    `number`: 0 for the first; whoever asks sees to it that there is one.
    """
    dtype = scalars[0].dtype
    if dtype.kind == "b":
        return None
    if isinstance(scalars[0], Stored):
        return _read_stored(arithmetic, scalars, number)
    if all(map(is_number, scalars)):
        table, first, step = _known_table(arithmetic, scalars), 0, 1
    elif (place := shared_matrix(scalars[None])) is not None:
        table, first, step = f"%a{place.argument}", place.first, place.column_step
    else:
        return None
    at = arithmetic.combine("mul", number.dtype, number, number.dtype.type(step))
    return arithmetic.once(f"read {table} {first}", (at,), lambda: _read(arithmetic, table, first, at, dtype))


def _read_stored(arithmetic: Any, scalars: Sequence[Scalar], number: Scalar) -> Vector | None:
    """The same of consecutive entries of an array in memory."""
    first = scalars[0]
    now = first.memory.entries[first.number : first.number + len(scalars)]
    if not all(a is b for a, b in zip(scalars, now, strict=True)):
        return None
    return value_at(arithmetic, first.memory, number, first.number)


def _known_table(arithmetic: Any, scalars: np.ndarray) -> str:
    """Numbers that are known as an array of the program."""
    scalar = number_type(scalars[0].dtype)

    def made() -> str:
        name, entries = f"@table.{arithmetic.fresh()[1:]}", ", ".join(f"{scalar} {constant(x)}" for x in scalars)
        arithmetic.declarations[f"{name} = private constant [{len(scalars)} x {scalar}] [{entries}]"] = None
        return name

    return arithmetic.once("table", scalars, made)


def _read(arithmetic: Any, table: str, first: int, at: Scalar, dtype: Any) -> Vector:
    scalar, integer, width = number_type(dtype), number_type(at.dtype), arithmetic.width
    start, numbers = arithmetic.named_line(f"getelementptr {scalar}, ptr {table}, i64 {first}"), arithmetic.named(at)

    def of_one(number: str) -> str:
        return arithmetic.named_line(
            f"load {scalar}, ptr {arithmetic.named_line(f'getelementptr {scalar}, ptr {start}, {integer} {number}')}"
        )

    if width == 1:
        return Vector(of_one(numbers), dtype)
    result, vector, integers = "poison", vector_of(scalar, width), vector_of(integer, width)
    for lane in range(width):
        entry = of_one(arithmetic.named_line(f"extractelement {integers} {numbers}, i32 {lane}"))
        result = arithmetic.named_line(f"insertelement {vector} {result}, {scalar} {entry}, i32 {lane}")
    return Vector(result, dtype)
