"""Conjugate gradients in few operations, for matrices that are near to their diagonals, as those of masses are."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.loops import while_loop
from ..._runtime.precision import full_precision
from ..base.vectors import Vector, dot, dtype_of, plus, zeros

_ROUNDED = 64.0  # rounding units that are left of a right-hand side, each row by the root of its diagonal entry


@full_precision
def scaled_cg(product: Callable[[Vector], Vector], entries: Vector, free: Vector | None, b: Vector) -> tuple[Vector, Array]:
    """`(P A P)^-1 b` by conjugate gradients that its diagonal scales, to rounding, and whether it was found. `A`: symmetric
    and positive definite, of which it is known that few steps are enough; `b = P b`. `free`: `P` of every node, if any is
    held.

    Without the probes, restarts, true residuals and reasons of `PCG`, an eighth of whose program it is: where there is no
    solution, numbers that are none end it.
    """

    # Nothing can be had of a row of zeros. No derivative is taken of what a solve is.
    by = {s: jnp.where(a > 0, 1 / a, jnp.where(b[s] == 0, 0, jnp.nan)) for s, a in entries.items()}

    def along(vector: Vector) -> Vector:
        # `P` of all nodes in one loop: to read, multiply and write back those that are held takes four.
        return vector if free is None else {s: jnp.sum(free[s] * a[:, None], axis=2) for s, a in vector.items()}

    def scaled(r: Vector) -> tuple[Vector, Array]:
        z = {s: by[s] * r[s] for s in r}
        return along(z), dot(r, z)

    p, rz = scaled(b)
    goal = (_ROUNDED * jnp.finfo(dtype_of(b)).eps) ** 2 * rz
    most = 10 * sum(leaf.size for leaf in jax.tree.leaves(b))

    def step(at: tuple[Array, Vector, Vector, Vector, Array]) -> tuple[Array, Vector, Vector, Vector, Array]:
        steps, x, r, p, rz = at
        Ap = along(product(p))
        curvature = dot(p, Ap)
        alpha = jnp.where(curvature > 0, rz / curvature, jnp.nan)
        r = plus(r, -alpha, Ap)
        z, after = scaled(r)
        return steps + 1, plus(x, alpha, p), r, plus(z, after / rz, p), after

    begun = (jnp.zeros((), jnp.int32), zeros(b), b, p, rz)
    _, x, _, _, left = while_loop(lambda at: (at[0] < most) & (at[4] > goal), step, begun)
    return x, left <= goal
