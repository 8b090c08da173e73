"""The states of multipliers that a scene makes of its constraints, each by the constraint's name."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._constraint.multiplier import AbstractMultiplierConstraint
from .._runtime.array_types import Array
from .._scene.dof import Rows
from .._scene.parameter import trace_elements


def unnamed(constraints: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The constraints with multipliers that say not where these stand, with the nodes of a state of their own."""
    found = {
        name: c for name, c in constraints.items() if isinstance(c, AbstractMultiplierConstraint) and c.multiplier is None
    }
    return {name: np.arange(c.on[0].elements) * (not c.adds_up) for name, c in found.items()}


def check_unnamed(system: Any, held: Mapping[str, Any]) -> None:
    """Raise where a state has the name of such a constraint."""
    for name in held:
        if not isinstance(system.dofs.get(name, Rows(1)), Rows):  # that of another scene is made anew
            raise ValueError(
                f"'{name}' names both a state and a constraint, whose multipliers are to stand in a state of its name."
            )


def without_rows(system: Any) -> dict[str, Any]:
    """The states less those of rows that nothing names: a scene made of another's states may have fewer constraints."""
    named = {c.multiplier[0].state for c in system.multiplier_constraints.values() if c.multiplier is not None}
    return {state: dof for state, dof in system.dofs.items() if state in named or not isinstance(dof, Rows)}


def rows_of(system: Any, held: Mapping[str, Any]) -> dict[str, Rows]:
    """The kind of those states: how many rows each constraint has; one where it cannot be evaluated."""
    return {name: Rows(_count(system, system.constraints[name])) for name in held}


def _count(system: Any, constraint: AbstractMultiplierConstraint) -> int:
    shapes = [(*s.nodes.shape, system.dofs[s.state].coord_size) for s in constraint.on]
    x = [jax.ShapeDtypeStruct(shape, jnp.result_type(float)) for shape in shapes]
    try:
        constraint.check_dofs([system.dofs[s.state] for s in constraint.on])
        rows = jax.eval_shape(lambda c, *x: trace_elements(c, c.on, lambda c, *x: c.rows(*x), *x), constraint, *x)
    except Exception:  # whatever a function of the user's raises
        return 1
    return rows.shape[-1] if rows.ndim == 2 else 1


def begun(system: Any, position: Mapping[str, Array]) -> dict[str, Array]:
    """Positions with multipliers that nobody gave, at nil."""
    dtype = jnp.result_type(*position.values()) if position else jnp.result_type(float)
    nodes = {name: s.elements if not system.constraints[name].adds_up else 1 for name, s in system.multipliers.items()}
    missing = {name: n for name, n in nodes.items() if name not in position}
    return {**position, **{s: jnp.asarray(np.zeros((n, system.dofs[s].coord_size)), dtype) for s, n in missing.items()}}
