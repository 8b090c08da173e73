"""Functions of loops and branches, written down in the language of LLVM."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .ffi import ForeignFunction, number_type


class Text:
    """The lines of a function. Values get names of their own; what changes within loops and branches is a variable.

    Loops and branches are `with` blocks.
    """

    def __init__(self):
        self._lines: list[str] = []
        self._variables: dict[str, str] = {}  # and of which type they are
        self._declarations: dict[str, None] = {}
        self._count = 0

    def let(self, instruction: str) -> str:
        """The result of an instruction."""
        name = self._name()
        self._lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """An instruction without result."""
        self._lines.append(f"  {instruction}")

    def declare(self, function: str) -> None:
        """Says that a function is called, as often as one likes."""
        self._declarations[f"declare {function}"] = None

    def missing(self, kind: str, count: int) -> str:
        """Where so many numbers stand that are not there: NaN."""
        name, nan = f"@missing{count}.{kind}", constant(np.asarray(np.nan))
        self._declarations[f"{name} = private constant [{count} x {kind}] [{', '.join(count * [f'{kind} {nan}'])}]"] = None
        return name

    def variable(self, kind: str, value: str) -> str:
        """A variable of a type, with a value to begin with."""
        name = self._name()
        self._variables[name] = kind
        self.set(name, value)
        return name

    def set(self, variable: str, value: str) -> None:
        """Another value for a variable."""
        self.do(f"store {self._variables[variable]} {value}, ptr {variable}")

    def get(self, variable: str) -> str:
        """The value of a variable."""
        return self.let(f"load {self._variables[variable]}, ptr {variable}")

    def place(self, kind: str, pointer: str, number: str | int) -> str:
        """Where number so many of things of a type is."""
        return self.let(f"getelementptr {kind}, ptr {pointer}, i64 {number}")

    def index(self, array: str, at: str) -> str:
        """A number of 32 bits from an array, as one of 64."""
        short = self.let(f"load i32, ptr {self.place('i32', array, at)}")
        return self.let(f"sext i32 {short} to i64")

    @contextmanager
    def each(self, first: str | int, end: str | int) -> Iterator[str]:
        """A loop over the numbers from the first one on, before the end."""
        number = self.variable("i64", str(first))
        with self.repeated(lambda: self.let(f"icmp slt i64 {self.get(number)}, {end}")):
            now = self.get(number)
            yield now
            self.set(number, self.let(f"add i64 {now}, 1"))

    @contextmanager
    def repeated(self, condition: Callable[[], str]) -> Iterator[None]:
        """A loop while a condition holds."""
        label = self._name()[1:]
        self._begin(f"{label}.asked")
        with self.when(condition()):
            yield
            self.do(f"br label %{label}.asked")
            self._lines.append(f"{label}.never:")

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """What is done only if a condition holds."""
        label = self._name()[1:]
        self.do(f"br i1 {condition}, label %{label}.then, label %{label}.end")
        self._lines.append(f"{label}.then:")
        yield
        self._begin(f"{label}.end")

    def function(self, arguments: int, results: int, numbers: Sequence[str]) -> ForeignFunction:
        """What was written, as a function of so many arrays and results, `%a0, ...`, `%r0, ...`, and of numbers by name."""
        given = ", ".join([*pointers(arguments, results), *(f"i64 %{name}" for name in numbers)])
        return ForeignFunction(self.internal(f"define internal void @each({given})"), arguments, results, len(numbers))

    def internal(self, head: str) -> str:
        """What was written, as the text of a function without result, of a `head` that names its arguments."""
        variables = [f"  {name} = alloca {kind}" for name, kind in self._variables.items()]
        return "\n".join([*self._declarations, f"{head} {{", *variables, *self._lines, "  ret void", "}"])

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def _begin(self, label: str) -> None:
        self.do(f"br label %{label}")
        self._lines.append(f"{label}:")


def pointers(arguments: int, results: int) -> list[str]:
    """The pointer arguments of a foreign function: arrays that it reads, and arrays that it writes."""
    return [*(f"ptr noalias readonly %a{i}" for i in range(arguments)), *(f"ptr noalias %r{i}" for i in range(results))]


def constant(x: Any) -> str:
    """A number, of floating point of either size as the bits of a float64."""
    number = np.asarray(x)[()]
    if number.dtype.kind == "f":
        return f"0x{np.float64(number).view(np.uint64):016X}"
    number_type(number.dtype)
    return str(number).lower()
