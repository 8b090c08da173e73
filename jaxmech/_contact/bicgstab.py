"""Stabilised biconjugate gradients in few operations: what contact solves roughly, many times a step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import Vector, dot, norm, plus, zeros
from .._runtime.array_types import Array


class _State(NamedTuple):
    x: Vector
    r: Vector
    p: Vector
    rho: Array
    size: Array
    steps: Array
    going: Array


def bicgstab(product: Callable, near: Callable, b: Vector, rtol: Any, most: int) -> tuple[Vector, Array]:
    """`x` with `|b - M x| <= rtol |b|`, or where it gets in `most` steps of two products; and the number of products.

    Source: H. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631, doi:10.1137/0913035.
    """
    goal = rtol * norm(b)

    def advance(i: _State) -> _State:
        y = near(i.p)
        v = product(y)
        alpha = i.rho / dot(b, v)
        half = plus(i.r, -alpha, v)
        z = near(half)
        t = product(z)
        square = dot(t, t)
        omega = jnp.where(square > 0, dot(t, half) / jnp.where(square > 0, square, 1.0), 0.0)
        x = plus(plus(i.x, alpha, y), omega, z)
        r = plus(half, -omega, t)
        rho, size = dot(b, r), norm(r)
        beta = rho / i.rho * alpha / omega
        p = plus(r, beta, plus(i.p, -omega, v))
        sound = jnp.isfinite(size) & jnp.isfinite(beta) & (size <= 1e4 * i.size)
        x = jax.tree.map(lambda new, old: jnp.where(jnp.isfinite(size), new, old), x, i.x)
        return _State(x, r, p, rho, size, i.steps + 1, sound & (size > goal) & (i.steps + 1 < most))

    start = norm(b)
    first = _State(zeros(b), b, b, dot(b, b), start, jnp.zeros((), jnp.int32), start > 0)
    end = jax.lax.while_loop(lambda i: i.going, advance, first)
    return end.x, 2 * end.steps
