"""Coordinates of the nodes of a state."""

import numpy as np

from .component import Component
from .graph import SceneObject
from .scene_error import shown


def coordinates(state: SceneObject) -> int:
    """How many coordinates a node of a state has, by its template."""
    name = state.data.get("template", "Vec3").strip().rstrip("df") or "Vec3"
    widths = {"Vec1": 1, "Vec2": 2, "Vec3": 3, "Rigid2": 3, "Rigid3": 7}
    if name not in widths:
        raise state.error(f"template {shown(state.data['template'])} is not translated: {sorted(widths)} are")
    return widths[name]


def as_coordinates(part: Component, source: np.ndarray, width: int) -> np.ndarray:
    """Numbers of a link as coordinates: points stand for frames that are not turned."""
    if source.ndim == 2 and source.shape[1] == width:
        return source
    if source.ndim == 2 and width == 7 and source.shape[1] == 3:
        return np.concatenate([source, np.tile([0.0, 0.0, 0.0, 1.0], (len(source), 1))], axis=1)
    if source.ndim == 2 and width < source.shape[1]:
        return source[:, :width]
    if source.size % width:
        raise part.error(f"position has {source.size} numbers, expected a multiple of {width}")
    return source.reshape(-1, width)
