"""SOFA's beams of two frames."""

from typing import Any

import jax.numpy as jnp
from equinox import AbstractVar

from ..._forcefield.base import AbstractForceField, Arrays
from ..._math.rotation import (
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_product,
    rotate,
    rotation_matrix,
)
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid3
from ..._scene.parameter import check_range, nodal_parameter, parameter
from ..._scene.stencil import Stencils, stencils


class AbstractFrameBeam(AbstractForceField):
    """`f = -R_a k d`: the displacement `d` of the second frame as the first sees it, since rest; `R_a` turns the first.

    `k` of a slender beam (12 x 12) of radius `radius`, hollow by `inner_radius` [m], `young` [Pa], `poisson`; its length is
    that of rest, its axis x of the first frame. The moment on the first frame is that of the rest length, so that a beam
    that is stretched does not balance it. Raises `ValueError` for numbers out of range.
    Source: J. S. Przemieniecki, *Theory of Matrix Structural Analysis*, 1968, section 5.6 (the matrix); C. Duriez et al.,
    IEEE Trans. Vis. Comput. Graph. 12 (2006) 36, doi:10.1109/TVCG.2006.13.
    """

    on: AbstractVar[Stencils]
    rest: AbstractVar[Parameter]
    young: AbstractVar[Parameter]
    poisson: AbstractVar[Parameter]
    radius: AbstractVar[Parameter]
    inner_radius: AbstractVar[Parameter]

    def __check_init__(self):
        check_range(self, young=(self.young, lambda E: E > 0, "positive"))
        check_range(self, poisson=(self.poisson, lambda nu: (nu > -1) & (nu <= 0.5), "between -1 and 0.5"))
        check_range(self, radius=(self.radius, lambda r: r > 0, "positive"))
        check_range(self, inner_radius=(self.inner_radius, lambda r: r >= 0, "not negative"))

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Rigid3):
            raise ValueError("beams act on Rigid3 frames.")

    def _stiffness(self) -> Array:
        r, hole = self.radius, self.inner_radius
        area, inertia = jnp.pi * (r**2 - hole**2), jnp.pi * (r**4 - hole**4) / 4
        d = self.rest[1, :3] - self.rest[0, :3]
        L = jnp.sqrt(d @ d)
        E, G = self.young, self.young / (2 * (1 + self.poisson))
        along, twist = E * area / L, G * 2 * inertia / L
        a, b, c = 12 * E * inertia / L**3, 6 * E * inertia / L**2, E * inertia / L

        def block(diagonal: list[Any], across: list[Any]) -> Array:
            places = jnp.array([1, 2, 5, 4]), jnp.array([5, 4, 1, 2])
            return jnp.diag(jnp.stack(diagonal)).at[places].set(jnp.stack(across))

        first = block([along, a, a, twist, 4 * c, 4 * c], [b, -b, b, -b])
        second = block([along, a, a, twist, 4 * c, 4 * c], [-b, b, -b, b])
        mixed = block([-along, -a, -a, -twist, 2 * c, 2 * c], [b, -b, -b, b])
        return jnp.block([[first, mixed], [mixed.T, second]])

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (first, second), (rest_first, rest_second) = x[0], self.rest
        back, rest_back = quaternion_conjugate(first[3:]), quaternion_conjugate(rest_first[3:])
        u = rotate(back, second[:3] - first[:3]) - rotate(rest_back, rest_second[:3] - rest_first[:3])
        turn, rest_turn = quaternion_product(back, second[3:]), quaternion_product(rest_back, rest_second[3:])
        w = quaternion_log(quaternion_product(quaternion_conjugate(rest_turn), turn))
        force = self._stiffness()[:, 6:] @ jnp.concatenate([u, w])
        return (-(force.reshape(4, 3) @ rotation_matrix(first[3:]).T).reshape(2, 6),)


class FrameBeam(AbstractFrameBeam):
    """The stiffness is the derivative of the force."""

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    radius: Parameter = parameter()
    inner_radius: Parameter = parameter(default=0.0)


class FrozenFrameBeam(AbstractFrameBeam):
    """The stiffness is `R k R^T` with `R` halfway between the two frames, as SOFA's is."""

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    radius: Parameter = parameter()
    inner_radius: Parameter = parameter(default=0.0)

    tangent_is_exact = False

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        first, second = x[0]
        half = 0.5 * quaternion_log(quaternion_product(quaternion_conjugate(first[3:]), second[3:]))
        R = rotation_matrix(quaternion_product(first[3:], quaternion_exp(half)))
        turned = jnp.einsum("ij,ajbk,lk->aibl", R, self._stiffness().reshape(4, 3, 4, 3), R)
        return ((turned.reshape(2, 6, 2, 6),),)
