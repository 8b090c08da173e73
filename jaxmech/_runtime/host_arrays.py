"""Arrays made on the host, handed to JAX without a program.

`jnp.asarray` of a NumPy array or of a number, and `jnp.zeros`, compile a program for every shape they meet: small ones, but
a scene is made of dozens of arrays, and each program costs more than all the work of validation.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .array_types import Array
from .jax_internals import Tracer


def as_data(values: Any, dtype: Any = None) -> Array:
    """An array of JAX with the contents of a host array or of numbers, which may be changed afterwards.

    A copy of our own: on a CPU, JAX takes the memory of a host array that lies at a multiple of 64 bytes for its own,
    whatever `may_alias` says, and a scene would then change with the array of its user.
    """
    if isinstance(values, jax.Array):
        return jnp.asarray(values, dtype)
    array = jax.device_put(values if dtype is None and isinstance(values, float) else np.array(values, dtype))
    # While a function is traced it would be an equation of the trace, where `jnp.asarray` makes a constant.
    return jnp.asarray(values, dtype) if isinstance(array, Tracer) else array


def argument(values: Any, dtype: Any) -> Any:
    """Numbers of this type for a program that is about to be called, which takes arrays of the host itself: to make arrays
    of JAX of some numbers takes longer than a short program. What JAX has made is an array of JAX."""
    return jnp.asarray(values, dtype) if isinstance(values, jax.Array) else np.array(values, dtype)


def zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """`jnp.zeros`."""
    return as_data(np.zeros(shape, dtype))
