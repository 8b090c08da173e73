"""Scalars of an element as names, and what is done with them as lines to be read."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .arithmetic import AbstractArithmetic, Branch, Scalar, is_number


class Name:
    """A scalar that has a name."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, dtype: Any):
        self.name, self.dtype, self.shape = name, np.dtype(dtype), ()


class TextArithmetic(AbstractArithmetic):
    """Each operation is a line, `name = operation operands`; what is done where a condition holds is indented below it."""

    keeps_loops = False

    def __init__(self):
        super().__init__()
        self.lines: list[str] = []
        self._indent = ""
        self._count = 0

    def computed(self, primitive: Any, dtype: Any, operands: tuple[Scalar, ...], params: dict[str, Any]) -> Scalar:
        said = [f"{key}={params[key]}" for key in ("y", "new_dtype") if key in params]
        return self._line(" ".join([primitive.name, *map(told, operands), *said]), dtype)

    def behind_barrier(self, scalars: list[Scalar]) -> list[Scalar]:
        return scalars

    def chosen(
        self, which: Scalar, first: Branch, second: Branch, scalars: list[Scalar], dtypes: Sequence[Any]
    ) -> list[Scalar]:
        start = first(self, scalars)
        self.lines.append(f"{self._indent}where {told(which)}:")
        known, before = dict(self._known), self._indent
        self._indent += "    "
        others = second(self, scalars)
        self._known, self._indent = known, before
        both = zip(start, others, dtypes, strict=True)
        return [self._line(f"select {told(which)} {told(a)} {told(b)}", dtype) for a, b, dtype in both]

    def repeated(
        self, going: Branch, advanced: Branch, start: list[Scalar], dtypes: Sequence[Any], written: Sequence[slice] = ()
    ) -> list[Scalar]:
        state = [self._line(told(a), dtype) for a, dtype in zip(start, dtypes, strict=True)]
        known, before = dict(self._known), self._indent
        self.lines.append(f"{before}repeat:")
        self._indent = f"{before}    "
        (goes_on,) = going(self, list(state))
        self.lines.append(f"{self._indent}while {told(goes_on)}:")
        self._indent = f"{before}        "
        after = advanced(self, list(state))
        self.lines += [f"{self._indent}{x.name} = {told(b)}" for x, b in zip(state, after, strict=True)]
        self._known, self._indent = known, before
        return list(state)

    def _line(self, text: str, dtype: Any) -> Name:
        self._count += 1
        name = f"s{self._count}"
        self.lines.append(f"{self._indent}{name} = {text}")
        return Name(name, dtype)


def told(x: Scalar) -> str:
    """How a scalar is written."""
    return str(x) if is_number(x) else x.name
