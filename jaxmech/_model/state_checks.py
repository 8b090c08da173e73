"""What is wrong with the arrays of a state, said by the name of the leaf and of the state that it belongs to.

Shapes and types are looked at always, for they are known under tracing too; values only where they are concrete.
"""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._math.rotation import UNIT_LENGTH
from .._runtime.argument_checks import check_real
from .._scene.dof import AbstractDof, Rigid3
from .._scene.parameter import is_concrete
from .internal import check_internal

Rows = Mapping[str, int]
_STACK = " Of several states at once take `jax.vmap`: this is called with one."


def check_arrays(who: str, what: str, arrays: Any, system: Any, size: str, *, rows: Rows | None = None) -> None:
    """Raise unless `arrays` are `{state: (nodes, size)}` of states of the system, real and finite.

    `what` they are called; `size`: "coord_size" or "deriv_size"; `rows`: how many nodes the states have, where it is known.
    """
    if not isinstance(arrays, Mapping):
        raise TypeError(f"{who}: {what} must be a dictionary of arrays by state, got {arrays!r:.80}.")
    for state, x in arrays.items():
        if state not in system.dofs:
            raise ValueError(f"{who}: {what} names state {state!r}, which is not one of {list(system.dofs)}.")
        dof = system.dofs[state]
        _check_array(who, f"{what} of '{state}'", x, getattr(dof, size), None if rows is None else rows.get(state))
        if is_concrete(x):
            check_values(f"{who}: {what} of '{state}'", dof if size == "coord_size" else None, np.asarray(x))


def check_has(who: str, what: str, arrays: Mapping[str, Any], states: Any) -> None:
    """Raise `ValueError` unless there is an array for each of these states."""
    for state in states:
        if state not in arrays:
            raise ValueError(f"{who}: {what} has no state '{state}'; it has {sorted(arrays)}.")


def check_positions(who: str, what: str, position: Any, system: Any) -> dict[str, int]:
    """Raise unless these are positions of the main states; return how many nodes each has."""
    check_arrays(who, what, position, system, "coord_size")
    check_has(who, what, position, system.main_states)
    return {s: x.shape[0] for s, x in position.items()}


def check_state(who: str, system: Any, state: Any) -> None:
    """Raise unless a state is one of a system, finite where it can be looked at."""
    for name in ("position", "velocity"):
        if not isinstance(getattr(state, name), Mapping):
            raise TypeError(f"{who}: {name} of the state must be a dictionary, got {getattr(state, name)!r:.80}.")
        if set(getattr(state, name)) != set(system.main_states):
            raise ValueError(
                f"{who}: {name} of the state holds {sorted(map(str, getattr(state, name)))}, but the system's main states "
                f"are {system.main_states}."
            )
    rows = check_positions(who, "position", state.position, system)
    check_arrays(who, "velocity", state.velocity, system, "deriv_size", rows=rows)
    if isinstance(state.time, int | float | np.generic):
        raise TypeError(f"{who}: time of the state must be an array, as jnp.asarray(0.5), got {state.time!r}.")
    check_real(who, "time of the state", state.time)
    if state.time.ndim != 0:
        stack = _STACK if state.time.ndim == 1 else ""
        raise ValueError(f"{who}: time of the state must be one number of seconds, got shape {state.time.shape}.{stack}")
    _check_types(who, state)
    check_internal(who, system, state)


def _check_types(who: str, state: Any) -> None:
    """Raise a `TypeError` unless a state has numbers of one type: that of its positions is that of all results."""
    kind, first, one = None, "", "a state has numbers of one type"
    for name in ("position", "velocity"):
        for s, x in getattr(state, name).items():
            if kind is None:
                kind, first = x.dtype, f"{name} of '{s}' of {x.dtype}"
            elif x.dtype != kind and jnp.result_type(x) != jnp.result_type(kind):
                raise TypeError(f"{who}: {name} of '{s}' is of {x.dtype}, {first}: {one}.")
    time = state.time
    if kind is not None and time.dtype != kind and jnp.result_type(time, kind) != jnp.result_type(kind):
        raise TypeError(f"{who}: time of the state is of {time.dtype}, {first}: {one}.")


def _check_array(who: str, name: str, x: Any, size: int, rows: int | None) -> None:
    if not isinstance(x, jax.Array | np.ndarray):
        raise TypeError(f"{who}: {name} must be numbers in an array, got {x!r:.80}.")
    check_real(who, name, x, finite=False)
    if x.ndim != 2 or x.shape[1] != size or rows not in (None, x.shape[0]):
        stack = _STACK if x.ndim > 2 and x.shape[-1] == size and rows in (None, x.shape[-2]) else ""
        expected = f"({'nodes' if rows is None else rows}, {size})"
        raise ValueError(f"{who}: {name} has shape {x.shape}, expected {expected}.{stack}")


def check_values(name: str, dof: AbstractDof | None, x: np.ndarray) -> None:
    """Raise `ValueError` where coordinates are not finite, or a quaternion is not of unit length."""
    if not np.isfinite(x).all():
        node = int(np.argmin(np.isfinite(x).all(axis=1)))
        raise ValueError(f"{name}: node {node} is not finite: {x[node]}.")
    if isinstance(dof, Rigid3) and x.size:
        defect = np.abs(np.linalg.norm(x[:, 3:], axis=1) - 1)
        if defect.max() > UNIT_LENGTH:
            worst = int(np.argmax(defect))
            raise ValueError(f"{name}: the quaternion of node {worst}, {x[worst, 3:]}, is not of length 1.")
