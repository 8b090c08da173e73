"""Exchange of a scalar field with its surroundings."""

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
from .base import AbstractEnergyForceField
from .surface_checks import check_faces, scalars_only


class Convection(AbstractEnergyForceField):
    """`E = h/2 integral of (u - u_ext)^2 dA` [J K/s]: Robin's boundary condition `k du/dn = -h (u - u_ext)`.

    `coefficient` `h` [W/(m^2 K)], `ambient` `u_ext` [K]: each shared, or one per face. Raises `ValueError` for a negative
    coefficient, faces of another number of nodes, or a state of more than one component.
    Source: F. P. Incropera et al., *Fundamentals of Heat and Mass Transfer*, 6th ed., 2007, ISBN 978-0-471-45728-2, ch. 1.

    Example:

        plate = jm.mesh.box_mesh(cells=(1, 1), size=(2.0, 1.0))
        side = plate.faces_where(lambda x: x[:, 1] == 0.0)  # 2 m
        scene = jm.System({"T": jm.Vec1()}, forces={"air": jm.force.Convection.from_mesh("T", side, 10.0, 20.0)})
        flow = jm.total_force(scene, scene.at_rest({"T": jnp.full((4, 1), 25.0)}))["T"]
        assert jnp.allclose(flow.sum(), -100.0)  # [W/m], 5 K above the air
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    coefficient: Parameter = parameter()
    ambient: Parameter = parameter()
    kind: str = eqx.field(static=True, default="triangle")

    def __check_init__(self):
        check_faces(self)
        check_range(self, coefficient=(self.coefficient, lambda h: h >= 0, "at least 0"))

    @classmethod
    def from_mesh(cls, state: str, surface: Mesh, coefficient: Any, ambient: Any) -> "Convection":
        """Through the faces of a surface mesh, such as `mesh.faces_where(...)`."""
        check_instance(cls.__name__, "surface", surface, Mesh)
        return cls((state, surface.cells), surface.points, coefficient, ambient, surface.kind)

    def check_dofs(self, dofs: Any) -> None:
        scalars_only(self, dofs)

    def element_energy(self, x: Array) -> Scalar:
        shapes, measures = rest_measures(reference_element(self.kind), self.rest)
        return 0.5 * self.coefficient * jnp.sum(measures * (shapes @ x[:, 0] - self.ambient) ** 2)
