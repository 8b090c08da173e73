"""Which entries of a long mask are true, where no more than some are wanted."""

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array, Bool, Int

_WORD = 32  # entries that stand in one number, bit by bit


def first_where(mask: Bool[Array, " n"], size: int) -> tuple[Int[Array, " size"], Int[Array, ""]]:
    """The numbers of the first `size` entries that are true, in their order, 0 where there are fewer; and how many are true.

    `jnp.nonzero` of a given size adds up and scatters as many numbers as there are entries; here it is one for each word of
    32, in which each of the `size` halves its way to its bit.
    """
    words = jnp.pad(mask, (0, _WORD - mask.shape[0] % _WORD)).reshape(-1, _WORD)
    bits = jnp.sum(words.astype(jnp.uint32) << jnp.arange(_WORD, dtype=jnp.uint32), axis=1, dtype=jnp.uint32)
    ends = jnp.cumsum(_ones(bits))
    k = jnp.arange(size, dtype=jnp.int32)
    word = jnp.minimum(jnp.searchsorted(ends, k, side="right", method="scan_unrolled"), ends.shape[0] - 1)
    left, place = bits[word], _WORD * word.astype(jnp.int32)
    rank = k - (ends[word] - _ones(left))
    width = _WORD // 2
    while width:
        lower = _ones(left & jnp.uint32((1 << width) - 1))
        above = rank >= lower
        rank, place = jnp.where(above, rank - lower, rank), jnp.where(above, place + width, place)
        left = jnp.where(above, left >> width, left)
        width //= 2
    return jnp.where(k < ends[-1], place, 0), ends[-1]


def _ones(bits: Array) -> Array:
    return jax.lax.population_count(bits).astype(jnp.int32)
