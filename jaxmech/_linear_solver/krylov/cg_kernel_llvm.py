"""The loop of conjugate gradients, compiled for a CPU: the product, and two passes over the nodes in every step."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..._llvm.ffi import ForeignFunction, number_type
from ..._llvm.ir_builder import Text, constant
from ..._sparse.spmv_kernel import Pattern, row_product
from ..base.outcome import FINE, INDEFINITE, SINGULAR

# What a run is given and gives back beside vectors, in this order.
NUMBERS = ("rz", "pMp", "steepest", "residual", "goal", "far", "line", "falling")
COUNTS = ("flaw", "taken", "last", "grace")


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


class _Loop:
    """What is written down of one run: the variables, and the passes over the nodes."""

    def __init__(self, text: Text, dtype: Any, c: int, vectors: Sequence[str], inverse: str | None):
        self.text, self.dtype, self.scalar, self.c = text, dtype, number_type(dtype), c
        self.d, self.r, self.p, self.z, self.Ap = vectors
        self.inverse = inverse
        self.numbers = {name: text.variable(self.scalar, self._zero) for name in NUMBERS}
        self.counts = {name: text.variable("i32", "0") for name in COUNTS}
        self.next_rz = text.variable(self.scalar, self._zero)

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
        far = self._compared("ogt", "residual", "line")
        late = self.text.let(f"and i1 {self._counted('sgt', 'taken', 'grace')}, {far}")
        conditions = [
            self._counted("slt", "taken", "last"),
            self.text.let(f"icmp eq i32 {self.text.get(self.counts['flaw'])}, {FINE}"),
            self._compared("ogt", "residual", "goal"),
            self._compared("ole", "residual", "far"),
            self.text.let(f"xor i1 {late}, true"),
        ]
        return functools.reduce(lambda a, b: self.text.let(f"and i1 {a}, {b}"), conditions)

    def precondition(self) -> None:
        """`z = M^-1 r`, and `r z` of the next direction."""
        sums = self._sums()
        with self.text.each(0, "%nodes") as node:
            self._preconditioned(node, self._at(self.r, node), sums)
        self.text.set(self.next_rz, self._total(sums))

    def step(self, matrix: str, pattern: Pattern) -> None:
        """The direction, its product, and what follows from it."""
        text, numbers = self.text, self.numbers
        rz, before = text.get(self.next_rz), text.get(numbers["rz"])
        beta = self._if(self._positive(before), self._op("fdiv", rz, before), self._zero)
        text.set(numbers["rz"], rz)
        text.set(numbers["pMp"], self._plus(rz, self._op("fmul", beta, beta), text.get(numbers["pMp"])))
        with text.each(0, "%nodes") as node:
            z, p = self._at(self.z, node), self._at(self.p, node)
            self._put(self.p, node, [self._plus(a, beta, b) for a, b in zip(z, p, strict=True)])
        sums = self._sums()
        with text.each(0, "%nodes") as node:
            row = row_product(text, (self.c, self.c), self.dtype, matrix, pattern, node, self.p)
            self._put(self.Ap, node, row)
            self._add(sums, self._at(self.p, node), row)
        alpha = self._length(self._total(sums), rz)
        text.set(numbers["residual"], self._moved(alpha))
        text.set(self.counts["taken"], text.let(f"add i32 {text.get(self.counts['taken'])}, 1"))
        line = self._op("fmul", text.get(numbers["line"]), text.get(numbers["falling"]))
        text.set(numbers["line"], line)

    def _length(self, curvature: str, rz: str) -> str:
        """`alpha`, 0 where the curvature or `r z` has a flaw; see `pcg._Run.advance`."""
        text, numbers = self.text, self.numbers
        quotient = self._op("fdiv", curvature, text.get(numbers["pMp"]))
        size = self._of("fabs", quotient)
        steepest = self._of("maximum", text.get(numbers["steepest"]), size)
        text.set(numbers["steepest"], steepest)
        nothing = constant(np.asarray(4 * np.finfo(self.dtype).eps, self.dtype))
        flat = text.let(f"fcmp ole {self.scalar} {size}, {self._op('fmul', nothing, steepest)}")
        flaw = text.let(f"select i1 {self._positive(quotient)}, i32 {FINE}, i32 {INDEFINITE}")
        flaw = text.let(f"select i1 {flat}, i32 {SINGULAR}, i32 {flaw}")
        flaw = text.let(f"select i1 {self._positive(rz)}, i32 {flaw}, i32 {INDEFINITE}")
        text.set(self.counts["flaw"], flaw)
        return self._if(text.let(f"icmp eq i32 {flaw}, {FINE}"), self._op("fdiv", rz, curvature), self._zero)

    def _moved(self, alpha: str) -> str:
        """`d` and `r` after a step, `z` and `r z` of the next one; the norm of `r`."""
        rz, rr = self._sums(), self._sums()
        back = self.text.let(f"fneg {self.scalar} {alpha}")
        with self.text.each(0, "%nodes") as node:
            p, Ap = self._at(self.p, node), self._at(self.Ap, node)
            self._put(self.d, node, [self._plus(a, alpha, b) for a, b in zip(self._at(self.d, node), p, strict=True)])
            r = [self._plus(a, back, b) for a, b in zip(self._at(self.r, node), Ap, strict=True)]
            self._put(self.r, node, r)
            self._add(rr, r, r)
            self._preconditioned(node, r, rz)
        self.text.set(self.next_rz, self._total(rz))
        return self._of("sqrt", self._total(rr))

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

    def _of(self, name: str, *operands: str) -> str:
        function = f"@llvm.{name}.f{8 * np.dtype(self.dtype).itemsize}"
        self.text.declare(f"{self.scalar} {function}({', '.join(self.scalar for _ in operands)})")
        return self.text.let(f"call {self.scalar} {function}({', '.join(f'{self.scalar} {a}' for a in operands)})")

    def _if(self, condition: str, a: str, b: str) -> str:
        return self.text.let(f"select i1 {condition}, {self.scalar} {a}, {self.scalar} {b}")

    def _positive(self, a: str) -> str:
        return self.text.let(f"fcmp ogt {self.scalar} {a}, {self._zero}")

    def _compared(self, how: str, a: str, b: str) -> str:
        return self.text.let(f"fcmp {how} {self.scalar} {self.text.get(self.numbers[a])}, {self.text.get(self.numbers[b])}")

    def _counted(self, how: str, a: str, b: str) -> str:
        return self.text.let(f"icmp {how} i32 {self.text.get(self.counts[a])}, {self.text.get(self.counts[b])}")
