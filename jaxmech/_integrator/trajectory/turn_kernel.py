"""The turns of a loop over a small scene as one kernel each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ..._codegen import in_one_kernel, is_compiled, length_as_scalars
from ..._runtime.devices import on_cpu
from ..._runtime.element_compiler import element_form
from ..._runtime.jax_internals import jaxpr_as_fun
from ..._runtime.joined_arrays import JoinedArrays

_MOST_NUMBERS = 128  # that a turn hands on: of more, its program is longer than it is worth
# Operations of a turn, by an estimate: a tenth to a half as many lines, of its gradient twice those, which LLVM optimises up
# to here. A body on a hinge by the midpoint rule has 174,000: a step takes a twentieth of XLA's time, and is there sooner.
_LONGEST = 200_000


class Turns(NamedTuple):
    """`turn`, `(carry, x) -> (carry, y)`. What a loop carries (`joined`) from what was given to be carried, and this
    (`whole`) from that."""

    turn: Callable[[Any, Any], tuple[Any, Any]]
    joined: Callable[[Any], Any]
    whole: Callable[[Any], Any]


def as_kernel(turn: Callable[[Any, Any], tuple[Any, Any]], start: Any, x: Any) -> Turns:
    """Turns of a loop, of a carry and an `x` like these, that are one kernel each where that is worth its while.

    Else as they are: of a larger scene, where a step calls what LLVM knows nothing of, on other devices.
    """
    if not _is_small(start):
        return Turns(turn, _same, _same)
    traced, length = _traced(turn, start, x)
    if length is None or length > _LONGEST:
        return Turns(traced, _same, _same)

    def of_joined(carry: JoinedArrays, x: Any) -> tuple[JoinedArrays, Any]:
        end, y = traced(carry.tree(), x)
        return JoinedArrays.of(end), y

    by_kernel = _by_kernel(of_joined, jax.eval_shape(JoinedArrays.of, start), x)
    return Turns(by_kernel, JoinedArrays.of, JoinedArrays.tree)


def in_one(function: Callable[[Any], Any], state: Any) -> Any:
    """`function(state)`, by one kernel likewise: what a motion begins with is computed once, and compiled as well."""
    if not _is_small(state):
        return function(state)
    traced, length = _traced(function, state)
    return traced(state) if length is None or length > _LONGEST else _by_kernel(traced, state)(state)


def _is_small(carry: Any) -> bool:
    may_be = on_cpu() and is_compiled() and element_form() == "llvm"
    return may_be and jax.eval_shape(JoinedArrays.of, carry).size <= _MOST_NUMBERS


def _traced(function: Callable[..., Any], *examples: Any) -> tuple[Callable[..., Any], int | None]:
    """The function, traced once for all, and its length as a program of scalars."""
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*examples)
    return _of_trees(jaxpr_as_fun(program), shapes), length_as_scalars(program)


def _by_kernel(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*examples)
    return _of_trees(in_one_kernel(program), shapes)


def _of_trees(function: Callable[..., Any], shapes: Any) -> Callable[..., Any]:
    """A function of arrays as one of what they are the leaves of."""
    structure = jax.tree.structure(shapes)
    return lambda *trees: jax.tree.unflatten(structure, function(*jax.tree.leaves(trees)))


def _same(carry: Any) -> Any:
    return carry
