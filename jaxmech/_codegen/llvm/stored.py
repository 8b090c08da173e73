"""Arrays that a loop keeps in memory, because it writes to them at places that are computed.

As values each entry is chosen anew in every round: what it was, or what is written. In memory a round writes what it writes.
An entry says at which writing it was so: of one that has been written over since nothing can be told, and a program that
asks for it keeps nothing in memory (`WrittenOver`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from ..scalarize.arithmetic import Change, NotScalarisable, Scalar, is_number
from .vector import Vector

_STACK = 1 << 19  # bytes in all, of the stack of whichever thread XLA calls from


class WrittenOver(NotScalarisable):
    """An entry of an array is asked for as it was before something else was written there."""


class Memory:
    """So many numbers of a type in memory, how often they have been written to, and what they are now."""

    def __init__(self, name: str, dtype: Any, size: int):
        self.name, self.dtype, self.size, self.writings = name, np.dtype(dtype), size, 0
        self.entries: list[Scalar] = []
        self.changed()

    def changed(self) -> None:
        """They are others now."""
        self.writings += 1
        self.entries = [Stored(self, k) for k in range(self.size)]


class Stored(Vector):
    """An entry of an array in memory, as it is after so many writings."""

    __slots__ = ("memory", "number", "writing")

    def __init__(self, memory: Memory, number: int):
        super().__init__("", memory.dtype)
        self.memory, self.number, self.writing = memory, number, memory.writings


def loaded(arithmetic: Any, x: Stored) -> Vector:
    """The value of an entry."""
    if x.writing != x.memory.writings:
        raise WrittenOver("an entry that was written over")

    def made() -> Vector:
        scalar = number_type(x.dtype)
        at = arithmetic.named_line(f"getelementptr {scalar}, ptr {x.memory.name}, i64 {x.number}")
        return Vector(arithmetic.named_line(f"load {scalar}, ptr {at}"), x.dtype)

    return arithmetic.once("loaded", (x,), made)


def value_at(arithmetic: Any, memory: Memory, number: Scalar, offset: int) -> Vector:
    """The value of the entry so many after the one of a number."""
    scalar, integer = number_type(memory.dtype), number_type(number.dtype)
    start = arithmetic.named_line(f"getelementptr {scalar}, ptr {memory.name}, {integer} {arithmetic.named(number)}")
    at = arithmetic.named_line(f"getelementptr {scalar}, ptr {start}, i64 {offset}")
    return Vector(arithmetic.named_line(f"load {scalar}, ptr {at}"), memory.dtype)


def memory_of(scalars: Sequence[Scalar]) -> Memory | None:
    """The memory in which an array is, all of it in order, as it is now."""
    first = scalars[0] if len(scalars) else None
    if not isinstance(first, Stored) or len(scalars) != first.memory.size:
        return None
    return first.memory if all(a is b for a, b in zip(scalars, first.memory.entries, strict=True)) else None


def put(arithmetic: Any, memory: Memory, values: Sequence[Scalar]) -> None:
    """Write all entries."""
    if all(is_number(x) and not any(x.tobytes()) for x in values):
        size = memory.size * memory.dtype.itemsize
        arithmetic.lines.append(f"  call void @llvm.memset.p0.i64(ptr {memory.name}, i8 0, i64 {size}, i1 false)")
        memory.changed()
        return
    scalar, known = number_type(memory.dtype), [arithmetic.named(x) for x in values]  # before any is written over
    for k, value in enumerate(known):
        at = arithmetic.named_line(f"getelementptr {scalar}, ptr {memory.name}, i64 {k}")
        arithmetic.lines.append(f"  store {scalar} {value}, ptr {at}")
    memory.changed()


def put_at(arithmetic: Any, memory: Memory, number: Scalar, values: Sequence[tuple[int, Scalar]]) -> None:
    """Write some entries, each so many after the one of this number."""
    scalar, integer = number_type(memory.dtype), number_type(number.dtype)
    known = [(offset, arithmetic.named(x)) for offset, x in values]
    start = arithmetic.named_line(f"getelementptr {scalar}, ptr {memory.name}, {integer} {arithmetic.named(number)}")
    for offset, value in known:
        at = arithmetic.named_line(f"getelementptr {scalar}, ptr {start}, i64 {offset}")
        arithmetic.lines.append(f"  store {scalar} {value}, ptr {at}")
    memory.changed()


def room(arithmetic: Any, dtype: Any, size: int) -> str:
    """Memory for so many numbers of a type. Raises `NotCompilable` beyond what a stack has."""
    name = arithmetic.fresh()
    arithmetic.taken += size * np.dtype(dtype).itemsize
    if arithmetic.taken > _STACK:
        raise NotScalarisable(f"{arithmetic.taken} bytes of memory in a kernel")
    arithmetic.before.append(f"  {name} = alloca [{size} x {number_type(dtype)}]")
    return name


def copied(arithmetic: Any, scalars: Sequence[Scalar]) -> str:
    """Where a copy of some scalars is, one after the other."""
    kind = number_type(scalars[0].dtype)
    values, pointer = [arithmetic.named(x) for x in scalars], room(arithmetic, scalars[0].dtype, len(scalars))
    for k, value in enumerate(values):
        at = arithmetic.named_line(f"getelementptr {kind}, ptr {pointer}, i64 {k}")
        arithmetic.lines.append(f"  store {kind} {value}, ptr {at}")
    return pointer


def changed(arithmetic: Any, scalars: Sequence[Scalar], changes: Sequence[Change], combined: str | None) -> list[Scalar]:
    """Some scalars after changes, each of them replaced, or combined with a value: in a copy of them."""
    dtype = scalars[0].dtype
    kind, pointer = number_type(dtype), copied(arithmetic, scalars)
    for number, offset, value, is_there in changes:
        start = arithmetic.named_line(f"getelementptr {kind}, ptr {pointer}, i64 {offset}")
        at = arithmetic.named_line(
            f"getelementptr {kind}, ptr {start}, {number_type(number.dtype)} {arithmetic.named(number)}"
        )
        new = value
        if combined is not None or not is_number(is_there):
            old = Vector(arithmetic.named_line(f"load {kind}, ptr {at}"), dtype)
            new = value if combined is None else arithmetic.combine(combined, dtype, old, value)
            new = new if is_number(is_there) else arithmetic.select(is_there, new, old)
        arithmetic.lines.append(f"  store {kind} {arithmetic.named(new)}, ptr {at}")
    return entries_at(arithmetic, pointer, dtype, len(scalars))


def entries_at(arithmetic: Any, pointer: str, dtype: Any, size: int) -> list[Scalar]:
    """So many numbers as they are in memory now."""
    kind = number_type(dtype)
    places = [arithmetic.named_line(f"getelementptr {kind}, ptr {pointer}, i64 {k}") for k in range(size)]
    return [Vector(arithmetic.named_line(f"load {kind}, ptr {at}"), dtype) for at in places]
