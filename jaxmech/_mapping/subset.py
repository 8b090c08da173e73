"""Some nodes of a state."""

from typing import Any, ClassVar

import equinox as eqx

from .._runtime.array_types import Array
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping


class SubsetMapping(AbstractMapping):
    """`p_i = q_nodes(i)`: a state made of the nodes that `parents=(state, nodes)` lists, repeats allowed.

    Raises `ValueError` where parent and child differ in kind, or node numbers are not of shape `(n,)`.
    In the unit of the parent, [m] or [rad].
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).

    Example:

        scene = jm.System({"p": jm.Vec2(), "tip": jm.Vec2()}, mappings={"tip": jm.mapping.SubsetMapping(("p", [1]), "tip")})
        x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"p": x}))["tip"], jnp.array([[3.0, 4.0]]))
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    is_linear: ClassVar[bool] = True
    is_interpolation: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("SubsetMapping: parents must be (state, nodes), node numbers of shape (e,).")

    def check_dofs(self, parents: Any, child: Any) -> None:
        if type(parents[0]) is not type(child):
            raise ValueError(f"SubsetMapping cannot make {type(child).__name__} of {type(parents[0]).__name__}.")

    def element_apply(self, q: Array) -> Array:
        return q
