"""Engines that choose points and cells: the nearest to some places, and both parts of a mesh that is taken apart."""

import heapq
from typing import Any

import numpy as np

from .component import Component
from .coordinates import places
from .links import STATES, of_kind_upward
from .topology import CELLS

_MOST_GAPS = 200_000_000
_CELLS = {"edge": "edges", "triangle": "triangles", "quad": "quads", "tetrahedron": "tetrahedra", "hexahedron": "hexahedra"}


def _points(part: Component, of_state: str) -> np.ndarray:
    """The points that are given, or those of the state of its node or above, or those of a loader there."""
    data: Any = part.data
    given = part.reals(("rest_position", "position"), None, width=3)
    if given is not None:
        return np.asarray(given, float)
    state = of_kind_upward(part.object.node, lambda o: o.kind in STATES)
    if state is not None:
        return places(state, data.produced(state, of_state))
    loader = of_kind_upward(part.object.node, lambda o: data.is_mesh(o) and not data.is_topology(o))
    if loader is None:
        raise part.error("has no position, and there is no state or loader in its node or above")
    return data.topology(loader).position


class _Near:
    """A point and its distance: the farthest comes first."""

    def __init__(self, number: int, gap: float):
        self.number, self.gap = number, gap

    def __lt__(self, other: "_Near") -> bool:
        return self.gap > other.gap


def nearest(part: Component) -> dict[str, Any]:
    """ProximityROI: of the points within balls the `N` that are nearest to a centre, in the order of SOFA's heap; the later
    of two that are as far."""
    x, most = _points(part, "rest_position"), part.whole("N", 0)
    centers, radii = part.reals("centers", None, width=3), part.reals("radii", np.zeros(0))
    if centers is None or not len(centers) or not len(radii) or most < 1:
        raise part.error(f"needs centers, radii and N, a number of points from 1 on: N is {most}")
    if len(x) * len(centers) > _MOST_GAPS:
        raise part.error(f"has {len(x)} points and {len(centers)} centers: too many")
    radii = np.pad(radii, (0, max(len(centers) - len(radii), 0)), mode="edge")[: len(centers)]
    gaps = np.linalg.norm(x[:, None] - centers, axis=2)
    gaps = np.where(gaps < radii, gaps, np.inf).min(axis=1)
    heap: list[_Near] = []
    for i in np.flatnonzero(np.isfinite(gaps)).tolist():
        if len(heap) == most:
            if heap[0].gap < gaps[i]:
                continue
            heapq.heappop(heap)
        heapq.heappush(heap, _Near(i, float(gaps[i])))
    chosen = np.array([near.number for near in heap], np.int64)
    out = np.setdiff1d(np.arange(len(x)), chosen)
    found = {"indices": chosen, "pointIndices": chosen, "indicesOut": out, "pointsInROI": x[chosen]}
    return found | {"distance": gaps[chosen]}


def taken_apart(part: Component, name: str) -> Any:
    """SubsetTopology: what lies within a box or a ball, cells that lie in one of them, and what is left. With `localIndices`
    cells name the points of their own part, of which those on the border come first."""
    x = _points(part, "position")
    each = _within(part, x)
    inside = each.any(axis=0)
    local = part.flag("localIndices", False)
    if part.has("tetrahedraInput"):
        raise part.error("tetrahedraInput is not translated: boxes and balls are")
    border = _border(part, each) if local else np.zeros(len(x), bool)
    order = [np.concatenate([np.flatnonzero(border), np.flatnonzero(s & ~border)]) for s in (inside, ~inside)]
    found: dict[str, Any] = {"indices": order[0], "pointsInROI": x[order[0]], "pointsOutROI": x[order[1]]}
    found["nbrborder"] = border.sum()[None]
    if name in found:
        return found[name]
    for cell, plural in _CELLS.items():
        if name in (f"{cell}Indices", f"{plural}InROI", f"{plural}OutROI"):
            break
    else:
        raise part.error(f"has no data '{name}' that is translated")
    cells = _cells(part, plural, len(x))
    there = each[:, cells].all(axis=2).any(axis=0)
    if name.endswith("Indices"):
        return np.flatnonzero(there)
    picked = cells[~there if name.endswith("OutROI") else there]
    if not local:
        return picked
    number = np.zeros(len(x), np.int64)
    for rows in order:
        number[rows] = np.arange(len(rows))
    return number[picked]


def _within(part: Component, x: np.ndarray) -> np.ndarray:
    """`(regions, points)`: balls where there are `centers`, else boxes."""
    boxes = part.reals("box", np.array([[0.0, 0, 0, 1, 1, 1]]), width=6)
    centers, radii = part.reals("centers", None, width=3), part.reals("radii", np.zeros(0))
    part.ignored("direction", "normal", "edgeAngle", "triAngle")  # which SOFA reads, and does not use
    if centers is None:
        low, high = np.minimum(boxes[:, None, :3], boxes[:, None, 3:]), np.maximum(boxes[:, None, :3], boxes[:, None, 3:])
        return ((x >= low) & (x <= high)).all(axis=2)
    if len(radii) != len(centers):
        raise part.error(f"has {len(centers)} centers and {len(radii)} radii, expected as many of each")
    return np.linalg.norm(x - centers[:, None], axis=2) <= radii[:, None]


def _border(part: Component, each: np.ndarray) -> np.ndarray:
    """The points within that a tetrahedron (a triangle, where there is none) joins to points without."""
    if len(each) > 1:
        raise part.error(f"localIndices of {len(each)} boxes or balls are not translated: those of one are")
    cells = _cells(part, "tetrahedra", each.shape[1])
    cells = cells if len(cells) else _cells(part, "triangles", each.shape[1])
    crossed = cells[each[0, cells].any(axis=1) & ~each[0, cells].all(axis=1)]
    border = np.zeros(each.shape[1], bool)
    border[crossed] = True
    return border & each[0]


def _cells(part: Component, plural: str, count: int) -> np.ndarray:
    """Cells that are given; edges, triangles and tetrahedra also of the topology in its node or above."""
    data: Any = part.data
    given = part.wholes(plural, None, width=CELLS[plural])
    if given is None and plural in ("edges", "triangles", "tetrahedra"):
        mesh = of_kind_upward(part.object.node, data.is_topology)
        given = data.produced(mesh, plural) if mesh is not None else None
    given = np.zeros((0, CELLS[plural]), np.int64) if given is None else given
    if given.size and not 0 <= given.min() <= given.max() < count:
        raise part.error(f"{plural} name point {given.max()}, but there are {count}")
    return given
