"""Nodes that do not move at all."""

import jax.numpy as jnp

from .._runtime.array_types import Array
from .._scene.dof import AbstractDof
from .._scene.stencil import Stencils, stencils
from .base import AbstractProjectiveConstraint


class Fixed(AbstractProjectiveConstraint):
    """`P = 0`: every component of the nodes stays where it is, `on=(state, nodes)`; of a frame, its rotation too.

    Raises `ValueError` unless node numbers are of shape `(e,)`.
    """

    on: Stencils = stencils()

    def element_projector(self, dof: AbstractDof) -> Array:
        return jnp.zeros((dof.deriv_size, dof.deriv_size))
