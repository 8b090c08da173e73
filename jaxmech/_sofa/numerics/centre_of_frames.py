"""SOFA's centre of mass of frames."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from ..._mapping.base import AbstractMapping
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencils, stencils


class CentreOfFrames(AbstractMapping):
    """`p = sum_a m_a c_a / sum_a m_a`, `c` the origins of frames: CenterOfMassMapping from Rigid3 to Vec3.

    `parents=(state, nodes (n, k))`; `masses` `(k,)` [kg]. Raises `ValueError` for states that are not frames and points of
    their space, or masses that are not positive. Source: H. Goldstein, C. Poole, J. Safko, *Classical Mechanics*, 3rd ed.,
    2002, ISBN 978-0-201-65702-9, section 1.2.
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    masses: Parameter = parameter(ndim=1)
    is_linear: ClassVar[bool] = True

    def __check_init__(self):
        check_range(self, masses=(self.masses, lambda m: m > 0, "positive"))

    def check_dofs(self, parents: Any, child: Any) -> None:
        if parents[0].is_vector_space or child.coord_size != parents[0].space_size:
            raise ValueError("CentreOfFrames takes frames to points of their space.")

    def element_apply(self, q: Array) -> Array:
        size = 3 if q.shape[-1] == 7 else 2
        return self.masses @ q[:, :size] / jnp.sum(self.masses)
