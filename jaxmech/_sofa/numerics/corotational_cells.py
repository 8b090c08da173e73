"""SOFA's linear and corotational elements, to the last formula."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays
from ..._mesh.geometry import gradients_at
from ..._mesh.quadrature import rule_of_product
from ..._mesh.reference import reference_element
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, nodal_parameter, parameter
from ..._scene.stencil import Stencils, stencils
from .frames import element_frame, element_rotation, rest_frame, triangle_frame

_CUBE = reference_element("hexahedron")


def displacement(kind: str, rotation: str, nodes: Array, rest: Array) -> Array:
    """In the axes of the rest shape."""
    return displacement_between(rotation, nodes, rest, *_frames(kind, rotation, nodes, rest))


def displacement_between(rotation: str, nodes: Array, rest: Array, now: Array, then: Array) -> Array:
    """By the two frames, of which the same edges make the same numbers: nothing at rest, where `R^T x - X` would be
    rounding."""
    if rotation == "small":
        return (nodes - rest) - (nodes[0] - rest[0])
    return ((nodes - nodes[0]) @ now.T - (rest - rest[0]) @ then.T) @ then


def _frames(kind: str, rotation: str, nodes: Array, rest: Array) -> tuple[Array, Array]:
    return element_frame(kind, rotation, nodes, rest), rest_frame(kind, rotation, rest)


def hooke(H: Array, lam: Array, mu: Array) -> Array:
    """The stress of gradients of displacements `(q, d, d)`."""
    trace = jnp.trace(H, axis1=1, axis2=2)
    return mu * (H + jnp.swapaxes(H, 1, 2)) + lam * trace[:, None, None] * jnp.eye(H.shape[1], dtype=H.dtype)


def frozen_stiffness(G: Array, volumes: Array, lam: Array, mu: Array) -> Any:
    """`R Ke R^T` of the gradients `G = grad N R^T` at Gauss points of these volumes."""
    pairs = jnp.einsum("qka,qlb->kalb", volumes[:, None, None] * G, G)
    dots = pairs[:, 0, :, 0]
    for axis in range(1, G.shape[2]):
        dots = dots + pairs[:, axis, :, axis]
    shear = jnp.swapaxes(pairs, 1, 3) + dots[:, None, :, None] * jnp.eye(G.shape[2], dtype=G.dtype)[:, None]
    return ((lam * pairs + mu * shear,),)


def frame_and_spins(kind: str, rotation: str, nodes: Array, rest: Array) -> tuple[Array, Array]:
    """`T`, and `w` of `d(T^T) = hat(w) T^T` from the displacement of each node `(3, k, 3)`."""

    def twice(x: Array) -> tuple[Array, Array]:
        frame = element_frame(kind, rotation, x, rest)
        return frame, frame

    rates, frame = jax.jacfwd(twice, has_aux=True)(nodes)
    turn = jnp.einsum("jilb,jm->imlb", rates, frame)
    return frame, jnp.stack([turn[2, 1], turn[0, 2], turn[1, 0]])


def forces_of_spins(K: Array, nodes: Array, force: Array) -> Array:
    """`df = w x f + K (w x (x - x0))`, where the frame alone turns, about each axis: `(k, 3, 3)`, the axis first."""
    axes = jnp.eye(3, dtype=nodes.dtype)
    moved = jnp.cross(axes, (nodes - nodes[0])[:, None])
    return jnp.cross(axes, force[:, None]) + jnp.einsum("kalb,lcb->kca", K, moved)


class AbstractCorotationalCells(AbstractForceField):
    """Linear elasticity of cells `on` one state, in a frame that turns with each.

    `frozen`: the stiffness is `R Ke R^T`, without `dR/dx`. Raises `ValueError` for moduli out of range.
    """

    rest: eqx.AbstractVar[Array]
    young: eqx.AbstractVar[Array]
    poisson: eqx.AbstractVar[Array]
    share: eqx.AbstractVar[Array]
    kind: eqx.AbstractVar[str]
    rotation: eqx.AbstractVar[str]
    frozen: eqx.AbstractVar[bool]

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.frozen or self.rotation == "small"

    @property
    def stiffness_is_symmetric(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.frozen

    def __check_init__(self):
        check_range(self, young=(self.young, lambda E: E > 0, "positive"))
        check_range(self, poisson=(self.poisson, lambda nu: (nu > -1) & (nu < 0.5), "between -1 and 0.5"))

    def _geometry(self) -> tuple[Array, Array]:
        """At SOFA's points: of prisms two, in the middle of the triangle; a pyramid is a hexahedron, one face a point."""
        if self.kind == "pyramid":
            rest = jnp.concatenate([self.rest, *(self.rest[4:],) * 3])
            cube, volumes = gradients_at(_CUBE, rest, *_CUBE.quadrature("stiffness"))
            return jnp.concatenate([cube[:, :4], jnp.sum(cube[:, 4:], axis=1, keepdims=True)], axis=1), volumes
        cell = reference_element(self.kind)
        rule = rule_of_product(cell.factors, (1, 3)) if self.kind == "prism" else cell.quadrature("stiffness")
        return gradients_at(cell, self.rest, *rule)  # volumes are positive: some meshes number cells inside out

    def _moduli(self) -> tuple[Array, Array]:
        """Lame's of space; in the plane, those of plane stress."""
        E, nu, d = self.young * self.share, self.poisson, self.rest.shape[-1]
        return E * nu / ((1 + nu) * (1 - (d - 1) * nu)), E / (2 * (1 + nu))

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not (self.frozen or self.rotation == "small"):
            return self._turning_stiffness(x, v)
        gradients, volumes = self._geometry()
        R = element_rotation(self.kind, self.rotation, x[0], self.rest)
        return frozen_stiffness(gradients @ R.T, volumes, *self._moduli())

    def _turning_stiffness(self, x: Arrays, v: Arrays) -> Any:
        """With `dR/dx`: the derivative of the force."""
        return super().element_stiffness(x, v)


class CorotationalCells(AbstractCorotationalCells):
    """`f = -R Ke (R^T (x - c) - (X - Xc))`: linear elasticity in a frame that turns with the element (`element_rotation`).

    `Ke` on the rest shape, 2 x 2 x 2 Gauss points in hexahedra; that of surfaces and lines in space is Hooke's law of space
    with the gradients within them, so that they resist shear across them too, of unit thickness or section. `young` [Pa]
    and `poisson`, one or one per cell; `share`: how much of a cell counts. `frozen`: the stiffness is `R Ke R^T`, without
    `dR/dx`, as SOFA's is; otherwise it is the derivative of the force. Derivatives of the force itself are true in either
    case. Raises `ValueError` for moduli out of range.
    Source: M. Müller and M. Gross, "Interactive virtual materials", Graphics Interface 2004 (corotational elements).
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    kind: str = eqx.field(static=True)
    rotation: str = eqx.field(static=True)
    frozen: bool = eqx.field(static=True)
    share: Parameter = parameter(default=1.0)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        return (self._force(x[0], *_frames(self.kind, self.rotation, x[0], self.rest)),)

    def _force(self, nodes: Array, now: Array, then: Array) -> Array:
        (gradients, volumes), (lam, mu) = self._geometry(), self._moduli()
        u = displacement_between(self.rotation, nodes, self.rest, now, then)
        stress = hooke(jnp.einsum("ka,qkb->qab", u, gradients), lam, mu)
        return -jnp.einsum("q,qab,qkb->ka", volumes, stress, gradients) @ (now.T @ then).T

    def _turning_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if self.rest.shape[-1] == 2:
            return super()._turning_stiffness(x, v)
        (nodes,), (gradients, volumes), moduli = x, self._geometry(), self._moduli()
        now, spins = frame_and_spins(self.kind, self.rotation, nodes, self.rest)
        then = rest_frame(self.kind, self.rotation, self.rest)
        ((K,),) = frozen_stiffness(gradients @ (now.T @ then).T, volumes, *moduli)
        swung = forces_of_spins(K, nodes, self._force(nodes, now, then))
        return ((K - jnp.einsum("kca,clb->kalb", swung, spins),),)


def plane_gradients(x: Array) -> tuple[Array, Array]:
    """Of the shape functions of a triangle in the plane whose first node is the origin `(3, 2)`, and twice its area."""
    (bx, by), (cx, cy) = x[1], x[2]
    size = bx * cy - by * cx  # `by` is nil in the frame of the triangle, not in the world's
    return jnp.stack([jnp.stack([by - cy, cx - bx]), jnp.stack([cy, -cx]), jnp.stack([-by, bx])]) / size, size


class MembraneTriangles(AbstractForceField):
    """Plane stress in triangles in space: SOFA's TriangularFEMForceFieldOptim, and TriangleFEMForceField.

    `f = -A t T^T B^T D B u`, `u` the displacement in the frame `T` of the triangle (`triangle_frame`; the axes of the world
    where it does not turn, `turns`), `B` on the rest shape, or where `present` on the present one; `A` at rest.
    `young` [Pa], `poisson`, `thickness` `t` [m]; or `plane_strain`. `frozen` as in `CorotationalCells`. Raises
    `ValueError` for moduli out of range.
    Source: O. C. Zienkiewicz and R. L. Taylor, *The Finite Element Method*, vol. 1, chapter 4 (constant strain triangles).
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    young: Parameter = parameter()
    poisson: Parameter = parameter()
    frozen: bool = eqx.field(static=True)
    thickness: Parameter = parameter(default=1.0)
    present: bool = eqx.field(static=True, default=False)
    plane_strain: bool = eqx.field(static=True, default=False)
    turns: bool = eqx.field(static=True, default=True)

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.frozen

    @property
    def stiffness_is_symmetric(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.frozen or not self.turns

    def __check_init__(self):
        check_range(self, young=(self.young, lambda E: E > 0, "positive"))
        check_range(self, poisson=(self.poisson, lambda nu: (nu > -1) & (nu <= 0.5), "between -1 and 0.5"))

    def _shape(self, nodes: Array) -> tuple[Array, Array, Array]:
        """The nodes in the plane at rest, the gradients of their shape functions, and the volume."""
        X = (self.rest - self.rest[0]) @ self._axes(self.rest).T
        x = (nodes - nodes[0]) @ self._axes(nodes).T if self.present else X
        gradients, _ = plane_gradients(x)
        return X, gradients, 0.5 * jnp.abs(X[1, 0] * X[2, 1] - X[1, 1] * X[2, 0]) * self.thickness

    def _axes(self, nodes: Array) -> Array:
        """The two axes of the plane in which a triangle deforms."""
        return triangle_frame(nodes)[:2] if self.turns else jnp.eye(2, 3, dtype=nodes.dtype)

    def _moduli(self) -> tuple[Array, Array]:
        """Lame's, of plane stress unless plane strain."""
        E, nu = self.young, self.poisson
        lam = E * nu / ((1 + nu) * (1 - 2 * nu)) if self.plane_strain else E * nu / (1 - nu**2)
        return lam, E / (2 * (1 + nu))

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        (nodes,), (lam, mu) = x, self._moduli()
        X, gradients, volume = self._shape(nodes)
        T = self._axes(nodes)
        H = jnp.einsum("ka,kb->ab", (nodes - nodes[0]) @ T.T - X, gradients)
        stress = mu * (H + H.T) + lam * jnp.trace(H) * jnp.eye(2, dtype=nodes.dtype)
        return (-volume * gradients @ stress @ T,)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return super().element_stiffness(x, v)
        T = self._axes(x[0])
        (_, gradients, volume), (lam, mu) = self._shape(x[0]), self._moduli()
        G = gradients @ T
        pairs = volume * jnp.einsum("ka,lb->kalb", G, G)
        dots = jnp.einsum("kala->kl", pairs)
        plane = T.T @ T
        K = lam * pairs + mu * jnp.swapaxes(pairs, 1, 3) + mu * jnp.einsum("kl,ab->kalb", dots, plane)
        return ((K,),)
