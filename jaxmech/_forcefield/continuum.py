"""Solids of any Lagrange cell: the one class that a row of the table of reference elements is enough for."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._material.base import AbstractMaterial, density
from .._math.small_matrix import determinant
from .._mesh.geometry import rest_geometry
from .._mesh.mesh import Mesh
from .._mesh.reference import ReferenceElement, reference_element
from .._runtime.argument_checks import check_choice, check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, is_concrete, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .axisymmetry import around_the_axis, turned
from .base import AbstractEnergyForceField, Arrays
from .hourglass import SHAPES, hourglass_stiffness, mean_geometry
from .plane import PLANES, in_plane_density, in_space
from .projected_volume import projected_energy, projected_gradients, projected_update
from .solid import AbstractSolid, check_rest, deformation_gradients

FORMULATIONS = ("standard", "f-bar", "b-bar", "reduced")


class SolidFEM(AbstractSolid):
    """A material in cells of any kind that `reference_element` knows, linear or quadratic, straight or curved.

    `E = sum_q w_q t psi(F_q)` [J], `F = sum_a x_a (x) dN_a/dX`, over the points of `quadrature`: 'stiffness' (see
    `ReferenceElement.quadrature`), or the degree up to which it is exact. `rest` [m]: rest positions of the nodes of the
    state, a differentiable leaf like any other. In the plane, `thickness` `t` [m], and `plane`: "strain" or "stress" as in
    `TriangleFEM`, or "axisymmetric", where coordinates are `(r, z)`, `F_33 = r / R` and `w_q` is a ring of `2 pi R` [m].

    `formulation`, against locking of nearly incompressible materials:

    - "standard";
    - "f-bar": the change of volume is its mean over the cell (of quad9 and hexahedron27, its linear part), for laws of
      finite strains;
    - "b-bar": the same of `tr F`, for laws of small strains, which stay linear;
    - "reduced": one point in quads and hexahedra of linear order, by the mean gradient, and `hourglass` times the shear
      modulus against the shapes that it does not see. The fastest, and softest in bending.

    Neither helps cells of one point, triangles and tetrahedra: take quadratic ones, or `MixedSolidFEM`.
    Raises `ValueError` for a kind without volume (edges), a cell that is inverted or flat at rest, a `plane` or a thickness
    of solids in space, a formulation that the kind or plane stress does not have, a point at rest at `r < 0`.
    Source: J. Bonet and R. D. Wood, *Nonlinear Continuum Mechanics for Finite Element Analysis*, 2nd ed., 2008,
    doi:10.1017/CBO9780511755446; J. C. Simo, R. L. Taylor, K. S. Pister, Comput. Meth. Appl. Mech. Eng. 51 (1985) 177,
    doi:10.1016/0045-7825(85)90033-7 (f-bar: its energy is of that mean dilatation); T. J. R. Hughes, Int. J. Numer. Meth.
    Eng. 15 (1980) 1413, doi:10.1002/nme.1620150914 (b-bar); D. P. Flanagan, T. Belytschko, Int. J. Numer. Meth. Eng. 17
    (1981) 679, doi:10.1002/nme.1620170504 (reduced).

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
    formulation: str = eqx.field(static=True, default="standard")
    quadrature: int | str = eqx.field(static=True, default="stiffness")
    hourglass: Parameter = parameter(default=0.1)

    def __check_init__(self):
        reference = self.reference
        if reference.dimension == 1:
            raise ValueError(f"SolidFEM: kind '{self.kind}' is that of lines, expected cells in the plane or in space.")
        check_choice("SolidFEM", "plane", self.plane, (*PLANES, "axisymmetric"))
        check_choice("SolidFEM", "formulation", self.formulation, FORMULATIONS)
        check_rest(self)
        positive = (lambda t: t > 0, "positive")
        check_range(self, thickness=(self.thickness, *positive), hourglass=(self.hourglass, *positive))
        thick = is_concrete(self.thickness) and not (self.thickness == 1).all()
        if reference.dimension == 3 and (self.plane != "strain" or thick):
            raise ValueError(f"SolidFEM: plane and thickness are those of cells in the plane, not of kind '{self.kind}'.")
        if self.plane == "axisymmetric":
            if thick:
                raise ValueError("SolidFEM: thickness is of plane strain and plane stress; around an axis it is 2 pi r.")
            radii = self.rest[self.on[0].nodes.ravel(), 0] if is_concrete(self.rest, self.on[0].nodes) else None
            if radii is not None and radii.size and float(radii.min()) < 0:
                raise ValueError(f"SolidFEM: rest has a point at r = {float(radii.min()):.3g}, on the far side of the axis.")
        self._check_formulation()

    def _check_formulation(self) -> None:
        if self.formulation == "standard":
            return
        if self.plane == "stress":
            raise ValueError(f"SolidFEM: formulation '{self.formulation}' is not of plane stress, where nothing locks.")
        if self.formulation == "reduced":
            check_choice("SolidFEM", "kind of formulation 'reduced'", self.kind, tuple(SHAPES))
            if self.plane == "axisymmetric" or self.quadrature != "stiffness":
                raise ValueError("SolidFEM: formulation 'reduced' has one point and plane='strain', or solids in space.")
        elif self.quadrature_points == 1:
            raise ValueError(
                f"SolidFEM: formulation '{self.formulation}' changes nothing in cells of one point; take quadratic cells of "
                f"'{self.kind}', or MixedSolidFEM."
            )

    @classmethod
    def from_mesh(
        cls,
        state: str,
        mesh: Mesh,
        material: AbstractMaterial,
        *,
        plane: str = "strain",
        thickness: Array | float = 1.0,
        formulation: str = "standard",
        quadrature: int | str = "stiffness",
        hourglass: Array | float = 0.1,
    ) -> "SolidFEM":
        """The cells of `mesh`, whose points are the rest positions of the nodes of `state`."""
        check_instance("SolidFEM", "mesh", mesh, Mesh)
        on, kind = (state, mesh.cells), mesh.kind
        return cls(on, mesh.points, material, kind, thickness, plane, formulation, quadrature, hourglass)

    @property
    def reference(self) -> ReferenceElement:
        """The cell before it is placed."""
        return reference_element(self.kind)

    @property
    def depth(self) -> Any:
        return self.thickness

    @property
    def rule(self) -> int | str:
        return self.quadrature

    @property
    def quadrature_points(self) -> int:
        """How many points a cell has."""
        return 1 if self.formulation == "reduced" else len(self.reference.quadrature(self.rule)[1])

    def geometry(self) -> tuple[Float[Array, "q k b"], Float[Array, " q"]]:
        if self.formulation == "reduced":
            return mean_geometry(self.reference, self.rest)
        gradients, volumes = rest_geometry(self.reference, self.rest, self.rule)
        if self.plane == "axisymmetric":
            return turned(self.reference, self.rule, self.rest, gradients, volumes)
        return gradients, volumes

    def volume_ratio(self, F: Float[Array, "a b"]) -> Scalar:
        return determinant(around_the_axis(F) if self.plane == "axisymmetric" else F)

    def in_space(self, F: Float[Array, "a b"]) -> Float[Array, "3 3"]:
        if self.plane == "axisymmetric":
            return around_the_axis(F)
        return F if self.reference.dimension == 3 else in_space(self.material, self.plane, F)

    def in_plane_density(self, F: Float[Array, "a b"]) -> Any:
        if self.reference.dimension == 3 or self.plane == "axisymmetric":
            return density(self.material, self.in_space(F))
        return self.thickness * in_plane_density(self.material, self.plane, F)

    @property
    def _is_projected(self) -> bool:
        return self.formulation in ("f-bar", "b-bar")

    def point_gradients(self, x: Float[Array, "k d"]) -> tuple[Float[Array, "q 3 3"], Float[Array, " q"]]:
        if not self._is_projected:
            return AbstractSolid.point_gradients(self, x)
        F, volumes = projected_gradients(self, x)
        return F, volumes * self.depth

    def element_energy(self, x: Float[Array, "k d"]) -> Any:
        if self._is_projected:
            return projected_energy(self, x)
        energy = AbstractSolid.element_energy(self, x)
        if self.formulation == "reduced":
            energy += 0.5 * jnp.sum(x * (hourglass_stiffness(self) @ x))
        return energy

    def element_gradient(self, x: Float[Array, "k d"]) -> Any:
        if self._is_projected:
            return AbstractEnergyForceField.element_gradient(self, x)
        (gradient,) = AbstractSolid.element_gradient(self, x)
        return (gradient + hourglass_stiffness(self) @ x if self.formulation == "reduced" else gradient,)

    def element_hessian(self, x: Float[Array, "k d"]) -> Any:
        if self._is_projected:
            return AbstractEnergyForceField.element_hessian(self, x)
        return self._against_hourglass(AbstractSolid.element_hessian(self, x), x)

    def element_derivatives(self, x: Float[Array, "k d"]) -> Any:
        if self._is_projected:
            return AbstractEnergyForceField.element_derivatives(self, x)
        (gradient,), hessian = AbstractSolid.element_derivatives(self, x)
        if self.formulation == "reduced":
            gradient = gradient + hourglass_stiffness(self) @ x
        return (gradient,), self._against_hourglass(hessian, x)

    def _against_hourglass(self, hessian: Any, x: Float[Array, "k d"]) -> Any:
        if self.formulation != "reduced":
            return hessian
        K = hourglass_stiffness(self)
        return ((hessian[0][0] + K[:, None, :, None] * jnp.eye(x.shape[1], dtype=x.dtype)[:, None, :],),)

    def element_update(self, x: Arrays, v: Arrays) -> dict[str, Array]:
        return projected_update(self, *x) if self._is_projected else AbstractSolid.element_update(self, x, v)

    def element_is_valid(self, x: Float[Array, "k d"]) -> Array:
        if self.formulation == "f-bar":  # a root of the change of volume
            gradients, _ = self.geometry()
            positive = jnp.all(jax.vmap(self.volume_ratio)(deformation_gradients(x, gradients)) > 0)
            return positive & self.within_limits(x)
        return AbstractSolid.element_is_valid(self, x)
