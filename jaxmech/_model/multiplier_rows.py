"""The numbers of the rows of constraints with multipliers: what they give way by, and how fast they come back."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._constraint.rate_equation import RateEquation
from .._constraint.shifted import Shifted
from .._forcefield.chart import chart_force, no_displacement
from .._math.indexing import add_rows, take_rows
from .._runtime.array_types import Array
from .._scene.alike import over_alike
from .constraint_report import equations
from .dynamics import Fields, kinematics, retract, total_force, velocities, zero_forces
from .internal import at_time
from .system import State, System


def relaxed(system: System, start: State, h: Array, share: Any = 1.0) -> System:
    """The scene whose relaxed constraints are those of a step of `h` from `start`, in which what gives is asked for after a
    share of it. Itself where there are none."""
    found = {n: c for n, c in system.multiplier_constraints.items() if c.relaxation is not None}
    if not found:
        return system
    x, changed = kinematics(system, start.position), dict(system.constraints)
    of_start = {name: constraint.at_time(start.time) for name, constraint in found.items()}
    numbers = over_alike(of_start, system.dofs, lambda *_: lambda c, x: _with_relaxation(c, *x), x)
    for name, constraint in found.items():
        g, tau, soft = numbers[name]
        kept = tau / (jnp.where(soft, share * h, h) + tau)
        changed[name] = Shifted(constraint, kept * g, kept)
    return eqx.tree_at(lambda s: s.constraints, system, changed)


def relaxed_over(system: System, reach: Array, before: Fields) -> System:
    """`relaxed`, for a stage in which a rate is `(value - before) / reach`: rows that give, of `g` in this form."""
    changed = dict(system.constraints)
    for name, off in before.items():
        shifted = changed[name]
        assert isinstance(shifted, Shifted)
        c = shifted.constraint
        soft = jnp.asarray(c.element_compliance()) > 0
        kept = jnp.asarray(c.relaxation) / (reach + jnp.asarray(c.relaxation))
        left = jnp.where(soft, kept * off, shifted.left)
        changed[name] = Shifted(c, left, jnp.where(soft, kept, shifted.kept))
    return eqx.tree_at(lambda s: s.constraints, system, changed)


def relaxed_values(system: System, position: Fields, time: Array) -> Fields:
    """`g` of the constraints that are `relaxed`, `(elements, rows)`, by name."""
    held = system.multiplier_constraints.items()
    found = {name: shifted.constraint.at_time(time) for name, shifted in held if isinstance(shifted, Shifted)}
    return over_alike(found, system.dofs, _rows, kinematics(system, position))


def _rows(*_: Any) -> Callable:
    return lambda c, x: c.rows(*x)


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
    held = system.multiplier_constraints
    numbers = over_alike(held, system.dofs, lambda *_: lambda c, x: _numbers(c, *x), x)
    for name, constraint in held.items():
        on, (C, rate) = system.multiplier_stencils[name], numbers[name]
        compliance[on.state] = add_rows(compliance[on.state], on.nodes, C)
        decay[on.state] = add_rows(decay[on.state], on.nodes, constraint.element_share * rate)
    return RowNumbers(compliance, decay)


def _numbers(c: Any, *x: Array) -> tuple[Array, Array]:
    g = c.rows(*x)
    tau = jnp.asarray(0.0 if c.relaxation is None else c.relaxation, g.dtype)
    decay = jnp.where(tau > 0, 1 / jnp.where(tau > 0, tau, 1.0), 0.0)
    return jnp.broadcast_to(jnp.asarray(c.element_compliance(), g.dtype), g.shape), jnp.broadcast_to(decay, g.shape)


def without_multipliers(system: System, state: State) -> State:
    """The state whose multipliers are nil, and do not change."""
    names = system.multiplier_states
    at = lambda s: [f[n] for f in (s.position, s.velocity) for n in names]  # noqa: E731
    return eqx.tree_at(at, state, [jnp.zeros_like(a) for a in at(state)])


def motion_of_rows(system: System, state: State) -> tuple[Fields, Fields, Fields]:
    """`g`, and its first and second derivative in time along the velocity of a state."""
    scene, still = equations(system), without_multipliers(system, state)

    def g(t: Array) -> Fields:
        position = retract(system.dofs, still.position, {s: t * v for s, v in still.velocity.items()})
        moved = eqx.tree_at(lambda s: (s.position, s.time), still, (position, still.time + t))
        force = total_force(scene, moved)
        return {s: -force[s] for s in system.multiplier_states}

    def first(t: Array) -> tuple[Fields, Fields]:
        return jax.jvp(g, (t,), (jnp.ones_like(t),))

    zero = jnp.zeros_like(state.time)
    (value, rate), (_, second) = jax.jvp(first, (zero,), (jnp.ones_like(zero),))
    return value, rate, second


def soft_multipliers(system: System, state: State) -> Fields:
    """Those that belong to a state: `(g + tau g') / C` where rows give, nil elsewhere."""
    g, rate, _ = motion_of_rows(system, state)
    found, numbers = {}, row_numbers(system, state)
    for s, C in numbers.compliance.items():
        decay = numbers.decay[s]
        tau = jnp.where(decay > 0, 1 / jnp.where(decay > 0, decay, 1.0), 0.0)
        found[s] = jnp.where(C > 0, (g[s] + tau * rate[s]) / jnp.where(C > 0, C, 1.0), 0.0)
    return found


def as_given(relaxed: System) -> System:
    """The scene that is `relaxed` for a step, as it was before."""
    given = {n: c.constraint if isinstance(c, Shifted) else c for n, c in relaxed.constraints.items()}
    return eqx.tree_at(lambda s: s.constraints, relaxed, given)


def with_soft_multipliers(relaxed: System, state: State) -> State:
    """A state in which what gives has the multipliers that belong to it, those of a scene that is `relaxed` for a step."""
    system, names = as_given(relaxed), relaxed.multiplier_states
    soft, C = soft_multipliers(system, state), row_numbers(system, state).compliance
    multipliers = [jnp.where(C[s] > 0, soft[s], state.position[s]) for s in names]
    return eqx.tree_at(lambda s: [s.position[n] for n in names], state, multipliers)


def work_of_rows(system: System, state: State, d: Fields) -> dict[str, Array]:
    """The work `-lambda . (dg/dx) d` of every row along a displacement of the main states, by name, `(m, rows)` [J]."""
    system = at_time(system, state.time)
    x = kinematics(system, state.position)
    held = {name: system.force_fields[name] for name in system.multiplier_constraints}
    rows = over_alike(held, system.dofs, _work, x, velocities(system, x, d))
    return {name: _by_equation(system, name, work) for name, work in rows.items()}


def _work(_: Any, dofs: list[Any]) -> Callable:
    def of_element(c: Any, x: Any, moved: Any) -> Array:
        zero = no_displacement(dofs, x)

        def of_row(row: Array) -> Array:
            forces = chart_force(c, dofs, (*x[:-1], x[-1] * row), zero, zero)[:-1]  # what multipliers have is an equation
            return sum((jnp.sum(f * a) for f, a in zip(forces, moved[:-1], strict=True)), jnp.zeros(()))

        return jax.vmap(of_row)(jnp.eye(x[-1].size, dtype=x[-1].dtype))

    return of_element


def work_between(system: System, multipliers: State, *positions: Fields) -> dict[str, Array]:
    """The work `-lambda . (g(x1) - g(x0))` of every row between two positions, of the multipliers of a state [J]."""
    system, found = at_time(system, multipliers.time), {}
    x0, x1 = (kinematics(system, x) for x in positions)
    before, after = (over_alike(system.multiplier_constraints, system.dofs, _rows, x) for x in (x0, x1))
    for name, on in system.multiplier_stencils.items():
        work = take_rows(multipliers.position[on.state], on.nodes) * (before[name] - after[name])
        found[name] = _by_equation(system, name, work)
    return found


def _by_equation(system: System, name: str, rows: Array) -> Array:
    """The rows of elements, summed where they are terms of one equation."""
    return jnp.sum(rows, axis=0, keepdims=True) if system.multiplier_constraints[name].adds_up else rows


def rate_equations(system: System) -> System:
    """The scene whose constraints with multipliers are equations of velocities."""
    held = {n: RateEquation(c) for n, c in system.multiplier_constraints.items()}
    return eqx.tree_at(lambda s: s.constraints, system, {**system.constraints, **held})
