"""The iterations of SOFA's NewtonRaphsonSolver: where they end, and how far each goes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linear_solver.base.vectors import norm
from ..._model.dynamics import Fields
from ..._model.system import State
from ..._runtime.array_types import Array
from ..._runtime.loops import while_loop
from ..._scene.parameter import as_array
from .unconverged_solvers import Solved


class NewtonRules(eqx.Module):
    """At most `steps` iterations, until the residual `|r|` is at most `tolerance`, or less than `relative` times the first
    one, or than `successive` times the last one, or until the solution `|d|` is less than `absolute_change`, or than
    `relative_change` times the unknowns that it is added to. What is 0 ends nothing.

    Of `d`, the share that is added is the first of 1, `shrink`, `shrink^2`, ... that makes `|r|` smaller, of at most
    `searches`; where none does, 1.
    """

    tolerance: Array = eqx.field(converter=as_array, default=1e-5, kw_only=True)
    relative: Array = eqx.field(converter=as_array, default=1e-5, kw_only=True)
    successive: Array = eqx.field(converter=as_array, default=1e-5, kw_only=True)
    absolute_change: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    relative_change: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    shrink: Array = eqx.field(converter=as_array, default=0.5, kw_only=True)
    steps: int = eqx.field(static=True, default=1, kw_only=True)
    searches: int = eqx.field(static=True, default=1, kw_only=True)


class Seen(NamedTuple):
    """What is evaluated at a state: the residual that is measured, and what else the solve needs."""

    residual: Fields
    more: Any = None


class Search(NamedTuple):
    """Where the iterations are: the state, what is seen there and how long its residual is, and how the last solve ended."""

    end: State
    seen: Seen
    size: Array
    done: Array
    found: Solved
    b: Fields


class Equations(NamedTuple):
    """What is solved: `evaluate(state)`, `solve(state, seen)`, `moved(state, seen, d, before, share)` the state after the
    last of several tries, each at a share of `d`, and `length(state)` of the unknowns."""

    evaluate: Callable[[State], Seen]
    solve: Callable[[State, Seen], tuple[Solved, Fields]]
    moved: Callable[[State, Seen, Fields, Array, Array], State]
    length: Callable[[State], Array]


def iterated(rules: NewtonRules, equations: Equations, state: State, unsolved: Solved) -> Search:
    """The iterations from `state`; `unsolved` is what no solve would have found."""
    seen = equations.evaluate(state)
    first = jax.lax.stop_gradient(norm(seen.residual))
    once = partial(_once, rules, equations, first)
    at = once(Search(state, seen, first, first <= rules.tolerance, unsolved, seen.residual))
    if rules.steps == 1:
        return at
    arrays, others = eqx.partition(at, eqx.is_array)

    def more(arrays: Any, _: None) -> tuple[Any, None]:
        goes_on = lambda a: eqx.filter(once(eqx.combine(a, others)), eqx.is_array)  # noqa: E731
        return jax.lax.cond(arrays.done, lambda a: a, goes_on, arrays), None

    return eqx.combine(jax.lax.scan(more, arrays, None, length=rules.steps - 1)[0], others)


def _once(rules: NewtonRules, equations: Equations, first: Array, at: Search) -> Search:
    found, b = equations.solve(at.end, at.seen)
    d = {s: jnp.where(at.done, 0.0, a) for s, a in found.x.items()}
    end = equations.moved(at.end, at.seen, d, *_shares(rules, equations, at, d))
    end = jax.tree.map(lambda old, new: jnp.where(at.done, old, new), at.end, end)
    seen = equations.evaluate(end)
    size, change, length = jax.lax.stop_gradient((norm(seen.residual), norm(d), equations.length(at.end)))
    there = (size <= rules.tolerance) | (size < rules.relative * first) | (size < rules.successive * at.size)
    there |= (change < rules.absolute_change) | (change < rules.relative_change * length)
    # Elements that are inside out have no force: what went wrong is said of these nodes, not of what follows.
    return Search(end, seen, size, at.done | there | ~jnp.isfinite(size), found, b)


def _shares(rules: NewtonRules, equations: Equations, at: Search, d: Fields) -> tuple[Array, Array]:
    """The share before the last one that was tried, and the last one."""
    time = at.end.time
    if rules.searches == 1:
        return jnp.zeros_like(time), jnp.ones_like(time)
    state, seen, size, d, shrink = jax.lax.stop_gradient((at.end, at.seen, at.size, d, rules.shrink))

    def shares(number: Array) -> tuple[Array, Array]:
        return jnp.where(number == 0, 0.0, shrink ** jnp.maximum(number - 1, 0)), shrink**number

    def tried(c: tuple[Array, Array]) -> tuple[Array, Array]:
        there = equations.moved(state, seen, d, *shares(c[0]))
        return c[0] + 1, norm(equations.evaluate(there).residual)

    start = jnp.zeros((), jnp.int32), jnp.full((), jnp.inf, size.dtype)
    tries, least = while_loop(lambda c: ~(c[1] < size) & (c[0] < rules.searches), tried, start)
    before, share = shares(tries - 1)
    smaller = least < size
    return jnp.where(smaller, before, share), jnp.where(smaller, share, 1.0)
