"""The states that a step makes of the one it starts from: moved in its chart, at another velocity, later."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._codegen import map_elements
from .._model.constraint_projection import has_prescribed_motion, prescribed, project
from .._model.dynamics import Fields, momentum, retract
from .._model.system import State, System
from .._runtime.array_types import Array


def displaced(system: System, start: State, d: Fields, velocity: Fields, later: Array) -> State:
    """`start` moved by `d`, at another velocity, `later` [s]; what else a state has stays."""
    position = retract(system.dofs, start.position, d)
    return eqx.tree_at(lambda s: (s.position, s.velocity, s.time), start, (position, velocity, start.time + later))


def with_prescribed_rates(system: System, state: State) -> State:
    """`state`, whose velocities in prescribed directions are the rates of the motions there at its time.

    A scheme that took them from differences of positions would swing about them: nothing damps such an oscillation.
    """
    if not has_prescribed_motion(system):
        return state
    free, rates = project(system, state.velocity), prescribed_rates(system, state)
    return eqx.tree_at(lambda s: s.velocity, state, {s: free[s] + rates[s] for s in free})


def prescribed_rates(system: System, state: State) -> Fields:
    """How fast motions carry nodes that are where they shall be at the time of `state`; nil in free directions."""
    one = jnp.ones_like(state.time)
    return jax.jvp(lambda t: prescribed(system, state.position, t), (state.time,), (one,))[1]


def prescribed_accelerations(system: System, state: State) -> Fields:
    """How those rates change where a motion is smooth; nil in free directions."""
    one = jnp.ones_like(state.time)

    def rates(time: Array) -> Fields:
        return jax.jvp(lambda t: prescribed(system, state.position, t), (time,), (one,))[1]

    return jax.jvp(rates, (state.time,), (one,))[1]


def driven_by_motions(system: System, state: State, force: Fields) -> tuple[Fields, Fields | None]:
    """`f - M a_p` and the accelerations `a_p` of the motions; the force itself and None where there are none."""
    if not has_prescribed_motion(system):
        return force, None
    a = prescribed_accelerations(system, state)
    return combined((1.0, force), (-1.0, momentum(system, state.position, a))), a


def combined(*terms: tuple[Any, Fields]) -> Fields:
    """The sum of multiples of fields, `(factor, field)` each."""
    first, *rest = terms
    total = {s: first[0] * a for s, a in first[1].items()}
    for factor, field in rest:
        total = {s: a + factor * field[s] for s, a in total.items()}
    return total


def chart_rates(system: System, position: Fields, d: Fields, velocity: Fields) -> Fields:
    """How fast the displacement from `position` changes where it is `d`, at a velocity; the velocity itself where the
    coordinates form a vector space. (Of rotations: the inverse of the derivative of the exponential.)"""
    rates = dict(velocity)
    for s, v in velocity.items():
        dof = system.dofs[s]
        if not dof.is_vector_space:

            def rate(x, d, v, dof=dof):
                def moved(t):
                    return dof.local(x, dof.retract(dof.retract(x, d), t * v))

                return jax.jvp(moved, (jnp.zeros((), v.dtype),), (jnp.ones((), v.dtype),))[1]

            rates[s] = map_elements(rate, 0, position[s], d[s], v)
    return rates


def tangents_at_end(system: System, position: Fields, d: Fields, change: Fields) -> Fields:
    """What a small change of the displacement `d` from `position` is as a displacement from the place that `d` leads to."""
    tangents = dict(change)
    for s, e in change.items():
        dof = system.dofs[s]
        if not dof.is_vector_space:

            def tangent(x, d, e, dof=dof):
                end = dof.retract(x, d)
                return jax.jvp(lambda d: dof.local_near(end, dof.retract(x, d)), (d,), (e,))[1]

            tangents[s] = map_elements(tangent, 0, position[s], d[s], e)
    return tangents


def displacements(system: System, x0: Fields, x1: Fields) -> Fields:
    """Those that take `x0` to `x1`, in the chart of `x0`."""
    dofs = system.dofs
    return {s: x1[s] - a if dofs[s].is_vector_space else map_elements(dofs[s].local, 0, a, x1[s]) for s, a in x0.items()}
