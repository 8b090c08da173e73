"""Semi-smooth Newton for contacts: the natural map, smoothed or not, and a line search on its length."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .cone import dual, smoothed_projection
from .interior_point import dual_slope
from .linear_blocks import block_solver
from .scaled import ScaledProblem


class _Iterate(NamedTuple):
    s: Array
    F: Array
    size: Array
    steps: Array
    going: Array


def slopes(s: Array, u: Array, mu: Array, rho: Array, kappa: Array) -> tuple[Array, Array]:
    """`dF/ds` with `u` held, and `dF/du`, `(n, 3, 3)` each, of the natural map `F`."""

    def of_contact(s, u, mu, rho):
        return jax.jacfwd(smoothed_projection)(s - rho * dual(u, mu), kappa * jnp.sqrt(rho))

    B = jax.vmap(of_contact)(s, u, mu, rho)
    return jnp.eye(3, dtype=s.dtype) - B, rho[:, None, None] * jnp.einsum("nij,njk->nik", B, dual_slope(u, mu))


def newton(
    problem: ScaledProblem, kappa: Array, s: Array, most: Any, goal: Any, needed: Any = True
) -> tuple[Array, Array, Array]:
    """From `s`: the best iterate, the length of its residual, and how many steps it took.

    Source: L. Qi and J. Sun, Math. Program. 58 (1993) 353, doi:10.1007/BF01581275; P. Alart and A. Curnier, Comput. Methods
    Appl. Mech. Eng. 92 (1991) 353, doi:10.1016/0045-7825(91)90022-X.
    """

    def length(F: Array) -> Array:
        size = jnp.linalg.norm(F)
        return jnp.where(jnp.isfinite(size), size, jnp.inf)

    def advance(p: _Iterate) -> _Iterate:
        P, B = slopes(p.s, problem.velocity(p.s), problem.mu, problem.rho, kappa)
        d = -block_solver(problem.product, problem.matrix, P, B, problem.D)(p.F)

        def shorter(trial):
            a, _, _, size = trial
            return (a > 1) | (size > (1 - 1e-4 * a) * p.size) & (a > 1e-3)

        def halved(trial):
            a = 0.5 * trial[0]
            s = p.s + a * d
            F = problem.residual(s, kappa)
            return a, s, F, length(F)

        untried = jnp.full((), 2.0, s.dtype), p.s, p.F, p.size
        _, s1, F1, size = while_loop(shorter, halved, untried)
        better = size < p.size
        going = better & (size > goal) & (p.steps + 1 < most)
        s1, F1 = jnp.where(better, s1, p.s), jnp.where(better, F1, p.F)
        return _Iterate(s1, F1, jnp.minimum(size, p.size), p.steps + 1, going)

    F = problem.residual(s, kappa)
    size = length(F)
    start = _Iterate(s, F, size, jnp.zeros((), jnp.int32), (size > goal) & jnp.asarray(needed) & (most > 0))
    end = while_loop(lambda p: p.going, advance, start)
    return end.s, end.size, end.steps
