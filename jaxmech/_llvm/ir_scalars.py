"""Scalars whose operators write instructions down: a formula of numbers is one for a kernel too."""

from typing import Any

import numpy as np

from .ffi import number_type
from .ir_builder import Text, constant


class ScalarMath:
    """Of numbers of one floating-point type, and 32-bit whole ones: what formulas take from `jax.numpy` otherwise."""

    def __init__(self, text: Text, dtype: Any):
        self.text, self.dtype, self.kind = text, np.dtype(dtype), number_type(dtype)

    def number(self, name: str) -> "Scalar":
        """The number of that name."""
        return Scalar(self, self.kind, name)

    def operand(self, kind: str, x: "Scalar | float") -> str:
        """An operand of a type."""
        if isinstance(x, Scalar):
            if x.kind != kind:
                raise TypeError(f"an operand of type {x.kind}, not {kind}")
            return x.name
        return constant(np.asarray(x, np.int32 if kind == "i32" else self.dtype))

    def where(self, condition: "Scalar", a: "Scalar | float", b: "Scalar | float") -> "Scalar":
        """`a` where a condition holds, `b` where not; two known numbers are whole ones."""
        kind = next((x.kind for x in (a, b) if isinstance(x, Scalar)), "i32")
        operands = f"{kind} {self.operand(kind, a)}, {kind} {self.operand(kind, b)}"
        return Scalar(self, kind, self.text.let(f"select i1 {self.operand('i1', condition)}, {operands}"))

    def abs(self, x: "Scalar") -> "Scalar":
        """The magnitude."""
        return self._called("fabs", x)

    def sqrt(self, x: "Scalar") -> "Scalar":
        """The square root."""
        return self._called("sqrt", x)

    def maximum(self, a: "Scalar", b: "Scalar") -> "Scalar":
        """The larger number, NaN if one is."""
        return self._called("maximum", a, b)

    def _called(self, name: str, *operands: "Scalar") -> "Scalar":
        function = f"@llvm.{name}.f{8 * self.dtype.itemsize}"
        self.text.declare(f"{self.kind} {function}({', '.join(self.kind for _ in operands)})")
        given = ", ".join(f"{self.kind} {self.operand(self.kind, x)}" for x in operands)
        return self.number(self.text.let(f"call {self.kind} {function}({given})"))


class Scalar:
    """A number of a type, by name."""

    __slots__ = ("kind", "math", "name")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, math: ScalarMath, kind: str, name: str):
        self.math, self.kind, self.name = math, kind, name

    def __add__(self, other: "Scalar") -> "Scalar":
        return self._line("fadd", self, other)

    def __sub__(self, other: "Scalar") -> "Scalar":
        return self._line("fsub", self, other)

    def __mul__(self, other: "Scalar | float") -> "Scalar":
        return self._line("fmul", self, other)

    def __rmul__(self, other: float) -> "Scalar":
        return self._line("fmul", other, self)

    def __truediv__(self, other: "Scalar") -> "Scalar":
        return self._line("fdiv", self, other)

    def __neg__(self) -> "Scalar":
        return self.math.number(self.math.text.let(f"fneg {self.kind} {self.name}"))

    def __gt__(self, other: "Scalar | float") -> "Scalar":
        return self._compared("ogt", "sgt", other)

    def __lt__(self, other: "Scalar | float") -> "Scalar":
        return self._compared("olt", "slt", other)

    def __le__(self, other: "Scalar | float") -> "Scalar":
        return self._compared("ole", "sle", other)

    def __eq__(self, other: "Scalar | float") -> "Scalar":  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._compared("oeq", "eq", other)

    def __and__(self, other: "Scalar") -> "Scalar":
        return self._logical("and", self.math.operand("i1", other))

    def __invert__(self) -> "Scalar":
        return self._logical("xor", "true")

    def _line(self, operation: str, a: "Scalar | float", b: "Scalar | float") -> "Scalar":
        kind = self.math.kind
        operands = f"{self.math.operand(kind, a)}, {self.math.operand(kind, b)}"
        return self.math.number(self.math.text.let(f"{operation} {kind} {operands}"))

    def _compared(self, of_floats: str, of_integers: str, other: "Scalar | float") -> "Scalar":
        how = f"icmp {of_integers}" if self.kind == "i32" else f"fcmp {of_floats}"
        line = f"{how} {self.kind} {self.name}, {self.math.operand(self.kind, other)}"
        return Scalar(self.math, "i1", self.math.text.let(line))

    def _logical(self, operation: str, other: str) -> "Scalar":
        name = self.math.text.let(f"{operation} i1 {self.math.operand('i1', self)}, {other}")
        return Scalar(self.math, "i1", name)
