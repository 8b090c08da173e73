"""The arrays that a mapping made at rest is given: frames, points in the world, and numbers of frames."""

from typing import Any

import numpy as np

from .._math.rotation import are_of_unit_length
from .._runtime.argument_checks import real_array, whole_numbers
from .._scene.parameter import is_concrete

_POINT_SIZE = {7: 3, 3: 2}  # of the points that frames of so many coordinates carry


def rest_frames(owner: str, coordinates: Any, *, name: str = "coordinates") -> Any:
    """Frames `(n, 7)` of space or `(n, 3)` of the plane, at least one, their quaternions of unit length."""
    frames = real_array(owner, name, coordinates)
    if frames.ndim != 2 or frames.shape[1] not in _POINT_SIZE or not len(frames):
        raise ValueError(f"{owner}: {name} has shape {frames.shape}, expected frames (n, 7) or (n, 3).")
    if not is_concrete(frames):
        return frames
    frames = np.asarray(frames)  # of a JAX array, rows by number are a program for each of seven operations
    if frames.shape[1] == 7:
        wrong = np.flatnonzero(~are_of_unit_length(frames[:, 3:])[:, 0])
        if wrong.size:
            raise ValueError(f"{owner}: the quaternion of {name}[{wrong[0]}], {frames[wrong[0], 3:]}, is not of length 1.")
    return frames


def rest_points(owner: str, points: Any, frames: Any) -> Any:
    """Points `(n, d)` of the dimension that the frames live in."""
    return real_array(owner, "points", points, (None, _POINT_SIZE[frames.shape[1]]))


def frame_numbers(owner: str, name: str, numbers: Any, frames: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Numbers of these frames."""
    return whole_numbers(owner, name, numbers, shape, len(frames))
