"""Nodes that stay on a line."""

from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.dof import AbstractDof
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractProjectiveConstraint


class FixedLine(AbstractProjectiveConstraint):
    """`P = t t^T / |t|^2` on translations: a node slides along the line through it of direction `t`; rotations are free.

    `direction`: `(n,)` or one per node. Raises `ValueError` for a zero direction, or one of another dimension.
    Displacements [m] across the line are zero; the direction is a pure number.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (skew conditions).

    Example:

        rail = jm.constraint.FixedLine(("p", [0]), [3.0, 4.0])
        P = rail.element_projector(jm.Vec2())
        assert jnp.allclose(P @ jnp.array([1.0, 0.0]), jnp.array([0.36, 0.48]))  # what of x goes along the line
    """

    on: Stencils = stencils()
    direction: Parameter = parameter(ndim=1)
    always_projects = True

    def __check_init__(self):
        check_range(self, direction=(self.direction, lambda t: (t != 0).any(-1), "a direction"))

    def check_dofs(self, dofs: Any) -> None:
        if self.direction.shape[-1] != dofs[0].space_size:
            raise ValueError(f"direction has shape {self.direction.shape}, expected {dofs[0].space_size} components.")

    def element_projector(self, dof: AbstractDof) -> Array:
        t = self.direction
        n = dof.space_size
        return jnp.eye(dof.deriv_size, dtype=t.dtype).at[:n, :n].set(jnp.outer(t, t) / (t @ t))
