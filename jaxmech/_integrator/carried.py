"""What a carry is for: what a linear system keeps goes into it, and what of that a loop of steps has to carry."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax

from .._model.system import State
from .._runtime.loops import differentiated_with

Scheme = TypeVar("Scheme", bound=Any)


def using(scheme: Scheme, kept: Any) -> Scheme:
    """The scheme whose linear system takes what it keeps."""
    return eqx.tree_at(lambda i: i.linear_system, scheme, scheme.linear_system.using(kept))


def varies(advanced: Callable[[State, Any], tuple[State, Any, Any]], state: State, carry: Any) -> Any:
    """For each leaf of a carry, whether a step changes it. What it hands on as it came is no part of the loop: reverse mode
    would keep a copy of it for every checkpoint."""
    found = []

    def watched(state: State, carry: Any) -> None:
        found.append(jax.tree.map(lambda new, old: new is not old, advanced(state, carry)[1], carry))

    if jax.tree.leaves(carry):
        eqx.filter_eval_shape(watched, state, carry)
    return found[0] if found else False


def in_motion(state: State, others: Any) -> State:
    """A state that loops of steps start from: it moves with all that steps depend on, and so has tangents where these do."""
    moving = state.position, state.velocity, state.internal
    position, velocity, internal = differentiated_with(moving, (state, others))
    return dataclasses.replace(state, position=position, velocity=velocity, internal=internal)
