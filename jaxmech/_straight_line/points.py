"""A function of one point of an element, mapped over the points of all elements together."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from .elements import map_elements


def map_points(function: Callable, shared: Any, *arrays: Any) -> Any:
    """`function(shared, *of_one_point)` for every point (axis 0 of `arrays`) of an element.

    An element with many points is too long for a straight line; one of its points is not. Where elements are mapped, their
    points become elements of `map_elements`.
    """
    if arrays[0].shape[0] == 1:
        return jax.tree.map(lambda a: a[None], function(shared, *(a[0] for a in arrays)))
    numbers, rest = eqx.partition(shared, eqx.is_array)

    def of_point(numbers, *one):
        return function(eqx.combine(numbers, rest), *one)

    @custom_vmap
    def of_element(numbers, *arrays):
        return jax.vmap(of_point, in_axes=(None, *(0 for _ in arrays)))(numbers, *arrays)

    @of_element.def_vmap
    def of_all(size, batched, numbers, *arrays):
        points = (arrays[0].shape[1:] if batched[1] else arrays[0].shape)[0]
        axes = jax.tree.map(lambda of_its_own: 0 if of_its_own else None, batched[0])
        repeated = jax.tree.map(lambda a, own: jnp.repeat(a, points, axis=0) if own else a, numbers, batched[0])
        flat = (
            (a if own else jnp.broadcast_to(a, (size, *a.shape))).reshape(size * points, *a.shape[1 + own :])
            for a, own in zip(arrays, batched[1:], strict=True)
        )
        outcome = map_elements(of_point, (axes, *(0 for _ in arrays)), repeated, *flat)
        outcome = jax.tree.map(lambda a: a.reshape(size, points, *a.shape[1:]), outcome)
        return outcome, jax.tree.map(lambda _: True, outcome)

    return of_element(numbers, *arrays)
