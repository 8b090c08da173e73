"""The linear solve of a derivative, whose failure is a value of its own member of a batch: NaN."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jax.flatten_util import ravel_pytree

from ..._math.one_loop import is_any
from ..._runtime.array_types import Array
from ..._runtime.jax_internals import index_of
from ..._runtime.raise_if import raise_if
from ..._runtime.results import RESULTS
from .outcome import reason
from .vectors import Vector

FEW = 16  # unknowns of which reverse mode sooner keeps a dense factor than it makes it anew, with its matrix


def derivative_solve(
    A: lx.AbstractLinearOperator,
    b: Vector,
    solver: lx.AbstractLinearSolver,
    who: str = "",
    *,
    symmetric: bool = False,
    made: Any = None,
) -> Vector:
    """`A^-1 b`; NaN where the solve fails, but nil where `b` is: what nobody asks for cannot fail.

    Differentiable in both modes, to any order, by further solves of this kind. (Those that lineax makes always raise.) An
    iteration that rounding stops has succeeded: nobody chose the tolerance for this right-hand side. `who`: what raises
    where it fails; nothing does unless it is named. `symmetric`: so is `A`, whose products JAX need not transpose (those of
    mapped masses it cannot). `made`: what the solver makes of it, where that is known.
    """
    state = _kept_once(A, solver) if made is None else made
    # One array: JAX transposes no solve of which a part of the right-hand side depends on nothing.
    flat, parted = ravel_pytree(b)

    def product(x: Array) -> Array:
        return ravel_pytree(A.mv(parted(x)))[0]

    def solve(_: Any, rhs: Array) -> Array:
        return _or_nan(lx.linear_solve(A, parted(rhs), solver, state=state, throw=False), rhs, who)

    def transposed(_: Any, rhs: Array) -> Array:
        turned, options = solver.transpose(state, {})
        solution = lx.linear_solve(A.transpose(), parted(rhs), solver, state=turned, options=options, throw=False)
        return _or_nan(solution, rhs, who)

    return parted(jax.lax.custom_linear_solve(product, flat, solve, transposed, symmetric=symmetric))


def _kept_once(A: lx.AbstractLinearOperator, solver: lx.AbstractLinearSolver) -> Any:
    """What a solver makes of an operator, no derivative taken. Arrays in it that are the operator's own are these, so that
    reverse mode keeps them once: of what a custom solve solves by, JAX takes no derivative."""
    fixed = constant(A)
    own = {id(f): a for f, a in zip(jax.tree.leaves(fixed), jax.tree.leaves(A), strict=True)}
    return jax.tree.map(lambda leaf: own.get(id(leaf), leaf), solver.init(fixed, {}))


def mark_failure(value: Any, failed: Array) -> Any:
    """`value`, whose derivatives are NaN where `failed`, but nil where nobody asks for them."""
    return jax.tree.map(lambda a: _marked(a, failed) if eqx.is_inexact_array(a) else a, value)


@jax.custom_jvp
def _marked(value: Array, failed: Array) -> Array:
    del failed
    return value


@_marked.defjvp
def _marked_jvp(primals, tangents):
    (value, failed), (rate, _) = primals, tangents

    def mark(_: Any, rate: Array) -> Array:
        return _unless(failed, rate, rate)

    # The solve of `1 x = rate`: a linear map that JAX may transpose, and that need not look like one.
    return value, jax.lax.custom_linear_solve(lambda x: x, rate, mark, mark, symmetric=True)


def unknown(rates: Any, failed: Array) -> Array:
    """The rate of what never came to depend on these: nil, but NaN where it `failed` to and one of them is not nil.

    In reverse mode all of them are NaN there, if somebody asks.
    """

    def mark(_: Any, rate: Array) -> Array:
        return jnp.where(failed & (rate != 0), jnp.nan, 0.0).astype(rate.dtype)

    leaves = [a for a in jax.tree.leaves(rates) if eqx.is_inexact_array(a)]
    marked = [jax.lax.custom_linear_solve(lambda x: x, a, mark, mark, symmetric=True) for a in leaves]
    return sum((jnp.sum(a) for a in marked), jnp.zeros(()))


def raise_in_derivatives(value: Any, result: Any, who: str) -> Any:
    """`value`, whose derivatives raise where `result` is a failure, unless nobody asks for them: in the name of `who`."""
    moving, rest = eqx.partition(value, eqx.is_inexact_array)
    failed, index = result != RESULTS.successful, index_of(result)
    # Each by itself: JAX transposes no solve of which a part of the right-hand side depends on nothing.
    return eqx.combine(jax.tree.map(lambda a: _raising(a, failed, index, who), moving), rest)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def _raising(value: Array, failed: Array, index: Array, who: str) -> Array:
    del failed, index, who
    return value


@_raising.defjvp
def _raising_jvp(who, primals, tangents):
    value, failed, index = primals

    def told(_: Any, rate: Array) -> Array:
        return raise_if(rate, failed & is_any(rate != 0), {"who": who}, {"result": index})

    return value, jax.lax.custom_linear_solve(lambda x: x, tangents[0], told, told, symmetric=True)


def _or_nan(solution: lx.Solution, rhs: Array, who: str) -> Array:
    why, stats = reason(solution), solution.stats
    rounded = (why == RESULTS.stagnation) & (stats["residual"] <= stats["floor"]) if "floor" in stats else False
    failed = (why != RESULTS.successful) & ~jnp.asarray(rounded)
    x = _unless(failed, ravel_pytree(solution.value)[0], rhs)
    return raise_if(x, failed & is_any(rhs != 0), {"who": who}, {"result": index_of(why)}) if who else x


def _unless(failed: Array, x: Array, asked: Array) -> Array:
    return jnp.where(failed, jnp.where(is_any(asked != 0), jnp.nan, 0.0).astype(x.dtype), x)


def constant(A: Any) -> Any:
    """An operator that no derivative is taken of."""
    arrays, rest = eqx.partition(A, eqx.is_array)
    return eqx.combine(jax.lax.stop_gradient(arrays), rest)
