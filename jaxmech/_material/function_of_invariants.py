"""Densities that are costly functions of a few numbers: a network of invariants."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from .._runtime.argument_checks import check_callable
from .hessian_of_few import hessian_of_few


def function_of_invariants(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`function(parameters, x)` of a few invariants `x` `(n,)`, the same, whose derivatives by `x` cost less in a Hessian.

    Plain automatic differentiation pushes each of the nine directions of `d2 psi/dF2` through the whole function. Here its
    derivatives by `x` are computed once at a point, and directions meet only products with them; that holds at every order,
    in both modes, and by `parameters`, any pytree (an `eqx.nn.MLP`). `function` gives one number, or an array. Without
    units, as invariants are. Raises `TypeError` for what is no function.
    Source: A. Griewank and A. Walther, *Evaluating Derivatives*, 2nd ed., 2008, doi:10.1137/1.9780898717761, chapter 13.

    Example:

        square = jm.material.function_of_invariants(lambda a, x: a * jnp.sum(x**2))
        hessian = jax.hessian(lambda F: square(3.0, jnp.stack([jnp.sum(F), F[0, 0]])))(jnp.eye(3))
        assert hessian.shape == (3, 3, 3, 3) and jnp.allclose(hessian[0, 0, 0, 0], 12.0)
    """
    check_callable("function_of_invariants", "function", function)
    return by_few(function)


def by_few(function: Callable[[Any, Any], Any], order: int = 0) -> Callable[[Any, Any], Any]:
    """A function of parameters and few numbers, whose derivatives by these are made once; it is the `order`-th of them."""

    def derivative(parameters: Any, x: Any) -> Any:
        shape = eqx.filter_eval_shape(function, parameters, x).shape
        if order == 1 and shape == x.shape:  # the slope of one number: `hessian_of_few` is of that number
            return hessian_of_few(function.of)(parameters, x)  # pyright: ignore[reportFunctionMemberAccess]
        return (jax.jacfwd if order else jax.jacrev)(function, argnums=1)(parameters, x)

    derivative.of = function

    @eqx.filter_custom_jvp
    def once(parameters: Any, x: Any) -> Any:
        return function(parameters, x)

    @once.def_jvp
    def rule(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (parameters, x), (of_parameters, of_x) = primals, tangents
        value = once(parameters, x)
        change = 0 * value
        if of_x is not None:
            change = change + by_few(derivative, order + 1)(parameters, x) @ of_x
        if jax.tree.leaves(of_parameters):
            change = change + eqx.filter_jvp(lambda p: function(p, x), (parameters,), (of_parameters,))[1]
        return value, change

    return once
