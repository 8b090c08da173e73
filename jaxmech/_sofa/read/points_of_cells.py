"""Points at the same places of all cells of a mesh: what Mesh2PointTopologicalMapping makes."""

import numpy as np

from .component import Component
from .topology import Topology

_HEXAHEDRON = ((0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1))
_QUAD = ((0, 0), (1, 0), (0, 1), (1, 1))  # SOFA's: its third corner is across from the second


def _simplex(at: np.ndarray, corners: int) -> np.ndarray:
    at = at[:, : corners - 1]
    return np.concatenate([1 - at.sum(axis=1, keepdims=True), at], axis=1)


def _product(at: np.ndarray, corners: tuple[tuple[int, ...], ...]) -> np.ndarray:
    c = np.asarray(corners)
    at = at[:, None, : c.shape[1]]
    return np.prod(np.where(c, at, 1 - at), axis=2)


def points_of_cells(part: Component, mesh: Topology) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes and weights `(n, 8)` of each point, and by how much it lies beside their sum `(n, 3)`: of points, edges,
    triangles, quads, tetrahedra and hexahedra in this order, as many of each as coordinates are given for it."""
    kinds = {
        "point": (np.arange(len(mesh.position))[:, None], lambda at: np.ones((len(at), 1))),
        "edge": (mesh.all_edges(), lambda at: _simplex(at, 2)),
        "triangle": (mesh.triangles, lambda at: _simplex(at, 3)),
        "quad": (mesh.quads, lambda at: _product(at, _QUAD)),
        "tetra": (mesh.tetrahedra, lambda at: _simplex(at, 4)),
        "hexa": (mesh.hexahedra, lambda at: _product(at, _HEXAHEDRON)),
    }
    nodes, weights, shifts = [], [], []
    for kind, (cells, shape) in kinds.items():
        at = part.reals(f"{kind}BaryCoords", np.zeros((0, 3)), width=3)
        if not len(at):
            continue
        if not len(cells):
            raise part.error(f"{kind}BaryCoords are given, but the topology of its input has no {kind}")
        wide = np.zeros((len(at), 8))
        wide[:, : cells.shape[1]] = shape(at)
        nodes.append(np.repeat(np.pad(cells, ((0, 0), (0, 8 - cells.shape[1]))), len(at), axis=0))
        weights.append(np.tile(wide, (len(cells), 1)))
        shifts.append(np.tile(at if kind == "point" else np.zeros_like(at), (len(cells), 1)))
    if not nodes:
        raise part.error("has no pointBaryCoords, edgeBaryCoords or others: it makes no points")
    return np.concatenate(nodes), np.concatenate(weights), np.concatenate(shifts)
