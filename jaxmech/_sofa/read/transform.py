"""Scale, rotation and translation of what is loaded: first one, then the next."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.spatial.transform import Rotation

from .component import Component
from .topology import Topology


def placed(part: Component, scale: str = "scale3d") -> Callable[[np.ndarray], np.ndarray]:
    """Where a component says that points shall be: a function of points `(n, 3)` or frames `(n, 7)`. `scale`: what it calls
    the three factors."""
    factors = part.reals(scale, np.ones(3), count=3)
    if scale != "scale" and part.has("scale"):
        one = part.single("scale", 1.0)
        factors = one * (factors if part.object.kind.endswith("Loader") else np.ones(3))
    factors = _by_axis(part, "s", 1.0, factors)
    turn = _by_axis(part, "r", 0.0, part.reals("rotation", np.zeros(3), count=3))
    shift = _by_axis(part, "d", 0.0, part.reals("translation", np.zeros(3), count=3))
    R = _euler(np.deg2rad(turn))

    def place(x: np.ndarray) -> np.ndarray:
        if x.shape[1] not in (3, 7):
            if (factors != 1).any() or turn.any():
                raise part.error("scale and rotation are those of points and frames of space")
            return x + shift[: x.shape[1]]
        points, frames = factors * x[:, :3], x[:, 3:]
        if turn.any():
            points, frames = points @ R.T, _turned(R, frames)
        return np.concatenate([points + shift, frames], axis=1)

    return place


def _by_axis(part: Component, what: str, usual: float, otherwise: np.ndarray) -> np.ndarray:
    """Three numbers that are said one by one, which take the place of what is said of all."""
    names = [what + axis for axis in "xyz"]
    return np.array([part.single(name, usual) for name in names]) if part.has(*names) else otherwise


def moved(mesh: Topology, place: Callable[[np.ndarray], np.ndarray]) -> Topology:
    """A mesh whose points are placed elsewhere."""
    return replace(mesh, position=place(mesh.position))


def _euler(angles: np.ndarray) -> np.ndarray:
    """About x, then y, then z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    X = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    Y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    Z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return Z @ Y @ X


def _turned(R: np.ndarray, quaternions: np.ndarray) -> np.ndarray:
    """Frames `(n, 4)` turned by `R`; nothing of points `(n, 0)`."""
    if not quaternions.shape[1]:
        return quaternions
    return (Rotation.from_matrix(R) * Rotation.from_quat(quaternions)).as_quat()
