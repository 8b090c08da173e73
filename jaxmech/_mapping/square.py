"""The square of a scalar."""

from typing import Any, ClassVar

import equinox as eqx

from .._runtime.array_types import Array
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .points import check_points


class SquareMapping(AbstractMapping):
    """`p = q^2` (`Vec1` to `Vec1`), node by node.

    `parents=(state, nodes (n,))`. Raises `ValueError` for other shapes or states.
    In the square of the parent's unit, [m^2] or [rad^2].
    Source: F. Faure et al., "SOFA: a multi-model framework for interactive physical simulation", 2012,
    doi:10.1007/8415_2012_125 (mappings).

    Example:

        scene = jm.System({"q": jm.Vec1(), "p": jm.Vec1()}, mappings={"square": jm.mapping.SquareMapping(("q", [0]), "p")})
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"q": jnp.array([[3.0]])}))["p"], 9.0)
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("SquareMapping: parents must be (state, nodes), node numbers of shape (n,).")

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_points(self, parents, child, child_size=1, sizes=(1,))

    def element_apply(self, q: Array) -> Array:
        return q**2
