"""How a step ended, and what was at fault."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.derivative import mark_failure
from .._linear_solver.base.outcome import reason
from .._linear_solver.base.vectors import norm
from .._math.indexing import AskedOnce
from .._model.accept import unless_failed
from .._model.constraint_report import equations, row_units
from .._model.dynamics import Fields, kinematics, total_force
from .._model.fault import diagnosed, given
from .._model.internal import with_internal
from .._model.lever import lever_of
from .._model.multiplier_rows import as_given
from .._model.system import State, System
from .._model.validity import laws_hold
from .._runtime.array_types import Array
from .._runtime.jax_internals import unvmap_any
from .._runtime.results import RESULTS
from .._runtime.reverse_mode import kept
from .equilibrium import StepInfo

_OFF = 1e-3  # of the largest coordinate, or radians, what an equation is off by that is looked at
_LEFT = 0.1  # of that at the start
_LENGTHS = {"m": 1, "m^2": 2, "m^3": 3}  # of the units of equations


def ended(info: StepInfo, state: State, end: State, h: Array, asked: AskedOnce | None = None) -> tuple[State, StepInfo]:
    """The step of `h` from `state` to `end`; where it failed, internal variables stay, and derivatives are NaN.
    `asked`: the numbers that it read rows by, where these waited."""
    backwards = jax.lax.stop_gradient(h) <= 0  # of a step that was traced, which nobody could look at before
    info = eqx.tree_at(lambda i: i.result, info, RESULTS.where(backwards, RESULTS.time_stands_still, info.result))
    if asked is not None:
        end, result = marked_unless_right(asked, end, info.result)
        info = eqx.tree_at(lambda i: i.result, info, result)
    failed = kept(info.result != RESULTS.successful)
    return mark_failure(unless_failed(failed, state, end), failed), info


def marked_unless_right(asked: AskedOnce, values: Any, result: Any) -> tuple[Any, Any]:
    """What was computed while numbers waited to be asked about, NaN unless all of them exist; and the result."""
    values, right = asked.marked(values)
    return values, RESULTS.where(right, result, RESULTS.number_out_of_range)


def outcome(said: lx.Solution, system: System, state: State, h: Array, b: Fields, end: State, right: Any = True) -> StepInfo:
    """What is reported of the step from `state` to `end` whose right-hand side was `b`, and whose solver `said` so much.
    `right`: whether the numbers that it read rows by exist, where that was asked."""
    system, state, h, b, end = jax.lax.stop_gradient((with_internal(system, state), state, h, b, end))
    solved, length = reason(said), norm(b)
    valid = laws_hold(system, kinematics(system, end.position))
    result = RESULTS.where(valid, solved, RESULTS.inverted_element)
    result = RESULTS.where(jnp.isfinite(norm(end.velocity)), result, RESULTS.not_finite)
    result = RESULTS.where(solved == RESULTS.successful, result, solved)
    # With such a right-hand side the matrix is not finite either, and to any solver singular.
    result = RESULTS.where(jnp.isfinite(length), result, RESULTS.not_finite)
    result = RESULTS.where(right, result, RESULTS.number_out_of_range)
    result, fault = diagnosed(result, given(system, state, h), system, lambda: (state.position, end.position), 0)
    unknown = jnp.full((), -1, jnp.int32)
    info = StepInfo(
        result,
        jnp.ones((), jnp.int32),
        length[None],
        length,
        jnp.zeros((), h.dtype),
        jnp.asarray(said.stats["num_steps"], jnp.int32),
        jnp.where(said.result == lx.RESULTS.successful, -1, said.stats.get("unconstrained_state", unknown)),
        fault,
        _unmet(as_given(system), state, end),
    )
    return jax.lax.stop_gradient(info)


def _unmet(system: System, state: State, end: State) -> Array:
    """Whether equations with multipliers are hardly nearer to holding at `end`, and velocities quite other ones.

    A steady motion leaves the second order of its steps behind; what no position fulfils throws bodies about.
    """
    rows = system.multiplier_states
    if not rows:
        return jnp.zeros((), bool)
    free = [s for s in system.main_states if s not in rows]

    def hardly_nearer() -> Array:
        scene = equations(system)
        off, left = (total_force(scene, at) for at in (replace(state, time=end.time), end))
        places = {s: end.position[s][:, : system.dofs[s].space_size] for s in free}  # of frames, without their turns
        size = _row_sizes(system, norm({s: jnp.max(jnp.abs(a), initial=0.0) for s, a in places.items()}))
        before, after = (norm({s: f[s] / size[s] for s in rows}) for f in (off, left))
        return (after > _OFF) & (after > _LEFT * before)

    lever = lever_of(system, state.position)
    speed = norm(lever.ways({s: state.velocity[s] for s in free}))
    thrown = norm(lever.ways({s: end.velocity[s] - state.velocity[s] for s in free})) > speed
    # Few steps are; of a batch, all are looked at if one is.
    return thrown & jax.lax.cond(unvmap_any(thrown), hardly_nearer, lambda: jnp.zeros((), bool))


def _row_sizes(system: System, length: Array) -> dict[str, Array]:
    """What each row of the equations is measured by, in a scene of this length: the power of it that its unit says."""
    length, found = jnp.where(length > 0, length, 1.0), {}
    for name, constraint in system.multiplier_constraints.items():
        s = system.multiplier_stencils[name].state
        powers = [_LENGTHS.get(unit, 0) for unit in row_units(constraint, system.dofs[s].deriv_size)]
        found[s] = length ** jnp.asarray(powers)
    return found


def begun(first: Any, info: StepInfo) -> StepInfo:
    """What happened in a step whose scheme sets out from what ended in `first`: that, if it was a failure, unless the step
    knows which number or element is at fault."""
    known = (info.fault.given >= 0) | (info.fault.component >= 0)
    why = RESULTS.where((first != RESULTS.successful) & ~known, first, info.result)
    return eqx.tree_at(lambda i: i.result, info, why)


def joined(first: StepInfo, second: StepInfo) -> StepInfo:
    """What happened in a step of two stages: the first failure, all iterations, and the residuals of the last."""
    failed = first.result != RESULTS.successful
    both = jax.tree.map(lambda a, b: jnp.where(failed, a, b), _without_result(first), _without_result(second))
    counts = (first.iterations + second.iterations, first.linear_steps + second.linear_steps)
    said = RESULTS.where(failed, first.result, second.result), *counts, first.unmet | second.unmet
    return eqx.tree_at(lambda i: (i.result, i.iterations, i.linear_steps, i.unmet), both, said)


def _without_result(info: StepInfo) -> StepInfo:
    return eqx.tree_at(lambda i: i.result, info, 0)
