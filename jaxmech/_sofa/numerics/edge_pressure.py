"""SOFA's pressure across edges."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._forcefield.base import AbstractForceField, Arrays, points_only
from ..._math.safe_norm import safe_direction
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.internal import internal
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils


def _pushed(x: Array, across: Array, load: Array, inward: bool) -> Array:
    """`load across x t / 2` on both ends of the edge of `x[:2]`, `t` its direction; `inward`: towards `x[2]`."""
    along = safe_direction(x[1] - x[0])
    normal = jnp.cross(across, along)
    side = jnp.where(normal @ (x[-1] - x[0]) < 0, -1.0, 1.0)
    normal = side * normal if inward else safe_direction(normal)
    f = 0.5 * load * normal
    return jnp.zeros_like(x).at[:2].set(f)


class EdgePressure(AbstractForceField):
    """`f = p l n / 2` on both ends of an edge: EdgePressureForceField by `p_intensity`.

    `intensity` `p` [N/m], `length` `l` [m], `across`: the binormal `b` of the plane, `n = b x t` with the direction `t` of
    the edge. `on` two nodes; with a third one, a corner of the triangle at the edge, `n` is turned `inward`, to its side.
    """

    on: Stencils = stencils()
    intensity: Parameter = parameter()
    length: Parameter = parameter()
    across: Parameter = parameter(ndim=1)
    inward: bool = eqx.field(static=True, default=False)

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        return (_pushed(x[0], self.across, self.intensity * self.length, self.inward),)


class LateEdgePressure(AbstractForceField):
    """`EdgePressure` as SOFA has it: the normals are those that edges had at the start of the step before.

    A force of SOFA's is worked out after the one before it has been applied; it has no stiffness. `seen`: the
    nodes of the edge at the start of the step before, and of this one.
    """

    on: Stencils = stencils()
    intensity: Parameter = parameter()
    length: Parameter = parameter()
    across: Parameter = parameter(ndim=1)
    inward: bool = eqx.field(static=True, default=False)
    seen: Array = internal(np.zeros((2, 1, 3)))

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        f = _pushed(self.seen[0], self.across, self.intensity * self.length, self.inward)
        return (f + jnp.zeros_like(x[0]),)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        return {"seen": jnp.stack([self.seen[1], x[0]])}
