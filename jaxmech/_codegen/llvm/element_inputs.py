"""What a kernel reads: scalars of the rows that elements have, of the nodes where they stand, and of what all share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from ..program.nodal_gather import NodeRows
from .vector import Vector, vector_of
from .vector_arithmetic import VectorArithmetic


def memory_type(dtype: Any) -> str:
    """The type of a number in memory."""
    scalar = number_type(dtype)
    return "i8" if scalar == "i1" else scalar


def of_all(number: int, a: Any) -> np.ndarray:
    """The scalars of an array that all elements share."""
    result = np.empty(a.shape, object)
    for k, place in enumerate(np.ndindex(a.shape)):
        result[place] = Vector(f"%s{number}.{k}", a.dtype, (number, k))
    return result


def read_before(x: Vector, number: int, k: int, width: int) -> list[str]:
    """One of them, read before the loop."""
    scalar, vector = memory_type(x.dtype), vector_of(memory_type(x.dtype), width)
    name = x.name if scalar == number_type(x.dtype) else f"{x.name}.byte"
    one = name if width == 1 else f"{name}.one"
    lines = [f"  {name}.at = getelementptr {scalar}, ptr %a{number}, i64 {k}", f"  {one} = load {scalar}, ptr {name}.at"]
    if width > 1:
        lines += [
            f"  {name}.first = insertelement {vector} poison, {scalar} {one}, i32 0",
            f"  {name} = shufflevector {vector} {name}.first, {vector} poison, <{width} x i32> zeroinitializer",
        ]
    return lines if name == x.name else [*lines, f"  {x.name} = trunc {vector} {name} to {vector_of('i1', width)}"]


def of_each(arithmetic: VectorArithmetic, number: int, a: Any, lanes: int) -> np.ndarray:
    """The scalars of the row that every element has of an array."""
    shape, scalar = a.shape[1:], memory_type(a.dtype)
    size, pointer = int(np.prod(shape)), f"%o{number}"
    arithmetic.lines.append(f"  {pointer}.at = mul i64 %element, {size}")
    arithmetic.lines.append(f"  {pointer} = getelementptr {scalar}, ptr %a{number}, i64 {pointer}.at")
    result = np.empty(shape, object)
    for k, place in enumerate(np.ndindex(shape)):
        result[place] = _gathered(arithmetic, a.dtype, [(pointer, size * lane + k) for lane in range(lanes)])
    return result


def at_nodes(arithmetic: VectorArithmetic, number: int, a: NodeRows, nodes: int, lanes: int) -> np.ndarray:
    """The scalars of the nodes that every element has."""
    lines, scalar, integer = arithmetic.lines, memory_type(a.dtype), memory_type(a.nodes.dtype)
    each, size = int(np.prod(a.nodes.shape[1:])), int(np.prod(a.values.shape[1:]))
    lines.append(f"  %o{number} = mul i64 %element, {each}")
    result = np.empty((each, size), object)
    for n in range(each):
        rows = [f"%o{number}.{n}.{lane}" for lane in range(lanes)]
        for lane, row in enumerate(rows):
            lines += [
                f"  {row}.at = add i64 %o{number}, {each * lane + n}",
                f"  {row}.number = getelementptr {integer}, ptr %a{nodes}, i64 {row}.at",
                f"  {row}.node = load {integer}, ptr {row}.number",
                f"  {row} = getelementptr [{size} x {scalar}], ptr %a{number}, {integer} {row}.node",
            ]
        for k in range(size):
            result[n, k] = _gathered(arithmetic, a.dtype, [(row, k) for row in rows])
    return result.reshape(a.shape[1:])


def _gathered(arithmetic: VectorArithmetic, dtype: Any, places: Sequence[tuple[str, int]]) -> Vector:
    """A vector of numbers, each so many numbers after a pointer; the last one again where there are fewer."""
    scalar, last, width = memory_type(dtype), "poison", arithmetic.width
    if width == 1:
        ((pointer, offset),), name = places, arithmetic.fresh()
        arithmetic.lines += [
            f"  {name}.at = getelementptr {scalar}, ptr {pointer}, i64 {offset}",
            f"  {name} = load {scalar}, ptr {name}.at",
        ]
        return _loaded(arithmetic, name, dtype)
    for lane, (pointer, offset) in enumerate(places):
        name = arithmetic.fresh()
        arithmetic.lines += [
            f"  {name}.at = getelementptr {scalar}, ptr {pointer}, i64 {offset}",
            f"  {name}.one = load {scalar}, ptr {name}.at",
            f"  {name} = insertelement {vector_of(scalar, width)} {last}, {scalar} {name}.one, i32 {lane}",
        ]
        last = name
    if len(places) < width:
        vector, name = vector_of(scalar, width), arithmetic.fresh()
        which = ", ".join(f"i32 {min(lane, len(places) - 1)}" for lane in range(width))
        arithmetic.lines.append(f"  {name} = shufflevector {vector} {last}, {vector} poison, <{width} x i32> <{which}>")
        last = name
    return _loaded(arithmetic, last, dtype)


def _loaded(arithmetic: VectorArithmetic, name: str, dtype: Any) -> Vector:
    """What was read from memory, where truth values are bytes."""
    if np.dtype(dtype).name != "bool":
        return Vector(name, dtype)
    bytes_, truths = (vector_of(scalar, arithmetic.width) for scalar in ("i8", "i1"))
    arithmetic.lines.append(f"  {name}.true = trunc {bytes_} {name} to {truths}")
    return Vector(f"{name}.true", dtype)
