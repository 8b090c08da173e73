"""Stages in which momentum changes: `sum_j c_j p_j - p(end) + s (f + supply)`, forces at the end of the stage."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar

from ..._model.dynamics import Fields, momentum
from ..._model.inertia import momentum_supply
from ..._model.system import State
from ..._runtime.array_types import Array
from ..displaced import chart_rates, combined, displaced, with_prescribed_rates
from .stage import AbstractStage, Setting, extrapolated, momentum_of_all, varying_part

Moments = tuple[tuple[Any, Fields, Fields], ...]  # (c, position, velocity): parts `c p(position, velocity)` of a momentum


class AbstractMomentumStage(AbstractStage):
    """The balance of momentum, `p = dT/dv`. A free body keeps it, the angular one too, to the solver's tolerance."""

    before: AbstractVar[Moments]

    def inertia(self, u: Fields, at: State, less: Fields | None = None) -> Fields:
        end = self.end(u)
        if self.setting.varying:
            parts = ((c, momentum(self.system, x, v)) for c, x, v in self.before)
            return combined(*parts, (-1.0, momentum(self.system, end.position, end.velocity)))
        off = () if less is None else ((-1.0, less),)
        return momentum_of_all(self, combined(*((c, v) for c, _, v in self.before), (-1.0, end.velocity), *off))

    def supply(self, at: State) -> Fields | None:
        return momentum_supply(varying_part(self.setting), at.position, at.velocity) if self.setting.varying else None

    @abc.abstractmethod
    def state(self, u: Fields) -> State:
        """Where the forces act."""


class EndStage(AbstractMomentumStage):
    """`x1 = x0 (+) (shift + reach u)`, `v1 = u`, forces at the end: implicit Euler, the trapezoidal rule, BDF, DIRK.

    `known` is `share` times `scale` times the rate of momentum at the start, less the weights if they join.
    `turned`: whether the rates of a chart that has turned are told from velocities, which third order needs.
    """

    setting: Setting
    scale: Array
    before: Moments
    shift: Fields
    reach: Array
    known: Fields | None
    predicted: Fields
    later: Array  # after the start [s]
    turned: bool = eqx.field(static=True, default=False)
    share: Any = 0.0  # how much of the force at the start is in `known`, of that at the end

    forces_at_end = True

    @property
    def rates(self) -> tuple[Any, Any, Array]:
        return 1.0, 1.0, self.reach

    @property
    def weighing(self) -> Array:
        return self.scale if self.known is None else self.scale * (1 + self.share)

    def offset(self) -> Fields:
        return self.shift

    def state(self, u: Fields) -> State:
        start, rate = self.setting.start, u
        if self.turned:
            nearly = combined((1.0, self.shift), (self.reach, u))
            rate = chart_rates(self.system, start.position, nearly, u)
        d = combined((1.0, self.shift), (self.reach, rate))
        return with_prescribed_rates(self.system, displaced(self.system, start, d, u, self.later))

    def end(self, u: Fields) -> State:
        return self.state(u)

    def acting_at(self, u: Fields) -> tuple[tuple[Any, State], ...]:
        at_end = (self.scale, self.state(u))
        return (at_end,) if self.known is None else ((self.scale * self.share, self.setting.at_start), at_end)


class AbstractWholeStage(AbstractMomentumStage):
    """A stage that is all of its step, whose forces act for the whole time of it, and whose unknowns move its end alone."""

    known = None

    @property
    def scale(self) -> Array:
        return self.setting.h

    @property
    def reach(self) -> Array:
        return self.setting.h

    @property
    def later(self) -> Array:
        return self.setting.h

    def offset(self) -> Fields:
        return {s: jnp.zeros_like(v) for s, v in self.setting.velocity.items()}


class AbstractMidpointStage(AbstractWholeStage):
    """`x1 = x0 (+) h u`, forces at `x0 (+) h/2 u` and `u`, `v1 = 2 u - v0` in axes that turn with the bodies.

    The mean of two spins is taken in the body, where it is the spin about the axis that the body turns about: then a free
    body keeps its kinetic energy with its momentum (Simo and Wong).
    """

    @property
    def rates(self) -> tuple[Any, Any, Array]:
        return 2.0, 1.0, self.setting.h / 2

    def state(self, u: Fields) -> State:
        h = self.setting.h
        return displaced(self.system, self.setting.start, combined((h / 2, u)), u, h / 2)

    def end(self, u: Fields) -> State:
        setting = self.setting
        moved = displaced(setting.system, setting.start, combined((setting.h, u)), self.reflected(u), setting.h)
        return with_prescribed_rates(setting.system, moved)

    def reflected(self, u: Fields) -> Fields:
        """`2 u - v0`: the velocity at the end where no motion says another."""
        return combined((2.0, u), (-1.0, carried(self.setting, combined((self.setting.h, u)))))


class MidpointStage(AbstractMidpointStage):
    """That of the midpoint rule."""

    setting: Setting
    before: Moments
    predicted: Fields


def midpoint_stage(setting: Setting, memory: Any) -> MidpointStage:
    """That of a step which remembers the mean acceleration of the one before, or nothing."""
    before = ((1.0, setting.start.position, setting.velocity),)
    return MidpointStage(setting, before, extrapolated(setting, memory, 0.5))


def carried(setting: Setting, d: Fields) -> Fields:
    """The velocities of the start, turned with the bodies by the displacement `d`."""
    dofs, v = setting.system.dofs, setting.velocity
    return {s: v[s] if dofs[s].is_vector_space else jax.vmap(dofs[s].carried)(d[s], v[s]) for s in v}
