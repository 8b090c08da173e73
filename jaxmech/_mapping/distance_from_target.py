"""The distance of a point from a place that does not move."""

from typing import Any, ClassVar

import equinox as eqx

from .._math.safe_norm import safe_length
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class DistanceFromTargetMapping(AbstractMapping):
    """`p = |q - t| - L0` [m] (`Vec1`): how far a point is from its target `t`, a place of the world.

    `parents=(state, nodes (n,))`; `target` `(d,)` or one per point `(n, d)` [m]; `rest_length` `L0` [m], 0 unless given.
    At the target itself the derivatives are taken as zero. Raises `ValueError` for other shapes or states.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).

    Example:

        to_goal = jm.mapping.DistanceFromTargetMapping(("p", [0]), "missing", target=[3.0, 4.0])
        scene = jm.System({"p": jm.Vec2(), "missing": jm.Vec1()}, mappings={"to goal": to_goal})
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"p": jnp.zeros((1, 2))}))["missing"], 5.0)  # [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    target: Parameter = parameter(ndim=1)
    rest_length: Parameter = parameter(default=0.0)
    is_linear: ClassVar[bool] = False
    is_convex: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("DistanceFromTargetMapping: parents must be (state, nodes), node numbers of shape (n,).")
        check_range(self, rest_length=(self.rest_length, lambda l: l >= 0, "at least 0"))

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child, child_size=1)
        if self.target.shape[-1] != parents[0].coord_size:
            raise ValueError(f"target has shape {self.target.shape}, expected (n, {parents[0].coord_size}).")

    def element_apply(self, q: Array) -> Array:
        return (safe_length(q - self.target) - self.rest_length)[None]
