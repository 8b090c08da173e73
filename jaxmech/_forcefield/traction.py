"""Dead loads on surfaces."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import rest_measures
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, points_only
from .surface_checks import check_faces


class Traction(AbstractEnergyForceField):
    """A load per unit of *rest* area [Pa] (per length of edge, in the plane or in space [N/m]) that keeps its direction.

    `E = -integral of t . x dA`, consistent with the shape functions of triangles, quads or edges (or of any other cells:
    per volume [N/m^3]). `traction`: `(c,)`, or one per face `(e, c)`. `axisymmetric`: coordinates are `(r, z)`, and faces
    the rings of radius `R` that they are. Raises `ValueError` for faces of another number of nodes or points of another
    dimension.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2.

    Example:

        end = mesh.faces_where(lambda x: x[:, 0] == 1.0)  # a square of 1 m^2
        scene = jm.System({"cube": jm.Vec3()}, forces={"pull": jm.force.Traction.from_mesh("cube", end, [8.0, 0.0, 0.0])})
        force = jm.total_force(scene, scene.at_rest({"cube": mesh.points}))["cube"]
        assert jnp.allclose(force.sum(0), jnp.array([8.0, 0.0, 0.0]))  # [N]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    traction: Parameter = parameter(ndim=1)
    kind: str = eqx.field(static=True, default="triangle")
    axisymmetric: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_faces(self)

    @classmethod
    def from_mesh(cls, state: str, surface: Mesh, traction: Any, *, axisymmetric: bool = False) -> "Traction":
        """A load on the faces of a surface mesh, such as `mesh.faces_where(...)`, whose points are at rest."""
        check_instance(cls.__name__, "surface", surface, Mesh)
        return cls((state, surface.cells), surface.points, traction, surface.kind, axisymmetric)

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)
        if self.traction.shape[-1] != dofs[0].coord_size:
            raise ValueError(f"traction has shape {self.traction.shape}, expected {dofs[0].coord_size} components.")
        if self.rest.shape[-1] != dofs[0].coord_size:
            raise ValueError(f"Traction of rest positions {self.rest.shape} acts on points of their dimension.")

    def element_energy(self, x: Array) -> Scalar:
        shapes, measures = rest_measures(reference_element(self.kind), self.rest, axisymmetric=self.axisymmetric)
        return -jnp.sum((measures @ shapes) * (x @ self.traction))
