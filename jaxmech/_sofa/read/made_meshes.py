"""Loaders that load nothing: meshes by a rule."""

from typing import Any

import numpy as np

from .component import Component
from .grids import MOST_POINTS
from .topology import Topology, grid

_SPLITS = {"up": ((0, 1, 2), (0, 2, 3)), "down": ((0, 1, 3), (1, 2, 3))}


def string(part: Component) -> Topology:
    """StringMeshCreator: points and edges along x."""
    n = part.whole("resolution", 2)
    if not 2 <= n <= MOST_POINTS:
        raise part.error(f"resolution is {n}, expected at least 2 points")
    edges = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    return Topology(np.stack([np.arange(n) / (n - 1), np.zeros(n), np.zeros(n)], axis=1), edges=edges)


def sheet(part: Component) -> Topology:
    """GridMeshCreator: a unit square of `resolution` points. `trianglePattern`: of quads (0), or of two triangles for each,
    split the one way and the other in turn (1), along their first diagonal (2), or along the second (3)."""
    n = part.wholes("resolution", np.array([2, 2]))
    if len(n) != 2 or n.min() < 2 or np.prod(n.astype(float)) > MOST_POINTS:
        raise part.error(f"resolution is {n.tolist()}, expected two numbers of points, of 2 to {MOST_POINTS} in all")
    pattern = part.whole("trianglePattern", 2)
    if pattern not in (0, 1, 2, 3):
        raise part.error(f"trianglePattern is {pattern}, expected 0 to 3")
    part.ignored("filename")
    flat = grid((int(n[0]), int(n[1]), 1), np.zeros(3), np.array([1.0, 1, 0]))
    cells: dict[str, Any] = {"quads": flat.quads}
    if pattern:
        number = np.arange(len(flat.quads))
        odd = (number % (n[0] - 1) + number // (n[0] - 1)) % 2 == 1
        down = {1: odd, 2: np.zeros_like(odd), 3: np.ones_like(odd)}[pattern]
        up, low = (flat.quads[:, np.array(split)] for split in _SPLITS.values())
        cells = {"triangles": np.where(down[:, None, None], low, up).reshape(-1, 3)}
    ring = next(iter(cells.values()))
    sides = np.stack([ring, np.roll(ring, -1, axis=1)], axis=2).reshape(-1, 2)
    _, first = np.unique(np.sort(sides, axis=1), axis=0, return_index=True)
    edges = sides[first]
    return Topology(flat.position, edges=edges[np.lexsort((edges[:, 1], edges[:, 0]))], **cells)


MADE = {"StringMeshCreator": string, "GridMeshCreator": sheet}
