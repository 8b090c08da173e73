"""Stabilised biconjugate gradients in few operations: what contact solves roughly, many times a step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import Vector, plus, zeros
from .._runtime.array_types import Array
from .._runtime.loops import while_loop


def dot(a: Vector, b: Vector) -> Array:
    """The sum of products over all states, by the library: XLA's CPU backend takes a loop for the products, another for the
    sum."""
    parts = [jnp.vdot(p, q) for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)]
    return sum(parts[1:], parts[0])


def norm(a: Vector) -> Array:
    """The 2-norm over all states, as `dot`."""
    return jnp.sqrt(dot(a, a))


def _in_a_row(a: Vector) -> Vector:
    """Sums over rows of three numbers take XLA's CPU backend several times as long."""
    return jax.tree.map(jnp.ravel, a)


def _as(a: Vector, like: Vector) -> Vector:
    return jax.tree.map(lambda p, q: p.reshape(q.shape), a, like)


class _State(NamedTuple):
    x: Vector
    r: Vector
    p: Vector
    rho: Array
    size: Array
    steps: Array
    going: Array


def bicgstab(product: Callable, near: Callable, b: Vector, rtol: Any, most: int) -> tuple[Vector, Vector, Array]:
    """`x` with `|b - M x| <= rtol |b|`, or where it gets in `most` steps of two products; `b - M x`; the number of products.

    Source: H. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631, doi:10.1137/0913035.
    """
    like, b = b, _in_a_row(b)
    goal = rtol * norm(b)

    def times(function: Callable, x: Vector) -> Vector:
        return _in_a_row(function(_as(x, like)))

    def advance(i: _State) -> _State:
        y = times(near, i.p)
        v = times(product, y)
        alpha = i.rho / dot(b, v)
        half = plus(i.r, -alpha, v)
        z = times(near, half)
        t = times(product, z)
        square = dot(t, t)
        omega = jnp.where(square > 0, dot(t, half) / jnp.where(square > 0, square, 1.0), 0.0)
        x = plus(plus(i.x, alpha, y), omega, z)
        r = plus(half, -omega, t)
        rho, size = dot(b, r), norm(r)
        beta = rho / i.rho * alpha / omega
        p = plus(r, beta, plus(i.p, -omega, v))
        sound = jnp.isfinite(size) & jnp.isfinite(beta) & (size <= 1e4 * i.size)
        x, r = jax.tree.map(lambda new, old: jnp.where(jnp.isfinite(size), new, old), (x, r), (i.x, i.r))
        return _State(x, r, p, rho, size, i.steps + 1, sound & (size > goal) & (i.steps + 1 < most))

    start = norm(b)
    first = _State(zeros(b), b, b, dot(b, b), start, jnp.zeros((), jnp.int32), start > 0)
    end = while_loop(lambda i: i.going, advance, first)
    return _as(end.x, like), _as(end.r, like), 2 * end.steps
