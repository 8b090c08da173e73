"""What flows into a scalar field through a boundary, or is supplied in its cells."""

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
from .base import AbstractEnergyForceField
from .surface_checks import check_faces, scalars_only


class Flux(AbstractEnergyForceField):
    """A given flux into a scalar field, `E = -integral of q u dA` [J K/s]: Neumann's boundary condition `k du/dn = q`.

    `flux` `q` [W/m^2 of heat], positive into the body: shared, or one per face. On cells of the whole dimension it is a
    source [W/m^3]. Traction is the same for positions. Raises `ValueError` for faces of another number of nodes, or a
    state of more than one component.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2.

    Example:

        plate = jm.mesh.box_mesh(cells=(1, 1), size=(2.0, 1.0))
        side = plate.faces_where(lambda x: x[:, 1] == 0.0)  # 2 m
        scene = jm.System({"T": jm.Vec1()}, forces={"heater": jm.force.Flux.from_mesh("T", side, 50.0)})
        flow = jm.total_force(scene, scene.at_rest({"T": jnp.zeros((4, 1))}))["T"]
        assert jnp.allclose(flow.sum(), 100.0)  # [W/m]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    flux: Parameter = parameter()
    kind: str = eqx.field(static=True, default="triangle")

    def __check_init__(self):
        check_faces(self)

    @classmethod
    def from_mesh(cls, state: str, surface: Mesh, flux: Any) -> "Flux":
        """Through the faces of a surface mesh, such as `mesh.faces_where(...)`."""
        check_instance(cls.__name__, "surface", surface, Mesh)
        return cls((state, surface.cells), surface.points, flux, surface.kind)

    def check_dofs(self, dofs: Any) -> None:
        scalars_only(self, dofs)

    def element_energy(self, x: Array) -> Scalar:
        shapes, measures = rest_measures(reference_element(self.kind), self.rest)
        return -self.flux * jnp.sum(measures * (shapes @ x[:, 0]))
