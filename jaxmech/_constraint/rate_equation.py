"""A constraint as velocities and accelerations have it: what does not give holds, what gives holds nothing."""

from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array
from .multiplier import AbstractMultiplierConstraint
from .wrapped import AbstractRestated

_LOOSE = 1e18  # the compliance of rows that give, whose multipliers are forces that are known


class RateEquation(AbstractRestated):
    """`J v = 0` where `C = 0`, no equation in the other rows."""

    constraint: AbstractMultiplierConstraint

    def element_compliance(self) -> Any:
        return jnp.where(jnp.asarray(self.constraint.element_compliance()) > 0, _LOOSE, 0.0)

    def element_constraint(self, *x: Array) -> Array:
        return self.constraint.rows(*x)

    def at_time(self, time: Array) -> "RateEquation":
        return RateEquation(self.constraint.at_time(time))
