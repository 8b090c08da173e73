"""GenerateSphere: a Platonic solid whose faces are divided, and whose points lie on a sphere."""

from itertools import combinations
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from .component import Component
from .grids import MOST_POINTS
from .topology import TETRAHEDRON_FACES

_OCTAHEDRON = ((0, 1, 2), (0, 2, 4), (0, 4, 5), (0, 5, 1), (1, 5, 3), (1, 3, 2), (3, 5, 4), (2, 3, 4))
_TURN = (1.37492558, 0.63604261, -1.75291257)  # of the icosahedron, which lies askew [rad]


def _tetrahedron() -> tuple[np.ndarray, np.ndarray]:
    a, b = np.sqrt(2) / 3, np.sqrt(2 / 3)
    return np.array([[0, 0, 1], [0, 2 * a, -1 / 3], [-b, -a, -1 / 3], [b, -a, -1 / 3]]), np.asarray(TETRAHEDRON_FACES)


def _octahedron() -> tuple[np.ndarray, np.ndarray]:
    half = np.eye(3)[[2, 0, 1]]
    return np.concatenate([half, -half]), np.asarray(_OCTAHEDRON)


def _icosahedron() -> tuple[np.ndarray, np.ndarray]:
    """Faces by their numbers, the lowest first, run through so that they look inwards."""
    g = (1 + np.sqrt(5)) / 2
    half = np.array([[g, 1, 0], [g, -1, 0], [1, 0, -g], [0, g, -1], [0, g, 1], [1, 0, g]]) / np.sqrt(1 + g * g)
    x = Rotation.from_rotvec(_TURN).apply(np.concatenate([half, -half]))
    near = x @ x.T > 0
    faces = [f for f in combinations(range(12), 3) if near[f[0], f[1]] and near[f[0], f[2]] and near[f[1], f[2]]]
    return x, np.array(sorted(f if np.linalg.det(x[list(f)]) < 0 else (f[0], f[2], f[1]) for f in faces))


_SOLIDS = {"tetrahedron": _tetrahedron, "octahedron": _octahedron, "icosahedron": _icosahedron}


def sphere(part: Component) -> dict[str, Any]:
    """The triangles of a sphere, and tetrahedra between these and its centre, the first of their points."""
    solid = part.choice("platonicSolid", "icosahedron", _SOLIDS)
    n, radius = part.whole("tessellationDegree", 1), part.real("radius", 0.2)
    origin = np.asarray(part.reals("origin", np.zeros(3), count=3), float)
    for name in ("BezierTriangleDegree", "BezierTetrahedronDegree"):
        if part.whole(name, 0) > 1:
            raise part.error(f"{name} above 1 is not translated: straight triangles and tetrahedra are")
    if n < 1 or 10.0 * n * n > MOST_POINTS:
        raise part.error(f"tessellationDegree is {n}, expected 1 or more, of at most {MOST_POINTS} points")
    corners, faces = _SOLIDS[solid]()
    x, triangles = _divided(corners, faces, n)
    found: dict[str, Any] = {"output_TrianglesPosition": radius * x + origin, "triangles": triangles}
    if solid == "tetrahedron" and n == 1:
        found["tetrahedra"] = np.arange(4)[None]
    else:
        x = np.concatenate([np.zeros((1, 3)), x])
        found["tetrahedra"] = np.pad(triangles + 1, ((0, 0), (1, 0)))
    return found | {name: radius * x + origin for name in ("output_TetrahedraPosition", "position", "output_position")}


def _divided(corners: np.ndarray, faces: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and triangles of faces whose edges are divided in `n`: corners, points along each edge at equal angles, then
    those within each face, sums of its corners."""
    ends = np.stack([np.roll(faces, -1, axis=1), np.roll(faces, -2, axis=1)], axis=2)  # of the edge across from a corner
    edges, number = np.unique(np.sort(ends.reshape(-1, 2), axis=1), axis=0, return_inverse=True)
    low, high = corners[edges[:, 0]], corners[edges[:, 1]]
    angle = np.arccos(np.sum(low * high, axis=1))[:, None, None]
    share = (np.arange(1, n) / n)[None, :, None]
    along = (np.sin((1 - share) * angle) * low[:, None] + np.sin(share * angle) * high[:, None]) / np.sin(angle)
    weights = np.array([(j, k, n - j - k) for j in range(1, n) for k in range(1, n - j)]).reshape(-1, 3)
    within = np.einsum("wc,fcd->fwd", weights, corners[faces])
    within = within / np.linalg.norm(within, axis=2, keepdims=True)
    x = np.concatenate([corners, along.reshape(-1, 3), within.reshape(-1, 3)])
    steps = np.arange(n - 1)
    steps = np.where((ends[..., 0] < ends[..., 1])[..., None], steps, steps[::-1])
    of_edges = len(corners) + (n - 1) * number.reshape(faces.shape)[..., None] + steps
    first = len(corners) + (n - 1) * len(edges)
    of_faces = first + np.arange(len(faces) * len(weights)).reshape(len(faces), -1)
    whole = np.concatenate([faces, of_edges.reshape(len(faces), -1), of_faces], axis=1)
    return x, whole[:, _small_triangles(n, weights)].reshape(-1, 3)


def _small_triangles(n: int, weights: np.ndarray) -> np.ndarray:
    """The triangles that one of `n` divisions falls into, by the numbers of its corners, the points on its edges and those
    within."""
    places = [(n, 0, 0), (0, n, 0), (0, 0, n)]
    places += [tuple(np.roll((0, n - k, k), j).tolist()) for j in range(3) for k in range(1, n)]
    known = {place: i for i, place in enumerate([*places, *map(tuple, weights.tolist())])}
    rows = []
    for i in range(1, n + 1):
        for j in range(n - i + 1):
            k = n - i - j
            a, b, c = known[i, j, k], known[i - 1, j + 1, k], known[i - 1, j, k + 1]
            rows.append((a, b, c))
            if k:
                rows.append((a, known[i, j + 1, k - 1], b))
    return np.array(rows)
