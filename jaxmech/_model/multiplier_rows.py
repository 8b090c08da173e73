"""The numbers of the rows of constraints with multipliers: what they give way by, and how fast they come back."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._constraint.rate_equation import RateEquation
from .._constraint.shifted import Shifted
from .._math.indexing import add_rows
from .._runtime.array_types import Array
from .._scene.parameter import over_elements
from .._scene.stencil import gathered
from .dynamics import Fields, kinematics, zero_forces
from .system import State, System


def relaxed(system: System, start: State, h: Array, share: Any = 1.0) -> System:
    """The scene whose relaxed constraints are those of a step of `h` from `start`, in which what gives is asked for after a
    share of it. Itself where there are none."""
    found = {n: c for n, c in system.multiplier_constraints.items() if c.relaxation is not None}
    if not found:
        return system
    x, changed = kinematics(system, start.position), dict(system.constraints)
    for name, constraint in found.items():
        of_start = constraint.at_time(start.time)
        g, tau, soft = over_elements(of_start, of_start.on, _with_relaxation, *gathered(of_start.on, x))
        kept = tau / (jnp.where(soft, share * h, h) + tau)
        changed[name] = Shifted(constraint, kept * g, kept)
    return eqx.tree_at(lambda s: s.constraints, system, changed)


def _with_relaxation(c: Any, *x: Array) -> tuple[Array, Array, Array]:
    g = c.rows(*x)
    soft = jnp.asarray(c.element_compliance()) > 0
    return g, jnp.broadcast_to(jnp.asarray(c.relaxation, g.dtype), g.shape), jnp.broadcast_to(soft, g.shape)


class RowNumbers(eqx.Module):
    """By state of multipliers, `(nodes, rows)`: `compliance`, and `decay` [1/s], the rate at which violations vanish."""

    compliance: Fields
    decay: Fields


def row_numbers(system: System, state: State) -> RowNumbers:
    """Those of a scene."""
    x = kinematics(system, state.position)
    zero = {s: a for s, a in zero_forces(system, state.position).items() if s in system.multiplier_states}
    compliance, decay = dict(zero), dict(zero)
    for name, constraint in system.multiplier_constraints.items():
        on = system.multiplier_stencils[name]
        C, rate = over_elements(constraint, constraint.on, _numbers, *gathered(constraint.on, x))
        compliance[on.state] = add_rows(compliance[on.state], on.nodes, C)
        share = 1 / constraint.on[0].elements if constraint.adds_up else 1.0
        decay[on.state] = add_rows(decay[on.state], on.nodes, share * rate)
    return RowNumbers(compliance, decay)


def _numbers(c: Any, *x: Array) -> tuple[Array, Array]:
    g = c.rows(*x)
    tau = jnp.asarray(0.0 if c.relaxation is None else c.relaxation, g.dtype)
    decay = jnp.where(tau > 0, 1 / jnp.where(tau > 0, tau, 1.0), 0.0)
    return jnp.broadcast_to(jnp.asarray(c.element_compliance(), g.dtype), g.shape), jnp.broadcast_to(decay, g.shape)


def rate_equations(system: System) -> System:
    """The scene whose constraints with multipliers are equations of velocities."""
    held = {n: RateEquation(c) for n, c in system.multiplier_constraints.items()}
    return eqx.tree_at(lambda s: s.constraints, system, {**system.constraints, **held})
