"""A loop of steps whose reverse mode keeps few of them."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.loops import SMALL
from ..._runtime.reverse_mode import anew

_REPORTED = 64  # bytes that a step says of itself in numbers of one type
MOST_KEPT = 2**28  # bytes for reverse mode, of the states of a trajectory: a batch has as many times more


def chosen_every(steps: int, state: Any, scheme: Any, solves: int = 2) -> int:
    """1, which computes no solve anew, where the states of all steps take little, or less than the steps of a chunk.

    `solves`: as many fields like velocities are kept of a step besides.
    """
    root = math.isqrt(steps - 1) + 1
    of_states = steps * (_bytes(state) + solves * _bytes(state.velocity))
    return 1 if of_states <= MOST_KEPT or of_states <= root * _bytes((state, scheme)) else root


def _bytes(tree: Any) -> int:
    """Of arrays: those of a linear system, which says where its blocks are, are as many as those of its matrix."""
    return sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(tree) if eqx.is_array(a))


def checkpointed_scan(step: Callable, start: Any, xs: Array, every: int) -> tuple[Any, Any]:
    """`lax.scan` that keeps, for reverse mode, only the carry of every `every`-th step.

    If that is each of them, also what was solved for, and no more than the matrices of a step are computed anew.
    The last chunk is filled up with steps that do nothing rather than compiled a second time at its own length.
    """
    length = xs.shape[0]
    if length == 1:
        carry, y = step(start, xs[0])
        return carry, jax.tree.map(lambda a: a[None], y)
    if every == 1:
        return _scan(anew(step), start, xs)
    if length <= every:
        return _scan(step, start, xs)
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
        return _scan(guarded, carry, part)

    carry, ys = jax.lax.scan(chunk, start, (padded, real))
    return carry, jax.tree.map(lambda a: a.reshape(chunks * every, *a.shape[2:])[:length], ys)


def _scan(step: Callable, start: Any, xs: Any) -> tuple[Any, Any]:
    """`lax.scan`; of a small scene in parts, of which each is a loop that writes to nothing large (`SMALL`)."""
    length = jax.tree.leaves(xs)[0].shape[0]
    part = _part(length, start)
    if part == 1:
        return jax.lax.scan(step, start, xs)
    parted = jax.tree.map(lambda a: a.reshape(-1, part, *a.shape[1:]), xs)
    carry, ys = jax.lax.scan(lambda carry, xs: jax.lax.scan(step, carry, xs), start, parted)
    return carry, jax.tree.map(lambda a: a.reshape(length, *a.shape[2:]), ys)


def _part(length: int, carry: Any) -> int:
    """The most steps that divide all of them and of which what is kept is small, if it is like the carry; 1 if none are."""
    largest = max(a.size * a.dtype.itemsize for a in map(jnp.asarray, jax.tree.leaves(carry)))
    return next((part for part in range(SMALL // max(largest, _REPORTED), 1, -1) if length % part == 0), 1)
