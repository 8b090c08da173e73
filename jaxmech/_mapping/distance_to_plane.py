"""The height of points above a plane."""

from typing import Any, ClassVar

import equinox as eqx

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class DistanceToPlaneMapping(AbstractMapping):
    """`p = n . q - c` [m] (`Vec1`): the signed distance of a point from the plane `n . x = c`.

    `parents=(state, nodes (n,))`; `normal` `(d,)`, of length 1 (it is used as it is); `offset` `c` [m]; each shared or one
    per point. Raises `ValueError` for other shapes or states.
    Source: P. Wriggers, *Computational Contact Mechanics*, 2nd ed., 2006, doi:10.1007/978-3-540-32609-0 (gap functions).

    Example:

        height = jm.mapping.DistanceToPlaneMapping(("p", [0]), "height", normal=[0.0, 1.0], offset=0.5)
        scene = jm.System({"p": jm.Vec2(), "height": jm.Vec1()}, mappings={"height": height})
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"p": jnp.array([[7.0, 2.0]])}))["height"], 1.5)  # [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    normal: Parameter = parameter(ndim=1)
    offset: Parameter = parameter(default=0.0)
    is_linear: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("DistanceToPlaneMapping: parents must be (state, nodes), node numbers of shape (n,).")

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child, child_size=1)
        if self.normal.shape[-1] != parents[0].coord_size:
            raise ValueError(f"normal has shape {self.normal.shape}, expected ({parents[0].coord_size},) or one per point.")

    def element_apply(self, q: Array) -> Array:
        return (self.normal @ q - self.offset)[None]
