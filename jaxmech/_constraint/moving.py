"""Constraints whose numbers change within a time step: from what they were at its start to what they are at its end."""

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
    """`g(x; c(t))`, the numbers `c` linear in time over a step, whose rate velocities then feel."""

    constraint: AbstractMultiplierConstraint
    before: AbstractMultiplierConstraint
    since: Parameter = parameter()  # when the step began [s],
    length: Parameter = parameter()  # and how long it is [s]

    @property
    def follows_time(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return True

    def element_constraint(self, *x: Array) -> Array:
        return self.constraint.rows(*x)

    def at_time(self, time: Array) -> AbstractMultiplierConstraint:
        return _between(self, self.before, self.constraint, time).at_time(time)


class MovingMotion(AbstractProjectiveConstraint):
    """Nodes that are moved to where a motion was, and on to where it is: linear in time over a step."""

    motion: PrescribedMotion
    before: PrescribedMotion
    since: Parameter = parameter()  # [s]
    length: Parameter = parameter()  # [s]

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
        return _between(self, self.before, self.motion, time).element_target(dof, x, time)


def _between(step: MovingRows | MovingMotion, before: Any, now: Any, time: Array) -> Any:
    """The numbers of a time in the step; exactly those of its end there."""
    left = 1 - (time - step.since) / jnp.where(step.length == 0, 1.0, step.length)
    return jax.tree.map(lambda a, b: b - left * (b - a) if eqx.is_inexact_array(b) else b, before, now)
