"""What is at fault where a computation failed: a number that was given, or an element. Looked for only then."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.jax_internals import unvmap_any
from .._runtime.results import RESULTS
from .dynamics import Fields, kinematics
from .system import State, System
from .validity import element_validity

# Failures that numbers do not explain: whoever meets them computed with finite ones.
_OTHERS = (RESULTS.successful, RESULTS.not_converged, RESULTS.residual_floor, RESULTS.max_steps_reached)


class Fault(eqx.Module):
    """Numbers, -1 where not known: of the load step that failed; among `given`, of what is not finite; of the force field,
    in the order of `limited`, and of its element that is inverted."""

    load_step: Array
    given: Array
    component: Array
    element: Array


def given(system: System, state: State, h: Array | None = None) -> list[tuple[str, Array]]:
    """Every floating-point array of a scene, of a state and of a time step, by the name that a user knows it by."""
    named = [(_name(path), leaf) for path, leaf in jax.tree_util.tree_flatten_with_path(system)[0]]
    named += [(f"position of '{s}'", x) for s, x in state.position.items()]
    named += [(f"velocity of '{s}'", v) for s, v in state.velocity.items()]
    for field, variables in state.internal.items():
        named += [(f"internal variable {name} of '{field}'", values) for name, values in variables.items()]
    named += [("the time", state.time), ("the time step dt", h)]
    return [(name, leaf) for name, leaf in named if eqx.is_inexact_array(leaf)]


def _name(path: tuple[Any, ...]) -> str:
    """`'push': force`, `'solid': material.young`, `gravity`."""
    if len(path) < 2:
        return jax.tree_util.keystr(path).removeprefix(".")
    rest = jax.tree_util.keystr(path[2:]).removeprefix(".")
    return f"'{path[1].key}': {rest}" if rest else f"{path[0].name} '{path[1].key}'"


def diagnosed(
    result: Any,
    numbers: list[tuple[str, Array]],
    system: System,
    places: Callable[[], tuple[Fields, Fields]],
    load_step: Any,
) -> tuple[Any, Fault]:
    """The result, more precisely where it is a failure, and what is at fault. `places`: the positions of the main states at
    the start, and where it failed."""
    failed = result != RESULTS.successful
    explained = failed & ~jnp.stack([result == other for other in _OTHERS]).any()

    def look() -> tuple[Array, ...]:
        lost = jnp.stack([~jnp.all(jax.lax.is_finite(leaf)) for _, leaf in numbers])
        number = jnp.where(explained & lost.any(), jnp.argmax(lost), -1)
        start, end = places()
        ended = result == RESULTS.inverted_element
        component, element = _inverted(system, {s: jnp.where(ended, end[s], x) for s, x in start.items()})
        began = explained & (component >= 0)
        return began, *(jnp.where(failed, n, -1).astype(jnp.int32) for n in (number, component, element))

    def nothing() -> tuple[Array, ...]:
        return (jnp.zeros((), bool), *(jnp.full((), -1, jnp.int32) for _ in range(3)))

    # Of a batch, if any member failed: a condition that differs would evaluate both branches for all.
    began, number, component, element = jax.lax.cond(unvmap_any(failed), look, nothing)
    result = RESULTS.where(began, RESULTS.inverted_element, result)
    result = RESULTS.where(number >= 0, RESULTS.nonfinite_input, result)
    return result, Fault(jnp.where(failed, load_step, -1).astype(jnp.int32), number, component, element)


def _inverted(system: System, x: Fields) -> tuple[Array, Array]:
    """The first force field that is undefined somewhere, and its first element; -1 where all are defined."""
    component = element = jnp.full((), -1, jnp.int32)
    for number, valid in enumerate(element_validity(system, kinematics(system, x)).values()):
        here = (component < 0) & ~valid.all()
        component = jnp.where(here, number, component)
        element = jnp.where(here, jnp.argmin(valid).astype(jnp.int32), element)
    return component, element
