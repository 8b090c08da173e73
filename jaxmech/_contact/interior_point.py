"""An interior-point method for contacts: along the central path `s o y = kappa^2 e`, from a point far within both cones."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._math.safe_norm import safe_direction
from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .cone import determinant, dual, inverse, longest_step, scaling_point
from .linear_blocks import block_solver
from .scaled import ScaledProblem

_BOLD, _CAREFUL = (0.99, 1e-4), (0.9, 0.1)  # of the way to an edge that a step may go; least share of the gap it aims at


class _Path(NamedTuple):
    s: Array
    y: Array
    steps: Array
    going: Array


def dual_slope(u: Array, mu: Array, frozen: Any = False) -> Array:
    """`dy/du` of each contact, `(n, 3, 3)`: `D`, and the slope of De Saxce's term unless it is `frozen`."""
    t = jnp.where(frozen, 0.0, jax.vmap(safe_direction)(u[:, 1:]))
    top = jnp.concatenate([jnp.ones_like(mu)[:, None], mu[:, None] * t], axis=1)
    nil, tangents = jnp.zeros_like(mu), jnp.stack([mu, mu])
    rows = [jnp.stack([nil, tangents[0], nil], axis=1), jnp.stack([nil, nil, tangents[1]], axis=1)]
    return jnp.stack([top, *rows], axis=1)


def central_path(
    problem: ScaledProblem, kappa: Array, size: Array, most: Any, needed: Any, frozen: Any = False, slip: Any = 0.0
) -> tuple[Array, Array]:
    """The point of the path at `kappa`, nearly, and how many steps it took: none unless `needed`.

    `size`: of the impulses to begin with; with more than 1 it goes carefully. Predictor steps say how much nearer to the
    edge the next may aim. Directions of Nesterov and Todd, with the slope of De Saxce's term, which makes the matrix
    unsymmetric; `frozen`: with `slip` in the place of that term, which makes the problem a convex one.
    Source: V. Acary, P. Armand, H. M. Nguyen, M. Shpakovych, Comput. Methods Appl. Mech. Eng. 410 (2023),
    doi:10.1016/j.cma.2023.116000 (interior points for Coulomb's law).
    """
    floor = jnp.maximum(kappa**2, jnp.where(frozen, 1e-13, 1e-20))
    last = jnp.asarray(slip)[..., None] * jnp.array([1.0, 0.0, 0.0], problem.problem.q.dtype)

    def y_of(u: Array) -> Array:
        return jnp.where(frozen, problem.D * u + last, jax.vmap(dual)(u, problem.mu))

    e = jnp.zeros_like(problem.problem.q).at[:, 0].set(1.0)
    careful = size > 1
    kept, least = (jnp.where(careful, b, a) for a, b in zip(_BOLD, _CAREFUL, strict=True))
    y0 = 2 * jnp.max(jnp.abs(y_of(problem.velocity(size * e))))
    start = _Path(size * e, e * jnp.where(careful, jnp.maximum(1.0, y0), 1.0), jnp.zeros((), jnp.int32), jnp.asarray(needed))

    def advance(p: _Path) -> _Path:
        u = problem.velocity(p.s)
        lag = y_of(u) - p.y
        Q = scaling_point(p.s, p.y)
        solve = block_solver(problem.product, problem.matrix, Q, dual_slope(u, problem.mu, frozen), problem.D)

        def direction(aim: Array) -> tuple[Array, Array]:
            ds = solve(aim * inverse(p.s) - p.y - lag)
            return ds, aim * inverse(p.s) - p.y - jnp.einsum("nij,nj->ni", Q, ds)

        def reach(ds: Array, dy: Array) -> Array:
            return jnp.minimum(jnp.min(longest_step(p.s, ds)), jnp.min(longest_step(p.y, dy)))

        gap = jnp.mean(jnp.sum(p.s * p.y, axis=1))
        a = reach(*direction(jnp.zeros_like(gap)))
        aim = jnp.maximum(floor, jnp.clip((1 - a) ** 3, least, 0.9) * gap)
        ds, dy = direction(aim)
        a = kept * reach(ds, dy)
        s, y = p.s + a * ds, p.y + a * dy
        lag = y_of(problem.velocity(s)) - y
        near = (jnp.mean(jnp.sum(s * y, axis=1)) <= 2 * floor) & (jnp.max(jnp.abs(lag)) <= 1e-10)
        inside = (jnp.min(determinant(s)) > 0) & (jnp.min(determinant(y)) > 0) & jnp.all(jnp.isfinite(s + y))
        going = inside & ~near & (a > 1e-8) & (p.steps + 1 < most)
        return _Path(jnp.where(inside, s, p.s), jnp.where(inside, y, p.y), p.steps + 1, going)

    end = while_loop(lambda p: p.going, advance, start)
    return end.s, end.steps
