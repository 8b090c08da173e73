"""SOFA's springs between frames and their places at rest."""

from typing import Any

import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays
from ..._math.rotation import quaternion_conjugate, quaternion_log, quaternion_product
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid2, Rigid3
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencils, stencils


class FrozenAnchoredFrames(AbstractForceField):
    """`f = (-k u, -kr theta)`, `theta` the rotation vector from the anchor, with the stiffness `diag(k, kr)`.

    Raises `ValueError` for negative stiffness. Source: `jm.force.AnchoredFrames`, whose tangent is exact.
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    angular_stiffness: Parameter = parameter()
    anchor: Parameter = parameter(ndim=1)

    tangent_is_exact = False

    def __check_init__(self):
        positive = (lambda k: k >= 0, "at least 0")
        check_range(self, stiffness=(self.stiffness, *positive), angular_stiffness=(self.angular_stiffness, *positive))

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid2 | Rigid3):
            raise ValueError("FrozenAnchoredFrames acts on frames.")

    def _factors(self, space: int, turns: int) -> Array:
        return jnp.concatenate([jnp.full(space, 1.0) * self.stiffness, jnp.full(turns, 1.0) * self.angular_stiffness])

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (frame,), anchor = x, self.anchor
        if frame.shape[0] == 3:
            return (-self._factors(2, 1) * (frame - anchor),)
        turn = quaternion_log(quaternion_product(frame[3:], quaternion_conjugate(anchor[3:])))
        return (-self._factors(3, 3) * jnp.concatenate([frame[:3] - anchor[:3], turn]),)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        return ((jnp.diag(self._factors(2, 1) if x[0].shape[0] == 3 else self._factors(3, 3)),),)
