"""Which cell holds a point, and where in it. Host search."""

from typing import Any

import numpy as np

from .._runtime.argument_checks import real_array
from .mesh import Mesh
from .reference import ReferenceElement, reference_element

_CANDIDATES = 24  # cells nearest by their centre that are looked into
_NEWTON_STEPS = 25
_ROUNDING = 1e-9  # of the coordinates of a point, what its shape functions may miss it by


def locate_points(mesh: Mesh, points: Any) -> tuple[np.ndarray, np.ndarray]:
    """For every point `(n, d)`: the number of its cell, and the shape functions `(n, k)` there.

    Of the nearest cells, the one the point is deepest inside, or least outside, and then extrapolated: the shape functions
    of the point sum to 1 and give its place, however far it is. Raises `ValueError` where points and mesh differ in
    dimension, where the cells are surfaces in space (they hold no volume to be in), and for a point that no cell near it
    reaches: outside, a quad or a hexahedron that is no parallelepiped does not fill space.
    """
    reference = reference_element(mesh.kind)
    nodes, cells = np.asarray(mesh.points, float), np.asarray(mesh.cells)
    points = np.asarray(real_array("locate_points", "points", points), float)
    if points.ndim != 2 or points.shape[1] != nodes.shape[1]:
        raise ValueError(f"points have shape {points.shape}, expected (n, {nodes.shape[1]}) like those of the mesh.")
    if reference.dimension != nodes.shape[1]:
        raise ValueError(f"no points are inside a mesh of kind '{mesh.kind}' in {nodes.shape[1]} dimensions.")
    count = min(_CANDIDATES, len(cells))
    from scipy.spatial import KDTree  # imported where it is used: it takes long

    near = KDTree(nodes[cells].mean(axis=1)).query(points, k=count)[1].reshape(len(points), count)
    best, chosen = np.full(len(points), np.inf), np.zeros(len(points), np.int64)
    place = np.zeros((len(points), reference.dimension))
    for cell in near.T:
        xi = _local_coordinates(reference, nodes[cells[cell]], points)
        outside = _outside(reference, xi)
        better = outside < best  # not where it is NaN
        best[better], chosen[better], place[better] = outside[better], cell[better], xi[better]
    if np.isinf(best).any():
        lost = int(np.argmax(np.isinf(best)))
        raise ValueError(
            f"point {lost}, {points[lost]}, is outside the mesh, and the shape functions of the cells near it do not reach "
            "it, or only in huge numbers that cancel: take a point nearer to the mesh, or a mesh of simplices."
        )
    return chosen, np.asarray(reference.shape(place))


def _local_coordinates(reference: ReferenceElement, corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """`xi` with `sum_a N_a(xi) x_a = point`, NaN where none is found: one Newton step is exact in cells that are affine
    images of the reference cell, however far the point is.
    """
    centre = np.mean(np.asarray(reference.vertices, float), axis=0)
    xi, reach = np.tile(centre, (len(points), 1)), None
    for _ in range(_NEWTON_STEPS):
        gap = points - np.einsum("nk,nkd->nd", np.asarray(reference.shape(xi)), corners)
        jacobian = np.einsum("nkd,nka->nda", corners, reference.shape_gradients(xi))
        step = _solved(jacobian, gap)
        # Where cells are distorted, no step goes much further than the point is away.
        reach = 10 * (1 + np.abs(step).max(axis=1, keepdims=True)) if reach is None else reach
        xi = np.clip(xi + step, -reach, reach)
        if reference.is_affine or np.nanmax(np.abs(step), initial=0) < 1e-14:
            break
    gap = np.abs(points - np.einsum("nk,nkd->nd", np.asarray(reference.shape(xi)), corners)).max(axis=1)
    size = np.abs(points).max(axis=1) + np.abs(corners).max(axis=(1, 2))
    return np.where((gap <= _ROUNDING * size)[:, None], xi, np.nan)


def _solved(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """`A^-1 b` of every pair, NaN where a matrix is singular."""
    regular = np.linalg.det(matrices) != 0
    solution = np.full(vectors.shape, np.nan)
    solution[regular] = np.linalg.solve(matrices[regular], vectors[regular][:, :, None])[:, :, 0]
    return solution


def _outside(reference: ReferenceElement, xi: np.ndarray) -> np.ndarray:
    """How far a local coordinate is outside its cell; negative inside."""
    return np.max(
        [
            np.abs(x).max(axis=1) - 1 if x.shape[1] == 1 else np.maximum(-x.min(axis=1), x.sum(axis=1) - 1)
            for x in (xi[:, axes] for axes in reference.factor_axes)
        ],
        axis=0,
    )
