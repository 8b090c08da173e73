"""The force on the main states to first order in a displacement and in velocities."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from .._forcefield.base import Arrays
from .._forcefield.chart import chart_force_ahead, chart_forces_ahead
from .._runtime.array_types import Array
from .._scene.alike import over_alike
from .._scene.stencil import summed
from .dynamics import Fields, force_at, zero_forces
from .internal import with_internal
from .scene_checks import check_forces
from .system import State, System


def force_ahead(system: System, state: State, d: Mapping[str, Array], u: Mapping[str, Array]) -> Fields:
    """`f + df/dx d + df/dv u`: the force on the main states to first order, displaced by `d` and faster by `u`.

    Without mappings and weights it is one function of the elements, and so is its transpose: what the force and its rate
    have in common is computed once.
    """
    return _ahead(system, state, d, u, lambda *a: (chart_force_ahead(*a),))[-1]


def forces_ahead(system: System, state: State, d: Mapping[str, Array], u: Mapping[str, Array]) -> tuple[Fields, Fields]:
    """The force, and `force_ahead`."""
    force, ahead = _ahead(system, state, d, u, chart_forces_ahead)
    return force, ahead


def _ahead(
    system: System,
    state: State,
    d: Mapping[str, Array],
    u: Mapping[str, Array],
    of_element: Callable[..., tuple[Arrays, ...]],
) -> list[Fields]:
    """Each of what an element gives, summed at the nodes; with mappings or weights both of `forces_ahead`."""
    system = with_internal(system, state)
    start = zero_forces(system, state.position)
    if system.mappings or system.gravity is not None:
        moves = (start, state.velocity), (dict(d), dict(u))
        force, rate = jax.jvp(lambda d, v: force_at(system, state, d, v), *moves)
        return [force, jax.tree.map(jnp.add, force, rate)]
    fields = system.force_fields
    check_forces(system, fields)
    moved = state.position, state.velocity, d, u
    forces = over_alike(fields, system.dofs, lambda _, dofs: lambda c, *a: of_element(c, dofs, *a), *moved)
    totals = [start, start]
    for name, field in fields.items():
        totals = [summed(total, field.on, each) for total, each in zip(totals, forces[name], strict=False)]
    return totals
