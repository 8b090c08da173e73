"""A copy of a state."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._runtime.argument_checks import check_counts, plain
from .._runtime.array_types import Array
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping


class IdentityMapping(AbstractMapping):
    """`p_i = q_i`, for degrees of freedom of any one kind. `IdentityMapping.of("parent", "child", nodes=n)`.

    Raises `ValueError` where parent and child differ in kind, or node numbers are not of shape `(n,)`.
    In the unit of the parent, [m] or [rad].
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).

    Example:

        copy = jm.mapping.IdentityMapping.of("p", "copy", nodes=2)
        scene = jm.System({"p": jm.Vec2(), "copy": jm.Vec2()}, mappings={"copy": copy})
        x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
        assert jnp.array_equal(jm.kinematics(scene, scene.at_rest({"p": x}))["copy"], x)
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    is_linear: ClassVar[bool] = True
    is_interpolation: ClassVar[bool] = True

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("IdentityMapping: parents must be (state, nodes), node numbers of shape (e,).")

    @classmethod
    def of(cls, parent: str, child: str, *, nodes: int) -> "IdentityMapping":
        """The copy of all `nodes` nodes of the parent."""
        nodes = plain(nodes)
        check_counts("IdentityMapping", nodes=nodes)
        return cls((parent, jnp.arange(nodes)), child)

    def check_dofs(self, parents: Any, child: Any) -> None:
        if type(parents[0]) is not type(child):
            raise ValueError(f"IdentityMapping cannot make {type(child).__name__} of {type(parents[0]).__name__}.")

    def element_apply(self, q: Array) -> Array:
        return q
