"""Sums of powers of principal stretches, without eigenvectors.

Derivatives of eigenvalues divide by their differences. A *sum* of powers is nevertheless a smooth function of
the invariants, and for a symmetric `A` of no trace it is one of two numbers only, `j2 = tr(A^2)/2` and `j3 =
det A`: `tr A^n = j2 tr A^(n-2) + j3 tr A^(n-3)` (Cayley-Hamilton), so `tr exp(A)` is a series in `j2` and
`j3`, extended to large `A` by `tr E^2 = (tr E)^2 - 2 tr E^-1` (`det E = 1`). With `A = p log C`, `det C = 1`,
that is `tr C^p`. Everything is a polynomial with a fixed number of scalar operations: derivatives of any
order are right at repeated stretches, rest included. For scaling and squaring: N. J. Higham, *Functions of
Matrices*, 2008, chapter 10.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array

_ORDER = 15  # of the series: 1e-15 relative for |A| <= 2^doublings * 0.7
_NEWTON_STEPS = 3  # the start is good to 1e-3 at worst (float32, stretches of 30)


def _series(j2: Array, j3: Array, *, unroll: bool, doublings: int = 6) -> tuple[Array, Array]:
    """The traces of `exponential_traces`. Each doubling extends the range, and may lose a factor of two."""
    j2, j3 = j2 / 4**doublings, j3 / 8**doublings

    def add_term(n, carry):
        (before, last, power), plus, minus, factorial, sign = carry
        before, last, power = last, power, j2 * last + j3 * before
        factorial, sign = factorial * (n + 3), -sign
        return (
            (before, last, power),
            plus + power / factorial,
            minus + sign * power / factorial,
            factorial,
            sign,
        )

    def double(_, pair):
        plus, minus = pair
        return plus * (6 + plus) - 2 * minus, minus * (6 + minus) - 2 * plus

    one = jnp.ones((), j2.dtype)
    start = (jnp.full_like(j2, 3.0), jnp.zeros_like(j2), 2 * j2), j2, j2, 2 * one, one
    _, plus, minus, *_ = jax.lax.fori_loop(0, _ORDER - 2, add_term, start, unroll=unroll)
    return jax.lax.fori_loop(0, doublings, double, (plus, minus), unroll=unroll)


@functools.cache
def _by_partials(function: Callable, *which: int) -> Callable:
    """A partial derivative (arguments `which`, none: itself) of a function of two scalars, differentiated
    lazily.

    Plain autodiff would push every direction of a Hessian through the whole series. Here the partial
    derivatives are computed once per point, by autodiff, and directions only meet the final sum. The rule
    holds at every order.
    """
    # Unrolled is faster to run, but its derivatives would take minutes to compile
    evaluate = functools.partial(function, unroll=not which)
    for argument in which:
        evaluate = functools.partial(_partial, evaluate, argument)
    evaluate = jax.jit(evaluate)  # traced once, however many derivatives meet it

    @jax.custom_jvp
    def wrapped(x, y):
        # XLA would fuse it into each of its users, and do it again for each
        return jax.lax.optimization_barrier(evaluate(x, y))

    @wrapped.defjvp
    def rule(primals, tangents):
        by_x, by_y = (_by_partials(function, *sorted((*which, k)))(*primals) for k in (0, 1))
        dx, dy = tangents
        return wrapped(*primals), jax.tree.map(lambda a, b: a * dx + b * dy, by_x, by_y)

    return wrapped


def _partial(function: Callable, argument: int, x: Array, y: Array) -> Any:
    one, zero = jnp.ones_like(x), jnp.zeros_like(x)
    return jax.jvp(function, (x, y), (zero, one) if argument else (one, zero))[1]


def exponential_traces(j2: Array, j3: Array) -> tuple[Array, Array]:
    """`(tr exp(A) - 3, tr exp(-A) - 3)` of a symmetric `A` with `tr A = 0`, `tr(A^2)/2 = j2`, `det A = j3`.

    Accurate for principal values up to 45 in magnitude: a stretch of 8 to the power 21.
    """
    return _by_partials(_series)(j2, j3)


def _short_series(j2: Array, j3: Array, *, unroll: bool) -> tuple[Array, Array]:
    return _series(j2, j3, unroll=unroll, doublings=4)  # logarithms of stretches are small


def _exponential_slopes(j2: Array, j3: Array) -> tuple[Any, Any, Any]:
    """The traces, and their derivatives by `j2` and by `j3`."""
    return tuple(_by_partials(_short_series, *which)(j2, j3) for which in ((), (0,), (1,)))


def _solve(by_j2, by_j3, right):
    det = by_j2[0] * by_j3[1] - by_j3[0] * by_j2[1]
    return (
        (by_j3[1] * right[0] - by_j3[0] * right[1]) / det,
        (by_j2[0] * right[1] - by_j2[1] * right[0]) / det,
    )


def _largest_eigenvalue(u: Array, v: Array) -> Array:
    """The largest root of `x^3 - (3 + u) x^2 + (3 + v) x - 1`, by the cosine formula."""
    a = u / 3
    q = jnp.maximum((6 * u - 3 * v + u * u) / 9, 0)
    r = a**3 + 3 * a * a + 1.5 * a - 0.5 * (1 + a) * v
    root = jnp.sqrt(q)
    cosine = r / jnp.where(q > 0, q * root, 1)
    return 1 + a + 2 * root * jnp.cos(jnp.arccos(jnp.clip(cosine, -1, 1)) / 3)


@jax.custom_jvp
def logarithm_invariants(u: Array, v: Array) -> tuple[Array, Array]:
    """`(j2, j3)` of `log C`, for a symmetric `C` with `det C = 1`, `tr C = 3 + u`, `tr C^-1 = 3 + v`.

    The inverse of `exponential_traces`. Its value comes from the cosine formula, polished by Newton steps
    because that formula loses half the digits at repeated roots; its derivative from the inverse function
    theorem.
    """
    # The largest root is accurate relative to itself; the smallest is one over the largest of the inverse.
    high, low = jnp.log(_largest_eigenvalue(u, v)), -jnp.log(_largest_eigenvalue(v, u))
    j2, j3 = high * high + high * low + low * low, -high * low * (high + low)

    def newton(_, invariants):
        value, by_j2, by_j3 = _exponential_slopes(*invariants)
        d2, d3 = _solve(by_j2, by_j3, (u - value[0], v - value[1]))
        return invariants[0] + d2, invariants[1] + d3

    return jax.lax.fori_loop(0, _NEWTON_STEPS, newton, (j2, j3))


@logarithm_invariants.defjvp
def _logarithm_invariants_jvp(primals, tangents):
    j2, j3 = logarithm_invariants(*primals)
    _, by_j2, by_j3 = _exponential_slopes(j2, j3)
    return (j2, j3), _solve(by_j2, by_j3, tangents)
