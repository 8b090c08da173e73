"""What two products tell of an operator."""

from functools import partial

import jax
import jax.numpy as jnp
import lineax as lx

from ..._runtime.array_types import Array
from .vectors import Vector, dot, dtype_of, norm, scattered

ASYMMETRY = 1e4  # rounding units by which two ways to sum u.Av may differ


def probed(operator: lx.AbstractLinearOperator) -> tuple[Array, Vector]:
    """Whether `u.Av = v.Au`, and the sizes of the rows, from the products with two fixed vectors without pattern.

    An operator that is only declared symmetric fails the first.
    """
    structure = operator.in_structure()
    both = jax.vmap(partial(scattered, structure))(jnp.arange(2))
    # One after the other: a batch of elements that are divided over devices would be brought together.
    images = jax.lax.map(operator.mv, both)
    eps = float(jnp.finfo(dtype_of(structure)).eps)
    size = jnp.sum(jax.vmap(norm)(both) * jax.vmap(norm)(images)[::-1])
    ways = jax.vmap(dot)(both, jax.tree.map(lambda a: a[::-1], images))
    rows = jax.tree.map(lambda a: jnp.abs(a[0]) + jnp.abs(a[1]), images)
    return ~(jnp.abs(ways[0] - ways[1]) > ASYMMETRY * eps * size), rows  # the caller handles NaN
