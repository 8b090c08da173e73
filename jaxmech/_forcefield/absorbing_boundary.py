"""A boundary that swallows waves."""

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
from .base import AbstractEnergyForceField, Arrays, points_only
from .surface_checks import check_faces


class AbsorbingBoundary(AbstractEnergyForceField):
    """`D = 1/2 integral of rho c_p (v . n)^2 + rho c_s |v - (v . n) n|^2 dA` [W] over the rest area of faces: dashpots that
    take up plane waves that meet the boundary at a right angle, whole, and others in part.

    `c_p`, `c_s` [m/s]: speeds of pressure and shear waves, `sqrt((lam + 2 mu)/rho)` and `sqrt(mu/rho)`; `density` [kg/m^3].
    One of each, or one per face; of edges in the plane, for unit depth. The damping matrix is the Hessian in `v`. Raises
    `ValueError` for faces of another number of nodes, points of another dimension, numbers that are not positive.
    Source: J. Lysmer, R. L. Kuhlemeyer, J. Eng. Mech. Div. 95 (1969) 859, doi:10.1061/JMCEA3.0001144.

    Example:

        end = mesh.faces_where(lambda x: x[:, 0] == 1.0)  # a square of 1 m^2
        outlet = jm.force.AbsorbingBoundary.from_mesh("p", end, density=2.0, c_p=3.0, c_s=1.0)
        scene = jm.System({"p": jm.Vec3()}, forces={"outlet": outlet})
        rest = scene.at_rest({"p": mesh.points})
        moving = dataclasses.replace(rest, velocity={"p": jnp.ones((8, 3))})
        force = jm.total_force(scene, moving)["p"].sum(axis=0)
        assert jnp.allclose(force, jnp.array([-6.0, -2.0, -2.0]))  # -rho c_p v_n, -rho c_s v_t [N]
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    density: Parameter = parameter()
    c_p: Parameter = parameter()
    c_s: Parameter = parameter()
    kind: str = eqx.field(static=True, default="triangle")

    def __check_init__(self):
        check_faces(self)
        positive = (lambda k: k > 0, "positive")
        check_range(self, density=(self.density, *positive), c_p=(self.c_p, *positive), c_s=(self.c_s, *positive))

    @classmethod
    def from_mesh(cls, state: str, surface: Mesh, *, density: Any, c_p: Any, c_s: Any) -> "AbsorbingBoundary":
        """A boundary on the faces of a surface mesh, such as `mesh.faces_where(...)`, whose points are at rest."""
        check_instance(cls.__name__, "surface", surface, Mesh)
        return cls((state, surface.cells), surface.points, density, c_p, c_s, surface.kind)

    @property
    def is_dissipative(self) -> bool:
        return True

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)
        size = reference_element(self.kind).dimension + 1
        if dofs[0].coord_size != size or self.rest.shape[-1] != size:
            raise ValueError(f"a boundary of faces of kind '{self.kind}' acts on points of {size} coordinates.")

    def element_energy(self, x: Array) -> Scalar:
        return jnp.zeros((), x.dtype)

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        del x
        reference = reference_element(self.kind)
        shapes, areas = rest_measures(reference, self.rest)
        _, vectors = area_vectors(reference, self.rest)
        w = shapes @ v[0]
        across = jnp.sum(w * vectors, axis=1) / areas
        along = jnp.sum(w * w, axis=1) - across**2
        return 0.5 * self.density * jnp.sum(areas * (self.c_p * across**2 + self.c_s * along))
