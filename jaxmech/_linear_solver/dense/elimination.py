"""Inverses of many small blocks, and whether they are definite, by elimination in plain operations on arrays.

Of a large batch, LAPACK of XLA:CPU (jaxlib 0.10) waits for threads of the pool in which such calls run: two of them at
once, a factor beside eigenvalues say, wait for each other for ever on two cores.
"""

import jax
import jax.numpy as jnp

from ..._math.small_matmul import times_blocks
from ..._runtime.array_types import Array, Bool, Float
from .few_unknowns import are_few, inverted

_LARGEST = 12  # rows; larger blocks are left to the library


@jax.custom_jvp
def inverse_by_elimination(blocks: Float[Array, "n b b"]) -> Float[Array, "n b b"]:
    """The inverses, by Gauss and Jordan with partial pivoting, in place; not finite where there is none. Of few rows by a
    kernel, where they are compiled."""
    b = blocks.shape[-1]
    if are_few(b):
        return inverted(blocks)
    if b > _LARGEST:
        return jnp.linalg.inv(blocks)
    rows, at = jnp.arange(b), jax.lax.dynamic_index_in_dim

    def step(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        # A column that is done is one of the identity, and would stay: that of the inverse takes its place. So the work on a
        # frame of six is no more than 512 bytes, above which loops of XLA's CPU backend take several times as long.
        work, order = carry
        largest = jnp.argmax(jnp.where(rows >= k, jnp.abs(at(work, k, 2, keepdims=False)), -1.0), axis=1)[:, None]
        done, swapped = rows == k, rows == largest
        chosen, moved = (jnp.take_along_axis(work, largest[:, :, None], 1), jnp.take_along_axis(order, largest, 1))
        work = jnp.where(swapped[:, :, None], at(work, k, 1), work)
        order = jnp.where(done, moved, jnp.where(swapped, at(order, k, 1), order))
        pivot = jnp.where(done, 1.0, chosen) / at(chosen, k, 2)
        rest = jnp.where(done, 0.0, work) - at(work, k, 2) * pivot
        return jnp.where(done[:, None], pivot, rest), order

    start = blocks, jnp.broadcast_to(rows, blocks.shape[:2])
    inverse, order = jax.lax.fori_loop(0, b, step, start)  # of the blocks with their rows in this order
    place = jnp.argmax(order[:, :, None] == rows, axis=1)
    return jnp.take_along_axis(inverse, place[:, None, :], 2)


@inverse_by_elimination.defjvp
def _inverse_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    X = inverse_by_elimination(*primals)
    return X, -times_blocks(times_blocks(X, *tangents), X)


def are_definite(blocks: Float[Array, "n b b"]) -> Bool[Array, " n"]:
    """Whether symmetric blocks are positive definite: all pivots are positive, in the order of their rows."""
    b = blocks.shape[-1]
    if b > _LARGEST:
        return jnp.isfinite(jnp.linalg.cholesky(blocks)).all((1, 2))  # NaN where there is no factor

    at = jax.lax.dynamic_index_in_dim

    def step(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        work, definite = carry
        row = at(work, k, 1)
        pivot = at(row, k, 2)
        return work - row.swapaxes(1, 2) * (row / pivot), definite & (pivot[:, 0, 0] > 0)

    return jax.lax.fori_loop(0, b, step, (blocks, jnp.ones(len(blocks), bool)))[1]
