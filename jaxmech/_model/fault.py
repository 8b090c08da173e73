"""What is at fault where a computation failed: a number that was given, or an element. Looked for only then."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Int
from .._runtime.jax_internals import unvmap_any
from .._runtime.results import RESULTS
from .dynamics import Fields, kinematics
from .system import State, System
from .validity import element_validity, memories_hold

# Failures that numbers do not explain: whoever meets them computed with finite ones.
_OTHERS = (
    RESULTS.successful,
    RESULTS.not_converged,
    RESULTS.residual_floor,
    RESULTS.max_steps_reached,
    RESULTS.number_out_of_range,
)


class Fault(eqx.Module):
    """Numbers, -1 where not known: of the load step that failed; among `given`, of what is not finite; of the force field,
    in the order of `limited`, and of its element that is inverted. One array, for what every step hands on costs time."""

    numbers: Int[Array, "... 4"]

    @property
    def load_step(self) -> Array:
        return self.numbers[..., 0]

    @property
    def given(self) -> Array:
        return self.numbers[..., 1]

    @property
    def component(self) -> Array:
        return self.numbers[..., 2]

    @property
    def element(self) -> Array:
        return self.numbers[..., 3]

    def in_load_step(self, number: Array) -> "Fault":
        """The same, of this load step."""
        return Fault(self.numbers.at[..., 0].set(number))


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
    overturned: Callable[[], Any] | None = None,
) -> tuple[Any, Fault]:
    """The result, more precisely where it is a failure, and what is at fault. `places`: the positions of the main states at
    the start, and where it failed; `overturned`: whether a frame turns by more than half a turn in this time step."""

    def look() -> tuple[Any, Array]:
        failed = result != RESULTS.successful
        explained = ~jnp.stack([result == other for other in _OTHERS]).any()
        number, _ = _first(lambda a: ~jax.lax.is_finite(a), [leaf for _, leaf in numbers])
        lost = explained & (number >= 0)
        start, end = places()
        ended = result == RESULTS.inverted_element
        component, element = _inverted(system, {s: jnp.where(ended, end[s], x) for s, x in start.items()})
        known = RESULTS.where(explained & (component >= 0), RESULTS.inverted_element, result)
        if overturned is not None:
            turned = (result == RESULTS.not_converged) & overturned()
            known = RESULTS.where(turned, RESULTS.more_than_half_a_turn, known)
        known = RESULTS.where(memories_hold(system), known, RESULTS.internal_out_of_range)
        known = RESULTS.where(lost, RESULTS.nonfinite_input, known)
        found = [jnp.asarray(n, jnp.int32) for n in (load_step, jnp.where(lost, number, -1), component, element)]
        return RESULTS.where(failed, known, result), jnp.where(failed, jnp.stack(found), -1)

    # Of a batch, if any member failed: a condition that differs would evaluate both branches for all. All that can wait
    # for a failure does: what is never run is compiled all the same, but needs no time of a step.
    result, found = jax.lax.cond(
        unvmap_any(result != RESULTS.successful), look, lambda: (result, jnp.full(4, -1, jnp.int32))
    )
    return result, Fault(found)


def _inverted(system: System, x: Fields) -> tuple[Array, Array]:
    """The first force field that is undefined somewhere, and its first element; -1 where all are defined."""
    return _first(jnp.logical_not, [*element_validity(system, kinematics(system, x)).values()])


def _first(is_wrong: Callable[[Array], Array], arrays: list[Array]) -> tuple[Array, Array]:
    """The number of the first array with a wrong entry, and the place of that entry; -1 where there is none.

    Of all at once: each by itself would be several loops to compile.
    """
    if not any(a.size for a in arrays):
        return jnp.full((), -1, jnp.int32), jnp.full((), -1, jnp.int32)
    begins = jnp.asarray(np.cumsum([0, *(a.size for a in arrays[:-1])]), jnp.int32)
    wrong = is_wrong(jnp.concatenate([a.reshape(-1) for a in arrays]))
    first = jax.lax.argmax(wrong, 0, jnp.int32)
    is_before, is_there = first >= begins, jnp.any(wrong)
    number = jnp.sum(is_before, dtype=jnp.int32) - 1
    begin = jnp.max(jnp.where(is_before, begins, 0))
    return jnp.where(is_there, number, -1), jnp.where(is_there, first - begin, -1)
