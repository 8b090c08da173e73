"""Bilinear quads of a material, in plane strain or plane stress."""

import equinox as eqx

from .._material.base import AbstractMaterial
from .._mesh.mesh import Mesh
from .._mesh.reference import reference_element
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import nodal_parameter, parameter
from .._scene.stencil import Stencils, stencils
from .plane import AbstractPlaneSolid
from .solid import check_mesh


class QuadFEM(AbstractPlaneSolid):
    """Bilinear quads of the plane, counter-clockwise. 2 x 2 Gauss points.

    `E = sum_q w_q t psi(F_q)` [J] with the thickness `t` [m], shared or `(e,)`. `plane="strain"`: nothing stretches
    across the plane; `plane="stress"`: the stretch across is free, `P33 = 0`, found per point for any material: exactly
    for a linear law, by Newton's method among positive stretches for the others. `rest` `(n, 2)` [m]: rest positions of
    the nodes. Raises `ValueError` for a cell that is inverted or flat at rest, or another `plane`.
    Source: O. C. Zienkiewicz and R. L. Taylor, *The Finite Element Method*, vol. 1 (plane stress and plane strain).

    Example:

        plate = jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0), kind="quad")
        solid = jm.force.QuadFEM.from_mesh("p", plate, jm.material.LinearElastic(1e6, 0.25), plane="stress", thickness=0.1)
        scene = jm.System({"p": jm.Vec2()}, forces={"solid": solid})
        longer = scene.at_rest({"p": plate.points * jnp.array([1.1, 1.0])})
        by_hand = 0.1 * 1e6 / (1 - 0.25**2) * 0.1**2 / 2  # t E/(1 - nu^2) e^2/2 [J]
        assert jnp.allclose(jm.energy(scene, longer), by_hand, rtol=1e-4)
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    material: AbstractMaterial
    thickness: Parameter = parameter(default=1.0)
    plane: str = eqx.field(static=True, default="strain")
    reference = reference_element("quad")

    @classmethod
    def from_mesh(
        cls,
        state: str,
        mesh: Mesh,
        material: AbstractMaterial,
        *,
        plane: str = "strain",
        thickness: Array | float = 1.0,
    ) -> "QuadFEM":
        """The cells of `mesh`, whose points are the rest positions of the nodes of `state`."""
        check_mesh(cls.__name__, mesh, "quad")
        return cls((state, mesh.cells), mesh.points, material, thickness, plane)
