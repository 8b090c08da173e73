"""Schemes whose accelerations belong to another instant than the ends of a step."""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..displaced import combined
from .acceleration_stage import AccelerationStage
from .newmark import AbstractAccelerationScheme, Accelerations
from .stage import AbstractStage, Setting


class Shifted(eqx.Module):
    """What such a scheme remembers: what others do, and the acceleration that the step before took, `length` [s] long.

    At first both accelerations are that of the state.
    """

    accelerations: Accelerations
    before: Fields
    length: Array


class AbstractShiftedScheme(AbstractAccelerationScheme):
    """`M a_m = f(x_f, v_f)`: forces act `alpha_f` of a step before its end, and the accelerations that a step takes and
    leaves are those of `t + (alpha_m - alpha_f) h`.

    Where steps differ, what one leaves is taken on along its change in that step: left where it is, it would make estimates
    of errors, and motions that they correct, of first order. Numbers that a control gives are those of the instant at which
    forces act, and what is remembered stays when they change: the acceleration of the state itself, in every step, would
    make steps of first order.
    """

    @property
    @abc.abstractmethod
    def alphas(self) -> tuple[Array, Array]:
        """`(alpha_m, alpha_f)`."""

    @property
    def ahead(self) -> Array:
        alpha_m, alpha_f = self.alphas
        return alpha_m - alpha_f

    @property
    def control_at(self) -> Any:
        return 1 - self.alphas[1]

    def memory(self, system: System, state: State) -> Shifted:
        first = AbstractAccelerationScheme.memory(self, system, state)
        return Shifted(first, first.of_scheme, jnp.ones_like(state.time))

    def begun(self, memory: Shifted) -> Any:
        return memory.accelerations.first

    def remembered(self, system: System, state: State, memory: Shifted) -> Shifted:
        del system, state
        return memory

    def taken(self, setting: Setting, memory: Shifted) -> Fields:
        """The acceleration for a step of this length; after one that was many times shorter, not from before that."""
        further = jnp.maximum(self.ahead * (setting.h / memory.length - 1), -1.0)
        return combined((1 + further, memory.accelerations.of_scheme), (-further, memory.before))

    def next_memory(self, setting: Setting, memory: Shifted, stage: AbstractStage, u: Fields, end: State) -> Shifted:
        assert isinstance(stage, AccelerationStage)
        after = AbstractAccelerationScheme.next_memory(self, setting, memory.accelerations, stage, u, end)
        return Shifted(after, stage.before, setting.h)

    def resumed(self, system: System, end: State, memory: Shifted, acceleration: Fields, derivatives_of: str) -> Shifted:
        of_state = AbstractAccelerationScheme.resumed(self, system, end, memory.accelerations, acceleration, derivatives_of)
        return Shifted(of_state, memory.before, memory.length)
