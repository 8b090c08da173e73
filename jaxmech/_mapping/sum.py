"""Weighted sums of nodes."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencil, Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class SumMapping(AbstractMapping):
    """`p = sum_a w_a q_a` over the nodes of every parent: totals, means, differences.

    `parents=(state, nodes (n, k))`, or several of those; `weights` `(k,)` or `(n, k)`, over the nodes of all parents in
    their order. Raises `ValueError` for other shapes, or states that are not points of one dimension.
    In the unit of the parents times that of the weights, [m] of points with pure numbers.
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).

    Example:

        total = jm.mapping.SumMapping(("links", [[0, 1, 2]]), "cable", weights=[1.0, 1.0, 1.0])
        scene = jm.System({"links": jm.Vec1(), "cable": jm.Vec1()}, mappings={"cable": total})
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"links": jnp.array([[1.0], [2.0], [4.0]])}))["cable"], 7.0)
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    weights: Parameter = parameter(ndim=1)
    is_linear: ClassVar[bool] = True
    is_interpolation: ClassVar[bool] = True

    def __check_init__(self):
        if any(s.nodes.ndim != 2 for s in self.parents):
            raise ValueError("SumMapping: the node numbers of every parent must be of shape (n, k).")
        check_weights(self, self.parents, self.weights, "weights")

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child)

    def element_apply(self, *q: Array) -> Array:
        return self.weights @ jnp.concatenate(q)


def check_weights(mapping: AbstractMapping, parents: tuple[Stencil, ...], weights: Any, name: str) -> None:
    """Raise `ValueError` unless there is one weight for every node that an element touches."""
    nodes = sum(s.nodes_per_element for s in parents)
    if getattr(weights, "shape", ())[-1:] != (nodes,):
        shape = getattr(weights, "shape", weights)
        raise ValueError(f"{type(mapping).__name__}: {name} has shape {shape}, expected ({nodes},) or (n, {nodes}).")
