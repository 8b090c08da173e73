"""A bed of springs under a surface."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import area_vectors, rest_measures
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField, points_only
from .surface_checks import check_faces


class ElasticFoundation(AbstractEnergyForceField):
    """`E = 1/2 integral of k_n (u . n)^2 + k_t |u - (u . n) n|^2 dA` [J] over the rest area of faces: Winkler's bed.

    `u = x - X` is how far a point has gone, `n` the normal at rest. `normal`, `tangential` [N/m^3]: stiffness per area (of
    edges in the plane per length [N/m^2]), one or one per face, 0 or more. Faces are triangles or quads in space, or
    edges in the plane, of linear or quadratic order. `axisymmetric`: coordinates are `(r, z)`, and edges the rings of
    radius `R` that they are, of stiffness per area. Raises `ValueError` for faces of another number of nodes, points of
    another dimension, negative stiffness.
    Source: K. L. Johnson, *Contact Mechanics*, 1985, doi:10.1017/CBO9781139171731, section 4.3 (elastic foundation).

    Example:

        side = mesh.faces_where(lambda x: x[:, 2] == 0.0)  # the bottom of a cube of 1 m
        bed = jm.force.ElasticFoundation.from_mesh("p", side, normal=100.0)
        scene = jm.System({"p": jm.Vec3()}, forces={"bed": bed})
        sunk = scene.at_rest({"p": mesh.points - jnp.array([0.0, 0.5, 0.1])})
        assert jnp.allclose(jm.energy(scene, sunk), 0.5)  # k_n/2 0.1^2 [J], and nothing sideways
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    normal: Parameter = parameter()
    tangential: Parameter = parameter(default=0.0)
    kind: str = eqx.field(static=True, default="triangle")
    axisymmetric: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check_faces(self)
        positive = (lambda k: k >= 0, "0 or more")
        check_range(self, normal=(self.normal, *positive), tangential=(self.tangential, *positive))

    @classmethod
    def from_mesh(
        cls, state: str, surface: Mesh, *, normal: Any, tangential: Any = 0.0, axisymmetric: bool = False
    ) -> "ElasticFoundation":
        """A bed under the faces of a surface mesh, such as `mesh.faces_where(...)`, whose points are at rest."""
        check_instance(cls.__name__, "surface", surface, Mesh)
        return cls((state, surface.cells), surface.points, normal, tangential, surface.kind, axisymmetric)

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)
        size = reference_element(self.kind).dimension + 1
        if dofs[0].coord_size != size or self.rest.shape[-1] != size:
            raise ValueError(f"a foundation under faces of kind '{self.kind}' acts on points of {size} coordinates.")

    def element_energy(self, x: Array) -> Scalar:
        reference = reference_element(self.kind)
        shapes, areas = rest_measures(reference, self.rest, axisymmetric=self.axisymmetric)
        _, vectors = area_vectors(reference, self.rest, axisymmetric=self.axisymmetric)
        u = shapes @ (x - self.rest)
        across = jnp.sum(u * vectors, axis=1) / areas
        along = jnp.sum(u * u, axis=1) - across**2
        return 0.5 * jnp.sum(areas * (self.normal * across**2 + self.tangential * along))
