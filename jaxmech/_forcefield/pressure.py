"""Pressure that follows the surface it acts on."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import area_vectors
from .._runtime.argument_checks import check_instance
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractForceField, Arrays, points_only
from .surface_checks import check_faces


class Pressure(AbstractForceField):
    """A pressure `p` [Pa] on the current area of triangles or quads, or of edges of unit depth in the plane.

    `f_a = -p integral of N_a n da`: positive `p` pushes against the outward normal. `pressure`: shared, or one per face.
    `axisymmetric`: coordinates are `(r, z)`, and edges the rings of radius `r` that they are.
    Its tangent is not symmetric in general (a closed surface makes it so), and nothing claims that it is.
    Source: K. Schweizerhof and E. Ramm, Comput. Struct. 18 (1984) 1099, doi 10.1016/0045-7949(84)90154-8.
    Raises `ValueError` for faces of another number of nodes, or points of another dimension.

    Example:

        faces = jm.mesh.Mesh([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0, 1, 2]], "triangle")
        scene = jm.System({"p": jm.Vec3()}, forces={"gas": jm.force.Pressure.from_mesh("p", faces, 6.0)})
        force = jm.total_force(scene, scene.at_rest({"p": faces.points}))["p"]
        assert jnp.allclose(force, jnp.array([0.0, 0.0, -1.0]))  # -p A/3 n [N] on each node, A = 1/2
    """

    on: Stencils = stencils()
    pressure: Parameter = parameter()
    kind: str = eqx.field(static=True, default="triangle")
    axisymmetric: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_faces(self)

    @classmethod
    def from_mesh(cls, state: str, surface: Mesh, pressure: Any, *, axisymmetric: bool = False) -> "Pressure":
        """A pressure on the faces of a surface mesh whose normals point outward, such as `mesh.boundary()`."""
        check_instance(cls.__name__, "surface", surface, Mesh)
        return cls((state, surface.cells), pressure, surface.kind, axisymmetric)

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)
        size = reference_element(self.kind).dimension + 1
        if dofs[0].coord_size != size:
            raise ValueError(f"a pressure on faces of kind '{self.kind}' acts on points of {size} coordinates.")

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        shapes, normals = area_vectors(reference_element(self.kind), x[0], axisymmetric=self.axisymmetric)
        return (-self.pressure * jnp.einsum("qk,qc->kc", shapes, normals),)
