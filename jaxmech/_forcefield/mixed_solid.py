"""Solids of two fields: displacements, and the pressure that keeps their volume."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._material.base import AbstractMaterial, density
from .._math.small_matrix import determinant
from .._mesh.geometry import rest_geometry
from .._mesh.mesh import Mesh
from .._mesh.reference import ReferenceElement, reference_element
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.dof import Vec1
from .._scene.parameter import check_range, nodal_parameter, parameter, point_axes
from .._scene.stencil import Stencils, stencils
from .base import AbstractEnergyForceField
from .plane import in_space, is_linear_law
from .solid import check_material, deformation_gradients


class MixedSolidFEM(AbstractEnergyForceField):
    """A nearly incompressible material, with a pressure `p` [Pa] of its own: quadratic cells whose pressure is linear and
    continuous (Taylor and Hood).

    `E = sum_q w_q t (psi(F) - kappa/2 v^2 + p v - p^2/(2 kappa))` [J], stationary in `p`, where `p = kappa v` gives `psi`
    back. `v` is `tr F - 3` of a law of small strains, `ln det F` of others, and `kappa` the law's `d2 psi/dF11 dF22` at rest
    (Lame's `lambda`): what is left of `psi` hardly resists a change of volume, so that nothing locks, up to `nu -> 1/2`.

    `on = ((state, cells (e, k)), (pressure, cells (e, corners)))`: the second state is a `Vec1` of its own, a node for each
    corner, numbered as `from_mesh` does (`pressure_nodes` of a mesh are the nodes of the mesh at its corners). Positive `p`
    is tension. The matrix is indefinite: `SparseDirect` and MINRES solve it. In the plane: plane strain, `thickness` [m].
    Raises `ValueError` for cells that are not quadratic, an inverted cell at rest, a pressure state that is no `Vec1`.
    Source: C. Taylor, P. Hood, Comput. Fluids 1 (1973) 73, doi:10.1016/0045-7930(73)90027-3; T. Sussman, K.-J. Bathe,
    Comput. Struct. 26 (1987) 357, doi:10.1016/0045-7949(87)90265-3.

    Example:

        plate = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)))  # triangles of six nodes
        solid = jm.force.MixedSolidFEM.from_mesh("u", "p", plate, jm.material.LinearElastic(3.0, 0.4999))
        corners = jm.force.MixedSolidFEM.pressure_nodes(plate)
        sides = jm.constraint.FixedComponents(("u", plate.nodes_where(lambda x: x[:, 1] == 0.0)), (False, True))
        left = jm.constraint.FixedComponents(("u", plate.nodes_where(lambda x: x[:, 0] == 0.0)), (True, False))
        pull = jm.force.Traction.from_mesh("u", plate.faces_where(lambda x: x[:, 0] == 1.0), [0.04, 0.0])
        scene = jm.System(
            {"u": jm.Vec2(), "p": jm.Vec1()}, forces={"solid": solid, "pull": pull}, constraints={"a": sides, "b": left}
        )
        start = scene.at_rest({"u": plate.points, "p": jnp.zeros((len(corners), 1))})
        pulled = jm.static_solve(scene, start)
        assert jnp.allclose(pulled.position["p"], 0.02, rtol=1e-3)  # (s_xx + s_zz)/3 + ..., near s_xx / 2 [Pa]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    material: AbstractMaterial
    kind: str = eqx.field(static=True)
    thickness: Parameter = parameter(default=1.0)

    tangent_is_exact = True
    plane: ClassVar[str] = "strain"  # where its cells are of the plane

    def __check_init__(self):
        reference = self.reference
        if reference.order != 2 or reference.dimension < 2:
            raise ValueError(f"MixedSolidFEM: kind '{self.kind}' is not of quadratic cells of a solid.")
        if len(self.on) != 2 or [s.nodes.shape[1:] for s in self.on] != [(reference.nodes,), (len(reference.corners),)]:
            raise ValueError(
                f"MixedSolidFEM: on must be (state, cells) of {reference.nodes} nodes, (pressure, cells) of "
                f"{len(reference.corners)}."
            )
        check_material(self, self.on[0].nodes)
        check_range(self, thickness=(self.thickness, lambda t: t > 0, "positive"))

    @classmethod
    def from_mesh(
        cls, state: str, pressure: str, mesh: Mesh, material: AbstractMaterial, *, thickness: Any = 1.0
    ) -> "MixedSolidFEM":
        """The cells of `mesh`, whose points are the rest positions of the nodes of `state`; node `i` of `pressure` is node
        `pressure_nodes(mesh)[i]` of the mesh."""
        check_instance("MixedSolidFEM", "pressure", pressure, str)
        check_instance("MixedSolidFEM", "mesh", mesh, Mesh)
        corners = list(reference_element(mesh.kind).corners)
        _, own = np.unique(np.asarray(mesh.cells)[:, corners], return_inverse=True)
        cells = own.reshape(-1, len(corners))
        return cls(((state, mesh.cells), (pressure, cells)), mesh.points, material, mesh.kind, thickness)

    @staticmethod
    def pressure_nodes(mesh: Mesh) -> Array:
        """The nodes of a mesh at the corners of its cells, in increasing order: those that have a pressure."""
        check_instance("MixedSolidFEM.pressure_nodes", "mesh", mesh, Mesh)
        return jnp.asarray(np.unique(np.asarray(mesh.cells)[:, list(reference_element(mesh.kind).corners)]))

    @property
    def multiplier_states(self) -> tuple[str, ...]:
        return (self.on[1].state,)

    @property
    def reference(self) -> ReferenceElement:
        """The cell before it is placed."""
        return reference_element(self.kind)

    @property
    def quadrature_points(self) -> int:
        """How many points a cell has."""
        return len(self.reference.quadrature("stiffness")[1])

    def check_dofs(self, dofs: Any) -> None:
        if dofs[0].coord_size != self.reference.dimension or not dofs[0].is_vector_space or not isinstance(dofs[1], Vec1):
            raise ValueError(
                f"MixedSolidFEM acts on points of {self.reference.dimension} coordinates, and a Vec1 of pressures."
            )

    def element_energy(self, x: Float[Array, "k d"], p: Float[Array, "c 1"]) -> Scalar:
        reference, linear = self.reference, reference_element(self.kind.rstrip("0123456789"))
        gradients, volumes = rest_geometry(reference, self.rest)
        shapes = jnp.asarray(linear.shape(reference.quadrature("stiffness")[0]), x.dtype)
        F = deformation_gradients(x, gradients)
        mixed = jax.vmap(lambda solid, F, p: solid._mixed_density(F, p), (point_axes(self), 0, 0))
        return self.thickness * jnp.sum(volumes * mixed(self, F, shapes @ p[:, 0]))

    def _mixed_density(self, F: Float[Array, "d d"], p: Scalar) -> Scalar:
        psi = self.material.energy_density
        F = F if F.shape[0] == 3 else in_space(self.material, "strain", F)
        one = jnp.eye(3, dtype=F.dtype)
        across = lambda s: jax.grad(psi)(one.at[1, 1].add(s))[0, 0]  # noqa: E731
        kappa = jax.grad(across)(jnp.zeros((), F.dtype))
        v = jnp.trace(F) - 3 if is_linear_law(self.material, F.dtype) else jnp.log(determinant(F))
        return density(self.material, F) - 0.5 * kappa * v**2 + p * v - 0.5 * p**2 / kappa

    def element_is_valid(self, x: Float[Array, "k d"], p: Float[Array, "c 1"]) -> Array:
        del p
        if is_linear_law(self.material, x.dtype):
            return jnp.array(True)
        gradients, _ = rest_geometry(self.reference, self.rest)
        return jnp.all(jax.vmap(determinant)(deformation_gradients(x, gradients)) > 0)
