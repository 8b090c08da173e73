"""A function of one point of an element, mapped over the points of all elements together."""

from collections.abc import Callable
from typing import Any

import jax

from .map_elements import is_compiled, trace_and_map, vmap_elements


def map_points(function: Callable, shared: Any, *arrays: Any, axes: Any = None) -> Any:
    """`function(shared, *of_one_point)` for every point (axis 0 of `arrays`) of an element.

    `axes`: of the leaves of `shared`, of which some may have a value for each point as well.

    An element with many points is too long to scalarise; one of its points is not. Where elements are mapped, their
    points become elements of `map_elements`.
    """
    if arrays[0].shape[0] == 1:
        return jax.tree.map(lambda a: a[None], function(_of_one_point(shared, axes), *(a[0] for a in arrays)))
    mapped = trace_and_map if is_compiled() else vmap_elements
    return mapped(function, (axes, *(0 for _ in arrays)), shared, *arrays)


def _of_one_point(shared: Any, axes: Any) -> Any:
    if axes is None:
        return shared
    return jax.tree.map(lambda axis, a: a if axis is None else a[0], axes, shared, is_leaf=lambda axis: axis is None)
