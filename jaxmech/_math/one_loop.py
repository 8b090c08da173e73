"""Reductions in one loop. Of one result XLA:CPU makes two loops, of pieces and of what they gave, and neither joins what is
reduced; two results that are both asked for come from one. Of 48 x 48 numbers that is 0.4 instead of 2.8 us of a step.
"""

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Bool, Float

_Two = tuple[Array, Array]


def extremes(values: Float[Array, "..."]) -> _Two:
    """The least and the largest number; infinities of no numbers."""
    start = jnp.full((), jnp.inf, values.dtype)
    least, most = jax.lax.reduce((values, values), (start, -start), _lower_and_higher, range(values.ndim))
    return least, most


def is_any(flags: Bool[Array, "..."]) -> Bool[Array, ""]:
    """Whether a flag is set."""
    some, every = _some_and_every(flags)
    return some | (every & (flags.size > 0))  # without the second XLA drops it, and makes two loops of the first


def are_all(flags: Bool[Array, "..."]) -> Bool[Array, ""]:
    """Whether all flags are set."""
    some, every = _some_and_every(flags)
    return every & (some | (flags.size == 0))


def _some_and_every(flags: Bool[Array, "..."]) -> _Two:
    some, every = jax.lax.reduce((flags, flags), (np.False_, np.True_), _either_and_both, range(flags.ndim))
    return some, every


def _either_and_both(a: _Two, b: _Two) -> _Two:
    return a[0] | b[0], a[1] & b[1]


def _lower_and_higher(a: _Two, b: _Two) -> _Two:
    return jax.lax.min(a[0], b[0]), jax.lax.max(a[1], b[1])
