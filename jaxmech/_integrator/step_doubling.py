"""The error of a step, of any scheme: two steps of half the size beside it."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._model.dynamics import Fields, retract
from .._model.system import State, System
from .._runtime.array_types import Array
from .._runtime.results import RESULTS
from .._scene.dof import AbstractDof
from .carried import varies

Error = tuple[Fields, Fields]  # of positions, in the chart, and of velocities


def doubled(integrator: Any, system: System, state: State, carry: Any, h: Array) -> tuple[State, Any, Any, Error]:
    """The state after two steps of `h / 2`, their carry, what happened, and `(y_2 - y_1) / (2^order - 1)`.

    What happened: in the step that failed, of the three, else in the last. Velocities that lag are compared, and handed on,
    as `caught_up` has them: by the power of the step that they lag by, and no other, every step would be too large.
    """

    def advanced(state: State, carry: Any) -> tuple[State, Any, Any]:
        return integrator.advanced(system, state, carry, h)

    changing = varies(advanced, state, carry)
    varying, constant = eqx.partition(carry, changing)
    start = (state, varying)

    def one(at: tuple[State, Any], turn: tuple[Array, Array]) -> tuple[tuple[State, Any], Any]:
        # One step to trace and compile for all three: the halves begin where the whole one did.
        anew, length = turn
        state, kept = jax.tree.map(lambda a, b: jnp.where(anew, a, b), start, at)
        state, carry, info = integrator.advanced(system, state, eqx.combine(constant, kept), length)
        kept = eqx.filter(carry, changing)
        return (state, kept), (state, info, kept if integrator.velocities_lag else None)

    anew = jnp.array([True, True, False])
    (end, kept), (states, infos, carries) = jax.lax.scan(one, start, (anew, jnp.stack([h, h / 2, h / 2])))
    failed = infos.result != RESULTS.successful
    told = jnp.where(failed.any(), jnp.argmax(failed), 2)
    whole = jax.tree.map(lambda a: a[0], states)
    after = eqx.combine(constant, kept)
    if integrator.velocities_lag:
        of_whole = eqx.combine(constant, jax.tree.map(lambda a: a[0], carries))
        whole, end = integrator.caught_up(system, (whole, end), (of_whole, after))
    rest = 1 / (2**integrator.order - 1)
    error = jax.tree.map(lambda d: rest * d, difference(system.dofs, whole, end))
    return end, after, jax.tree.map(lambda a: a[told], infos), error


def difference(dofs: Mapping[str, AbstractDof], a: State, b: State) -> Error:
    """`b - a`, positions in the chart at `a`."""
    x = {s: jax.vmap(dofs[s].local)(p, b.position[s]) for s, p in a.position.items()}
    return x, {s: b.velocity[s] - v for s, v in a.velocity.items()}


def corrected(system: System, state: State, error: Error) -> State:
    """The state with its error taken away (local extrapolation); multipliers, which nothing integrates, as they are."""
    dx, dv = ({s: jnp.zeros_like(a) if s in system.multiplier_states else a for s, a in e.items()} for e in error)
    x = retract(system.dofs, state.position, dx)
    v = {s: a + dv[s] for s, a in state.velocity.items()}
    return eqx.tree_at(lambda s: (s.position, s.velocity), state, (x, v))
