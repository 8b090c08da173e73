"""What a step of one's own returns, and what a function makes of a state: looked at where they are traced."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._model.system import State
from .._runtime.jax_internals import enumeration_of
from .._runtime.results import RESULTS, Outcome


def checked_step(scheme: Any, returned: Any, state: State, carry: Any) -> tuple[State, Any, Any]:
    """What `step` returned. Raises unless it is a state, a carry and what happened, each of the form that loops hand on."""
    who = f"{type(scheme).__name__}.step"
    if not isinstance(returned, tuple | list) or len(returned) != 3:
        raise TypeError(f"{who} must return (state, carry, info), got {_said(returned)}.")
    end, new, info = returned
    check_state(f"{who} must return a State", f"{who} made", end, state)
    _check_carry(who, new, carry)
    result = getattr(info, "result", None)
    if not isinstance(result, Outcome) or enumeration_of(result) is not RESULTS:
        raise TypeError(f"{who} must return an info whose `result` is of RESULTS (StepInfo, say), got {_said(info)}.")
    return end, new, info


def checked_error(scheme: Any, returned: Any, state: State, carry: Any) -> tuple[State, Any, Any, Any]:
    """The same of `step_with_error`, whose error is of the shapes of the velocities, twice."""
    who = f"{type(scheme).__name__}.step_with_error"
    if not isinstance(returned, tuple | list) or len(returned) != 4:
        raise TypeError(f"{who} must return (state, carry, info, (dx, dv)), got {_said(returned)}.")
    *step, error = returned
    end, new, info = checked_step(scheme, step, state, carry)
    shapes = {s: v.shape for s, v in state.velocity.items()}
    if not isinstance(error, tuple | list) or [_shapes(part) for part in error] != [shapes, shapes]:
        raise TypeError(f"{who} must return an error (dx, dv) of two dictionaries of shapes {shapes}, got {_said(error)}.")
    return end, new, info, error


def check_state(expected: str, made: str, new: Any, state: State) -> None:
    """Raise unless `new` is a state of the arrays of another. `expected`, `made`: who should return, and who made it."""
    if not isinstance(new, State):
        raise TypeError(f"{expected}, got {type(new).__name__}.")
    if jax.tree.structure(new) != jax.tree.structure(state):
        raise ValueError(f"{expected} of the same degrees of freedom and internal variables.")
    for (path, old), now in zip(jax.tree_util.tree_flatten_with_path(state)[0], jax.tree.leaves(new), strict=True):
        if jnp.shape(now) != old.shape or jnp.result_type(now) != old.dtype:
            raise ValueError(f"{made} {jax.tree_util.keystr(path).lstrip('.')} {_form(now)}, from {_form(old)}.")


def _check_carry(who: str, new: Any, old: Any) -> None:
    """Raise unless a carry is of the form of the one before; a number without a type of its own may get one."""
    if jax.tree.structure(new) != jax.tree.structure(old):
        raise TypeError(f"{who} must return a carry of the form of that of `init`, {_said(old)}, got {_said(new)}.")
    for (path, before), now in zip(jax.tree_util.tree_flatten_with_path(old)[0], jax.tree.leaves(new), strict=True):
        if not (eqx.is_array_like(before) and eqx.is_array_like(now)):
            continue
        has_type = not getattr(before, "weak_type", True)
        if jnp.shape(now) != jnp.shape(before) or (has_type and jnp.result_type(now) != before.dtype):
            where = jax.tree_util.keystr(path)
            raise TypeError(f"{who} made its carry{where} {_form(now)}, from {_form(before)}, as `init` gave it.")


def _form(array: Any) -> str:
    return f"{jnp.result_type(array)} of shape {jnp.shape(array)}"


def _shapes(fields: Any) -> Any:
    return {s: jnp.shape(a) for s, a in fields.items()} if isinstance(fields, dict) else None


def _said(value: Any) -> str:
    """The form of what was returned: its arrays by their types and shapes."""
    if isinstance(value, State):
        return "a State"
    if isinstance(value, tuple):
        return f"({', '.join(map(_said, value))})"
    if isinstance(value, jax.Array):
        return _form(value)
    return f"{value!r:.80}"
