"""Forces against velocities alone."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Scalar
from .base import AbstractEnergyForceField


class AbstractDrag(AbstractEnergyForceField):
    """A dissipation (`element_dissipation`) without an energy."""

    @property
    def is_dissipative(self) -> bool:
        return True

    def element_energy(self, x: Array) -> Scalar:
        return jnp.zeros((), x.dtype)
