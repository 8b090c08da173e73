"""Forces that change with time."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.internal import internal, time_step
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils


class ForcesInTime(AbstractForceField):
    """A force that is linear between key times: SOFA's LinearForceField. Its clock is 0 where the motion begins.

    `forces` `(T, n)` [N], of frames with torques [N m] in axes of the world, at `times` `(T,)` [s], which increase; none
    before the first, the last one ever after. Between them it is `factor` times as large. `at_start`: a step takes the force
    of its beginning, as SOFA does, else of its end.
    """

    on: Stencils = stencils()
    forces: Parameter = parameter(ndim=2)
    times: Parameter = parameter(ndim=1)
    factor: Parameter = parameter(default=1.0)
    at_start: bool = eqx.field(static=True, default=True)
    clock: Array = internal()
    dt: Array = time_step()

    def check_dofs(self, dofs: Any) -> None:
        if self.forces.shape[-1] != dofs[0].deriv_size:
            raise ValueError(f"ForcesInTime: forces have {self.forces.shape[-1]} components, expected {dofs[0].deriv_size}.")

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        t = self.clock if self.at_start else self.clock + self.dt
        between = self.factor * jax.vmap(lambda f: jnp.interp(t, self.times, f), in_axes=1)(self.forces)
        after = jnp.where(t >= self.times[-1], self.forces[-1], between)
        return (jnp.where(t >= self.times[0], after, 0.0),)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        return {"clock": self.clock + self.dt}
