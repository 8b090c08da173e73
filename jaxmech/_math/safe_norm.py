"""The length of a vector with derivatives that exist where it is zero."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar


def safe_length(d: Float[Array, " n"]) -> Scalar:
    """`|d|`; at `d = 0` it is zero and so are its derivatives (a direction would be arbitrary)."""
    square = d @ d
    apart = square > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1.0)), 0.0)


def safe_direction(d: Float[Array, " n"]) -> Float[Array, " n"]:
    """`d / |d|`; zero at `d = 0`."""
    length = safe_length(d)
    return d / jnp.where(length > 0, length, 1.0)
