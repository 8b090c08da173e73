"""Linear tetrahedra of a material."""

from .._material.base import AbstractMaterial
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._runtime.field_types import Parameter
from .._scene.parameter import nodal_parameter
from .._scene.stencil import Stencils, stencils
from .solid import AbstractSolid, check_mesh, check_rest


class TetrahedronFEM(AbstractSolid):
    """Linear tetrahedra, nodes in VTK order. One point, constant strain.

    `E = sum_q w_q psi(F_q)` [J], `F = sum_a x_a (x) dN_a/dX`. `rest` `(n, 3)` [m]: the rest positions of the nodes of
    the state, a differentiable leaf like any other. Raises `ValueError` for a cell that is inverted or flat at rest.
    Source: J. Bonet and R. D. Wood, *Nonlinear Continuum Mechanics for Finite Element Analysis*, 2nd ed., 2008,
    doi:10.1017/CBO9780511755446.

    Example:

        solid = jm.force.TetrahedronFEM.from_mesh("p", mesh, jm.material.LinearElastic(1e6, 0.25))  # a cube of 1 m
        scene = jm.System({"p": jm.Vec3()}, forces={"solid": solid})
        longer = scene.at_rest({"p": mesh.points * jnp.array([1.1, 1.0, 1.0])})
        assert jnp.allclose(jm.energy(scene, longer), 6000.0, rtol=1e-4)  # (mu + lam/2) e^2 [J], mu = lam = 4e5 Pa
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    material: AbstractMaterial
    reference = reference_element("tetrahedron")

    def __check_init__(self):
        check_rest(self)

    @classmethod
    def from_mesh(cls, state: str, mesh: Mesh, material: AbstractMaterial) -> "TetrahedronFEM":
        """The cells of `mesh`, whose points are the rest positions of the nodes of `state`."""
        check_mesh(cls.__name__, mesh, "tetrahedron")
        return cls((state, mesh.cells), mesh.points, material)
