"""A mapping by a formula of the user's."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._runtime.argument_checks import check_callable
from .._runtime.array_types import Array
from .._scene.parameter import each_element
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping


class FunctionMapping(AbstractMapping):
    """`p = function(*q, *numbers)`: any formula for one child node, without a class of its own.

    `function` gets the coordinates of the parents' nodes, one array for each stencil, `(c,)` or `(k, c)`, then this node's
    part of every array of `numbers`, whose leading axis is that of the child nodes; it returns the coordinates `(c,)`, or
    one number. An angle, a curvature, a strain: whatever JAX can differentiate. It is static: take care to pass the same
    function again, or programs are compiled anew. A class of your own with `element_apply` can do more (numbers that all
    nodes share, declarations of linearity). Raises `TypeError` for what cannot be called.
    Units are those of the formula: [rad] of an angle, [1/m] of a curvature. Its Jacobian is derived by `jax.jvp`.
    Source: A. Griewank and A. Walther, *Evaluating Derivatives*, 2nd ed., 2008, doi:10.1137/1.9780898717761.

    Example:

        def angle(x):  # of the point, seen from the origin [rad]
            return jnp.arctan2(x[1], x[0])

        seen = jm.mapping.FunctionMapping(("p", [0]), "angle", angle)
        scene = jm.System({"p": jm.Vec2(), "angle": jm.Vec1()}, mappings={"seen": seen})
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"p": jnp.array([[0.0, 2.0]])}))["angle"], np.pi / 2)
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    function: Callable[..., Any] = eqx.field(static=True)
    numbers: tuple[Array, ...] = each_element(default=())
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        check_callable("FunctionMapping", "function", self.function)

    def element_apply(self, *x: Array) -> Array:
        return jnp.atleast_1d(jnp.asarray(self.function(*x, *self.numbers)))
