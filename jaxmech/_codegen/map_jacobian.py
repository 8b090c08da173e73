"""The Jacobian of a function of one element, mapped over all of them: all its columns at once, or one after the other."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array
from .map_elements import is_compiled, map_elements, operations_of_one

# Operations of all columns, with every round of their loops. Of bodies on a chain of seven hinges (114,000) a kernel takes 7
# microseconds for 12 column by column; of nine (187,000) there is none, and XLA takes 480 for 23.
_LONG = 120_000

Shapes = tuple[tuple[int, ...], ...]


def map_jacobian(function: Callable, in_axes: Any, shapes: Shapes, *arguments: Any) -> Any:
    """`df/dd` of `function(d, *arguments)` at `d = 0`, arrays of these shapes, as `jax.jacfwd` lays it out, of each element.

    Columns that are too long together for the program of an element are mapped one direction after the other: what is not
    of the direction is computed again for each, but the program of one is short.
    """
    dtype = jnp.result_type(*jax.tree.leaves(arguments))

    def columns(*a: Any) -> Any:
        return jax.jacfwd(lambda d: function(d, *a))(tuple(jnp.zeros(shape, dtype) for shape in shapes))

    def column(e: tuple[Array, ...], *a: Any) -> Any:
        return jax.jvp(lambda d: function(d, *a), (jax.tree.map(jnp.zeros_like, e),), (e,))[1]

    directions, axes = _directions(shapes, dtype), (None, *in_axes)
    if not is_compiled() or not _are_too_long(column, axes, directions, arguments):
        return map_elements(columns, in_axes, *arguments)
    found = jax.vmap(lambda e: map_elements(column, axes, e, *arguments))(directions)
    return jax.tree.map(lambda rows: _by_shape(jnp.moveaxis(rows, 0, -1), shapes), found)


def _are_too_long(column: Callable, axes: Any, directions: tuple[Array, ...], arguments: Any) -> bool:
    one, many = tuple(e[0] for e in directions), len(directions[0])
    return many * operations_of_one(column, axes, one, *arguments) > _LONG


def _directions(shapes: Shapes, dtype: Any) -> tuple[Array, ...]:
    """The unit displacements, `(directions, *shape)` of each shape."""
    sizes = [math.prod(shape) for shape in shapes]
    columns = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    return tuple(jnp.asarray(c.reshape(-1, *shape), dtype) for c, shape in zip(columns, shapes, strict=True))


def _by_shape(columns: Array, shapes: Shapes) -> tuple[Array, ...]:
    """`(..., directions)` as an array `(..., *shape)` of each shape."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = jnp.split(columns, ends[:-1], axis=-1)
    return tuple(part.reshape(*part.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True))
