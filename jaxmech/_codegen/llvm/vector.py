"""Values of eight elements; of one alone, plain scalars."""

import functools
from typing import Any

import numpy as np

from ..._llvm.ffi import number_type

WIDTH = 8  # elements: two registers of four float64, or one of eight


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
