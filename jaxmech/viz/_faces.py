"""The polygons that show cells: cells of the plane and of sheets as they are, of solids the skin."""

from collections.abc import Iterable

import numpy as np

from .._mesh.reference import reference_element


def ring(nodes: int) -> list[int]:
    """The nodes of a cell in the plane in their order round it: corners first, then those in the middle of its edges."""
    corners = {3: 3, 6: 3, 4: 4, 8: 4, 9: 4}[nodes]
    if corners == nodes:
        return list(range(nodes))
    return [n for i in range(corners) for n in (i, corners + i)]


def polygons_of(kind: str, cells: np.ndarray) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Polygons (m, k) of cells (e, n), and the cells they belong to; in as many groups as there are kinds of faces.

    Of solids all faces, the inner ones too (see `outer`). Nothing of edges.
    """
    reference = reference_element(kind)
    if reference.dimension == 2:
        yield cells[:, ring(cells.shape[1])], np.arange(len(cells))
    elif reference.dimension == 3:
        for size in sorted({len(face) for face in reference.faces}):
            faces = np.array([np.array(face)[ring(size)] for face in reference.faces if len(face) == size])
            yield cells[:, faces].reshape(-1, faces.shape[1]), np.repeat(np.arange(len(cells)), len(faces))


def outer(groups: list[np.ndarray]) -> list[np.ndarray]:
    """Of each group of faces, which belong to one cell only; cells of all groups, of several kinds, counted together."""
    most = max(g.shape[1] for g in groups)
    keys = [np.pad(np.sort(g, 1), ((0, 0), (most - g.shape[1], 0)), constant_values=-1) for g in groups]
    _, which, counts = np.unique(np.concatenate(keys), axis=0, return_inverse=True, return_counts=True)
    alone = counts[which.ravel()] == 1
    return np.split(alone, np.cumsum([len(g) for g in groups])[:-1])


def fan(polygons: np.ndarray) -> np.ndarray:
    """Triangles in place of polygons, (m (k - 2), 3), those of one polygon together."""
    k = polygons.shape[1]
    return np.stack([polygons[:, [0, i, i + 1]] for i in range(1, k - 1)], 1).reshape(-1, 3)


def normals(points: np.ndarray, polygons: np.ndarray) -> np.ndarray:
    """Vectors across polygons in space, as long as twice their area."""
    x = points[polygons]
    return np.cross(x, np.roll(x, -1, axis=1)).sum(1)
