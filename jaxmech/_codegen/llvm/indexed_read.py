"""An entry of a table that elements share, read where its number says: a choice from among all takes as many operations."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from ..._llvm.ir_builder import constant
from ..scalarize.arithmetic import Scalar, is_number
from .shared_product import shared_matrix
from .stored import Stored, copied, value_at
from .vector import Vector, vector_of


def indexed_read(arithmetic: Any, scalars: np.ndarray, some: slice, number: Scalar) -> Vector | None:
    """One of some of the scalars: of numbers that are known, or of those of an argument in regular steps; of one element
    alone also of a copy of all scalars. Else None.

    `number`: 0 for the first of them; whoever asks sees to it that there is one.
    """
    if scalars[0].dtype.kind == "b":
        return None
    if isinstance(scalars[some][0], Stored) and (entry := _read_stored(arithmetic, scalars[some], number)) is not None:
        return entry
    all_, first = (scalars, some.start) if arithmetic.has_places else (scalars[some], 0)
    table = table_of(arithmetic, all_)
    if table is None:
        return None
    name, begin, step = table
    at = arithmetic.combine("mul", number.dtype, number, number.dtype.type(step))
    made = functools.partial(_read, arithmetic, name, begin + first * step, at, scalars[0].dtype)
    return arithmetic.once(f"read {name} {begin + first * step}", (at,), made)


def table_of(arithmetic: Any, scalars: np.ndarray) -> tuple[str, int, int] | None:
    """Where scalars stand in memory, the number of the first there, and the step from one to the next."""
    if all(map(is_number, scalars)):
        return known_table(arithmetic, scalars), 0, 1
    if (place := shared_matrix(scalars[None])) is not None:
        return f"%a{place.argument}", place.first, place.column_step
    if arithmetic.has_places:
        return arithmetic.once("copied", scalars, lambda: copied(arithmetic, scalars)), 0, 1
    return None


def _read_stored(arithmetic: Any, scalars: Sequence[Scalar], number: Scalar) -> Vector | None:
    """The same of consecutive entries of an array in memory."""
    first = scalars[0]
    now = first.memory.entries[first.number : first.number + len(scalars)]
    if not all(a is b for a, b in zip(scalars, now, strict=True)):
        return None
    return value_at(arithmetic, first.memory, number, first.number)


def known_table(arithmetic: Any, scalars: np.ndarray) -> str:
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
