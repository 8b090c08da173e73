"""Nodes that do not move at all."""

import jax.numpy as jnp

from .._runtime.array_types import Array
from .._scene.dof import AbstractDof
from .._scene.stencil import Stencils, stencils
from .base import AbstractProjectiveConstraint


class Fixed(AbstractProjectiveConstraint):
    """`P = 0`: every component of the nodes stays where it is, `on=(state, nodes)`; of a frame, its rotation too.

    Raises `ValueError` unless node numbers are of shape `(e,)`.
    Displacements [m, rad] of these nodes are zero.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (boundary conditions).

    Example:

        clamp = jm.constraint.Fixed(("cube", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))
        assert clamp.on[0].nodes.shape == (4,)
        assert not clamp.element_projector(jm.Vec3()).any()  # nothing moves
    """

    on: Stencils = stencils()

    def element_projector(self, dof: AbstractDof) -> Array:
        return jnp.zeros((dof.deriv_size, dof.deriv_size))

    def free_components(self, dof: AbstractDof) -> tuple[bool, ...]:
        return (False,) * dof.deriv_size
