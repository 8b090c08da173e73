"""The program of one element, and the programs of its derivatives, each traced once."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..._runtime.jax_internals import ClosedJaxpr, Literal, jaxpr_as_fun, without_unused
from ..._runtime.joined_arrays import JoinedArrays
from ..._runtime.reverse_mode import anew

Axes = tuple[int | None, ...]
_MOST_KEPT = 4096  # numbers of a step for reverse mode


class ElementProgram:
    """`outputs = program(*arguments)` of one element, and which arguments have an element axis (0, or None: shared).

    Compared by identity. What is made of it is kept beside it: derivatives are asked for many times over. `is_whole`: it is
    no element of a scene, but a step of all of it (`one_kernel.py`), or a derivative of one.
    """

    def __init__(self, program: ClosedJaxpr, axes: Axes, is_whole: bool = False):
        self.jaxpr, self.consts, self.axes, self.is_whole = program.jaxpr, program.consts, axes, is_whole
        self.compiled: dict[Any, Any] = {}  # what runs it, by what it depends on
        self.refused: dict[Any, int] = {}  # what does not run it, by how many results it might have had
        self._made: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"an element function of {len(self.axes)} arrays"

    @property
    def closed(self) -> ClosedJaxpr:
        return ClosedJaxpr(self.jaxpr, self.consts)

    def once(self, what: Any, make: Callable[[], Any]) -> Any:
        """What is made of it, kept under a name."""
        if what not in self._made:
            self._made[what] = make()
        return self._made[what]

    def with_axes(self, axes: Axes) -> "ElementProgram":
        """The same program where other arguments are shared."""
        return self if axes == self.axes else self.once(axes, lambda: ElementProgram(self.closed, axes, self.is_whole))

    def reduced(self, wanted: tuple[bool, ...]) -> tuple["ElementProgram", list[int]]:
        """Some of the outputs, and the arguments that these are made of."""
        return self.once(("reduced", wanted), lambda: reduced(self.closed, self.axes, wanted, self.is_whole))

    def tangent(self, moving: tuple[int, ...], always: int) -> tuple["ElementProgram", list[int], list[int]]:
        """The rates of the outputs, from all arguments and the rates of those that move: linear in the rates.

        Also which inputs it reads, and which outputs have a rate that is not zero; the first `always` have one anyway.
        """
        return self.once(("tangent", moving, always), lambda: self._tangent(moving, always))

    def _tangent(self, moving: tuple[int, ...], always: int) -> tuple["ElementProgram", list[int], list[int]]:
        function, arguments, count = jaxpr_as_fun(self.closed), self._examples(), len(self.axes)
        real = [i for i, v in enumerate(self.jaxpr.outvars) if jnp.issubdtype(v.aval.dtype, jnp.inexact)]

        def rates(*inputs):
            def outputs(*moved):
                outcome = function(*_replaced(inputs[:count], moving, moved))
                return [outcome[i] for i in real]

            return jax.jvp(outputs, [inputs[i] for i in moving], list(inputs[count:]))[1]

        program = jax.make_jaxpr(rates)(*arguments, *(arguments[i] for i in moving))
        reached = _reached(program.jaxpr, program.jaxpr.invars[count:])
        wanted = tuple(i < always or moves for i, moves in zip(real, reached, strict=True))
        made, used = reduced(program, (*self.axes, *(self.axes[i] for i in moving)), wanted, self.is_whole)
        return made, used, [i for i, kept in zip(real, wanted, strict=True) if kept]

    def parted(self, moving: tuple[int, ...]) -> "Parted | None":
        """The program of a step that hands on what reverse mode keeps of it, and that of its rates, which computes none of
        that anew; None where nothing is kept, or too much."""
        return self.once(("parted", moving), lambda: self._parted(moving))

    def _parted(self, moving: tuple[int, ...]) -> "Parted | None":
        function, arguments, count = anew(jaxpr_as_fun(self.closed)), self._examples(), len(self.axes)
        real = [i for i, v in enumerate(self.jaxpr.outvars) if jnp.issubdtype(v.aval.dtype, jnp.inexact)]
        places: list[int] = []  # of what the rates read, among the arguments and what is kept
        forms: list[Any] = []

        def with_kept(*inputs):
            moved = [inputs[i] for i in moving]
            outcome, rates = jax.linearize(lambda *moved: function(*_replaced(inputs, moving, moved)), *moved)
            read, structure = jax.tree.flatten(rates)
            kept = [a for a in read if not any(a is given for given in inputs)]
            known = [*inputs, *kept]
            places[:] = [next(i for i, a in enumerate(known) if a is one) for one in read]
            joined, form = jax.tree.flatten(JoinedArrays.of(kept))
            forms[:] = [structure, form]
            return [*outcome, *joined]

        program = jax.make_jaxpr(with_kept)(*arguments)
        kept = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in program.jaxpr.outvars[len(self.jaxpr.outvars) :]]
        if not 0 < sum(a.size for a in kept) <= _MOST_KEPT:
            return None

        def rates(*inputs):
            known = [*inputs[:count], *jax.tree.unflatten(forms[1], inputs[count : count + len(kept)]).tree()]
            found = jax.tree.unflatten(forms[0], [known[i] for i in places])(*inputs[count + len(kept) :])
            return [found[i] for i in real]

        of_rates = jax.make_jaxpr(rates)(*arguments, *kept, *(arguments[i] for i in moving))
        wanted = _reached(of_rates.jaxpr, of_rates.jaxpr.invars[count + len(kept) :])
        axes = (*self.axes, *(0 for _ in kept), *(self.axes[i] for i in moving))
        tangent, used = reduced(of_rates, axes, wanted, self.is_whole)
        whole, read = reduced(program, self.axes, [True for _ in program.jaxpr.outvars], self.is_whole)
        return Parted(whole, read, tangent, used, [i for i, moves in zip(real, wanted, strict=True) if moves])

    def transposed(self, linear: tuple[int, ...], given: tuple[int, ...]) -> tuple["ElementProgram", list[int]]:
        """The cotangents of the arguments in which the program is linear, those that elements share included; from its
        other arguments and the cotangents of the outputs that are given. Also the inputs that it reads."""
        return self.once(("transposed", linear, given), lambda: self._transposed(linear, given))

    def _transposed(self, linear: tuple[int, ...], given: tuple[int, ...]) -> tuple["ElementProgram", list[int]]:
        function, arguments = jaxpr_as_fun(self.closed), self._examples()
        known = [i for i in range(len(self.axes)) if i not in linear]

        def cotangents(*inputs):
            def outputs(*moved):
                values = _replaced(_replaced(arguments, known, inputs[: len(known)]), linear, moved)
                outcome = function(*values)
                return [outcome[i] for i in given]

            return jax.linear_transpose(outputs, *(arguments[i] for i in linear))(list(inputs[len(known) :]))

        results = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in self.jaxpr.outvars]
        program = jax.make_jaxpr(cotangents)(*(arguments[i] for i in known), *(results[i] for i in given))
        axes = (*(self.axes[i] for i in known), *(0 for _ in given))
        return reduced(program, axes, tuple(True for _ in linear), self.is_whole)

    def _examples(self) -> list[jax.ShapeDtypeStruct]:
        return [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in self.jaxpr.invars]


class Parted(NamedTuple):
    """A program that gives, after its results, what is kept of it, and the arguments that it reads. The rates of its results
    from the arguments, what is kept, and the rates of those that move; what that reads, and which results have a rate that
    is not zero."""

    with_kept: ElementProgram
    read: list[int]
    tangent: ElementProgram
    used: list[int]
    moved: list[int]


def reduced(
    program: ClosedJaxpr, axes: Axes, wanted: Sequence[bool], is_whole: bool = False
) -> tuple[ElementProgram, list[int]]:
    """Some outputs of a program, and the arguments that these are made of."""
    jaxpr, used = without_unused(program.jaxpr, wanted)
    kept = [i for i, is_used in enumerate(used) if is_used]
    return ElementProgram(ClosedJaxpr(jaxpr, program.consts), tuple(axes[i] for i in kept), is_whole), kept


def _replaced(values: Sequence[Any], places: Sequence[int], others: Sequence[Any]) -> list[Any]:
    values = list(values)
    for i, other in zip(places, others, strict=True):
        values[i] = other
    return values


def _reached(jaxpr: Any, inputs: Sequence[Any]) -> list[bool]:
    """Which outputs depend on some inputs."""
    found = set(inputs)
    for eqn in jaxpr.eqns:
        if any(not isinstance(v, Literal) and v in found for v in eqn.invars):
            found.update(eqn.outvars)
    return [not isinstance(v, Literal) and v in found for v in jaxpr.outvars]
