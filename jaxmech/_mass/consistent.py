"""The consistent mass of a mesh."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import rest_measures
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMass


class ConsistentMass(AbstractMass):
    """`T = 1/2 integral of rho |sum_a N_a v_a|^2 dV` [J] over cells of any kind.

    `density` `rho` [kg/m^3], one or one per cell; per area or length where the cells are surfaces or lines in a space of
    more dimensions. `axisymmetric`: coordinates are `(r, z)`, and cells the rings of radius `R` that they are. Cells count
    the same whichever way round they are numbered. Exact for straight simplices and parallelepipeds. On a scalar field
    (`Vec1`) it is the mass of a wave equation. Raises `ValueError` unless the density is positive.
    Source: O. C. Zienkiewicz and R. L. Taylor, *The Finite Element Method*, vol. 1, section 16.2.

    Example:

        rod = jm.mesh.Mesh([[0.0, 0.0], [2.0, 0.0]], [[0, 1]], "edge")
        scene = jm.System({"p": jm.Vec2()}, masses={"mass": jm.mass.ConsistentMass.from_mesh("p", rod, 3.0)})  # [kg/m]
        M = jm.matrix.component_matrix(scene, scene.at_rest({"p": rod.points}), "mass", "mass")["p", "p"].to_dense((2, 2))
        assert jnp.allclose(M, jnp.kron(jnp.array([[2.0, 1.0], [1.0, 2.0]]), jnp.eye(2)))  # rho L/6 (2 1; 1 2) [kg]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    density: Parameter = parameter()
    kind: str = eqx.field(static=True, default="tetrahedron")
    axisymmetric: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        nodes = reference_element(self.kind).nodes
        if len(self.on) != 1 or self.on[0].nodes.ndim != 2 or self.on[0].nodes.shape[1] != nodes:
            raise ValueError(f"ConsistentMass: on must be (state, cells) with {nodes} nodes per {self.kind}.")
        check_range(self, density=(self.density, lambda d: d > 0, "positive"))

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, density: Any, *, axisymmetric: bool = False) -> "ConsistentMass":
        """The mass of the cells of `mesh`, whose points are the rest positions of the nodes of `state`."""
        check_instance(cls.__name__, "mesh", mesh, Mesh)
        return cls((state, mesh.cells), mesh.points, density, mesh.kind, axisymmetric)

    def check_dofs(self, dofs: Any) -> None:
        if not dofs[0].is_vector_space or dofs[0].coord_size not in (1, self.rest.shape[-1]):
            raise ValueError(
                f"ConsistentMass of rest positions {self.rest.shape} acts on scalars or points of their dimension."
            )

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        shapes, measures = rest_measures(reference_element(self.kind), self.rest, axisymmetric=self.axisymmetric)
        return 0.5 * self.density * jnp.sum(measures * jnp.sum((shapes.astype(v[0].dtype) @ v[0]) ** 2, axis=1))
