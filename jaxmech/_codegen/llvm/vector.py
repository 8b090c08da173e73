"""Values of four or eight elements; of one alone, plain scalars."""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..._llvm.ffi import number_type
from ..._llvm.machine_code import register_bytes

WIDTH = 8  # elements that are computed together, at most
_LEAST = 4


def width_for(dtypes: Iterable[Any]) -> int:
    """How many elements of a loop are computed together: those whose largest real numbers fill a register.

    In two registers, LLVM has twice the instructions to order, and half the values at work: of stiffnesses of tetrahedra in
    float64 on AVX2 (Zen) it takes twice as long for eight, which run no faster.
    """
    largest = max((np.dtype(t).itemsize for t in dtypes if np.dtype(t).kind == "f"), default=1)
    return min(WIDTH, max(_LEAST, register_bytes() // largest))


def width_of_handful(count: int) -> int:
    """How many entries a value of so many elements has: a power of two."""
    return 1 << (count - 1).bit_length()


class Vector:
    """The name of a value of elements; of one that they share, its `place`: an argument, and which of its entries."""

    __slots__ = ("dtype", "name", "place", "shape")

    def __init__(self, name: str, dtype: Any, place: tuple[int, int] | None = None):
        self.name, self.dtype, self.shape, self.place = name, np.dtype(dtype), (WIDTH,), place


@functools.cache
def vector_type(dtype: Any, width: int) -> str:
    """The type of a value of so many elements in LLVM's language."""
    return vector_of(number_type(dtype), width)


def vector_of(scalar: str, width: int) -> str:
    """So many of a type; one is no vector, which LLVM would take apart."""
    return scalar if width == 1 else f"<{width} x {scalar}>"
