"""Frames of several states side by side."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from ..._mapping.base import AbstractMapping
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid3, Vec3
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils


class GatheredFrames(AbstractMapping):
    """`p_i = q_i` of one of several states of frames, or its origin: SubsetMultiMapping from Rigid3 to Rigid3 or Vec3.

    `parents=((state, nodes (n,)), ...)`; `of_state` `(n, states)`: one for the state that a node is of, nil for others;
    `whole`: frames, else their origins. Raises `ValueError` for states other than these. In [m] and [rad].
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    of_state: Parameter = parameter(ndim=1)
    whole: bool = eqx.field(static=True)
    is_linear: ClassVar[bool] = True

    def check_dofs(self, parents: Any, child: Any) -> None:
        if any(type(p) is not Rigid3 for p in parents) or type(child) is not (Rigid3 if self.whole else Vec3):
            raise ValueError("GatheredFrames takes Rigid3 to Rigid3 or Vec3.")

    def element_apply(self, *q: Array) -> Array:
        return (self.of_state @ jnp.stack(q))[: 7 if self.whole else 3]
