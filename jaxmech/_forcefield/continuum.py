"""Solids of any Lagrange cell: the one class that a row of the table of reference elements is enough for."""

from typing import Any

import equinox as eqx

from .._material.base import AbstractMaterial
from .._mesh.mesh import Mesh
from .._mesh.reference import ReferenceElement, reference_element
from .._runtime.argument_checks import check_choice, check_instance
from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, is_concrete, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .plane import PLANES, in_plane_density, in_space
from .solid import AbstractSolid, check_rest


class SolidFEM(AbstractSolid):
    """A material in cells of any kind that `reference_element` knows, linear or quadratic, straight or curved.

    `E = sum_q w_q t psi(F_q)` [J], `F = sum_a x_a (x) dN_a/dX`, over the points of the cell's 'stiffness' quadrature.
    `rest` [m]: rest positions of the nodes of the state, a differentiable leaf like any other. In the plane, `thickness`
    `t` [m] and `plane`, "strain" or "stress", as in `TriangleFEM`. Raises `ValueError` for a kind without volume (edges), a
    cell that is inverted or flat at rest, a `plane` or a thickness of solids in space.
    Source: J. Bonet and R. D. Wood, *Nonlinear Continuum Mechanics for Finite Element Analysis*, 2nd ed., 2008,
    doi:10.1017/CBO9780511755446.

    Example:

        plate = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)))  # triangles of six nodes
        solid = jm.force.SolidFEM.from_mesh("p", plate, jm.material.LinearElastic(1e6, 0.25), thickness=0.1)
        scene = jm.System({"p": jm.Vec2()}, forces={"solid": solid})
        longer = scene.at_rest({"p": plate.points * jnp.array([1.1, 1.0])})
        assert jnp.allclose(jm.energy(scene, longer), 600.0, rtol=1e-4)  # t (mu + lam/2) e^2 [J], mu = lam = 4e5 Pa
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    material: AbstractMaterial
    kind: str = eqx.field(static=True)
    thickness: Parameter = parameter(default=1.0)
    plane: str = eqx.field(static=True, default="strain")

    def __check_init__(self):
        reference = self.reference
        if reference.dimension == 1:
            raise ValueError(f"SolidFEM: kind '{self.kind}' is that of lines, expected cells in the plane or in space.")
        check_rest(self)
        check_choice("SolidFEM", "plane", self.plane, PLANES)
        check_range(self, thickness=(self.thickness, lambda t: t > 0, "positive"))
        flat = is_concrete(self.thickness) and not (self.thickness == 1).all()
        if reference.dimension == 3 and (self.plane != "strain" or flat):
            raise ValueError(f"SolidFEM: plane and thickness are those of cells in the plane, not of kind '{self.kind}'.")

    @classmethod
    def from_mesh(
        cls, state: str, mesh: Mesh, material: AbstractMaterial, *, plane: str = "strain", thickness: Array | float = 1.0
    ) -> "SolidFEM":
        """The cells of `mesh`, whose points are the rest positions of the nodes of `state`."""
        check_instance("SolidFEM", "mesh", mesh, Mesh)
        return cls((state, mesh.cells), mesh.points, material, mesh.kind, thickness, plane)

    @property
    def reference(self) -> ReferenceElement:
        """The cell before it is placed."""
        return reference_element(self.kind)

    @property
    def depth(self) -> Any:
        return self.thickness

    def in_space(self, F: Float[Array, "d d"]) -> Float[Array, "3 3"]:
        return F if self.reference.dimension == 3 else in_space(self.material, self.plane, F)

    def in_plane_density(self, F: Float[Array, "d d"]) -> Any:
        if self.reference.dimension == 3:
            return self.material.energy_density(F)
        return self.thickness * in_plane_density(self.material, self.plane, F)
