"""The volumes of tetrahedra, and under the triangles of a surface."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class VolumeMapping(AbstractMapping):
    """`p = det(b - a, c - a, d - a) / 6 - V0` [m^3] (`Vec1`) of every tetrahedron, signed.

    `parents=(state, tetrahedra (n, 4))`, or triangles `(n, 3)`: then `det(a, b, c) / 6 - V0`, the volume between the
    triangle and the origin, whose sum over a closed surface (normals outwards) is the volume inside; `SumMapping` adds it
    up. `rest_volume` `V0` [m^3], 0 unless given. Raises `ValueError` for other shapes, or other states than `Vec3`.
    Source: J. O'Rourke, *Computational Geometry in C*, 2nd ed., 1998, doi:10.1017/CBO9780511804120, section 1.3.

    Example:

        volumes = jm.mapping.VolumeMapping(("cube", mesh.cells), "volumes")
        scene = jm.System({"cube": jm.Vec3(), "volumes": jm.Vec1()}, mappings={"volumes": volumes})
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"cube": mesh.points}))["volumes"].sum(), 1.0)  # [m^3]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    rest_volume: Parameter = parameter(default=0.0)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.shape[1:] not in ((3,), (4,)):
            raise ValueError("VolumeMapping: parents must be (state, cells) with node numbers of shape (n, 3) or (n, 4).")

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child, child_size=1, sizes=(3,))

    def element_apply(self, q: Array) -> Array:
        a, b, c = q if q.shape[0] == 3 else q[1:] - q[0]
        return (a @ jnp.cross(b, c) / 6 - self.rest_volume)[None]
