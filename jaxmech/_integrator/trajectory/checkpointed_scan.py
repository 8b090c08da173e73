"""A loop of steps whose reverse mode keeps few of them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..._runtime.array_types import Array


def checkpointed_scan(step: Callable, start: Any, xs: Array, every: int) -> tuple[Any, Any]:
    """`lax.scan` that keeps, for reverse mode, only the carry of every `every`-th step.

    The last chunk is filled up with steps that do nothing rather than compiled a second time at its own length.
    """
    length = xs.shape[0]
    if length == 1:
        carry, y = step(start, xs[0])
        return carry, jax.tree.map(lambda a: a[None], y)
    if length <= every:
        return jax.lax.scan(step, start, xs)
    chunks = -(-length // every)
    padded = jnp.resize(xs, (chunks, every))
    real = (jnp.arange(chunks * every) < length).reshape(chunks, every)
    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(step, start, xs[0])[1])

    def guarded(carry: Any, at: tuple[Array, Array]) -> tuple[Any, Any]:
        if chunks * every == length:
            return step(carry, at[0])
        return jax.lax.cond(at[1], lambda c: step(c, at[0]), lambda c: (c, nothing), carry)

    @jax.checkpoint
    def chunk(carry: Any, part: tuple[Array, Array]) -> tuple[Any, Any]:
        return jax.lax.scan(guarded, carry, part)

    carry, ys = jax.lax.scan(chunk, start, (padded, real))
    return carry, jax.tree.map(lambda a: a.reshape(chunks * every, *a.shape[2:])[:length], ys)
