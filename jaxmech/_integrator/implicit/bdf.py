"""Backward differentiation formulas."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linear_solver.base.vectors import choose
from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.argument_checks import plain
from ..._runtime.array_types import Array
from ..displaced import combined, displacements
from .force_at_start import force_at_start
from .implicit_scheme import AbstractImplicitScheme
from .momentum_stage import EndStage, Moments
from .newmark import first_acceleration, first_settled
from .stage import AbstractStage, Setting, extrapolated, rated
from .trapezoid import rate_of_force


class History(eqx.Module):
    """Where the motion was, latest first, without the start of the step; what is not known yet is the first state."""

    position: tuple[Fields, ...]
    velocity: tuple[Fields, ...]
    time: Array  # (k,) [s]
    known: Array  # how many of them are
    acceleration: Fields | None  # where masses vary: what one linear solve starts from
    multipliers: Fields | None  # that belong to the first state, which the forces there are to have for third order
    first: Any  # what came of the first of both, a member of `RESULTS`


class BDF(AbstractImplicitScheme):
    """`sum_j a_j x_j = b h v1`, `sum_j a_j p_j = b h f(x1, v1)` over the last `order` states: order 1 to 3, dissipative.

    Order 1 is implicit Euler, 2 damps all that it does not resolve, 3 is not quite stable on the imaginary axis (up to 86
    degrees) and so no choice for undamped vibrations. Steps may differ: the coefficients are those of the polynomial through
    the times. The first steps are of the trapezoidal rule, whose error keeps the order; with order 3
    from the multipliers that belong to the start, whatever it has. The carry holds the states before.
    Positions of frames are combined in the chart of the start, momenta as vectors of the world.
    `newton=False`: one linear solve; the options are those of `ImplicitEuler`. Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: E. Hairer, G. Wanner, *Solving Ordinary Differential Equations II*, 2nd ed., 1996,
    doi:10.1007/978-3-642-05221-7, section V.1.

    Example:

        third = jm.integrator.BDF(linear_system, order=3)
        history = third.init(system, state)[1]
        assert third.order == 3 and history.time.shape == (2,) and history.known == 0
    """

    order: int = eqx.field(static=True, converter=plain, default=2, kw_only=True)

    def __check_init__(self):
        if type(self.order) is not int or self.order not in (1, 2, 3):
            raise ValueError(f"BDF: order must be 1, 2 or 3, got {self.order!r:.80}.")

    @property
    def control_at(self) -> float:
        return 1.0  # where its forces act

    def lateness(self, stage: AbstractStage) -> Array | None:
        assert isinstance(stage, EndStage)
        return 1 / (1 + stage.share) - 0.5 if self.order > 1 else None

    def memory(self, system: System, state: State) -> History:
        count = self.order - 1
        past = jnp.broadcast_to(state.time, (count,))
        remembered, multipliers, why = super().memory(system, state), None, None
        if self.order > 2 and system.multiplier_states:
            a, settled, why = first_settled(self, system, state)
            remembered = None if remembered is None else a
            multipliers = {s: settled.position[s] for s in system.multiplier_states}
        elif remembered is not None:
            remembered, why = first_acceleration(self, system, state)
        x, v = dict(state.position), dict(state.velocity)
        return History((x,) * count, (v,) * count, past, jnp.zeros((), jnp.int32), remembered, multipliers, why)

    def begun(self, memory: History) -> Any:
        return memory.first

    def stage(self, setting: Setting, memory: History) -> EndStage:
        setting = _as_it_began(setting, memory)
        start, h, count = setting.start, setting.h, self.order - 1
        begun = memory.known >= count
        # While states are missing, places before the start that are told apart: no formula takes them.
        spaced = start.time - h * jnp.arange(1, count + 1)
        times = jnp.concatenate([jnp.stack([start.time + h, start.time]), jnp.where(begun, memory.time, spaced)])
        weights, b = bdf_coefficients(times)
        euler = jnp.zeros(count + 1).at[0].set(1.0).astype(h.dtype)
        weights = jnp.where(begun, weights, euler)
        reach = jnp.where(begun, b, h / 2) if count else h
        past = [displacements(setting.system, start.position, x) for x in memory.position]
        drift = jnp.where(begun, 0.0, h / 2)
        shift = combined((drift, setting.velocity), *((weights[j + 1], d) for j, d in enumerate(past)))
        before: Moments = ((weights[0], start.position, setting.velocity),)
        before += tuple(
            (weights[j + 1], x, v) for j, (x, v) in enumerate(zip(memory.position, memory.velocity, strict=True))
        )
        predicted = extrapolated(setting, memory.acceleration)
        if memory.acceleration is not None and count:
            on = extrapolation(times)
            further = combined((on[0], setting.velocity), *((on[j + 1], v) for j, v in enumerate(memory.velocity)))
            predicted = choose(begun, further, predicted)
        share, turned = jnp.where(begun, 0.0, 1.0), self.order > 2
        stage = rated(EndStage(setting, reach, before, shift, reach, None, predicted, h, turned, share if count else 0.0))
        return stage if not count else _started(stage, begun, newton=self.newton)

    def next_memory(self, setting: Setting, memory: History, stage: AbstractStage, u: Fields, end: State) -> History:
        start, count = stage.setting.start, self.order - 1
        a = super().next_memory(setting, memory.acceleration, stage, u, end)
        if not count:
            return replace(memory, acceleration=a)
        x = (dict(start.position), *memory.position[:-1])
        v = (dict(setting.velocity), *memory.velocity[:-1])
        time = jnp.concatenate([start.time[None], memory.time[:-1]])
        return History(x, v, time, jnp.minimum(memory.known + 1, count), a, memory.multipliers, memory.first)


def _as_it_began(setting: Setting, memory: History) -> Setting:
    """The setting, in the first step with the multipliers that belong to its start: those of later ones do."""
    if memory.multipliers is None:
        return setting
    x = setting.start.position
    held = choose(memory.known == 0, memory.multipliers, {s: x[s] for s in memory.multipliers})
    return replace(setting, start=replace(setting.start, position=x | held))


def _started(stage: EndStage, begun: Array, *, newton: bool) -> EndStage:
    """With what the trapezoidal rule knows of the start, in the first steps."""

    @partial(jax.checkpoint, prevent_cse=False)  # the steps that do not take it would keep as much for reverse mode
    def rule() -> Fields:
        setting = stage.setting
        at = setting.linear_system, setting.system, setting.at_start
        return rate_of_force(stage, force_at_start(*at, weights=not stage.joins, newton=newton))

    rate = jax.lax.cond(begun, lambda: jax.tree.map(jnp.zeros_like, jax.eval_shape(rule)), rule)
    return eqx.tree_at(lambda s: s.known, stage, combined((stage.scale, rate)), is_leaf=lambda a: a is None)


def bdf_coefficients(times: Array) -> tuple[Array, Array]:
    """`(a, b)` of `x(t_0) = sum a_j x(t_j) + b x'(t_0)`, of the polynomial through the times `(k + 1,)`, the new one first.

    The weights of the derivative at `t_0` of Lagrange's polynomials: `w_0 = sum 1 / (t_0 - t_j)`.
    """
    t, count = times, times.shape[0]
    others = [[m for m in range(1, count) if m != j] for j in range(count)]
    w0 = sum((1 / (t[0] - t[j]) for j in others[0]), jnp.zeros((), t.dtype))
    w = []
    for j in range(1, count):
        top = jnp.prod(jnp.stack([t[0] - t[m] for m in others[j]])) if others[j] else 1.0
        below = jnp.prod(jnp.stack([t[j] - t[m] for m in (0, *others[j])]))
        w.append(top / below)
    return -jnp.stack(w) / w0, 1 / w0


def extrapolation(times: Array) -> Array:
    """`w` of `v(t_0) = sum_j w_j v(t_j)`, of the polynomial through all times but the new one."""
    t, count = times, times.shape[0]
    rows = []
    for j in range(1, count):
        others = [m for m in range(1, count) if m != j]
        ratios = [(t[0] - t[m]) / (t[j] - t[m]) for m in others]
        rows.append(jnp.prod(jnp.stack(ratios)) if ratios else jnp.ones((), t.dtype))
    return jnp.stack(rows)
