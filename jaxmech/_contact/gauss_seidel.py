"""Projected block Gauss-Seidel, contact after contact, and its acceleration by nonlinear conjugate gradients."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .cone import scaling
from .problem import cone_of
from .scaled import ScaledProblem


class _Sweeps(NamedTuple):
    r: Array
    direction: Array  # of the conjugate gradients
    fall: Array  # the squared length of the last sweep's change
    size: Array
    sweeps: Array
    going: Array


def gauss_seidel(
    problem: ScaledProblem, s: Array, most: int, goal: Array, *, accelerated: bool, needed: Any = True
) -> tuple[Array, Array]:
    """From `s`: where it ends, and how many sweeps it took. Needs the matrix.

    Of a contact: first the impulse along the normal, then that of friction, projected onto the disc of the new `mu r_n`.
    Source: F. Jourdan, P. Alart, M. Jean, Comput. Methods Appl. Mech. Eng. 155 (1998) 31, doi:10.1016/S0045-7825(97)00137-0;
    M. Silcowitz-Hansen, S. Niebe, K. Erleben, Visual Comput. 26 (2010) 893, doi:10.1007/s00371-010-0502-6 (NNCG).
    """
    n, mu, W = s.shape[0], problem.mu, problem.matrix
    assert W is not None
    rows = W.reshape(n, 3, 3 * n)
    own = jax.vmap(lambda i, row: jax.lax.dynamic_slice_in_dim(row, 3 * i, 3, axis=1))(jnp.arange(n), rows)
    normal = jnp.where(own[:, 0, 0] > 0, own[:, 0, 0], 1.0)
    tangent = jnp.maximum(0.5 * (own[:, 1, 1] + own[:, 2, 2]) + jnp.abs(own[:, 1, 2]), 1e-12)
    q = problem.q

    def contact(i: Array, r: Array) -> Array:
        u = rows[i] @ r.reshape(-1) + q[i]
        new = jnp.maximum(r[i, 0] - u[0] / normal[i], 0.0)
        u_T = u[1:] + own[i, 1:, 0] * (new - r[i, 0])
        free = r[i, 1:] - u_T / tangent[i]
        length, radius = jnp.sqrt(free @ free), mu[i] * new
        free = free * jnp.where(length > radius, radius / jnp.where(length > 0, length, 1.0), 1.0)
        return r.at[i].set(jnp.concatenate([new[None], free]))

    def advance(p: _Sweeps) -> _Sweeps:
        swept = jax.lax.fori_loop(0, n, contact, p.r)
        change = swept - p.r
        fall = jnp.sum(change**2)
        r, direction = swept, change
        if accelerated:
            beta = fall / jnp.where(p.fall > 0, p.fall, jnp.inf)
            goes_on = beta <= 1
            r = jnp.where(goes_on, swept + beta * p.direction, swept)
            direction = jnp.where(goes_on, beta * p.direction + change, 0.0 * change)
        size = jnp.linalg.norm(problem.residual(_of(problem, r), jnp.zeros((), s.dtype)))
        going = (size > goal) & (p.sweeps + 1 < most) & jnp.isfinite(size)
        return _Sweeps(r, direction, fall, size, p.sweeps + 1, going)

    nil = jnp.zeros((), s.dtype)
    r = scaling(mu) * s
    start = _Sweeps(r, jnp.zeros_like(r), nil, nil + jnp.inf, jnp.zeros((), jnp.int32), jnp.asarray(needed) & (most > 0))
    end = while_loop(lambda p: p.going, advance, start)
    return _of(problem, end.r), end.sweeps


def _of(problem: ScaledProblem, r: Array) -> Array:
    return cone_of(problem.mu, r)
