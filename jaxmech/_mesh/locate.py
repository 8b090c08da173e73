"""Which cell holds a point, and where in it. Host search."""

from typing import Any

import numpy as np
from scipy.spatial import KDTree

from .._check import real_array
from .mesh import Mesh
from .reference import ReferenceElement, reference_element

_CANDIDATES = 24  # cells nearest by their centre that are looked into
_NEWTON_STEPS = 25


def locate_points(mesh: Mesh, points: Any) -> tuple[np.ndarray, np.ndarray]:
    """For every point `(n, d)`: the number of its cell, and the shape functions `(n, k)` there.

    Of the nearest cells, the one the point is deepest inside, or least outside. Raises `ValueError` where points and
    mesh differ in dimension, or where the cells are surfaces in space (they hold no volume to be in).
    """
    reference = reference_element(mesh.kind)
    nodes, cells = np.asarray(mesh.points, float), np.asarray(mesh.cells)
    points = np.asarray(real_array("locate_points", "points", points), float)
    if points.ndim != 2 or points.shape[1] != nodes.shape[1]:
        raise ValueError(f"points have shape {points.shape}, expected (n, {nodes.shape[1]}) like those of the mesh.")
    if reference.dimension != nodes.shape[1]:
        raise ValueError(f"no points are inside a mesh of kind '{mesh.kind}' in {nodes.shape[1]} dimensions.")
    count = min(_CANDIDATES, len(cells))
    near = KDTree(nodes[cells].mean(axis=1)).query(points, k=count)[1].reshape(len(points), count)
    best, chosen = np.full(len(points), np.inf), np.zeros(len(points), np.int64)
    place = np.zeros((len(points), reference.dimension))
    for cell in near.T:
        xi = _local_coordinates(reference, nodes[cells[cell]], points)
        outside = _outside(reference, xi)
        better = outside < best
        best[better], chosen[better], place[better] = outside[better], cell[better], xi[better]
    return chosen, np.asarray(reference.shape(place))


def _local_coordinates(reference: ReferenceElement, corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """`xi` with `sum_a N_a(xi) x_a = point`: one Newton step is exact in simplices."""
    centre = np.mean(np.asarray(reference.vertices, float), axis=0)
    xi = np.tile(centre, (len(points), 1))
    for _ in range(1 if reference.is_simplex else _NEWTON_STEPS):
        gap = points - np.einsum("nk,nkd->nd", np.asarray(reference.shape(xi)), corners)
        jacobian = np.einsum("nkd,nka->nda", corners, reference.shape_gradients(xi))
        step = np.linalg.solve(jacobian, gap[:, :, None])[:, :, 0]
        xi = np.clip(xi + step, -10, 10)
        if np.abs(step).max(initial=0) < 1e-14:
            break
    return xi


def _outside(reference: ReferenceElement, xi: np.ndarray) -> np.ndarray:
    """How far a local coordinate is outside its cell; negative inside."""
    return np.max(
        [
            np.abs(x).max(axis=1) - 1 if x.shape[1] == 1 else np.maximum(-x.min(axis=1), x.sum(axis=1) - 1)
            for x in (xi[:, axes] for axes in reference.factor_axes)
        ],
        axis=0,
    )
