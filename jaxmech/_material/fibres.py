"""How much fibres are stretched."""

import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float, Scalar
from .strain import displacement_gradient


def fibre_strain(F: Float[Array, "3 3"], direction: Float[Array, " 3"]) -> Scalar:
    """`|F a|^2 - 1` of the unit vector `a` along `direction`, without cancellation at rest: `2 a.H a + |H a|^2`."""
    a = direction / jnp.sqrt(jnp.sum(direction * direction))
    moved = jnp.sum(displacement_gradient(F) * a[None, :], axis=1)
    return 2 * jnp.sum(a * moved) + jnp.sum(moved * moved)


def some_direction(directions: np.ndarray) -> np.ndarray:
    """Whether rows `(..., 3)` point somewhere, in their shape."""
    return np.broadcast_to((directions != 0).any(axis=-1, keepdims=True), directions.shape)
