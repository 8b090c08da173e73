"""Sweeps over contacts between free bodies, compiled for a CPU: one group of bodies that touch after the other."""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._llvm.ffi import ForeignFunction
from .._llvm.ir_scalars import Scalar
from .kernel_arrays import (
    ARGUMENTS,
    BEFORE,
    BEGUN,
    CONTACTS,
    DIRECTION,
    GOAL,
    GROUP,
    IMPULSE,
    KEPT,
    LABEL,
    MOTION,
    NEAREST,
    NODES,
    NUMBER,
    PUSHED,
    RESULTS,
    KernelArrays,
)
from .newton_kernel import NewtonKernel
from .sweep_contact import natural_map, turn

_FIRST = 20  # sweeps before Newton's method, of a group of few bodies
_SHARES = 4  # squared unknowns for each contact, for which it waits one sweep more
_FIRM, _LOOSER, _LOOSEST, _FIRMER, _FIRMEST = 1e-2, 0.1, 1e-8, 10.0, 10.0  # how impulses are held, and how that changes
_NEARER = 1.2  # squared residuals, over those of the round before, that are not called worse
_PART = 0.01  # of the squared residual, which a round leaves, and of what is to be reached at last


@functools.cache
def compiled_sweeps(m: int, k: int, dtype: Any) -> ForeignFunction:
    """For contacts that move `k` nodes, `m` unknowns. Raises `NotCompilable`.

    Reads rows, and what impulses move, `(n, 3, m)`; the numbers of the unknowns `(n, m)` and of the nodes `(n, k)`; each
    contact's own `W` `(n, 3, 3)`, `u0` `(n, 3)`, friction, whether it is one, its compliance `(n,)`; motions, impulses, and
    the residual to reach. Writes motions, impulses, the group of contacts that are not solved, and -1 of the others, and
    arrays to work with, as `kernel_arrays` names them. Its numbers: of contacts, unknowns, nodes; of sweeps at most; of
    unknowns up to which a group is solved by Newton's method.
    """
    return _Sweeps(m, k, dtype).function()


class _Sweeps:
    """What is written down."""

    def __init__(self, m: int, k: int, dtype: Any):
        self.on = KernelArrays(m, k, dtype)
        self.text, self.math, self.size = self.on.text, self.on.math, np.dtype(dtype).itemsize
        self.newton = NewtonKernel(self.on)
        self.sums = self.on.variables(("error", "fall", "last", "beta", "on", "best", "least", "alpha"))
        self.counts = {name: self.text.variable("i64", "0") for name in ("sweeps", "since", "wait")}
        self.going, self.changed = (  # the latter: labels; of a group, whether it is far from solved
            self.text.variable("i1", "false") for _ in range(2)
        )

    def function(self) -> ForeignFunction:
        text, on = self.text, self.on
        text.declare("void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        for target, source, count in ((MOTION, BEGUN, "%unknowns"), (IMPULSE, PUSHED, text.let("mul i64 %contacts, 3"))):
            size = text.let(f"mul i64 {count}, {self.size}")
            text.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
        for array, count in ((GROUP, "%contacts"), (NUMBER, "%unknowns")):
            with text.each(0, count) as place:
                on.put_index(array, place, "-1")
        self._label()
        with text.each(0, "%nodes") as node, text.when(text.let(f"icmp eq i64 {text.index(LABEL, node)}, {node}")):
            self._group(node)
        return text.function(ARGUMENTS, RESULTS, ["contacts", "unknowns", "nodes", "limit", "most"])

    def _label(self) -> None:
        """Every node has the least number of those that it hangs together with, by contacts."""
        text, on = self.text, self.on
        with text.each(0, "%nodes") as node:
            on.put_index(LABEL, node, node)
        text.set(self.changed, "true")
        least = text.variable("i64", "0")
        with text.repeated(lambda: text.get(self.changed)):
            text.set(self.changed, "false")
            with on.held() as contact:
                nodes = [text.index(NODES, on.entry(contact, on.k, j)) for j in range(on.k)]
                text.set(least, text.index(LABEL, nodes[0]))
                for node in nodes[1:]:
                    text.set(least, self._lesser(text.get(least), text.index(LABEL, node)))
                for node in nodes:
                    with text.when(text.let(f"icmp ne i64 {text.index(LABEL, node)}, {text.get(least)}")):
                        on.put_index(LABEL, node, text.get(least))
                        text.set(self.changed, "true")

    def _group(self, label: str) -> None:
        """The contacts of a group, and sweeps over them until their part of the residual is small."""
        text, on, counts = self.text, self.on, self.counts
        text.set(on.count, "0")
        self.newton.begin()
        with on.held() as contact:
            node = text.index(NODES, on.entry(contact, on.k, 0))
            with text.when(text.let(f"icmp eq i64 {text.index(LABEL, node)}, {label}")):
                on.put_index(CONTACTS, text.get(on.count), contact)
                on.store(DIRECTION, contact, [on.zero] * 3)
                self.newton.take(contact)
                text.set(on.count, text.let(f"add i64 {text.get(on.count)}, 1"))
        for name in ("last", "best", "least"):
            text.set(self.sums[name], on.far)
        for name in ("sweeps", "since"):
            text.set(counts[name], "0")
        text.set(self.going, text.let(f"icmp sgt i64 {text.get(on.count)}, 0"))
        with text.when(text.get(self.going)):
            self._wait()
        with text.repeated(lambda: text.get(self.going)):
            self._sweep()
            self._count()
            with text.when(text.get(self.going)):
                self._accelerate()
                with text.when(text.let(f"icmp sge i64 {text.get(counts['since'])}, {text.get(counts['wait'])}")):
                    self._round()
        with text.when(text.get(self.changed)):
            self._nearest()
            with on.of_group() as contact:
                on.put_index(GROUP, contact, label)

    def _nearest(self) -> None:
        """What did not get there may have ended farther off: to the least natural map of the start, of those that rounds
        began with, and of the end."""
        self._keep()
        self._return(PUSHED)
        self._keep()
        with self.text.when((self._sum("least") < np.inf).name):
            self._return(NEAREST)

    def _keep(self) -> None:
        """Impulses, if none were nearer. A sweep's natural map is of impulses that it changes on the way, this is not."""
        on, text = self.on, self.text
        text.set(self.sums["error"], on.zero)
        with on.of_group() as contact, self._measured(contact):
            pass
        with text.when((self._sum("error") < self._sum("least")).name):
            text.set(self.sums["least"], self._sum("error").name)
            self._copy(NEAREST, IMPULSE)

    def _wait(self) -> None:
        """As many sweeps as a round of Newton's method is worth; all of them for a group that is too large, or moves not."""
        text, unknowns = self.text, self.text.get(self.newton.unknowns)
        square = text.let(f"mul i64 {unknowns}, {unknowns}")
        share = text.let(f"sdiv i64 {square}, {text.let(f'mul i64 {text.get(self.on.count)}, {_SHARES}')}")
        few = text.let(f"icmp sle i64 {unknowns}, %most")
        some = text.let(f"and i1 {few}, {text.let(f'icmp sgt i64 {unknowns}, 0')}")
        wait = text.let(f"select i1 {some}, i64 {text.let(f'add i64 {share}, {_FIRST}')}, i64 %limit")
        text.set(self.counts["wait"], wait)

    def _goal(self) -> Scalar:
        """The squared residual that a group may have: its part."""
        goal = self.math.number(self.text.let(f"load {self.on.kind}, ptr {GOAL}"))
        return goal * goal * self._contacts() / self._float("%contacts")

    def _count(self) -> None:
        """Whether it goes on: not where the residual is small, or no number, or there were too many sweeps."""
        text = self.text
        far = self._sum("error") > self._goal()
        for name in ("sweeps", "since"):
            text.set(self.counts[name], text.let(f"add i64 {text.get(self.counts[name])}, 1"))
        fewer = Scalar(self.math, "i1", text.let(f"icmp slt i64 {text.get(self.counts['sweeps'])}, %limit"))
        text.set(self.going, (far & fewer).name)
        text.set(self.changed, far.name)

    def _sweep(self) -> None:
        """Contact after contact, the squared natural map of each before its turn, and how far impulses go."""
        on = self.on
        for name in ("error", "fall"):
            self.text.set(self.sums[name], on.zero)
        with on.of_group() as contact:
            on.store(BEFORE, contact, on.load(IMPULSE, contact))
            with self._measured(contact) as law:
                change = [a - b for a, b in zip(turn(self.math, *law), law[0], strict=True)]
                on.add(self.sums["fall"], on.square(change))
                on.move(contact, change)

    @contextmanager
    def _measured(self, contact: str) -> Iterator[tuple[list[Scalar], list[Scalar], list[Scalar], Scalar]]:
        """A contact that is no open one, its squared natural map added: impulse, velocity, its own `W`, friction."""
        on = self.on
        r, normal = on.load(IMPULSE, contact), on.velocity(contact, (0,))
        opens = ~on.pushes(contact) & (-normal[0] <= 0.0)
        with self.text.when((~opens).name):
            law = r, [*normal, *on.velocity(contact, (1, 2))], on.own(contact), on.friction(contact)
            on.add(self.sums["error"], on.square(natural_map(self.math, *law)))
            yield law

    def _accelerate(self) -> None:
        """Conjugate gradients: on along the last direction, which begins anew where sweeps go farther than before."""
        math, text, on = self.math, self.text, self.on
        beta = self._sum("fall") / self._sum("last")
        goes_on = beta <= 1.0
        text.set(self.sums["beta"], math.where(goes_on, beta, 0.0).name)
        text.set(self.sums["on"], math.where(goes_on, on.one, 0.0).name)
        text.set(self.sums["last"], self._sum("fall").name)
        with on.of_group() as contact, text.when(on.pushes(contact, BEFORE, DIRECTION).name):
            change = self._apart(IMPULSE, BEFORE, contact)
            more = [self._sum("beta") * p for p in on.load(DIRECTION, contact)]
            on.move(contact, more)
            on.store(DIRECTION, contact, [a + self._sum("on") * b for a, b in zip(more, change, strict=True)])

    def _round(self) -> None:
        """Newton's method from here, impulses held more loosely; where the round before made it worse, from where that
        began, held more firmly, while that is possible. One sweep follows, which says whether it is worse."""
        text, on, math = self.text, self.on, self.math
        error, best, alpha = self._sum("error"), self._sum("best"), self._sum("alpha")
        self._keep()
        worse = ~(error < _NEARER * best) & (alpha < _FIRMEST)
        with text.when((~worse).name):
            looser = math.maximum(_LOOSER * alpha, _LOOSEST)
            text.set(self.sums["alpha"], math.where(best < np.inf, looser, _FIRM).name)
            text.set(self.sums["best"], error.name)
            self._copy(KEPT, IMPULSE)
        with text.when(worse.name):
            text.set(self.sums["alpha"], (_FIRMER * alpha).name)
            self._return(KEPT)
        mean = self.newton.mobility / self._contacts()
        goal = _PART * math.maximum(self._sum("best"), self._goal())
        self.newton.round(self._sum("alpha"), goal * mean * mean)
        wait = text.get(self.counts["wait"])
        text.set(self.counts["since"], text.let(f"sub i64 {wait}, 1"))
        text.set(self.counts["sweeps"], text.let(f"add i64 {text.get(self.counts['sweeps'])}, {wait}"))
        text.set(self.sums["last"], on.far)
        with on.of_group() as contact:
            on.store(DIRECTION, contact, [on.zero] * 3)

    def _copy(self, target: str, source: str) -> None:
        with self.on.of_group() as contact:
            self.on.store(target, contact, self.on.load(source, contact))

    def _return(self, kept: str) -> None:
        """To impulses that were kept."""
        with self.on.of_group() as contact:
            self.on.move(contact, self._apart(kept, IMPULSE, contact))

    def _apart(self, array: str, other: str, contact: str) -> list[Scalar]:
        return [a - b for a, b in zip(self.on.load(array, contact), self.on.load(other, contact), strict=True)]

    def _contacts(self) -> Scalar:
        """How many contacts a group has."""
        return self._float(self.text.get(self.on.count))

    def _float(self, count: str) -> Scalar:
        return self.math.number(self.text.let(f"sitofp i64 {count} to {self.on.kind}"))

    def _sum(self, name: str) -> Scalar:
        return self.math.number(self.text.get(self.sums[name]))

    def _lesser(self, a: str, b: str) -> str:
        return self.text.let(f"select i1 {self.text.let(f'icmp slt i64 {a}, {b}')}, i64 {a}, i64 {b}")
