"""Arrays that a loop keeps in memory, because it writes to them at places that are computed.

As values each entry is chosen anew in every round: what it was, or what is written. In memory a round writes what it writes.
An entry says at which writing it was so: of one that has been written over since nothing can be told, and a program that
asks for it keeps nothing in memory (`WrittenOver`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from ..scalarize.arithmetic import NotScalarisable, Scalar
from .vector import Vector


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
    scalar = number_type(x.dtype)
    at = arithmetic.named_line(f"getelementptr {scalar}, ptr {x.memory.name}, i64 {x.number}")
    return Vector(arithmetic.named_line(f"load {scalar}, ptr {at}"), x.dtype)


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
