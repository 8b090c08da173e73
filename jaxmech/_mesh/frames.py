"""Frames along a line of points: where beams begin."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_on_host, real_array
from .._runtime.array_types import Array
from .._runtime.host_arrays import as_data


def frames_along(points: Any, normal: Any = None) -> Array:
    """`Rigid3` coordinates `(n, 7)` at `points` `(n, 3)` [m], x along the line, y turned with it and nothing more.

    Tangents are those of circles through neighbours; the second axis is carried along without twist (double reflection).
    `normal` `(3,)`: where y points at the first point, less its part along the line; the coordinate axis that is furthest
    from the line unless given. Host only. Raises `ValueError` for fewer than two points, points that coincide, and a
    normal along the line.
    Source: W. Wang, B. Juettler, D. Zheng, Y. Liu, ACM Trans. Graph. 27 (2008) 2, doi:10.1145/1330511.1330513.

    Example:

        frames = jm.mesh.frames_along([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 0.0]], normal=[0.0, 0.0, 1.0])
        body = jm.mapping.RigidMapping(("f", [1]), "tip", [[0.5, 0.1, 0.0]])  # along the line, and along y of the frame
        scene = jm.System({"f": jm.Rigid3(), "tip": jm.Vec3()}, mappings={"tip": body})
        tip = jm.kinematics(scene, scene.at_rest({"f": frames}))["tip"]
        assert jnp.allclose(tip, jnp.array([[0.0, 1.5, 0.1]]), atol=1e-6)  # [m]
    """
    from scipy.spatial.transform import Rotation

    dtype = real_array("frames_along", "points", points).dtype
    check_on_host("frames_along", "the axes", points, normal)
    x = np.asarray(points, float)
    if x.ndim != 2 or x.shape[1] != 3 or len(x) < 2:
        raise ValueError(f"frames_along: points has shape {x.shape}, expected (points, 3), two points at least.")
    chords = np.diff(x, axis=0)
    lengths = np.linalg.norm(chords, axis=1)
    if not lengths.min() > 0:
        raise ValueError(f"frames_along: points[{int(np.argmin(lengths))}] and the next coincide.")
    tangents = _tangents(chords / lengths[:, None], lengths)
    first = np.eye(3)[int(np.argmin(np.abs(tangents[0])))] if normal is None else _vector(normal)
    second = first - (first @ tangents[0]) * tangents[0]
    if not np.linalg.norm(second) > 1e-9 * np.linalg.norm(first):
        raise ValueError(f"frames_along: normal {first} is along the line.")
    axes = [second / np.linalg.norm(second)]
    for i, chord in enumerate(chords):
        seconds = _reflected(np.stack([axes[-1], tangents[i]]), chord)
        axes.append(_reflected(seconds[:1], tangents[i + 1] - seconds[1])[0])
    y = np.stack(axes)
    turns = Rotation.from_matrix(np.stack([tangents, y, np.cross(tangents, y)], axis=2))
    return as_data(np.concatenate([x, turns.as_quat()], axis=1), dtype)


def upright_frames(points: Array) -> Array:
    """Frames at points of space `(n, 3)` that are not turned, of the same type."""
    upright = np.tile(np.array([0, 0, 0, 1], points.dtype), (len(points), 1))
    return jnp.concatenate([points, upright], axis=1)


def section_axes(owner: str, chords: np.ndarray, normal: Any = None) -> np.ndarray:
    """Quaternions `(e, 4)` of axes with x along each chord `(e, 3)` and y towards a `normal`, as `frames_along` takes it."""
    from scipy.spatial.transform import Rotation

    x = chords / np.linalg.norm(chords, axis=1, keepdims=True)
    if normal is None:
        first = np.eye(3)[np.argmin(np.abs(x), axis=1)]
    else:
        first = np.asarray(real_array(owner, "normal", normal), float)
        if first.shape not in ((3,), x.shape):
            raise ValueError(f"{owner}: normal has shape {first.shape}, expected (3,) or {x.shape}.")
        first = np.broadcast_to(first, x.shape)
    y = first - (first * x).sum(axis=1, keepdims=True) * x
    sizes = np.linalg.norm(y, axis=1)
    along = ~(sizes > 1e-9 * np.linalg.norm(first, axis=1))
    if along.any():
        raise ValueError(f"{owner}: normal {first[along][0]} is along element {int(np.argmax(along))}.")
    y = y / sizes[:, None]
    return Rotation.from_matrix(np.stack([x, y, np.cross(x, y)], axis=2)).as_quat().reshape(-1, 4)


def _vector(normal: Any) -> np.ndarray:
    return np.asarray(real_array("frames_along", "normal", normal, (3,)), float)


def _tangents(chords: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Those of the circle through a point and its neighbours; at the ends, the neighbour's mirrored at the chord."""
    if len(chords) == 1:
        return np.repeat(chords, 2, axis=0)
    inner = chords[:-1] * lengths[1:, None] + chords[1:] * lengths[:-1, None]
    sizes = np.linalg.norm(inner, axis=1, keepdims=True)
    if not (sizes > 1e-9 * (lengths[1:] + lengths[:-1])[:, None]).all():
        raise ValueError("frames_along: points turn back on themselves.")
    inner = inner / sizes
    ends = [2 * (t @ c) * c - t for t, c in ((inner[0], chords[0]), (inner[-1], chords[-1]))]
    return np.concatenate([ends[:1], inner, ends[1:]])


def _reflected(vectors: np.ndarray, across: np.ndarray) -> np.ndarray:
    square = across @ across
    return vectors if square < 1e-30 else vectors - 2 / square * np.outer(vectors @ across, across)
