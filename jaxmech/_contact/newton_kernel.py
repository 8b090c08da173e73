"""Newton's method for the contacts of one group, in the velocities of its bodies: lines of the kernel of sweeps.

With impulses `a` at hand, held there by `R = alpha w`, `w` how mobile a contact is: motions `d` for which

    d = V^T (p(d) - a),      p(d): what Coulomb's law leaves of a - R^-1 (u + H d)

where `u` are the velocities at `a`. `R` determines impulses of which there are more than hold the bodies; those that have to
go on to the edges of their cones, or along them, get there at once.
Source: R. T. Rockafellar, SIAM J. Control Optim. 14 (1976) 877, doi:10.1137/0314056; P. Alart and A. Curnier, Comput.
Methods Appl. Mech. Eng. 92 (1991) 353, doi:10.1016/0045-7825(91)90022-X.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np

from .._llvm.ir_scalars import Scalar
from .kernel_arrays import (
    AIM,
    ARM,
    CHANGE,
    COLUMNS,
    GIVE,
    IMPULSE,
    NUMBER,
    PLACES,
    REST,
    SYSTEM,
    TRIAL,
    VELOCITY,
    H,
    KernelArrays,
    V,
)
from .sweep_contact import coulomb_impulse, coulomb_slope

_STEPS = 5  # of Newton in a round
_SHORTEST = 0.1  # the part of a step that is taken if no longer one is better


class NewtonKernel:
    """Rounds of Newton's method, for one group after the other."""

    def __init__(self, arrays: KernelArrays):
        self.on, self.text, self.math = arrays, arrays.text, arrays.math
        self.unknowns, self._steps, self._pivot = (self.text.variable("i64", "0") for _ in range(3))
        self._going = self.text.variable("i1", "false")
        self._own = arrays.variables(("alpha", "size", "trial", "part", "mobility", "sum"))

    @property
    def mobility(self) -> Scalar:
        """Of the contacts of the group, the sum."""
        return self._number("mobility")

    def begin(self) -> None:
        """A group of which no contact is known yet."""
        self.text.set(self.unknowns, "0")
        self.text.set(self._own["mobility"], self.on.zero)

    def take(self, contact: str) -> None:
        """One more contact: the numbers of its unknowns within the group, and how far they move it at most."""
        text, on, math = self.text, self.on, self.math
        on.add(self._own["mobility"], self._mobility(contact))
        with text.each(0, on.m) as j:
            at = on.entry(contact, on.m, j)
            on.put_index(COLUMNS, at, "0")
            h, v = ([math.abs(math.number(on.row(a, contact, i, j))) for i in range(3)] for a in (H, V))
            total = h[0] + h[1] + h[2] + v[0] + v[1] + v[2]
            with text.when(text.let(f"fcmp une {on.kind} {total.name}, {on.zero}")):
                self._numbered(at, math.maximum(math.maximum(h[0], h[1]), h[2]))

    def _numbered(self, at: str, arm: Scalar) -> None:
        """A column whose unknown is one of the group's, and moves the contact by so much."""
        text, on = self.text, self.on
        unknown = text.index(PLACES, at)
        with text.when(text.let(f"icmp slt i64 {text.index(NUMBER, unknown)}, 0")):
            count = text.get(self.unknowns)
            on.put_index(NUMBER, unknown, count)
            on.put(ARM, count, on.zero)
            text.set(self.unknowns, text.let(f"add i64 {count}, 1"))
        number = text.index(NUMBER, unknown)
        on.put_index(COLUMNS, at, number)
        on.put(ARM, number, self.math.maximum(on.scalar(ARM, number), arm))

    def round(self, alpha: Scalar, goal: Scalar) -> None:
        """Until the squared velocities that are missed at contacts are as small as the goal; new impulses and motions."""
        text, on, own = self.text, self.on, self._own
        text.set(own["alpha"], alpha.name)
        with on.of_group() as contact:
            on.store(VELOCITY, contact, on.velocity(contact))
        with self._each() as j:
            on.put(TRIAL, j, on.zero)
        text.set(own["size"], on.far)
        text.set(own["part"], on.one.name)
        text.set(self._steps, "0")
        text.set(self._going, "true")
        with text.repeated(lambda: text.get(self._going)):
            self._try(goal)
        with text.when((self._number("size") < np.inf).name), on.of_group() as contact:
            on.move(contact, self._change(contact, on.load(AIM, contact)))

    def _try(self, goal: Scalar) -> None:
        """A trial that is taken, and the next direction, or half of the step to it."""
        text, on, own = self.text, self.on, self._own
        self._missed()
        part, trial = self._number("part"), self._number("trial")
        shorter = trial < (on.one - 1e-4 * part) * self._number("size")
        with text.when((~(~shorter & (part > _SHORTEST))).name):
            text.set(own["size"], trial.name)
            with self._each() as j:
                on.put(CHANGE, j, on.number(TRIAL, j))
            steps = text.get(self._steps)
            fewer = Scalar(self.math, "i1", text.let(f"icmp slt i64 {steps}, {_STEPS}"))
            text.set(self._going, ((trial > goal) & (trial < np.inf) & fewer).name)
            text.set(self._steps, text.let(f"add i64 {steps}, 1"))
            with text.when(text.get(self._going)):
                self._matrix()
                self._eliminate()
                self._substitute()
                text.set(own["part"], (on.one + on.one).name)
        with text.when(text.get(self._going)):
            text.set(own["part"], (0.5 * self._number("part")).name)
            width = self._width()
            with self._each() as j:
                step = on.scalar(SYSTEM, text.let(f"sub i64 {self._place(text.let(f'add i64 {j}, 1'), '0', width)}, 1"))
                on.put(TRIAL, j, on.scalar(CHANGE, j) + self._number("part") * step)

    def _missed(self) -> None:
        """What motions miss of those that their impulses make, and its square at contacts."""
        text, on = self.text, self.on
        with self._each() as j:
            on.put(REST, j, on.number(TRIAL, j))
        with on.of_group() as contact:
            columns = self._columns(contact)
            x = [on.number(TRIAL, at) for at in columns]
            normal = on.across(contact, VELOCITY, x, (0,))
            on.store(AIM, contact, [-normal[0], on.zero, on.zero])
            opens = ~on.pushes(contact) & (-normal[0] <= 0.0)
            with text.when((~opens).name):
                u = [*normal, *on.across(contact, VELOCITY, x, (1, 2))]
                aim = [a - b / R for a, b, R in zip(on.load(IMPULSE, contact), u, self._held(contact), strict=True)]
                on.store(AIM, contact, aim)
                on.push(REST, contact, [-c for c in self._change(contact, aim)], columns)
        text.set(self._own["trial"], on.zero)
        with self._each() as j:
            missed = on.scalar(ARM, j) * on.scalar(REST, j)
            on.add(self._own["trial"], missed * missed)

    def _matrix(self) -> None:
        """`I + V^T (-dp/du) H`, and beside it what is to be made up for."""
        text, on, width = self.text, self.on, self._width()
        with text.each(0, text.let(f"mul i64 {text.get(self.unknowns)}, {width}")) as at:
            on.put(SYSTEM, at, on.zero)
        with self._each() as j:
            on.put(SYSTEM, self._place(j, j, width), on.one)
            on.put(SYSTEM, self._place(j, text.get(self.unknowns), width), -on.scalar(REST, j))
        with on.of_group() as contact:
            aim = on.load(AIM, contact)
            with text.when((aim[0] > 0.0).name):
                self._block(contact, coulomb_slope(self.math, aim, self._held(contact), on.friction(contact)), width)

    def _block(self, contact: str, slope: Sequence[Sequence[Scalar]], width: str) -> None:
        """That of a contact."""
        text, on, math = self.text, self.on, self.math
        rows = [[math.number(on.row(H, contact, i, k)) for k in range(on.m)] for i in range(3)]
        product = [[row[0] * a + row[1] * b + row[2] * c for a, b, c in zip(*rows, strict=True)] for row in slope]
        columns = self._columns(contact)
        with text.each(0, on.m) as j:
            first = text.let(f"mul i64 {text.index(COLUMNS, on.entry(contact, on.m, j))}, {width}")
            moved = [on.row(V, contact, i, j) for i in range(3)]
            for k, column in enumerate(columns):
                at = text.let(f"add i64 {first}, {column}")
                total = on.number(SYSTEM, at)
                for i in range(3):
                    total = on.plus(total, moved[i], product[i][k].name)
                on.put(SYSTEM, at, total)

    def _eliminate(self) -> None:
        """Gauss, rows exchanged for the largest pivots; bodies that are far apart in a pile have no entry."""
        text, on, math, width = self.text, self.on, self.math, self._width()
        with self._each() as k:
            text.set(self._pivot, k)
            after = text.let(f"add i64 {k}, 1")
            with text.each(after, text.get(self.unknowns)) as i:
                now, best = (math.abs(on.scalar(SYSTEM, self._place(r, k, width))) for r in (i, text.get(self._pivot)))
                with text.when((now > best).name):
                    text.set(self._pivot, i)
            pivot = text.get(self._pivot)
            with text.when(text.let(f"icmp ne i64 {pivot}, {k}")), text.each(k, width) as j:
                upper, lower = (self._place(r, j, width) for r in (k, pivot))
                a, b = on.number(SYSTEM, upper), on.number(SYSTEM, lower)
                on.put(SYSTEM, upper, b)
                on.put(SYSTEM, lower, a)
            inverse = on.one / on.scalar(SYSTEM, self._place(k, k, width))
            with text.each(after, text.get(self.unknowns)) as i:
                factor = -(on.scalar(SYSTEM, self._place(i, k, width)) * inverse)
                with text.when(text.let(f"fcmp une {on.kind} {factor.name}, {on.zero}")), text.each(after, width) as j:
                    at = self._place(i, j, width)
                    above = on.number(SYSTEM, self._place(k, j, width))
                    on.put(SYSTEM, at, on.plus(on.number(SYSTEM, at), factor.name, above))

    def _substitute(self) -> None:
        """From the last unknown to the first, in the place of the right-hand side."""
        text, on, width, last = self.text, self.on, self._width(), self.text.get(self.unknowns)
        with self._each() as back:
            k = text.let(f"sub i64 {text.let(f'sub i64 {last}, 1')}, {back}")
            text.set(self._own["sum"], on.number(SYSTEM, self._place(k, last, width)))
            with text.each(text.let(f"add i64 {k}, 1"), last) as j:
                known = -(on.scalar(SYSTEM, self._place(k, j, width)) * on.scalar(SYSTEM, self._place(j, last, width)))
                on.add(self._own["sum"], known)
            pivot = on.scalar(SYSTEM, self._place(k, k, width))
            on.put(SYSTEM, self._place(k, last, width), self._number("sum") / pivot)

    def _change(self, contact: str, aim: Sequence[Scalar]) -> list[Scalar]:
        """`p - a`."""
        p = coulomb_impulse(self.math, aim, self.on.friction(contact))
        return [new - old for new, old in zip(p, self.on.load(IMPULSE, contact), strict=True)]

    def _held(self, contact: str) -> list[Scalar]:
        """`R` of the three impulses, and the compliance of the first."""
        R = self._number("alpha") * self._mobility(contact)
        return [R + self.on.scalar(GIVE, contact), R, R]

    def _mobility(self, contact: str) -> Scalar:
        w = self.on.own(contact)
        total = w[0] + w[4] + w[8]
        return self.math.where(total > 0.0, total, 3.0) / (self.on.one + self.on.one + self.on.one)

    def _columns(self, contact: str) -> list[str]:
        return [self.text.index(COLUMNS, self.on.entry(contact, self.on.m, j)) for j in range(self.on.m)]

    def _each(self) -> AbstractContextManager[str]:
        return self.text.each(0, self.text.get(self.unknowns))

    def _width(self) -> str:
        return self.text.let(f"add i64 {self.text.get(self.unknowns)}, 1")

    def _place(self, i: str, j: str, width: str) -> str:
        return self.text.let(f"add i64 {self.text.let(f'mul i64 {i}, {width}')}, {j}")

    def _number(self, name: str) -> Scalar:
        return self.math.number(self.text.get(self._own[name]))
