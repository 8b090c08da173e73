"""Rows of elements, each as it lies in memory: made of vectors that hold one number of all of them, or of one alone."""

from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from .vector import vector_of
from .vector_arithmetic import VectorArithmetic


def store_rows(arithmetic: VectorArithmetic, number: int, output: np.ndarray, dtype: Any, lanes: int) -> None:
    """The scalars of an output in the row of every element.

    All elements' first numbers, then all their second ones would be a store each, and a turn of the whole array in XLA.
    """
    lines, align = arithmetic.lines, np.dtype(dtype).itemsize
    scalar, values = _bytes(arithmetic, output, dtype)
    width, size = arithmetic.width, len(values)
    vector = vector_of(scalar, width)
    first = arithmetic.fresh()
    lines.append(f"  {first}.row = mul i64 %lane, {size}")
    lines.append(f"  {first} = getelementptr {scalar}, ptr %r{number}, i64 {first}.row")
    if size == 1 and lanes == width:
        lines.append(f"  store {vector} {values[0]}, ptr {first}, align {align}")
        return
    whole = size - size % width
    parts = [transposed(arithmetic, values[at : at + width], vector) for at in range(0, whole, width)]
    for lane in range(lanes):
        for i, part in enumerate(parts):
            to = _place(arithmetic, scalar, first, lane * size + width * i)
            lines.append(f"  store {vector} {part[lane]}, ptr {to}, align {align}")
        for j in range(whole, size):
            to = _place(arithmetic, scalar, first, lane * size + j)
            lines.append(f"  {to}.one = extractelement {vector} {values[j]}, i32 {lane}")
            lines.append(f"  store {scalar} {to}.one, ptr {to}, align {align}")


def _bytes(arithmetic: VectorArithmetic, output: np.ndarray, dtype: Any) -> tuple[str, list[str]]:
    """The type of a number in memory, and the vectors of it; truth values are bytes there."""
    values = []
    for x in output.flat:
        if x.dtype != dtype:
            raise TypeError(f"an output of type {dtype} made of {x.dtype}")
        values.append(arithmetic.named(x))
    if (scalar := number_type(dtype)) != "i1":
        return scalar, values
    names = [arithmetic.fresh() for _ in values]
    truths, numbers = (vector_of(kind, arithmetic.width) for kind in ("i1", "i8"))
    for name, value in zip(names, values, strict=True):
        arithmetic.lines.append(f"  {name} = zext {truths} {value} to {numbers}")
    return "i8", names


def _place(arithmetic: VectorArithmetic, scalar: str, pointer: str, offset: int) -> str:
    name = arithmetic.fresh()
    arithmetic.lines.append(f"  {name} = getelementptr {scalar}, ptr {pointer}, i64 {offset}")
    return name


def transposed(arithmetic: VectorArithmetic, vectors: list[str], kind: str) -> list[str]:
    """As many vectors as each has entries, transposed as a matrix: pairs of blocks off the diagonal change places, at every
    scale."""
    distance, width = 1, len(vectors)
    while distance < width:
        after = list(vectors)
        for i in range(width):
            if not i & distance:
                j = i + distance
                low = [t if not t & distance else width + t - distance for t in range(width)]
                high = [t + distance if not t & distance else width + t for t in range(width)]
                for place, order in ((i, low), (j, high)):
                    after[place] = arithmetic.fresh()
                    mask = f"<{width} x i32> <{', '.join(f'i32 {t}' for t in order)}>"
                    arithmetic.lines.append(
                        f"  {after[place]} = shufflevector {kind} {vectors[i]}, {kind} {vectors[j]}, {mask}"
                    )
        vectors = after
        distance *= 2
    return vectors
