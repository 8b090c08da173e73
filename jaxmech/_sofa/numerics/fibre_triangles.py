"""Triangles in space that are stiffer along fibres than across them."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, nodal_parameter, parameter
from ..._scene.stencil import Stencils, stencils
from .corotational_cells import plane_gradients
from .frames import triangle_frame


class FibreTriangles(AbstractForceField):
    """Orthotropic plane stress in triangles in space: SOFA's TriangularAnisotropicFEMForceField.

    `f = -A T^T B^T D B u` as in `MembraneTriangles`, in axes `T` along the fibres and across them, where
    `D = [[E, nu E', 0], [nu E', E', 0], [0, 0, 0]] / (1 - nu^2 E'/E)`, and the shear modulus is `E / (2 (1 + nu))`.

    `young` `E` along the fibres and `across` `E'` [Pa], `poisson` `nu`; `fibres` `(e, 2)`: their direction in the frame of
    each triangle at rest, of unit length. `frozen` as in `CorotationalCells`. Raises `ValueError` for moduli out of range.
    Source: R. M. Jones, *Mechanics of Composite Materials*, chapter 2 (the stiffness of a lamina).
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    across: Parameter = parameter()
    poisson: Parameter = parameter()
    fibres: Parameter = parameter(ndim=1)
    frozen: bool = eqx.field(static=True)

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.frozen

    @property
    def stiffness_is_symmetric(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.frozen

    def __check_init__(self):
        moduli = {name: (getattr(self, name), lambda E: E > 0, "positive") for name in ("young", "across")}
        check_range(self, **moduli, poisson=(self.poisson, lambda nu: (nu > -1) & (nu <= 0.5), "between -1 and 0.5"))

    def _axes(self, nodes: Array) -> Array:
        """Along the fibres, and across them in the plane of the triangle `(2, 3)`."""
        c, s = self.fibres[0], self.fibres[1]
        return jnp.stack([jnp.stack([c, s]), jnp.stack([-s, c])]) @ triangle_frame(nodes)[:2]

    def _stiffness(self) -> Array:
        """`D` as `(2, 2, 2, 2)`: stress `ip` of the gradient `jq`."""
        E, F, nu = self.young, self.across, self.poisson
        whole, shear = 1 - nu**2 * F / E, E / (2 * (1 + nu))
        eye = jnp.eye(2, dtype=self.rest.dtype)
        along, beside = eye[0], eye[1]

        def four(a: Array, b: Array, c: Array, d: Array) -> Array:
            return jnp.einsum("i,p,j,q->ipjq", a, b, c, d)

        coupled = four(along, along, beside, beside) + four(beside, beside, along, along)
        sheared = four(along, beside, along, beside) + four(along, beside, beside, along)
        sheared = sheared + four(beside, along, along, beside) + four(beside, along, beside, along)
        D = E * four(along, along, along, along) + F * four(beside, beside, beside, beside) + nu * F * coupled
        return D / whole + shear * sheared

    def _shape(self) -> tuple[Array, Array, Array]:
        """The nodes at rest in these axes, the gradients of their shape functions, and the area."""
        X = (self.rest - self.rest[0]) @ self._axes(self.rest).T
        gradients, size = plane_gradients(X)
        return X, gradients, 0.5 * jnp.abs(size)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (nodes,), (X, gradients, area) = x, self._shape()
        T = self._axes(nodes)
        H = jnp.einsum("ka,kb->ab", (nodes - nodes[0]) @ T.T - X, gradients)
        return (-area * gradients @ jnp.einsum("ipjq,jq->pi", self._stiffness(), H) @ T,)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return super().element_stiffness(x, v)
        _, gradients, area = self._shape()
        G = jnp.einsum("kp,lq->kplq", gradients, gradients)
        plane = area * jnp.einsum("kplq,ipjq->kilj", G, self._stiffness())
        T = self._axes(x[0])
        return ((jnp.einsum("kilj,ia,jb->kalb", plane, T, T),),)
