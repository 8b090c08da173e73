"""Rows of eight elements, each as it lies in memory: made of vectors that hold one number of all eight."""

from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from .vector import WIDTH
from .vector_arithmetic import VectorArithmetic


def store_rows(arithmetic: VectorArithmetic, number: int, output: np.ndarray, dtype: Any, lanes: int) -> None:
    """The scalars of an output in the row of every element.

    All elements' first numbers, then all their second ones would be a store each, and a turn of the whole array in XLA.
    """
    lines, align = arithmetic.lines, np.dtype(dtype).itemsize
    scalar, values = _bytes(arithmetic, output, dtype)
    vector, size = f"<{WIDTH} x {scalar}>", len(values)
    first = arithmetic.fresh()
    lines.append(f"  {first}.row = mul i64 %lane, {size}")
    lines.append(f"  {first} = getelementptr {scalar}, ptr %r{number}, i64 {first}.row")
    if size == 1 and lanes == WIDTH:
        lines.append(f"  store {vector} {values[0]}, ptr {first}, align {align}")
        return
    whole = size - size % WIDTH
    parts = [transposed(arithmetic, values[at : at + WIDTH], vector) for at in range(0, whole, WIDTH)]
    for lane in range(lanes):
        for i, part in enumerate(parts):
            to = _place(arithmetic, scalar, first, lane * size + WIDTH * i)
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
    for name, value in zip(names, values, strict=True):
        arithmetic.lines.append(f"  {name} = zext <{WIDTH} x i1> {value} to <{WIDTH} x i8>")
    return "i8", names


def _place(arithmetic: VectorArithmetic, scalar: str, pointer: str, offset: int) -> str:
    name = arithmetic.fresh()
    arithmetic.lines.append(f"  {name} = getelementptr {scalar}, ptr {pointer}, i64 {offset}")
    return name


def transposed(arithmetic: VectorArithmetic, vectors: list[str], kind: str) -> list[str]:
    """Eight vectors of eight, as a matrix, transposed: pairs of blocks off the diagonal change places, at every scale."""
    distance = 1
    while distance < WIDTH:
        after = list(vectors)
        for i in range(WIDTH):
            if not i & distance:
                j = i + distance
                low = [t if not t & distance else WIDTH + t - distance for t in range(WIDTH)]
                high = [t + distance if not t & distance else WIDTH + t for t in range(WIDTH)]
                for place, order in ((i, low), (j, high)):
                    after[place] = arithmetic.fresh()
                    mask = f"<{WIDTH} x i32> <{', '.join(f'i32 {t}' for t in order)}>"
                    arithmetic.lines.append(
                        f"  {after[place]} = shufflevector {kind} {vectors[i]}, {kind} {vectors[j]}, {mask}"
                    )
        vectors = after
        distance *= 2
    return vectors
