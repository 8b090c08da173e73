"""The areas of triangles."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class AreaMapping(AbstractMapping):
    """`p = |(b - a) x (c - a)| / 2 - A0` [m^2] (`Vec1`) of every triangle; in the plane the area is signed.

    `parents=(state, triangles (n, 3))`; `rest_area` `A0` [m^2], 0 unless given. Raises `ValueError` for other shapes,
    other states than `Vec2` or `Vec3`, and negative areas.
    Source: J. O'Rourke, *Computational Geometry in C*, 2nd ed., 1998, doi:10.1017/CBO9780511804120, section 1.3.

    Example:

        area = jm.mapping.AreaMapping(("p", [[0, 1, 2]]), "area")
        scene = jm.System({"p": jm.Vec2(), "area": jm.Vec1()}, mappings={"area": area})
        x = jm.kinematics(scene, scene.at_rest({"p": jnp.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]])}))
        assert jnp.allclose(x["area"], 3.0)  # [m^2]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    rest_area: Parameter = parameter(default=0.0)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.shape[1:] != (3,):
            raise ValueError("AreaMapping: parents must be (state, triangles) with node numbers of shape (n, 3).")
        check_range(self, rest_area=(self.rest_area, lambda a: a >= 0, "at least 0"))

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child, child_size=1, sizes=(2, 3))

    def element_apply(self, q: Array) -> Array:
        u, w = q[1] - q[0], q[2] - q[0]
        twice = u[0] * w[1] - u[1] * w[0] if q.shape[1] == 2 else safe_length(jnp.cross(u, w))
        return (0.5 * twice - self.rest_area)[None]
