"""The squared distance of two points."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class SquaredDistanceMapping(AbstractMapping):
    """`p = |b - a|^2` [m^2] (`Vec1`): smooth where the points meet, and of constant curvature.

    `parents=((state, nodes a (n,)), (state, nodes b (n,)))`. Raises `ValueError` for other shapes or states.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).

    Example:

        link = jm.mapping.SquaredDistanceMapping((("p", [0]), ("p", [1])), "square")
        scene = jm.System({"p": jm.Vec2(), "square": jm.Vec1()}, mappings={"link": link})
        x = jm.kinematics(scene, scene.at_rest({"p": jnp.array([[0.0, 0.0], [3.0, 4.0]])}))
        assert jnp.allclose(x["square"], 25.0)  # [m^2]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    is_linear: ClassVar[bool] = False
    is_convex: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.parents) != 2 or any(s.nodes.ndim != 1 for s in self.parents):
            raise ValueError("SquaredDistanceMapping: parents must be ((state, nodes a), (state, nodes b)), of shape (n,).")

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child, child_size=1)

    def element_apply(self, a: Array, b: Array) -> Array:
        return jnp.sum((b - a) ** 2)[None]
