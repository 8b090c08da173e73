"""SOFA's loads that turn about an axis, and its drag by direction."""

import equinox as eqx
import jax.numpy as jnp

from ..._forcefield.base import Arrays, points_only
from ..._forcefield.drag import AbstractDrag
from ..._runtime.array_types import Scalar
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencils, stencils
from .polynomial_springs import AbstractFrozen


class Torsion(AbstractFrozen):
    """`f = t u x (x - o - (x . u) u)` on every node: TorsionForceField. `torque` `t` [N/m] about the unit vector `axis` `u`.

    Of frames also the torque `t u` [N m]. `o` is the `origin` [m]. SOFA's stiffness is `-t (I - u u^T)`.
    """

    on: Stencils = stencils()
    torque: Parameter = parameter()
    axis: Parameter = parameter(ndim=1)
    origin: Parameter = parameter(ndim=1)
    frozen: bool = eqx.field(static=True, default=True)

    def check_dofs(self, dofs) -> None:
        if dofs[0].coord_size not in (3, 7) or dofs[0].deriv_size not in (3, 6) or dofs[0].space_size != 3:
            raise ValueError("Torsion acts on points or frames of space.")

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        place, u = x[0][:3], self.axis
        f = self.torque * jnp.cross(u, place - self.origin - (place @ u) * u)
        return (jnp.concatenate([f, self.torque * u])[: v[0].shape[0]],)

    def element_stiffness(self, x: Arrays, v: Arrays):
        u, eye = self.axis, jnp.eye(3, dtype=v[0].dtype)
        # of the force: the derivative of u x (x - ...) is that of u x x
        K = -self.torque * (eye - jnp.outer(u, u) if self.frozen else jnp.cross(u, eye).T)
        return ((jnp.pad(K, (0, v[0].shape[0] - 3)),),)


class DragByDirection(AbstractDrag):
    """`f_i = -c_i v_i` of points: DiagonalVelocityDampingForceField. `coefficient` `(d,)` [N s/m] of each node, from 0."""

    on: Stencils = stencils()
    coefficient: Parameter = parameter(ndim=1)

    def __check_init__(self):
        check_range(self, coefficient=(self.coefficient, lambda c: c >= 0, "at least 0"))

    def check_dofs(self, dofs) -> None:
        points_only(self, dofs)

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        return 0.5 * self.coefficient @ v[0] ** 2
