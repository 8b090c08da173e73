"""Springs to places that pull in some directions alone."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays
from ..._math.rotation import quaternion_conjugate, quaternion_log, quaternion_product
from ..._runtime.array_types import Array
from ..._runtime.field_types import OptionalParameter, Parameter
from ..._scene.dof import Rigid3
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencils, stencils


class DirectedAnchors(AbstractForceField):
    """`f = -a k u`, of frames also `-a kr theta`: the springs of AnchoredSprings and AnchoredFrames along the axes of the
    world whose `active` `a` is 1, and not along those where it is 0.

    `frozen`: with the stiffness `diag(b k, b kr)`, `b` the `tangent`, and without how `theta` changes; where
    `assembled` is given, a row for each spring, its `k` and `kr` are those of the stiffness.
    Raises `ValueError` for negative stiffness, and other states than points and frames of space.
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    anchor: Parameter = parameter(ndim=1)
    active: Parameter = parameter(ndim=1)
    tangent: Parameter = parameter(ndim=1)
    angular_stiffness: Parameter = parameter(default=0.0)
    assembled: OptionalParameter = parameter(ndim=1, default=None)
    frozen: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        positive = (lambda k: k >= 0, "at least 0")
        check_range(self, stiffness=(self.stiffness, *positive), angular_stiffness=(self.angular_stiffness, *positive))

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.frozen

    def check_dofs(self, dofs: Any) -> None:
        if not (dofs[0].is_vector_space or isinstance(dofs[0], Rigid3)):
            raise ValueError("DirectedAnchors acts on points, and on frames of space.")

    def _factors(self, width: int, k: Any, kr: Any) -> Array:
        translations = jnp.full(min(width, 3), 1.0) * k
        return jnp.concatenate([translations, jnp.full(3, 1.0) * kr]) if width == 6 else translations

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (node,), anchor = x, self.anchor
        apart = node - anchor
        if node.shape[0] == 7:
            turn = quaternion_log(quaternion_product(node[3:], quaternion_conjugate(anchor[3:])))
            apart = jnp.concatenate([apart[:3], turn])
        return (-self.active * self._factors(apart.shape[0], self.stiffness, self.angular_stiffness) * apart,)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return super().element_stiffness(x, v)
        width = 6 if x[0].shape[0] == 7 else x[0].shape[0]
        k, kr = (self.stiffness, self.angular_stiffness) if self.assembled is None else self.assembled
        return ((jnp.diag(self.tangent * self._factors(width, k, kr)),),)
