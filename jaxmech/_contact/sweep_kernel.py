"""Sweeps over contacts between free bodies, compiled for a CPU: one group of bodies that touch after the other."""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._llvm.ffi import ForeignFunction, number_type
from .._llvm.ir_builder import Text, constant
from .._llvm.ir_scalars import Scalar, ScalarMath
from .sweep_contact import natural_map, reach, turn

_EVERY = 50  # accelerated sweeps, after which it is looked whether impulses creep
_CREEPS = 0.999  # the cosine of two changes that are one: of what creeps along impulses that move nothing
_COUNTS = 1e-3  # the part of a squared change that ends where its impulse comes to an edge


@functools.cache
def compiled_sweeps(m: int, k: int, dtype: Any) -> ForeignFunction:
    """For contacts that move `k` nodes, `m` unknowns. Raises `NotCompilable`.

    Reads rows, and what impulses move, `(n, 3, m)`; the numbers of the unknowns `(n, m)` and of the nodes `(n, k)`; each
    contact's own `W` `(n, 3, 3)`, `u0` `(n, 3)`, friction, whether it is one, its compliance `(n,)`; motions, impulses, and
    the residual to reach. Writes motions, impulses, the group of contacts that are not solved, and -1 of the others, and
    arrays to work with: labels of nodes, the contacts of a group, two directions, and the impulses before a sweep.
    """
    return _Sweeps(m, k, dtype).function()


class _Sweeps:
    """What is written down: `%r0` and `%r1` are the motions and the impulses."""

    def __init__(self, m: int, k: int, dtype: Any):
        self.m, self.k, self.size = m, k, np.dtype(dtype).itemsize
        self.text, self.kind = Text(), number_type(dtype)
        self.math = ScalarMath(self.text, dtype)
        self.zero = constant(np.zeros((), dtype))
        self.far = constant(np.asarray(np.inf, dtype))
        names = ("error", "fall", "last", "beta", "on", "along", "now", "before", "jump")
        self.sums = {name: self.text.variable(self.kind, self.zero) for name in names}
        self.counts = {name: self.text.variable("i64", "0") for name in ("group", "sweeps", "since")}
        self.going, self.changed = (  # the latter: labels; of a group, whether it is far from solved
            self.text.variable("i1", "false") for _ in range(2)
        )

    def function(self) -> ForeignFunction:
        text = self.text
        text.declare("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        for target, source, count in (("%r0", "%a9", "%unknowns"), ("%r1", "%a10", text.let("mul i64 %contacts, 3"))):
            size = text.let(f"mul i64 {count}, {self.size}")
            text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
        with text.each(0, "%contacts") as contact:
            self._put_index("%r2", contact, "-1")
        self._label()
        with text.each(0, "%nodes") as node, text.when(text.let(f"icmp eq i64 {text.index('%r3', node)}, {node}")):
            self._group(node)
        return text.function(12, 8, ["contacts", "unknowns", "nodes", "limit"])

    def _label(self) -> None:
        """Every node has the least number of those that it hangs together with, by contacts."""
        text = self.text
        with text.each(0, "%nodes") as node:
            self._put_index("%r3", node, node)
        text.set(self.changed, "true")
        least = text.variable("i64", "0")
        with text.repeated(lambda: text.get(self.changed)):
            text.set(self.changed, "false")
            with self._held() as contact:
                nodes = [text.index("%a3", self._entry(contact, self.k, j)) for j in range(self.k)]
                text.set(least, text.index("%r3", nodes[0]))
                for node in nodes[1:]:
                    text.set(least, self._lesser(text.get(least), text.index("%r3", node)))
                for node in nodes:
                    with text.when(text.let(f"icmp ne i64 {text.index('%r3', node)}, {text.get(least)}")):
                        self._put_index("%r3", node, text.get(least))
                        text.set(self.changed, "true")

    def _group(self, label: str) -> None:
        """The contacts of a group, and sweeps over them until their part of the residual is small."""
        text, count = self.text, self.counts["group"]
        text.set(count, "0")
        with self._held() as contact:
            node = text.index("%a3", self._entry(contact, self.k, 0))
            with text.when(text.let(f"icmp eq i64 {text.index('%r3', node)}, {label}")):
                self._put_index("%r4", text.get(count), contact)
                self._store("%r5", contact, [self.zero] * 3)
                text.set(count, text.let(f"add i64 {text.get(count)}, 1"))
        text.set(self.sums["last"], self.far)
        for name in ("sweeps", "since"):
            text.set(self.counts[name], "0")
        text.set(self.going, text.let(f"icmp sgt i64 {text.get(count)}, 0"))
        with text.repeated(lambda: text.get(self.going)):
            self._sweep()
            self._count()
            with text.when(text.get(self.going)):
                since = text.get(self.counts["since"])
                for asks, follows in (("sle", self._accelerate), ("sgt", self._creep)):
                    with text.when(text.let(f"icmp {asks} i64 {since}, {_EVERY}")):
                        follows()
        with text.when(text.get(self.changed)), self._of_group() as contact:
            self._put_index("%r2", contact, label)

    def _count(self) -> None:
        """Whether it goes on: not where the residual is small, or no number, or there were too many sweeps."""
        text, own = self.text, self.text.get(self.counts["group"])
        of_all, own = (self.math.number(text.let(f"sitofp i64 {n} to {self.kind}")) for n in ("%contacts", own))
        goal = self.math.number(text.let(f"load {self.kind}, ptr %a11"))
        far = self._sum("error") * of_all > goal * goal * own
        for name in ("sweeps", "since"):
            text.set(self.counts[name], text.let(f"add i64 {text.get(self.counts[name])}, 1"))
        fewer = Scalar(self.math, "i1", text.let(f"icmp slt i64 {text.get(self.counts['sweeps'])}, %limit"))
        text.set(self.going, (far & fewer).name)
        text.set(self.changed, far.name)

    def _sweep(self) -> None:
        """Contact after contact, the squared natural map of each before its turn, and how far impulses go."""
        for name in ("error", "fall"):
            self.text.set(self.sums[name], self.zero)
        with self._of_group() as contact:
            u, r = self._velocity(contact), self._load("%r1", contact)
            self._store("%r7", contact, [a.name for a in r])
            w = [self.math.number(self._number("%a4", self._entry(contact, 9, i))) for i in range(9)]
            mu = self._friction(contact)
            self._add("error", natural_map(self.math, r, u, w, mu))
            change = [a - b for a, b in zip(turn(self.math, r, u, w, mu), r, strict=True)]
            self._add("fall", change)
            self._move(contact, change)

    def _accelerate(self) -> None:
        """Conjugate gradients: on along the last direction, which begins anew where sweeps go farther than before."""
        math, text = self.math, self.text
        beta = self._sum("fall") / self._sum("last")
        goes_on = beta <= 1.0
        text.set(self.sums["beta"], math.where(goes_on, beta, 0.0).name)
        text.set(self.sums["on"], math.where(goes_on, self._one, 0.0).name)
        text.set(self.sums["last"], self._sum("fall").name)
        with self._of_group() as contact:
            beta, on, old = self._sum("beta"), self._sum("on"), self._load("%r5", contact)
            change = [a - b for a, b in zip(self._load("%r1", contact), self._load("%r7", contact), strict=True)]
            more = [beta * p for p in old]
            self._move(contact, more)
            self._store("%r5", contact, [(a + on * b).name for a, b in zip(more, change, strict=True)])

    def _creep(self) -> None:
        """Two sweeps that are not accelerated. Where they change impulses alike, these creep: on to where that ends."""
        text, first = self.text, self.text.let(f"icmp eq i64 {self.text.get(self.counts['since'])}, {_EVERY + 1}")
        for name in ("along", "now", "before"):
            text.set(self.sums[name], self.zero)
        with self._of_group() as contact:
            last = self._load("%r6", contact)
            change = [a - b for a, b in zip(self._load("%r1", contact), self._load("%r7", contact), strict=True)]
            for name, a, b in (("now", change, change), ("before", last, last), ("along", change, last)):
                self._add(name, a, b)
            self._store("%r6", contact, [a.name for a in change])
            self._store("%r5", contact, [self.zero] * 3)
        text.set(self.sums["last"], self.far)
        with text.when(text.let(f"xor i1 {first}, true")):
            text.set(self.counts["since"], "0")
            alike = self._sum("along") > _CREEPS * self.math.sqrt(self._sum("now") * self._sum("before"))
            with text.when(alike.name):
                self._jump()

    def _jump(self) -> None:
        """As often the last change again as its own decay adds up to, or as takes an impulse to the edge of its cone."""
        math, text = self.math, self.text
        decay = self._sum("along") / self._sum("before")
        falls = decay < 1.0
        rest = decay / math.where(falls, self._one - decay, 1.0)
        text.set(self.sums["jump"], math.where(falls, rest, np.inf).name)
        with self._of_group() as contact:
            change = self._load("%r6", contact)
            far = reach(self.math, self._load("%r1", contact), change, self._friction(contact))
            size = change[0] * change[0] + change[1] * change[1] + change[2] * change[2]
            nearer = (size > _COUNTS * self._sum("now")) & (far < self._sum("jump"))
            text.set(self.sums["jump"], math.where(nearer, far, self._sum("jump")).name)
        jump = self._sum("jump")
        with text.when(((jump > 1.0) & (jump < np.inf)).name), self._of_group() as contact:
            self._move(contact, [jump * d for d in self._load("%r6", contact)])

    def _velocity(self, contact: str) -> list[Scalar]:
        """`u = H x + u0`."""
        x = [self._number("%r0", self._unknown(contact, j)) for j in range(self.m)]
        found = []
        for i in range(3):
            total = self._number("%a5", self._entry(contact, 3, i))
            first = self.text.let(f"mul i64 {contact}, {3 * self.m}")
            for j in range(self.m):
                row = self._number("%a0", self.text.let(f"add i64 {first}, {i * self.m + j}"))
                total = self._plus(total, row, x[j])
            found.append(self.math.number(total))
        give = self.math.number(self._number("%a8", contact))
        return [found[0] + give * self._load("%r1", contact)[0], *found[1:]]

    def _move(self, contact: str, change: Sequence[Scalar]) -> None:
        """More impulse, and the motion that it makes."""
        r = self._load("%r1", contact)
        self._store("%r1", contact, [(a + b).name for a, b in zip(r, change, strict=True)])
        first = self.text.let(f"mul i64 {contact}, {3 * self.m}")
        for j in range(self.m):
            at = self._unknown(contact, j)
            total = self._number("%r0", at)
            for i in range(3):
                moved = self._number("%a1", self.text.let(f"add i64 {first}, {i * self.m + j}"))
                total = self._plus(total, change[i].name, moved)
            self.text.do(f"store {self.kind} {total}, ptr {self.text.place(self.kind, '%r0', at)}")

    def _friction(self, contact: str) -> Scalar:
        return self.math.number(self._number("%a6", contact))

    @contextmanager
    def _held(self) -> Iterator[str]:
        text = self.text
        with text.each(0, "%contacts") as contact, text.when(text.let(f"icmp ne i64 {text.index('%a7', contact)}, 0")):
            yield contact

    @contextmanager
    def _of_group(self) -> Iterator[str]:
        with self.text.each(0, self.text.get(self.counts["group"])) as place:
            yield self.text.index("%r4", place)

    def _add(self, name: str, a: Sequence[Scalar], b: Sequence[Scalar] | None = None) -> None:
        total = self._sum(name)
        for x, y in zip(a, a if b is None else b, strict=True):
            total = total + x * y
        self.text.set(self.sums[name], total.name)

    def _sum(self, name: str) -> Scalar:
        return self.math.number(self.text.get(self.sums[name]))

    def _unknown(self, contact: str, j: int) -> str:
        return self.text.index("%a2", self._entry(contact, self.m, j))

    def _entry(self, contact: str, width: int, i: int) -> str:
        return self.text.let(f"add i64 {self.text.let(f'mul i64 {contact}, {width}')}, {i}")

    def _number(self, array: str, at: str) -> str:
        return self.text.let(f"load {self.kind}, ptr {self.text.place(self.kind, array, at)}")

    def _load(self, array: str, contact: str) -> list[Scalar]:
        return [self.math.number(self._number(array, self._entry(contact, 3, i))) for i in range(3)]

    def _store(self, array: str, contact: str, values: Sequence[str]) -> None:
        for i, value in enumerate(values):
            at = self.text.place(self.kind, array, self._entry(contact, 3, i))
            self.text.do(f"store {self.kind} {value}, ptr {at}")

    def _put_index(self, array: str, at: str, value: str) -> None:
        short = self.text.let(f"trunc i64 {value} to i32")
        self.text.do(f"store i32 {short}, ptr {self.text.place('i32', array, at)}")

    def _lesser(self, a: str, b: str) -> str:
        return self.text.let(f"select i1 {self.text.let(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def _plus(self, a: str, factor: str, b: str) -> str:
        product = self.text.let(f"fmul contract {self.kind} {factor}, {b}")
        return self.text.let(f"fadd contract {self.kind} {a}, {product}")

    @property
    def _one(self) -> Scalar:
        return self.math.number(constant(np.ones((), self.math.dtype)))
