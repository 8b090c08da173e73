"""A mass of its own on each node; the lumped mass of a mesh."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._mesh.surface import rest_measures
from .._runtime.argument_checks import check_instance, check_real
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._runtime.host_arrays import as_data
from .._runtime.precision import in_one_program
from .._scene.dof import Vec1, Vec2, Vec3
from .._scene.parameter import as_array, check_range, is_concrete, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMass


class DiagonalMass(AbstractMass):
    """`T = m_a/2 |v_a|^2` [J]: a point mass `m_a` [kg] for each node, `mass` of shape `(e,)` (or one number for all).

    `from_mesh` lumps the mass of cells. Raises `ValueError` unless all are positive.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 7 (lumped masses).

    Example:

        lumped = jm.mass.DiagonalMass.from_mesh("cube", mesh, 1000.0)  # [kg/m^3], a cube of 1 m^3
        assert lumped.mass.shape == (8,)
        assert jnp.allclose(lumped.mass.sum(), 1000.0)  # [kg]
    """

    on: Stencils = stencils()
    mass: Parameter = parameter()

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.ndim != 1:
            raise ValueError("DiagonalMass: on must be (state, nodes), node numbers of shape (e,).")
        check_range(self, mass=(self.mass, lambda m: m > 0, "positive"))

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, density: Any, *, axisymmetric: bool = False) -> "DiagonalMass":
        """Nodal lumping: each cell gives its mass in equal parts to its nodes.

        `density` [kg/m^3] (per area or length for surfaces and lines), one or one per cell; differentiable, like the
        points, where the mass is made inside the function to differentiate. `axisymmetric`: points are `(r, z)`, and cells
        the rings that they are.
        """
        check_instance(cls.__name__, "mesh", mesh, Mesh)
        check_real(cls.__name__, "density", density := as_array(density))
        if is_concrete(density) and not np.all(np.asarray(density) > 0):
            raise ValueError(f"{cls.__name__}: density must be positive, got {density}.")
        cells = len(mesh.cells)
        if density.shape not in ((), (cells,)):
            raise ValueError(f"{cls.__name__}: density has shape {density.shape}, expected () or ({cells},).")
        return cls((state, as_data(np.arange(len(mesh.points)))), _nodal_masses(mesh, density, axisymmetric))

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Vec1 | Vec2 | Vec3):
            raise ValueError("DiagonalMass acts on points (Vec1, Vec2, Vec3); a frame needs a RigidMass.")

    def element_kinetic_energy(self, x: tuple[Array, ...], v: tuple[Array, ...]) -> Scalar:
        return 0.5 * self.mass * (v[0] @ v[0])


@in_one_program
def _nodal_masses(mesh: Mesh, density: Array, axisymmetric: bool) -> Float[Array, " n"]:
    share = (_rings(mesh) if axisymmetric else jnp.abs(mesh.cell_measures())) * density / mesh.cells.shape[1]
    return jnp.zeros(len(mesh.points), share.dtype).at[mesh.cells].add(share[:, None])


def _rings(mesh: Mesh) -> Array:
    """The volume of the ring that each cell of radii and heights is."""
    reference = reference_element(mesh.kind)
    return jax.vmap(lambda X: jnp.sum(rest_measures(reference, X, axisymmetric=True)[1]))(mesh.points[mesh.cells])
