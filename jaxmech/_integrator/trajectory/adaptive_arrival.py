"""A step of a length that is known, with the derivatives of one that is as long as it takes.

That is until an output time, or until the function of an event is nil: `dh = -dg / g_h` (the implicit function theorem).
What `g` and the end of the step change by are products with one linearised step: a step for each would be most of what the
gradient of a run with events takes to compile.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.system import State
from ..._runtime.array_types import Array
from . import event as crossing
from .adaptive_memory import Inputs, Kept, Options


class Given(eqx.Module):
    """What a step is differentiated by: where it starts, and how long it is until an output time."""

    inputs: Inputs
    kept: Kept
    state: State
    carry: Any
    rest: Array


class Known(NamedTuple):
    """What it is not: the length `h` that the step was found to have, whether it `lands` on an output time, and at which
    event it ends (-1: at none)."""

    options: Options
    h: Array
    lands: Array
    event: Array


class Arrival(NamedTuple):
    """Where a step leads, what of the carry steps change, and how long it is until its event, `h` where there is none."""

    end: State
    carry: Any
    length: Array


@eqx.filter_custom_jvp
def arrival(given: Given, known: Known) -> Arrival:
    """The step that is as long as it takes."""
    end, carry = _step(given, known, jnp.where(known.lands, given.rest, known.h))
    return Arrival(end, carry, known.h)


@arrival.def_jvp
def _arrival_jvp(primals: Any, tangents: Any) -> tuple[Arrival, Arrival]:
    given, known = primals
    length = _until_event(given, known)
    reached, by_given, by_length = _linearised(given, known, tangents[0], jnp.where(known.lands, given.rest, length))
    rate = _of_length(known, by_given, by_length)
    of_rest = jnp.zeros_like(rate) if tangents[0].rest is None else tangents[0].rest
    longer = jnp.where(known.lands, of_rest, rate)
    moved = jax.tree.map(lambda a, b: a + longer * b, by_given, by_length)
    return Arrival(*reached, length), Arrival(moved.end, moved.carry, rate)


@eqx.filter_custom_jvp
def _until_event(given: Given, known: Known) -> Array:
    """How long the step is until its event."""
    del given
    return known.h


@_until_event.def_jvp
def _until_event_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    given, known = primals
    length = _until_event(given, known)
    return length, _of_length(known, *_linearised(given, known, tangents[0], length)[1:])


class _Rates(NamedTuple):
    """What the end of a step, what it hands on, and the function of its event change by."""

    end: Any
    carry: Any
    function: Array


def _of_length(known: Known, by_given: _Rates, by_length: _Rates) -> Array:
    """What the length changes by for the event's function to stay nil; as it is, where there is no event."""
    met = known.event >= 0
    return jnp.where(met, -by_given.function / jnp.where(met, by_length.function, 1.0), 0.0)


def _linearised(given: Given, known: Known, tangents: Any, length: Array) -> tuple[tuple[State, Any], _Rates, _Rates]:
    """Where a step of this length leads, and what that changes by with what is given, and with each second of the length."""
    differs = jax.tree.map(lambda _, t: t is not None, given, tangents, is_leaf=lambda a: a is None)
    varying, constant = eqx.partition(given, differs)

    def step(varying: Any, length: Array) -> tuple[Any, Any]:
        whole = eqx.combine(varying, constant)
        end, carry = _step(whole, known, length)
        function = crossing.values(whole.inputs.events, whole.inputs.system, end)[known.event]
        return eqx.partition(_Rates(end, carry, function), eqx.is_inexact_array)

    moving, linear, others = jax.linearize(step, varying, length, has_aux=True)
    reached = eqx.combine(moving, others)
    nothing, second = jnp.zeros_like(length), jnp.ones_like(length)
    by_given, by_length = linear(tangents, nothing), linear(jax.tree.map(jnp.zeros_like, varying), second)
    return (reached.end, reached.carry), by_given, by_length


def _step(given: Given, known: Known, length: Array) -> tuple[State, Any]:
    carry = given.kept.whole(given.carry)
    end, carry, _, _ = given.inputs.step(known.options, given.state, carry, length)
    return end, given.kept.part(carry)
