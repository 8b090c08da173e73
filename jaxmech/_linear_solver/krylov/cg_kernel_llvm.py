"""The loop of conjugate gradients, compiled for a CPU: the product, and two passes over the nodes in every step."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import ForeignFunction, number_type
from ..._llvm.ir_builder import Text, constant
from ..._llvm.ir_scalars import Scalar, ScalarMath
from ..._sparse.spmv_kernel import Pattern, row_product
from ..base.outcome import FINE
from .cg_recurrence import COUNTS, NUMBERS, Bounds, CGState, direction, goes_on, length


@functools.cache
def compiled_steps(c: int, dtype: Any, inverted: bool) -> ForeignFunction:
    """Steps until they end, for nodes of `c` unknowns. Raises `NotCompilable`.

    Reads the matrix, its columns and where rows start, the preconditioner if there is one (`inverted`); `d`, `r`, `p`;
    `NUMBERS` and `COUNTS`. Writes `d`, `r`, `p`, two vectors to work with, numbers and counts.
    """
    text = Text()
    vectors = [f"%r{i}" for i in range(5)]
    size = text.let(f"mul i64 %nodes, {c * np.dtype(dtype).itemsize}")
    text.declare("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    for i in range(3):
        text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {vectors[i]}, ptr %a{4 + i}, i64 {size}, i1 false)")
    run = _Loop(text, dtype, c, vectors, "%a3" if inverted else None)
    run.read("%a7", "%a8")
    with text.when(run.goes_on()):
        run.precondition()
        with text.repeated(run.goes_on):
            run.step("%a0", Pattern("%a1", "%a2", "%blocks", "%nodes"))
    run.write("%r5", "%r6")
    return text.function(9, 7, ["nodes", "blocks"])


@functools.cache
def compiled_solve(c: int, dtype: Any, rounded: float) -> ForeignFunction:
    """All steps of a solve, for nodes of `c` unknowns, until `r z` is that of the right-hand side times `rounded`, squared;
    `%most` at most. Raises `NotCompilable`.

    Reads the matrix, its columns and where rows start, the preconditioner, which may be singular, and the right-hand side.
    Writes the solution, four vectors to work with, and two numbers, of which the first is not above the second if it was
    found.
    """
    text = Text()
    vectors = [f"%r{i}" for i in range(5)]
    size = text.let(f"mul i64 %nodes, {c * np.dtype(dtype).itemsize}")
    text.declare("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    text.declare("void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
    text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {vectors[1]}, ptr %a4, i64 {size}, i1 false)")
    for nil in (vectors[0], vectors[2]):
        text.do(f"call void @llvm.memset.p0.i64(ptr {nil}, i8 0, i64 {size}, i1 false)")
    run = _Loop(text, dtype, c, vectors, "%a3")
    run.precondition()
    run.begin(rounded, text.let("trunc i64 %most to i32"))
    with text.repeated(run.goes_on):
        run.step("%a0", Pattern("%a1", "%a2", "%blocks", "%nodes"))
        run.see_preconditioned()
    run.tell("%r5")
    return text.function(5, 6, ["nodes", "blocks", "most"])


class _Loop:
    """What is written down of one run: the variables, and the passes over the nodes."""

    def __init__(self, text: Text, dtype: Any, c: int, vectors: Sequence[str], inverse: str | None):
        self.text, self.dtype, self.scalar, self.c = text, dtype, number_type(dtype), c
        self.math = ScalarMath(text, dtype)
        self.d, self.r, self.p, self.z, self.Ap = vectors
        self.inverse = inverse
        self.numbers = {name: text.variable(self.scalar, self._zero) for name in NUMBERS}
        self.counts = {name: text.variable("i32", "0") for name in COUNTS}
        self.next_rz = text.variable(self.scalar, self._zero)

    def begin(self, rounded: float, most: str) -> None:
        """Nothing is known, and all bounds are those of the preconditioned residual, which is to fall by a factor."""
        for name, value in {"falling": 1.0, "far": np.inf, "line": np.inf}.items():
            self.text.set(self.numbers[name], constant(np.asarray(value, self.dtype)))
        for name, value in {"flaw": str(FINE), "last": most, "grace": most}.items():
            self.text.set(self.counts[name], value)
        self.see_preconditioned()
        goal = self.math.number(self.text.get(self.numbers["residual"])) * rounded
        self.text.set(self.numbers["goal"], goal.name)

    def see_preconditioned(self) -> None:
        """`residual` is that of the preconditioned system, which sees nothing that the preconditioner leaves out."""
        length = self.math.sqrt(self.math.number(self.text.get(self.next_rz)))
        self.text.set(self.numbers["residual"], length.name)

    def tell(self, place: str) -> None:
        """The residual, and what it was to be."""
        for i, name in enumerate(("residual", "goal")):
            at = self.text.place(self.scalar, place, i)
            self.text.do(f"store {self.scalar} {self.text.get(self.numbers[name])}, ptr {at}")

    def read(self, numbers: str, counts: str) -> None:
        """All variables from where they are."""
        for kind, variable, at in self._places(numbers, counts):
            self.text.set(variable, self.text.let(f"load {kind}, ptr {at}"))

    def write(self, numbers: str, counts: str) -> None:
        """And back."""
        for kind, variable, at in self._places(numbers, counts):
            self.text.do(f"store {kind} {self.text.get(variable)}, ptr {at}")

    def _places(self, numbers: str, counts: str) -> Iterator[tuple[str, str, str]]:
        """The type, the name and the place of every variable."""
        for kind, array, variables in ((self.scalar, numbers, self.numbers), ("i32", counts, self.counts)):
            for i, variable in enumerate(variables.values()):
                yield kind, variable, self.text.place(kind, array, i)

    def goes_on(self) -> str:
        """Whether there is another step."""
        values = {**self._values(self.numbers, self.scalar), **self._values(self.counts, "i32")}
        state = CGState(**{name: values.get(name) for name in CGState._fields})
        bounds = Bounds(**{name: values[name] for name in Bounds._fields})
        return goes_on(state, values["taken"], bounds).name

    def _values(self, variables: dict[str, str], kind: str) -> dict[str, Scalar]:
        return {name: Scalar(self.math, kind, self.text.get(variable)) for name, variable in variables.items()}

    def precondition(self) -> None:
        """`z = M^-1 r`, and `r z` of the next direction."""
        sums = self._sums()
        with self.text.each(0, "%nodes") as node:
            self._preconditioned(node, self._at(self.r, node), sums)
        self.text.set(self.next_rz, self._total(sums))

    def step(self, matrix: str, pattern: Pattern) -> None:
        """The direction, its product, and what follows from it."""
        text, last = self.text, self._values(self.numbers, self.scalar)
        rz = self.math.number(text.get(self.next_rz))
        beta, pMp = direction(self.math, rz, last["rz"], last["pMp"])
        with text.each(0, "%nodes") as node:
            z, p = self._at(self.z, node), self._at(self.p, node)
            self._put(self.p, node, [self._plus(a, beta.name, b) for a, b in zip(z, p, strict=True)])
        sums = self._sums()
        with text.each(0, "%nodes") as node:
            row = row_product(text, (self.c, self.c), self.dtype, matrix, pattern, node, self.p)
            self._put(self.Ap, node, row)
            self._add(sums, self._at(self.p, node), row)
        curvature, eps = self.math.number(self._total(sums)), float(np.finfo(self.dtype).eps)
        alpha, steepest, flaw = length(self.math, curvature, rz, pMp, last["steepest"], eps)
        residual = self._moved(alpha.name, (-alpha).name)
        found = {"rz": rz, "pMp": pMp, "steepest": steepest, "residual": residual, "line": last["line"] * last["falling"]}
        for name, value in found.items():
            text.set(self.numbers[name], value.name)
        text.set(self.counts["flaw"], flaw.name)
        text.set(self.counts["taken"], text.let(f"add i32 {text.get(self.counts['taken'])}, 1"))

    def _moved(self, alpha: str, back: str) -> Scalar:
        """`d` and `r` after a step, `z` and `r z` of the next one; the norm of `r`."""
        rz, rr = self._sums(), self._sums()
        with self.text.each(0, "%nodes") as node:
            p, Ap = self._at(self.p, node), self._at(self.Ap, node)
            self._put(self.d, node, [self._plus(a, alpha, b) for a, b in zip(self._at(self.d, node), p, strict=True)])
            r = [self._plus(a, back, b) for a, b in zip(self._at(self.r, node), Ap, strict=True)]
            self._put(self.r, node, r)
            self._add(rr, r, r)
            self._preconditioned(node, r, rz)
        self.text.set(self.next_rz, self._total(rz))
        return self.math.sqrt(self.math.number(self._total(rr)))

    def _preconditioned(self, node: str, r: list[str], sums: list[str]) -> None:
        z = r
        if self.inverse is not None:
            block = self.text.place(f"[{self.c * self.c} x {self.scalar}]", self.inverse, node)
            entries = [self._number(block, i) for i in range(self.c * self.c)]
            z = []
            for i in range(self.c):
                z.append(self._op("fmul", entries[self.c * i], r[0]))
                for j in range(1, self.c):
                    z[-1] = self._plus(z[-1], entries[self.c * i + j], r[j])
        self._put(self.z, node, z)
        self._add(sums, r, z)

    def _sums(self) -> list[str]:
        """One for each unknown of a node, which need not wait for each other."""
        return [self.text.variable(self.scalar, self._zero) for _ in range(self.c)]

    def _add(self, sums: list[str], a: list[str], b: list[str]) -> None:
        for total, x, y in zip(sums, a, b, strict=True):
            self.text.set(total, self._plus(self.text.get(total), x, y))

    def _total(self, sums: list[str]) -> str:
        return functools.reduce(lambda a, b: self._op("fadd", a, b), map(self.text.get, sums))

    def _at(self, vector: str, node: str) -> list[str]:
        at = self.text.place(f"[{self.c} x {self.scalar}]", vector, node)
        return [self._number(at, i) for i in range(self.c)]

    def _put(self, vector: str, node: str, values: list[str]) -> None:
        at = self.text.place(f"[{self.c} x {self.scalar}]", vector, node)
        for i, value in enumerate(values):
            self.text.do(f"store {self.scalar} {value}, ptr {self.text.place(self.scalar, at, i)}")

    def _number(self, at: str, i: int) -> str:
        return self.text.let(f"load {self.scalar}, ptr {self.text.place(self.scalar, at, i)}")

    @property
    def _zero(self) -> str:
        return constant(np.zeros((), self.dtype))

    def _op(self, name: str, a: str, b: str) -> str:
        return self.text.let(f"{name} {self.scalar} {a}, {b}")

    def _plus(self, a: str, factor: str, b: str) -> str:
        """`a + factor b`; where there is an instruction for it, rounded once."""
        product = self.text.let(f"fmul contract {self.scalar} {factor}, {b}")
        return self.text.let(f"fadd contract {self.scalar} {a}, {product}")
