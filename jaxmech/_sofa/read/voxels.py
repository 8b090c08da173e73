"""Which cells of a regular grid a closed surface crosses, and which are within it."""

import numpy as np
from scipy import ndimage


def cells_of_surface(
    points: np.ndarray, triangles: np.ndarray, counts: np.ndarray, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`crossed` and `within`, one for each cell, x first. Outside is what can be reached from the rim, face by face, around
    the cells that are crossed."""
    cells = np.asarray(counts) - 1
    x = (points - low) / (high - low) * cells  # in cells
    crossed = np.zeros(cells[::-1], bool)
    home = np.clip(np.floor(x).astype(int), 0, cells - 1)
    crossed[tuple(home[np.unique(triangles)].T[::-1])] = True
    for nodes in triangles:
        first, last = home[nodes].min(0), home[nodes].max(0) + 1
        box = tuple(slice(a, b) for a, b in zip(first[::-1], last[::-1], strict=True))
        if crossed[box].all():
            continue
        k, j, i = np.meshgrid(*(np.arange(s.start, s.stop) for s in box), indexing="ij")
        centers = np.stack([i, j, k], axis=-1) + 0.5
        crossed[box] |= _meets_unit_cubes(x[nodes], centers)
    padded = np.pad(~crossed, 1, constant_values=True)
    outside = np.asarray(ndimage.label(padded)[0])  # pyright: ignore[reportIndexIssue]
    within = ~crossed & (outside != outside[0, 0, 0])[1:-1, 1:-1, 1:-1]
    return crossed.ravel(), within.ravel()


def _meets_unit_cubes(corners: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Whether a triangle meets the cubes of edge 1 about centres: no axis separates them.

    Source: T. Akenine-Möller, "Fast 3D triangle-box overlap testing", J. Graphics Tools 6 (2001) 29,
    doi:10.1080/10867651.2001.10487535.
    """
    edges = np.roll(corners, -1, axis=0) - corners
    axes = [*np.eye(3), np.cross(edges[0], edges[1]), *(np.cross(e, a) for e in edges for a in np.eye(3))]
    meets = np.ones(centers.shape[:-1], bool)
    for axis in axes:
        along, reach = corners @ axis, 0.5 * np.abs(axis).sum()
        middle = centers @ axis
        meets &= (along.min() <= middle + reach) & (along.max() >= middle - reach)
    return meets
