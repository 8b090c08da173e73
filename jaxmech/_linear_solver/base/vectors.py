"""Vectors of unknowns as pytrees: dictionaries by state, or single arrays."""

from typing import Any

import jax
import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.devices import over_parts

Vector = Any  # a pytree of arrays of one dtype


def dot(a: Vector, b: Vector) -> Array:
    """The sum of products over all states, and over all parts where each device has one (nil in rows of others)."""
    parts = [jnp.sum(p * q) for p, q in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)]
    return over_parts(sum(parts[1:], parts[0]))


def norm(a: Vector) -> Array:
    """The 2-norm over all states."""
    return jnp.sqrt(dot(a, a))


def plus(a: Vector, factor: Any, b: Vector) -> Vector:
    """`a + factor b`."""
    return jax.tree.map(lambda p, q: p + factor * q, a, b)


def minus(a: Vector, b: Vector) -> Vector:
    """`a - b`."""
    return jax.tree.map(jnp.subtract, a, b)


def zeros(a: Vector) -> Vector:
    """A vector of zeros like another."""
    return jax.tree.map(jnp.zeros_like, a)


def choose(condition: Any, a: Vector, b: Vector) -> Vector:
    """`a` where a scalar condition holds, `b` where not."""
    return jax.tree.map(lambda p, q: jnp.where(condition, p, q), a, b)


def alike(a: Vector, like: Vector) -> Vector:
    """`a` with arrays of the types of another, as loops ask."""
    return jax.tree.map(lambda p, q: jnp.asarray(p, jnp.result_type(q)), a, like)


def dtype_of(a: Vector) -> Any:
    """The dtype of a vector, or of its structure."""
    return jnp.result_type(*jax.tree.leaves(a))


def scattered(structure: Vector, seed: int | Array) -> Vector:
    """Fixed numbers between -1 and 1 without pattern: an integer hash of their places."""
    leaves, tree = jax.tree.flatten(structure)
    filled = []
    for number, leaf in enumerate(leaves):
        first = jnp.asarray(7919 * (seed + 1) + 104729 * number, jnp.uint32)
        h = (jnp.arange(leaf.size, dtype=jnp.uint32) + first) * jnp.uint32(2654435761)
        h = (h ^ (h >> 15)) * jnp.uint32(2246822519)
        h = h ^ (h >> 13)
        filled.append((h.astype(leaf.dtype) / 2.0**31 - 1).reshape(leaf.shape))
    return jax.tree.unflatten(tree, filled)
