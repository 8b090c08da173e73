"""Solids of a law that says its stress: no energy is asked for, and no symmetry promised."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .._codegen import map_points
from .._material.stress_law import AbstractStressLaw
from .._material.wrapped import AbstractWrappedLaw
from .._math.small_matrix import determinant
from .._mesh.geometry import rest_geometry
from .._mesh.mesh import Mesh
from .._mesh.reference import ReferenceElement, reference_element
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, is_concrete, nodal_parameter, parameter, point_axes
from .._scene.stencil import Stencils, stencils
from .base import AbstractForceField, Arrays
from .solid import check_material, deformation_gradients


class StressSolidFEM(AbstractForceField):
    """`f_a = -sum_q w_q t P(F_q) dN_a/dX` [N]: a law that says its stress, in cells of any kind that `SolidFEM` takes.

    `material`: an `AbstractStressLaw`, or `ThermalExpansion` or `ActiveStress` of one; its internal variables every point
    has. `rest` `(n, d)` [m]: rest positions of
    the nodes of the state. In the plane it is plane strain, of `thickness` `t` [m]. `quadrature`: 'stiffness', or the
    degree up to which it is exact. The stiffness is the derivative of the stress, and declared to be what it is: not
    symmetric. There is no energy: `energy` counts none of it. Raises `ValueError` for a kind without volume (edges), a
    cell that is inverted or flat at rest, a thickness that is not positive or of a solid in space, `TypeError` for what
    is no such law.
    Source: J. Bonet and R. D. Wood, *Nonlinear Continuum Mechanics for Finite Element Analysis*, 2nd ed., 2008,
    doi:10.1017/CBO9780511755446, chapter 9.

    Example:

        class Stiff(jm.material.AbstractStressLaw):
            young: jax.Array = jm.parameter()  # [Pa]
            needs_positive_volume = False

            def update(self, F, old, dt):
                return self.young * 0.5 * (F + F.T - 2 * jnp.eye(3)), {}

        box = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
        solid = jm.force.StressSolidFEM.from_mesh("b", box, Stiff(1e3))
        scene = jm.System({"b": jm.Vec3()}, forces={"solid": solid})
        longer = scene.at_rest({"b": box.points * jnp.array([1.1, 1.0, 1.0])})
        pull = jm.total_force(scene, longer)["b"][box.nodes_where(lambda x: x[:, 0] == 1.0), 0].sum()
        assert jnp.allclose(pull, -1e3 * 0.1)  # E e over one square metre [N]
    """

    tangent_is_exact = True
    plane: ClassVar[str] = "strain"  # where its cells are of the plane

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    material: AbstractStressLaw | AbstractWrappedLaw
    kind: str = eqx.field(static=True)
    thickness: Parameter = parameter(default=1.0)
    quadrature: int | str = eqx.field(static=True, default="stiffness")

    def __check_init__(self):
        if self.reference.dimension == 1:
            raise ValueError(
                f"StressSolidFEM: kind '{self.kind}' is that of lines, expected cells in the plane or in space."
            )
        nodes = self.on[0].nodes
        if len(self.on) != 1 or nodes.ndim != 2 or nodes.shape[1] != self.reference.nodes:
            raise ValueError(
                f"StressSolidFEM: on must be (state, cells) with {self.reference.nodes} nodes per cell, got {nodes.shape}."
            )
        check_material(self, nodes, self.quadrature, AbstractStressLaw)
        check_range(self, thickness=(self.thickness, lambda t: t > 0, "positive"))
        if self.reference.dimension == 3 and is_concrete(self.thickness) and not (self.thickness == 1).all():
            raise ValueError(f"StressSolidFEM: thickness is of cells in the plane, not of kind '{self.kind}'.")

    @classmethod
    def from_mesh(
        cls,
        state: str,
        mesh: Mesh,
        material: AbstractStressLaw | AbstractWrappedLaw,
        *,
        thickness: Array | float = 1.0,
        quadrature: int | str = "stiffness",
    ) -> "StressSolidFEM":
        """The cells of `mesh`, whose points are the rest positions of the nodes of `state`."""
        check_instance("StressSolidFEM", "mesh", mesh, Mesh)
        return cls((state, mesh.cells), mesh.points, material, mesh.kind, thickness, quadrature)

    @property
    def reference(self) -> ReferenceElement:
        """The cell before it is placed."""
        return reference_element(self.kind)

    @property
    def rule(self) -> int | str:
        """The quadrature of a cell, by degree or name."""
        return self.quadrature

    @property
    def undefined_when(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return "inverted"

    @property
    def quadrature_points(self) -> int:
        """How many points a cell has."""
        return len(self.reference.quadrature(self.quadrature)[1])

    def check_dofs(self, dofs: Any) -> None:
        if dofs[0].coord_size != self.reference.dimension or not dofs[0].is_vector_space:
            raise ValueError(f"StressSolidFEM acts on points of {self.reference.dimension} coordinates.")

    def point_gradients(self, x: Float[Array, "k d"]) -> tuple[Float[Array, "q 3 3"], Float[Array, " q"]]:
        """Of one cell: the deformation gradient of space at every point, and their rest volumes."""
        F, _, volumes = self._points(x)
        return jax.vmap(_in_space)(F), volumes

    def _points(self, x: Array) -> tuple[Array, Array, Array]:
        gradients, volumes = rest_geometry(self.reference, self.rest, self.quadrature)
        return deformation_gradients(x, gradients), gradients, volumes * self.thickness

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        del v
        F, gradients, volumes = self._points(x[0])
        stress = map_points(_stress, self, F, volumes, axes=point_axes(self))
        return (-jnp.einsum("qab,qkb->ka", stress, gradients),)

    def element_stiffness(self, x: Arrays, v: Arrays) -> tuple[Arrays, ...]:
        del v
        F, gradients, volumes = self._points(x[0])
        tangent = map_points(_tangent, self, F, volumes, axes=point_axes(self))
        half = jnp.einsum("qabcd,qld->qabcl", tangent, gradients)
        return ((jnp.einsum("qkb,qabcl->kalc", gradients, half),),)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        del v
        F, _, volumes = self._points(x[0])
        return map_points(_update, self, F, volumes, axes=point_axes(self))

    def element_is_valid(self, x: Float[Array, "k d"]) -> Array:
        if not self.material.needs_positive_volume:
            return jnp.array(True)
        return jnp.all(jax.vmap(determinant)(self._points(x)[0]) > 0)


def _in_space(F: Float[Array, "a b"]) -> Float[Array, "3 3"]:
    return F if F.shape[0] == 3 else jnp.eye(3, dtype=F.dtype).at[:2, :2].set(F)


def _stress(solid: StressSolidFEM, F: Float[Array, "a b"], volume: Array) -> Float[Array, "a b"]:
    d = F.shape[0]
    return volume * solid.material.stress(_in_space(F))[:d, :d]


def _tangent(solid: StressSolidFEM, F: Float[Array, "a b"], volume: Array) -> Float[Array, "a b c d"]:
    return jax.jacfwd(lambda F: _stress(solid, F, volume))(F)


def _update(solid: StressSolidFEM, F: Float[Array, "a b"], volume: Array) -> dict[str, Array]:
    del volume
    return {f"material.{name}": value for name, value in solid.material.point_update(_in_space(F)).items()}
