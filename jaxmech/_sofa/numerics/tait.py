"""SOFA's pressure of what is enclosed by a surface and resists a change of its volume."""

import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.internal import internal, time_step
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils


class TaitPressure(AbstractForceField):
    """`p = p0 - B ((V / V0)^gamma - 1)` [Pa] on a volume `V` [m^3] (`Vec1`): TaitSurfacePressureForceField.

    `V0` is `volume`, `started` and what has been injected of `injected` since, at most `rate` [m^3/s] times the time. The
    force on a volume is a pressure: on the surface whose volume it is, it is that times the gradient of the volume. `p0`,
    `B` [Pa]; `gamma` a number.
    Source: R. Cole, *Underwater Explosions*, 1948 (the law of Tait).
    """

    on: Stencils = stencils()
    p0: Parameter = parameter()
    B: Parameter = parameter()
    gamma: Parameter = parameter()
    volume: Parameter = parameter()
    injected: Parameter = parameter()
    started: Parameter = parameter()
    rate: Parameter = parameter()
    clock: Array = internal()
    dt: Array = time_step()

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        most = self.rate * (self.clock + self.dt)
        rest = self.volume + self.started + jnp.clip(self.injected - self.started, -most, most)
        return (self.p0 - self.B * ((x[0] / rest) ** self.gamma - 1),)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        return {"clock": self.clock + self.dt}
