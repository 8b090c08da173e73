"""Nodes that stay in a plane."""

from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.dof import AbstractDof
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractProjectiveConstraint


class FixedPlane(AbstractProjectiveConstraint):
    """`P = I - n n^T / |n|^2`: a node slides in the plane through it that is normal to `n`; rotations are free.

    `normal`: `(n,)` or one per node. Raises `ValueError` for a zero normal, or one of another dimension.
    Displacements [m] along the normal are zero; the normal is a pure number.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (skew conditions).

    Example:

        table = jm.constraint.FixedPlane(("p", [0]), [0.0, 0.0, 2.0])
        assert jnp.allclose(table.element_projector(jm.Vec3()), jnp.diag(jnp.array([1.0, 1.0, 0.0])))
    """

    on: Stencils = stencils()
    normal: Parameter = parameter(ndim=1)
    always_projects = True

    def __check_init__(self):
        check_range(self, normal=(self.normal, lambda n: (n != 0).any(-1), "a direction"))

    def check_dofs(self, dofs: Any) -> None:
        if self.normal.shape[-1] != dofs[0].space_size:
            raise ValueError(f"normal has shape {self.normal.shape}, expected {dofs[0].space_size} components.")

    def element_projector(self, dof: AbstractDof) -> Array:
        n = jnp.zeros(dof.deriv_size, self.normal.dtype).at[: dof.space_size].set(self.normal)
        return jnp.eye(dof.deriv_size, dtype=n.dtype) - jnp.outer(n, n) / (n @ n)
