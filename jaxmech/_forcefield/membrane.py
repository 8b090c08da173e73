"""Membranes: a material in surfaces in space, without bending."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import map_points
from .._material.base import AbstractMaterial
from .._material.wrapped import innermost
from .._math.small_matrix import determinant, inverse
from .._mesh.mesh import Mesh
from .._mesh.reference import ReferenceElement, reference_element
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Vec3
from .._scene.parameter import check_parameters, check_range, is_concrete, nodal_parameter, parameter, point_axes
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField
from .plane import in_plane_density


class Membrane(AbstractEnergyForceField):
    """`E = sum_q w_q t psi(U)` [J] over triangles or quads in space, linear or quadratic: a material in plane stress.

    `U` is the stretch of the surface, the root of `C = F^T F` with `F` `(3, 2)` in axes of the surface at `rest` [m], so
    that turns of any size count nothing and materials are taken to be isotropic. `thickness` `t` [m]. A flat membrane
    without tension does not resist forces across it: prestress it, or add bending (`HingeBending`). Raises `ValueError` for
    cells that are no surface, or are flat at rest, and for a thickness that is not positive.
    Source: J. Bonet, R. D. Wood, J. Mahaney, P. Heywood, Comput. Methods Appl. Mech. Eng. 190 (2000) 579,
    doi:10.1016/S0045-7825(99)00428-4.

    Example:

        sheet = jm.mesh.Mesh([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], [[0, 1, 2]], "triangle")
        skin = jm.force.Membrane.from_mesh("p", sheet, jm.material.LinearElastic(1e6, 0.25), thickness=0.1)
        scene = jm.System({"p": jm.Vec3()}, forces={"skin": skin})
        longer = scene.at_rest({"p": sheet.points * jnp.array([1.1, 1.0, 1.0])})
        by_hand = 0.5 * 0.1 * 1e6 / (1 - 0.25**2) * 0.1**2 / 2  # area t E/(1 - nu^2) e^2/2 [J]
        assert jnp.allclose(jm.energy(scene, longer), by_hand, rtol=1e-4)
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    material: AbstractMaterial
    kind: str = eqx.field(static=True, default="triangle")
    thickness: Parameter = parameter(default=1.0)

    def __check_init__(self):
        cell, nodes = self.cell, self.on[0].nodes
        if cell.dimension != 2:
            raise ValueError(f"Membrane: kind '{self.kind}' is not that of a surface.")
        if len(self.on) != 1 or nodes.ndim != 2 or nodes.shape[1] != cell.nodes:
            raise ValueError(f"Membrane: on must be (state, cells) with {cell.nodes} nodes per {self.kind}.")
        check_instance("Membrane", "material", innermost(self.material), AbstractMaterial)
        check_parameters(self, self.on, self.quadrature_points)
        if self.rest.ndim != 2 or self.rest.shape[1] != 3:
            raise ValueError(f"Membrane: rest has shape {self.rest.shape}, expected (nodes, 3).")
        check_range(self, thickness=(self.thickness, lambda t: t > 0, "positive"))
        if is_concrete(self.rest, nodes) and nodes.shape[0]:
            gradients = cell.shape_gradients(cell.quadrature("stiffness")[0])
            t = np.einsum("ekd,qka->eqad", np.asarray(self.rest)[np.asarray(nodes)], gradients)
            area = np.linalg.norm(np.cross(t[..., 0, :], t[..., 1, :]), axis=-1).min(axis=1)
            if not area.min() > 0:
                raise ValueError(f"Membrane: cell {int(np.argmin(area))} has no area at rest.")

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, material: AbstractMaterial, *, thickness: Array | float = 1.0) -> "Membrane":
        """The cells of `mesh`, whose points are the rest positions of the nodes of `state`."""
        check_instance("Membrane", "mesh", mesh, Mesh)
        return cls((state, mesh.cells), mesh.points, material, mesh.kind, thickness)

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Vec3):
            raise ValueError("Membrane acts on points of space (Vec3).")

    @property
    def cell(self) -> ReferenceElement:
        """The cell before it is placed."""
        return reference_element(self.kind)

    @property
    def quadrature_points(self) -> int:
        """How many points the quadrature of a cell has."""
        return len(self.cell.quadrature("stiffness")[1])

    def element_energy(self, x: Float[Array, "k 3"]) -> Scalar:
        gradients, areas = surface_geometry(self.cell, self.rest)
        F = jnp.einsum("ka,qkb->qab", x, gradients)
        return jnp.sum(map_points(_density, self, F, areas, axes=point_axes(self)))


def _density(membrane: Membrane, F: Float[Array, "3 2"], area: Scalar) -> Scalar:
    return area * membrane.thickness * in_plane_density(membrane.material, "stress", surface_stretch(F))


def surface_stretch(F: Float[Array, "3 2"]) -> Float[Array, "2 2"]:
    """`U`, the root of `F^T F`: `(C + J 1) / sqrt(tr C + 2 J)`, `J = sqrt(det C)`."""
    C = F.T @ F
    square = determinant(C)
    J = jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)
    return (C + J * jnp.eye(2, dtype=C.dtype)) / jnp.sqrt(C[0, 0] + C[1, 1] + 2 * J)


def surface_axes(tangents: Float[Array, "3 2"]) -> Float[Array, "3 2"]:
    """Two orthonormal axes of the plane of two tangents, the first along the first."""
    first = tangents[:, 0] / jnp.sqrt(tangents[:, 0] @ tangents[:, 0])
    second = tangents[:, 1] - (first @ tangents[:, 1]) * first
    return jnp.stack([first, second / jnp.sqrt(second @ second)], axis=1)


def surface_geometry(cell: ReferenceElement, rest: Float[Array, "k 3"]) -> tuple[Array, Array]:
    """Gradients `(q, k, 2)` of the shape functions in axes of the surface [1/m], and areas `(q,)` [m^2]."""
    points, weights = cell.quadrature("stiffness")
    local = jnp.asarray(cell.shape_gradients(points), rest.dtype)

    def at_point(dN: Array, w: Array) -> tuple[Array, Array]:
        tangents = rest.T @ dN
        flat = surface_axes(tangents).T @ tangents
        return dN @ inverse(flat), w * determinant(flat)

    return jax.vmap(at_point)(local, jnp.asarray(weights, rest.dtype))
