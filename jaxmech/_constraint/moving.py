"""Constraints whose numbers change within a time step: from what they were at its start to what they are at its end.

A constant rate would be that of the middle of the step: velocities at its end would lag, and what masses couple to them, of
first order. Three instants make a parabola: its rate at the end is of second order, however long the step before was.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.dof import AbstractDof
from .._scene.parameter import parameter
from .._scene.stencil import Stencil
from .base import AbstractProjectiveConstraint
from .multiplier import AbstractMultiplierConstraint
from .prescribed_motion import PrescribedMotion
from .wrapped import AbstractRestated


class MovingRows(AbstractRestated):
    """`g(x; c(t))`, the numbers `c` a parabola in time over a step, whose rate velocities then feel."""

    constraint: AbstractMultiplierConstraint
    before: AbstractMultiplierConstraint
    earlier: AbstractMultiplierConstraint
    since: Parameter = parameter()  # when the step began [s],
    length: Parameter = parameter()  # how long it is [s],
    span: Parameter = parameter()  # and how long before its start `earlier` was [s]; 0: nothing is known of that

    @property
    def follows_time(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return True

    def element_constraint(self, *x: Array) -> Array:
        return self.constraint.rows(*x)

    def at_time(self, time: Array) -> AbstractMultiplierConstraint:
        return _between(self, self.constraint, time).at_time(time)


class MovingMotion(AbstractProjectiveConstraint):
    """Nodes that are moved to where a motion was, and on to where it is: by a parabola in time over a step."""

    motion: PrescribedMotion
    before: PrescribedMotion
    earlier: PrescribedMotion
    since: Parameter = parameter()  # [s]
    length: Parameter = parameter()  # [s]
    span: Parameter = parameter()  # [s]

    is_homogeneous = False

    @property
    def on(self) -> tuple[Stencil, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.motion.on

    @property
    def kind(self) -> str:
        return self.motion.kind

    def element_projector(self, dof: AbstractDof) -> Array:
        return self.motion.element_projector(dof)

    def free_components(self, dof: AbstractDof) -> tuple[bool, ...]:
        return self.motion.free_components(dof)

    def element_target(self, dof: AbstractDof, x: Float[Array, " c"], time: Array) -> Array:
        return _between(self, self.motion, time).element_target(dof, x, time)


def _between(step: MovingRows | MovingMotion, now: Any, time: Array) -> Any:
    """The numbers of a time in the step; exactly those of its end there. Of a first step, linear in time."""
    share = (time - step.since) / jnp.where(step.length == 0, 1.0, step.length)
    ratio = jnp.where(step.span == 0, 0.0, step.length / jnp.where(step.span == 0, 1.0, step.span))

    def number(earlier: Any, before: Any, now: Any) -> Any:
        if not eqx.is_inexact_array(now):
            return now
        way = now - before
        bend = (way - ratio * (before - earlier)) * ratio / (1 + ratio)  # h^2/2 times the second derivative
        return now - (1 - share) * (way + share * bend)

    return jax.tree.map(number, step.earlier, step.before, now)
