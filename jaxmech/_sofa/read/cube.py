"""CubeTopology: the skin of a regular grid."""

from typing import Any

import numpy as np

from .component import Component
from .grids import counts
from .topology import Topology, grid

_SIDES = ((0, 0), (1, 0), (2, 0), (0, -1), (1, -1), (2, -1))  # an axis, and which of its ends


def cube(data: Any, part: Component) -> Topology:
    """CubeTopology: the outer quads of a grid and their edges.

    Points are numbered layer by layer along z, the lowest and the highest layer first; of those between, the two sides
    along x first, then those along y. `internalPoints`: all points of the grid, in its order. `splitNormals`: each side has
    points of its own, those of low x, y and z first.
    """
    del data
    n = counts(part)
    low, high = (np.asarray(part.reals(name, np.full(3, i), count=3), float) for i, name in enumerate(("min", "max")))
    sides = [part.real(name) for name in ("xmin", "ymin", "zmin", "xmax", "ymax", "zmax")]
    if None not in sides:
        low, high = np.array(sides, float).reshape(2, 3)
    part.neutral(scale=1.0)
    whole, inner, split = grid(n, low, high).position, part.flag("internalPoints", False), part.flag("splitNormals", False)
    flat = np.asarray(n) == 1
    whole[:, flat] = low[flat]  # where there is one point, it stands at the lower end
    number = np.arange(len(whole)).reshape(n[::-1]).transpose(2, 1, 0)  # by x, y, z
    if split and min(n) < 2:
        raise part.error(f"splitNormals with n = {list(n)} is not translated: two points or more along each axis are")
    each = [_side(number, axis, end).T.ravel() for axis, end in _SIDES]
    used = np.concatenate(each) if split else np.arange(len(whole)) if inner or min(n) < 2 else _skin(number)
    place = np.zeros(len(whole), np.int64)
    place[used] = np.arange(len(used))
    places, start = {}, 0
    for side, points in zip(_SIDES, each, strict=True):
        places[side] = place.copy()
        places[side][points] = start + np.arange(len(points)) if split else place[points]
        start += len(points)
    for axis in (2, 1, 0) if split else ():  # a point of several sides is that of x before y before z
        for end in (-1, 0):
            points = _side(number, axis, end).ravel()
            place[points] = places[axis, end][points]
    return Topology(whole[used], edges=place[_edges(number)], quads=_quads(number, places))


def _side(number: np.ndarray, axis: int, end: int) -> np.ndarray:
    """The points of one side, by its two axes in their order."""
    return np.moveaxis(number, axis, 2)[:, :, end]


def _skin(number: np.ndarray) -> np.ndarray:
    layers = [number[:, :, 0].T.ravel(), number[:, :, -1].T.ravel()]
    for z in range(1, number.shape[2] - 1):
        layer = number[:, :, z]
        layers += [layer[:, 0], layer[:, -1], layer[0, 1:-1], layer[-1, 1:-1]]
    return np.concatenate(layers)


def _quads(number: np.ndarray, places: dict[tuple[int, int], np.ndarray]) -> np.ndarray:
    """Those of low and high z, then y, then x; each runs round as it is seen from outside."""
    found = []
    for axis in (2, 1, 0):
        for end in (0, -1) if number.shape[axis] > 1 else (0,):
            side = places[axis, end][_side(number, axis, end)]
            a, b, c, d = side[:-1, :-1], side[1:, :-1], side[1:, 1:], side[:-1, 1:]
            ring = (a, b, c, d) if (axis == 1) == (end == 0) else (a, d, c, b)
            found.append(np.stack([corner.T.ravel() for corner in ring], axis=1))
    return np.concatenate(found)


def _edges(number: np.ndarray) -> np.ndarray:
    """Of each point in turn, to the next along x, y and z, where both are on one side along it."""
    outer = np.zeros((3, *number.shape), bool)
    for axis in range(3):
        np.moveaxis(outer[axis], axis, 0)[[0, -1]] = True
    found = []
    for axis in range(3):
        on_side = np.delete(outer, axis, 0).any(0)
        near, far = (np.moveaxis(a, axis, 0)[:-1] for a in (number, on_side)), np.moveaxis(number, axis, 0)[1:]
        start, chosen = near
        found.append(np.stack([start[chosen], far[chosen], np.full(chosen.sum(), axis)], axis=1))
    rows = np.concatenate(found)
    return rows[np.lexsort((rows[:, 2], rows[:, 0]))][:, :2]
