"""Whether the gaps of contacts contradict each other, whatever friction does."""

import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .scaled import ScaledProblem

_TURNS = 50


def contradict(scaled: ScaledProblem, asked: Array) -> Array:
    """Whether there are `y >= 0` with `W_nn y = 0`, `q_n . y < 0`, where that is `asked`.

    Then `W y = 0`, as `W` is a square, and `y . u_n = y . q_n < 0` whatever the impulses are: not all of these contacts can
    open (J. Farkas, J. Reine Angew. Math. 124 (1902) 1). `y` is looked for as the solution of `0 <= y _|_ (W_nn + e) y + q_n
    >= 0`, which grows as `1 / e`, by its active set (M. Hintermueller, K. Ito, K. Kunisch, SIAM J. Optim. 13 (2002) 865,
    doi:10.1137/S1052623401383558), and is looked at whether it was found or not: it is enough if impulses that open all of
    them would have to be a million times those of the problem (400 in single precision).
    """
    matrix = scaled.matrix
    if matrix is None:
        return jnp.zeros((), bool)
    W, q = matrix[::3, ::3], scaled.q[:, 0]
    eps = jnp.finfo(q.dtype).eps
    soft, one = W + eps**0.625 * jnp.eye(q.size, dtype=q.dtype), jnp.eye(q.size, dtype=q.dtype)

    def advance(p: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        _, active, turns, _ = p
        y = jnp.linalg.solve(jnp.where(active[:, None] & active, soft, one), jnp.where(active, -q, 0.0))
        chosen = jnp.where(active, y > 0, soft @ y + q < 0)
        return y, chosen, turns + 1, jnp.any(chosen != active) & (turns + 1 < _TURNS)

    start = jnp.zeros_like(q), q < 0, jnp.zeros((), jnp.int32), asked
    y = jnp.maximum(while_loop(lambda p: p[3], advance, start)[0], 0.0)
    return asked & (jnp.max(jnp.abs(W @ y), initial=0.0) < -(eps**0.375) * (q @ y))
