"""What is read off a stress or a strain: invariants, principal values."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float


def von_mises(stress: Float[Array, "... 3 3"]) -> Float[Array, "..."]:
    """`sqrt(3/2 s:s)`, `s` the deviator; its derivative is 0 where it is 0."""
    mean = jnp.trace(stress, axis1=-2, axis2=-1) / 3
    deviator = stress - mean[..., None, None] * jnp.eye(3, dtype=stress.dtype)
    squared = 1.5 * jnp.sum(deviator * deviator, axis=(-2, -1))
    sheared = squared > 0
    return jnp.where(sheared, jnp.sqrt(jnp.where(sheared, squared, 1)), 0)


def principal_values(tensor: Float[Array, "... 3 3"]) -> Float[Array, "... 3"]:
    """The eigenvalues of a symmetric tensor, the largest first. Of equal ones, only their sum has a derivative."""
    return jnp.linalg.eigvalsh(tensor)[..., ::-1]
