"""A closed cavity filled with what does not compress."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array
from .._runtime.field_types import OptionalParameter, Parameter
from .._scene.dof import Vec3
from .._scene.parameter import is_concrete, parameter
from .._scene.stencil import OptionalStencils, Stencils, optional_stencils, stencils
from .multiplier import AbstractMultiplierConstraint

_CLOSED = 1e-6  # of the area: what is closed may leave, whose points may be of single precision


class CavityVolume(AbstractMultiplierConstraint):
    """`V0 - V(x) = C p`: the volume inside closed triangles is `V0`, and the multiplier is the pressure `p` [Pa] inside.

    `on=(state, triangles (e, 3))` of points of space, mapped or not, counterclockwise seen from outside the body, that is
    seen from within the cavity clockwise where they bound a hole: normals point out of what is filled. One equation for
    all triangles: every one adds `det(a, b, c) / 6`, so that the matrix stays sparse. `volume` `V0` [m^3]: what is pumped
    in is added to it, so that it is the actuator that SoftRobots calls a volume growth; `jm.force.Pressure` is that of a
    pressure. `compliance` `C` [m^3/Pa], of a gas say, `V / p` of an ideal one; `relaxation` [s]. Raises `ValueError` for
    other shapes and other states than `Vec3`.
    Source: J. O'Rourke, *Computational Geometry in C*, 2nd ed., 1998, doi:10.1017/CBO9780511804120, section 1.3.

    Example:

        skin = mesh.boundary()
        full = jm.constraint.CavityVolume.from_mesh("cube", skin, volume=1.1)  # [m^3], of a cube of one
        springs = jm.force.AnchoredSprings(("cube", range(8)), 1.0, mesh.points)  # [N/m]
        scene = jm.System({"cube": jm.Vec3()}, forces={"springs": springs}, constraints={"water": full})
        found = jm.static_solve(scene, scene.at_rest({"cube": mesh.points}))
        assert jnp.allclose(jm.constraint.violations(scene, found.state)["water"], 0.0, atol=1e-9)
        assert found.position["water"][0, 0] > 0  # the pressure [Pa]
    """

    on: Stencils = stencils()
    volume: Parameter = parameter()
    compliance: Parameter = parameter(default=0.0)
    relaxation: OptionalParameter = parameter(default=None)
    multiplier: OptionalStencils = optional_stencils(kw_only=True)

    units = ("m^3",)
    adds_up: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.on) != 1 or self.on[0].nodes.shape[1:] != (3,):
            raise ValueError("CavityVolume: on must be (state, triangles (e, 3)).")
        for name in ("volume", "compliance", "relaxation"):
            value = getattr(self, name)
            if getattr(value, "ndim", 0):
                raise ValueError(f"CavityVolume: {name} must be one number, got shape {value.shape}.")

    @classmethod
    def from_mesh(
        cls, state: str, surface: Any, volume: Any, compliance: Any = 0.0, relaxation: Any = None
    ) -> "CavityVolume":
        """The volume inside a closed surface mesh of triangles whose normals point outward, such as `mesh.boundary()`.

        Raises `ValueError` for a surface that is open or inside out, whose volume would be that of nothing.
        """
        kind = getattr(surface, "kind", None)
        if kind != "triangle":
            raise ValueError(f"CavityVolume: surface must be a mesh with cells of kind 'triangle', got {surface!r:.80}.")
        if surface.points.shape[1] != 3:
            raise ValueError(f"CavityVolume: surface must have points of space, got points {surface.points.shape}.")
        if is_concrete(surface.points):
            _check_closed(np.asarray(surface.points)[np.asarray(surface.cells)])
        return cls((state, np.asarray(surface.cells)), volume, compliance, relaxation)

    def check_dofs(self, dofs: Any) -> None:
        if not isinstance(dofs[0], Vec3):
            raise ValueError(f"CavityVolume acts on points of space (Vec3), not on {type(dofs[0]).__name__}.")

    def element_compliance(self) -> Any:
        return self.compliance * self.element_share

    def element_constraint(self, x: Array) -> Array:
        return (self.volume * self.element_share - x[0] @ jnp.cross(x[1], x[2]) / 6)[None]


def _check_closed(x: np.ndarray) -> None:
    """Raise where triangles `(e, 3, 3)` bound nothing: the areas of what is closed add up to nil, as vectors."""
    areas = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]) / 2
    size, left = np.linalg.norm(areas, axis=1).sum(), np.linalg.norm(areas.sum(axis=0))
    if left > _CLOSED * size:
        raise ValueError(
            f"CavityVolume: surface is open, or not all of its triangles are turned alike: of {size:.3g} m^2, their areas "
            f"add up as vectors to {left:.3g} m^2 and not to nil. Close it, with all normals outward."
        )
    y = x - x.mean(axis=(0, 1))
    volume = np.einsum("ec,ec->", y[:, 0], np.cross(y[:, 1], y[:, 2])) / 6
    if volume < -_CLOSED * size**1.5:
        raise ValueError(
            f"CavityVolume: surface is inside out: its volume is {volume:.3g} m^3, for normals must point out of what is "
            "filled. Turn its triangles round (`cells[:, ::-1]`)."
        )
