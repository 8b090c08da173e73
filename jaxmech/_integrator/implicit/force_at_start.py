"""The force where a motion begins, by the programs that its steps have: for one evaluation, others would not pay."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linear_system.base import AbstractLinearSystem
from ..._model.dynamics import Fields, total_force
from ..._model.force_ahead import force_ahead
from ..._model.subsystem import weightless
from ..._model.system import State, System


def force_at_start(
    linear_system: AbstractLinearSystem, system: System, state: State, *, weights: bool, newton: bool
) -> Fields:
    """`total_force`; `weights`: with them. `newton`: whether steps ask for forces by themselves, and not for those that come
    with the matrix alone.

    A kernel of forces by itself takes 7 % of the time in which a trajectory is compiled, and with its derivative as much of
    that of the gradient.
    """
    if newton or not linear_system.is_rate_of_force(system):
        return total_force(system if weights else weightless(system), state)
    return _as_in_a_step(linear_system, system, state, weights)


@eqx.filter_custom_jvp
def _as_in_a_step(linear_system: AbstractLinearSystem, system: System, state: State, weights: bool) -> Fields:
    return linear_system.linearized(system, state, weights=weights)[1]


@_as_in_a_step.def_jvp
def _as_in_a_step_jvp(primals: Any, tangents: Any) -> tuple[Fields, Fields]:
    """As `LinearStep` is differentiated: the force to first order in a displacement, of nil."""
    weights, nothing = primals[3], jax.tree.map(jnp.zeros_like, dict(primals[2].velocity))

    def force(system: System, state: State) -> Fields:
        return force_ahead(system if weights else weightless(system), state, nothing, nothing)

    return _as_in_a_step(*primals), eqx.filter_jvp(force, primals[1:3], tangents[1:3])[1]
