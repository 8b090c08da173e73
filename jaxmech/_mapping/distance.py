"""The distance of two points."""

from typing import Any, ClassVar

import equinox as eqx

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class DistanceMapping(AbstractMapping):
    """`p = |b - a| - L0` [m] (`Vec1`): the elongation of the line from point `a` to point `b`.

    `parents=((state, nodes a (n,)), (state, nodes b (n,)))`, of the same state or of different ones; `rest_length` `L0` [m],
    0 unless given. Where the points coincide the derivatives are taken as zero. Raises `ValueError` for other shapes, other
    states than points, and negative lengths.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).

    Example:

        link = jm.mapping.DistanceMapping((("p", [0]), ("p", [1])), "length", rest_length=1.0)
        scene = jm.System({"p": jm.Vec2(), "length": jm.Vec1()}, mappings={"link": link})
        x = jm.kinematics(scene, scene.at_rest({"p": jnp.array([[0.0, 0.0], [3.0, 4.0]])}))
        assert jnp.allclose(x["length"], 4.0)  # 5 - 1 [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    rest_length: Parameter = parameter(default=0.0)
    is_linear: ClassVar[bool] = False
    is_convex: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.parents) != 2 or any(s.nodes.ndim != 1 for s in self.parents):
            raise ValueError("DistanceMapping: parents must be ((state, nodes a), (state, nodes b)), of shape (n,).")
        check_range(self, rest_length=(self.rest_length, lambda l: l >= 0, "at least 0"))

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child, child_size=1)

    def element_apply(self, a: Array, b: Array) -> Array:
        return (safe_length(b - a) - self.rest_length)[None]
