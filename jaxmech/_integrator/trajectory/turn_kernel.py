"""The turns of a loop over a small scene as one kernel each."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ..._codegen import in_one_kernel, is_compiled, is_worth_a_kernel
from ..._runtime.devices import on_cpu
from ..._runtime.element_compiler import element_form
from ..._runtime.jax_internals import jaxpr_as_fun
from ..._runtime.joined_arrays import JoinedArrays

_MOST_NUMBERS = 256  # that a turn hands on: of more, its program is longer than it is worth


class Turns(NamedTuple):
    """`turn`, `(carry, x) -> (carry, y)`. What a loop carries (`joined`) from what was given to be carried, and this
    (`whole`) from that. Whether a turn is one kernel."""

    turn: Callable[[Any, Any], tuple[Any, Any]]
    joined: Callable[[Any], Any]
    whole: Callable[[Any], Any]
    is_kernel: bool


def as_kernel(turn: Callable[[Any, Any], tuple[Any, Any]], start: Any, x: Any) -> Turns:
    """Turns of a loop, of a carry and an `x` like these, that are one kernel each where that is worth its while.

    Else as they are: of a larger scene, where a step calls what LLVM knows nothing of, on other devices.
    """
    if not _is_small(start):
        return as_it_is(turn)
    traced, is_worth_it = _traced(turn, start, x)
    if not is_worth_it:
        return as_it_is(traced)

    def of_joined(carry: JoinedArrays, x: Any) -> tuple[JoinedArrays, Any]:
        end, y = traced(carry.tree(), x)
        return JoinedArrays.of(end), y

    by_kernel = _by_kernel(of_joined, jax.eval_shape(JoinedArrays.of, start), x)
    return Turns(by_kernel, JoinedArrays.of, JoinedArrays.tree, True)


def as_it_is(turn: Callable[[Any, Any], tuple[Any, Any]]) -> Turns:
    """Turns that are no kernels."""
    return Turns(turn, _same, _same, False)


def in_one(function: Callable[[Any], Any], state: Any) -> Any:
    """`function(state)`, by one kernel likewise: what a motion begins with is computed once, and compiled as well."""
    if not _is_small(state):
        return function(state)
    traced, is_worth_it = _traced(function, state, once=True)
    return _by_kernel(traced, state)(state) if is_worth_it else traced(state)


def _is_small(carry: Any) -> bool:
    may_be = on_cpu() and is_compiled() and element_form() == "llvm"
    return may_be and jax.eval_shape(JoinedArrays.of, carry).size <= _MOST_NUMBERS


def _traced(function: Callable[..., Any], *examples: Any, once: bool = False) -> tuple[Callable[..., Any], bool]:
    """The function, traced once for all, and whether it is worth a kernel."""
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*examples)
    return _of_trees(jaxpr_as_fun(program), shapes), is_worth_a_kernel(program, once=once)


def _by_kernel(function: Callable[..., Any], *examples: Any) -> Callable[..., Any]:
    program, shapes = jax.make_jaxpr(function, return_shape=True)(*examples)
    return _of_trees(in_one_kernel(program), shapes)


def _of_trees(function: Callable[..., Any], shapes: Any) -> Callable[..., Any]:
    """A function of arrays as one of what they are the leaves of."""
    structure = jax.tree.structure(shapes)
    return lambda *trees: jax.tree.unflatten(structure, function(*jax.tree.leaves(trees)))


def _same(carry: Any) -> Any:
    return carry
