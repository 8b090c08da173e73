"""Boundaries that waves leave through."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import area_vectors, rest_measures
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Vec1, Vec2, Vec3
from .._scene.parameter import check_range, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import Arrays
from .drag import AbstractDrag
from .surface_checks import check_faces


class AbsorbingBoundary(AbstractDrag):
    """`D = 1/2 integral of z_p (v . n)^2 + z_s |v - (v . n) n|^2 dA` at the rest shape: dashpots that waves do not see.

    `impedance` `z_p = rho c_p` and `shear_impedance` `z_s = rho c_s` [Pa s/m]: a plane wave that arrives along the normal
    leaves whole, one at an angle nearly so. Of a scalar field `D = z/2 integral of v^2`, and `z = rho c` of its waves.
    Shared, or one per face. `axisymmetric`: rest positions are `(r, z)`, and edges the rings of radius `R` that they are.
    Raises `ValueError` for negative impedances and faces that do not fit.
    Source: J. Lysmer and R. L. Kuhlemeyer, J. Eng. Mech. Div. ASCE 95 (1969) 859.

    Example:

        soil = jm.mesh.box_mesh(cells=(1, 1), size=(2.0, 1.0))
        side = soil.faces_where(lambda x: x[:, 1] == 0.0)  # 2 m, its normal along y
        scene = jm.System({"x": jm.Vec2()}, forces={"edge": jm.force.AbsorbingBoundary.from_mesh("x", side, 30.0, 20.0)})
        moving = jm.State({"x": soil.points}, {"x": jnp.ones((4, 2))}, jnp.zeros(()))
        assert jnp.allclose(jm.total_force(scene, moving)["x"].sum(0), jnp.array([-40.0, -60.0]))  # [N/m]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    impedance: Parameter = parameter()
    shear_impedance: Parameter = parameter(default=0.0)
    kind: str = eqx.field(static=True, default="triangle")
    axisymmetric: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_faces(self)
        positive = (lambda z: z >= 0, "at least 0")
        check_range(self, impedance=(self.impedance, *positive), shear_impedance=(self.shear_impedance, *positive))

    @classmethod
    def from_mesh(
        cls, state: str, surface: Mesh, impedance: Any, shear_impedance: Any = 0.0, *, axisymmetric: bool = False
    ) -> "AbsorbingBoundary":
        """On the faces of a surface mesh, such as `mesh.faces_where(...)`."""
        check_instance(cls.__name__, "surface", surface, Mesh)
        return cls((state, surface.cells), surface.points, impedance, shear_impedance, surface.kind, axisymmetric)

    def check_dofs(self, dofs: Any) -> None:
        size = self.rest.shape[-1]
        if not isinstance(dofs[0], Vec1 | Vec2 | Vec3) or dofs[0].coord_size not in (1, size):
            raise ValueError(f"AbsorbingBoundary acts on scalars (Vec1) or points of {size} coordinates.")
        if reference_element(self.kind).dimension != size - 1 and dofs[0].coord_size > 1:
            raise ValueError(f"AbsorbingBoundary: faces of kind '{self.kind}' have no normal in {size} dimensions.")

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        del x
        reference = reference_element(self.kind)
        shapes, measures = rest_measures(reference, self.rest, axisymmetric=self.axisymmetric)
        speed = shapes @ v[0]
        if speed.shape[1] == 1:
            return 0.5 * self.impedance * jnp.sum(measures * speed[:, 0] ** 2)
        _, normals = area_vectors(reference, self.rest, axisymmetric=self.axisymmetric)
        along = jnp.sum(normals * speed, axis=1) ** 2 / measures  # measure times the square of the normal speed
        across = measures * jnp.sum(speed**2, axis=1) - along
        return 0.5 * jnp.sum(self.impedance * along + self.shear_impedance * across)
