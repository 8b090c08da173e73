"""What two products tell of an operator."""

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
    u, v = scattered(structure, 0), scattered(structure, 1)
    # One after the other: a batch of elements that are divided over devices would be brought together.
    both = jax.lax.map(operator.mv, jax.tree.map(lambda *a: jnp.stack(a), u, v))
    Au, Av = (jax.tree.map(lambda a, i=i: a[i], both) for i in range(2))
    eps = float(jnp.finfo(dtype_of(structure)).eps)
    size = norm(u) * norm(Av) + norm(v) * norm(Au)
    gap = jnp.abs(dot(u, Av) - dot(v, Au))
    rows = jax.tree.map(lambda p, q: jnp.abs(p) + jnp.abs(q), Au, Av)
    return ~(gap > ASYMMETRY * eps * size), rows  # the caller handles NaN
