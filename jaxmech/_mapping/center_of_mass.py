"""Centres of mass."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._runtime.argument_checks import whole_numbers
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points
from .sum import check_weights


class CenterOfMassMapping(AbstractMapping):
    """`p = sum_a m_a q_a / sum_a m_a`: the centre of mass of the nodes of one body, or of several.

    `parents=(state, nodes (n, k))`, or several of those; `masses` `(k,)` or `(n, k)` [kg], over the nodes of all parents in
    their order. `CenterOfMassMapping.of({"state": nodes}, "child", masses)` makes the one centre of some states. Raises
    `ValueError` for other shapes, masses that are not positive, or states that are not points of one dimension.
    Source: H. Goldstein, C. Poole, J. Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, section 1.2.

    Example:

        centre = jm.mapping.CenterOfMassMapping.of({"p": [0, 1]}, "centre", masses=[1.0, 3.0])
        scene = jm.System({"p": jm.Vec2(), "centre": jm.Vec2()}, mappings={"centre": centre})
        x = jm.kinematics(scene, scene.at_rest({"p": jnp.array([[0.0, 0.0], [4.0, 0.0]])}))
        assert jnp.allclose(x["centre"], jnp.array([[3.0, 0.0]]))
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    masses: Parameter = parameter(ndim=1)
    is_linear: ClassVar[bool] = True
    is_interpolation: ClassVar[bool] = True

    def __check_init__(self):
        if any(s.nodes.ndim != 2 for s in self.parents):
            raise ValueError("CenterOfMassMapping: the node numbers of every parent must be of shape (n, k).")
        check_weights(self, self.parents, self.masses, "masses")
        check_range(self, masses=(self.masses, lambda m: m > 0, "positive"))

    @classmethod
    def of(cls, nodes: dict[str, Sequence[int]], child: str, masses: Any) -> "CenterOfMassMapping":
        """The centre of these nodes of these states, whose `masses` follow in the same order."""
        if not isinstance(nodes, Mapping) or not nodes:
            raise TypeError(f"CenterOfMassMapping.of: nodes must be a dictionary of nodes by state, got {nodes!r:.80}.")
        rows = {s: whole_numbers("CenterOfMassMapping.of", f"nodes['{s}']", n, (None,)) for s, n in nodes.items()}
        return cls(tuple((state, n[None, :]) for state, n in rows.items()), child, masses)

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child)

    def element_apply(self, *q: Array) -> Array:
        return self.masses @ jnp.concatenate(q) / jnp.sum(self.masses)
