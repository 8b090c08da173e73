"""The acceptance of a step: the one place where internal variables change."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.precision import in_one_program
from .._scene.internal import remembers
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes
from .dynamics import kinematics, velocities
from .internal import check_update, has_memory, in_step, with_internal
from .system import State, System


def accepted(system: System, state: State, end: State, dt: Any = None) -> State:
    """See `public_functions`."""
    if not has_memory(system):
        return end
    return _updated(system, state, end, dt if dt is None else jnp.asarray(dt))


@in_one_program
def _updated(system: System, state: State, end: State, dt: Array | None) -> State:
    system = in_step(with_internal(system, state), dt)
    x = kinematics(system, end.position)
    v = velocities(system, x, end.velocity)
    internal = {}
    for name, field in system.forces.items():
        if remembers(field):
            rows = at_nodes(field.on, x), at_nodes(field.on, v)
            new = over_elements(field, field.on, lambda c, x, v: c.element_update(x, v), *rows)
            old = state.internal[name]
            check_update(name, field, new, {key: a.shape for key, a in old.items()})
            internal[name] = {key: new[key].astype(a.dtype) if key in new else a for key, a in old.items()}
    return dataclasses.replace(end, internal=internal)


def unless_failed(failed: Array, state: State, end: State) -> State:
    """`end`; where the step failed, with the internal variables of its start."""
    kept = jax.tree.map(lambda old, new: jnp.where(failed, old, new), state.internal, end.internal)
    return dataclasses.replace(end, internal=kept) if kept else end
