"""What the kernel of sweeps reads and writes, and how a contact of it moves bodies: lines of text."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._llvm.ffi import number_type
from .._llvm.ir_builder import Text, constant
from .._llvm.ir_scalars import Scalar, ScalarMath

ARGUMENTS = 12
H, V, PLACES, NODES, OWN, FREE, FRICTION, HELD, GIVE, BEGUN, PUSHED, GOAL = (f"%a{i}" for i in range(ARGUMENTS))
RESULTS = 18
MOTION, IMPULSE, GROUP, LABEL, CONTACTS, DIRECTION, KEPT, BEFORE, NEAREST = (f"%r{i}" for i in range(9))
COLUMNS, NUMBER, ARM, VELOCITY, AIM, CHANGE, TRIAL, REST, SYSTEM = (f"%r{i}" for i in range(9, RESULTS))


class KernelArrays:
    """Contacts that move `k` nodes, `m` unknowns each, in arrays of a floating-point type."""

    def __init__(self, m: int, k: int, dtype: Any):
        self.m, self.k, self.text, self.kind = m, k, Text(), number_type(dtype)
        self.math = ScalarMath(self.text, dtype)
        self.zero = constant(np.zeros((), dtype))
        self.far = constant(np.asarray(np.inf, dtype))
        self.count = self.text.variable("i64", "0")  # of the contacts of a group

    @property
    def one(self) -> Scalar:
        """The number."""
        return self.math.number(constant(np.ones((), self.math.dtype)))

    def variables(self, names: Sequence[str]) -> dict[str, str]:
        """Numbers that change."""
        return {name: self.text.variable(self.kind, self.zero) for name in names}

    @contextmanager
    def held(self) -> Iterator[str]:
        """A loop over the slots that are contacts."""
        text = self.text
        with text.each(0, "%contacts") as contact, text.when(text.let(f"icmp ne i64 {text.index(HELD, contact)}, 0")):
            yield contact

    @contextmanager
    def of_group(self) -> Iterator[str]:
        """A loop over the contacts of the group at hand."""
        with self.text.each(0, self.text.get(self.count)) as place:
            yield self.text.index(CONTACTS, place)

    def entry(self, contact: str, width: int, i: int | str) -> str:
        """Where entry `i` of a contact stands, in an array with so many of each."""
        return self.text.let(f"add i64 {self.text.let(f'mul i64 {contact}, {width}')}, {i}")

    def number(self, array: str, at: str) -> str:
        """A number of an array, by name."""
        return self.text.let(f"load {self.kind}, ptr {self.text.place(self.kind, array, at)}")

    def scalar(self, array: str, at: str) -> Scalar:
        """A number of an array."""
        return self.math.number(self.number(array, at))

    def put(self, array: str, at: str, value: Scalar | str) -> None:
        """A number into an array."""
        name = value.name if isinstance(value, Scalar) else value
        self.text.do(f"store {self.kind} {name}, ptr {self.text.place(self.kind, array, at)}")

    def put_index(self, array: str, at: str, value: str) -> None:
        """A number of 64 bits into an array of those of 32."""
        short = self.text.let(f"trunc i64 {value} to i32")
        self.text.do(f"store i32 {short}, ptr {self.text.place('i32', array, at)}")

    def load(self, array: str, contact: str) -> list[Scalar]:
        """The three numbers of a contact."""
        return [self.scalar(array, self.entry(contact, 3, i)) for i in range(3)]

    def store(self, array: str, contact: str, values: Sequence[Scalar | str]) -> None:
        """Three numbers for a contact."""
        for i, value in enumerate(values):
            self.put(array, self.entry(contact, 3, i), value)

    def own(self, contact: str) -> list[Scalar]:
        """The contact's own part of `W`, row by row."""
        return [self.scalar(OWN, self.entry(contact, 9, i)) for i in range(9)]

    def friction(self, contact: str) -> Scalar:
        """Its coefficient."""
        return self.scalar(FRICTION, contact)

    def unknown(self, contact: str, j: int | str) -> str:
        """The number of the unknown in column `j` of a contact."""
        return self.text.index(PLACES, self.entry(contact, self.m, j))

    def row(self, array: str, contact: str, i: int, j: int | str) -> str:
        """An entry of `H` or of `V`."""
        first = self.text.let(f"mul i64 {contact}, {3 * self.m}")
        return self.number(array, self.text.let(f"add i64 {self.text.let(f'add i64 {first}, {i * self.m}')}, {j}"))

    def plus(self, a: str, factor: str, b: str) -> str:
        """`a + factor b`."""
        product = self.text.let(f"fmul contract {self.kind} {factor}, {b}")
        return self.text.let(f"fadd contract {self.kind} {a}, {product}")

    def across(self, contact: str, begin: str, x: Sequence[str], rows: Sequence[int] = (0, 1, 2)) -> list[Scalar]:
        """`u + H x`, or some components, the unknowns of a contact given; `begin`: the array of `u`."""
        found = []
        for i in rows:
            total = self.number(begin, self.entry(contact, 3, i))
            for j in range(self.m):
                total = self.plus(total, self.row(H, contact, i, j), x[j])
            found.append(self.math.number(total))
        return found

    def velocity(self, contact: str, rows: Sequence[int] = (0, 1, 2)) -> list[Scalar]:
        """`u = H x + C r + u0`, or some components."""
        x = [self.number(MOTION, self.unknown(contact, j)) for j in range(self.m)]
        found = self.across(contact, FREE, x, rows)
        if rows[0] == 0:
            found[0] = found[0] + self.scalar(GIVE, contact) * self.load(IMPULSE, contact)[0]
        return found

    def pushes(self, contact: str, *arrays: str) -> Scalar:
        """Whether an impulse, or another array, has anything but zeros for a contact; what may be NaN has."""
        size = [self.math.abs(a) for array in (IMPULSE, *arrays) for a in self.load(array, contact)]
        total = functools.reduce(lambda a, b: a + b, size)
        return Scalar(self.math, "i1", self.text.let(f"fcmp une {self.kind} {total.name}, {self.zero}"))

    def move(self, contact: str, change: Sequence[Scalar]) -> None:
        """More impulse, and the motion that it makes."""
        r = self.load(IMPULSE, contact)
        self.store(IMPULSE, contact, [a + b for a, b in zip(r, change, strict=True)])
        self.push(MOTION, contact, change, [self.unknown(contact, j) for j in range(self.m)])

    def push(self, array: str, contact: str, change: Sequence[Scalar], places: Sequence[str]) -> None:
        """`V^T` times an impulse, added at places of an array."""
        for j, at in enumerate(places):
            total = self.number(array, at)
            for i in range(3):
                total = self.plus(total, change[i].name, self.row(V, contact, i, j))
            self.put(array, at, total)

    def add(self, name: str, a: Scalar) -> None:
        """To a variable that stands for a sum."""
        self.text.set(name, (self.math.number(self.text.get(name)) + a).name)

    def square(self, a: Sequence[Scalar]) -> Scalar:
        """`a . a`."""
        return a[0] * a[0] + a[1] * a[1] + a[2] * a[2]
