"""Stages whose memory are accelerations: `s (f + inertial - M a_m)`, as Newmark's method and its kin have them."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.constraint_projection import has_prescribed_motion, prescribed, project
from ..._model.dynamics import Fields, momentum, retract
from ..._model.inertia import inertial_force
from ..._model.system import State
from ..._runtime.array_types import Array
from ..displaced import combined, displaced, prescribed_accelerations, prescribed_rates, with_prescribed_rates
from ..mass_inverse import dragged
from .stage import AbstractStage, Setting, momentum_of_all, varying_part

_ROUNDED = 1e3  # units of rounding of the velocity that a motion may be off without a jump


class AccelerationStage(AbstractStage):
    """Generalised alpha: `M a_m = f(x_f, v_f)`, `a_m` and `(x_f, v_f)` between start and end; the unknown is `v1`.

    `x1 = x0 (+) (h v0 + h^2 ((1/2 - beta) a0 + beta a1))`, `v1 = v0 + h ((1 - gamma) a0 + gamma a1)`,
    `a_m = (1 - alpha_m) a1 + alpha_m a0`, `x_f = x0 (+) (1 - alpha_f) d` and `v_f` alike.
    """

    setting: Setting
    before: Fields  # a0
    beta: Array
    gamma: Array
    alpha_m: Array
    alpha_f: Array
    predicted: Fields

    known = None

    @property
    def scale(self) -> Array:
        return self.setting.h * self.gamma / (1 - self.alpha_m)

    @property
    def remembered(self) -> Array:
        return self.setting.h - self.scale

    @property
    def reach(self) -> Array:
        return self.setting.h * self.beta / self.gamma

    @property
    def later(self) -> Array:
        return self.setting.h

    @property
    def rates(self) -> tuple[Any, Any, Array]:
        return 1.0, 1 - self.alpha_f, (1 - self.alpha_f) * self.reach

    def acceleration(self, u: Fields) -> Fields:
        """`a1`, that `v1 = u` means."""
        h, g, v = self.setting.h, self.gamma, self.setting.velocity
        a1 = combined((1 / (g * h), u), (-1 / (g * h), v), (1 - 1 / g, self.before))
        return self._with_motions(u, a1) if has_prescribed_motion(self.system) else a1

    def _with_motions(self, u: Fields, a1: Fields) -> Fields:
        """Those of the motions in prescribed directions; where one jumps in its velocity, the step has the impulse."""
        end = self._between(u, 1.0)
        return combined((1.0, project(self.system, a1)), (1.0, self._driven(end)), (1.0, self._impulse(end)))

    def _impulse(self, end: State) -> Fields:
        """What motions are faster at the end than their accelerations have made them, as a part of `a1`."""
        h, ahead = self.setting.h, self.alpha_m - self.alpha_f
        # The mean of accelerations that are those of `ahead h` later, which is that in the middle of the step.
        of_both = (-h * (0.5 + ahead), self.before), (-h * (0.5 - ahead), self._driven(end))
        jump = combined((1.0, prescribed_rates(self.system, end)), (-1.0, self.setting.velocity), *of_both)
        held = project(self.system, jump)
        return combined((1 / (self.gamma * h), jump), (-1 / (self.gamma * h), held))

    def _driven(self, end: State) -> Fields:
        """The accelerations of motions where those of the scheme belong, at `t1 + (alpha_m - alpha_f) h`: with them `a_m` is
        that of the instant of the forces."""
        system, ahead = self.system, (self.alpha_m - self.alpha_f) * self.setting.h
        later = eqx.tree_at(lambda s: s.time, end, end.time + ahead)
        if not all(system.dofs[s].is_vector_space for s in system.main_states):  # turns are asked for where they are
            there = retract(system.dofs, end.position, prescribed(system, end.position, later.time))
            later = eqx.tree_at(lambda s: s.position, later, there)
        return prescribed_accelerations(system, later)

    def offset(self) -> Fields:
        h, ratio = self.setting.h, self.beta / self.gamma
        of_a0 = h**2 * (0.5 - ratio)
        return combined((h * (1 - ratio), self.setting.velocity), (of_a0, self.before))

    def state(self, u: Fields) -> State:
        return self._between(u, 1 - self.alpha_f)

    def end(self, u: Fields) -> State:
        return with_prescribed_rates(self.system, self._between(u, 1.0))

    def _between(self, u: Fields, share: Any) -> State:
        d = combined((share, self.offset()), (share * self.reach, u))
        v = combined((share, u), (1 - share, self.setting.velocity))
        return displaced(self.system, self.setting.start, d, v, share * self.setting.h)

    def inertia(self, u: Fields, at: State, less: Fields | None = None) -> Fields:
        m, a = self.alpha_m, self.acceleration(u)
        off = () if less is None else ((-1.0, less),)
        mean = combined((-self.scale * (1 - m), a), (-self.scale * m, self.before), *off)
        return momentum(self.system, at.position, mean) if self.setting.varying else momentum_of_all(self, mean)

    def supply(self, at: State) -> Fields | None:
        return inertial_force(varying_part(self.setting), at) if self.setting.varying else None

    def next_acceleration(self, u: Fields) -> Fields:
        """`a1` as the next step finds it: that of the motion where one is prescribed, without any impulse, nor what masses
        have handed on of it."""
        a = self.acceleration(u)
        if not has_prescribed_motion(self.system):
            return a
        end = self.end(u)
        lost = dragged(self.system, end, self._beyond_rounding(self._impulse(end), end), None, None)
        return combined((1.0, project(self.system, a)), (1.0, lost), (1.0, self._driven(end)))

    def _beyond_rounding(self, impulse: Fields, end: State) -> Fields:
        """An impulse, nil where it is rounding: a solve with the masses would take all its iterations for that. Derivatives
        stay, for a motion that does not jump may jump by what it depends on."""
        v0, v1 = self.setting.velocity, prescribed_rates(self.system, end)

        def told(a: Array, before: Array, after: Array) -> Array:
            fastest = jnp.maximum(jnp.abs(before).max(initial=0), jnp.abs(after).max(initial=0))
            rounding = _ROUNDED * jnp.finfo(a.dtype).eps * fastest / (self.gamma * self.setting.h)
            return jnp.where(jnp.abs(a) > jax.lax.stop_gradient(rounding), a, a - jax.lax.stop_gradient(a))

        return {s: told(a, v0[s], v1[s]) for s, a in impulse.items()}
