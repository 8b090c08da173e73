"""SOFA's pressure on triangles."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays, points_only
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.internal import internal, time_step
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils


class PulsingPressure(AbstractForceField):
    """`f = p (b - a) x (c - a) / 6` on each node of a triangle, along its normal: SurfacePressureForceField.

    `pressure` `p` [Pa]. Of a `speed` [Pa/s] `p` starts at nothing and runs to `pressure`, back to `least`, and so on, by
    `speed dt` in each step, if it `pulses`. `low`, `high` `(3,)` [m]: of triangles all of whose nodes are between. `bare`:
    it has no stiffness, as SOFA's quads have none.
    """

    on: Stencils = stencils()
    low: Parameter = parameter(ndim=1)
    high: Parameter = parameter(ndim=1)
    pressure: Parameter = parameter()
    speed: Parameter = parameter(default=0.0)
    least: Parameter = parameter(default=0.0)
    pulses: bool = eqx.field(static=True, default=False)
    bare: bool = eqx.field(static=True, default=False)
    level: Array = internal()
    turned: Array = internal()  # 1 while it runs back
    dt: Array = time_step()

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.bare

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def _next(self) -> tuple[Array, Array]:
        """The pressure of the step, and whether the one after it runs back."""
        bottom, top = jnp.minimum(self.pressure, self.least), jnp.maximum(self.pressure, self.least)
        up = jnp.where(self.pressure > 0, 1 - self.turned, self.turned) > 0
        moved = self.level + jnp.where(up, 1.0, -1.0) * self.speed * self.dt
        ends = jnp.where(up, moved >= top, moved <= bottom)
        level = jnp.where(ends, jnp.where(up, top, bottom), moved)
        return level, jnp.where(ends, 1 - self.turned, self.turned)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (nodes,) = x
        p = self._next()[0] if self.pulses else self.pressure
        f = p * jnp.cross(nodes[1] - nodes[0], nodes[2] - nodes[0]) / 6
        inside = jnp.all((nodes >= self.low) & (nodes <= self.high))
        return (jnp.where(inside, f, 0.0) * jnp.ones((3, 1), f.dtype),)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.bare:
            return super().element_stiffness(x, v)
        return ((jnp.zeros((3, 3, 3, 3), x[0].dtype),),)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        level, turned = self._next()
        return {"level": level, "turned": turned}
