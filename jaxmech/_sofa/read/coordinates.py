"""Coordinates of the nodes of a state."""

import numpy as np

from .component import Component
from .graph import SceneObject
from .scene_error import shown

_WIDTHS = {"Vec1": 1, "Vec2": 2, "Vec3": 3, "Rigid2": 3, "Rigid3": 7}


def template(state: SceneObject) -> str:
    """What the nodes of a state are: Vec1, Vec2, Vec3, Rigid2 or Rigid3 (older: Rigid), in either precision."""
    said = state.data.get("template", "Vec3").strip()
    name = "Rigid3" if said == "Rigid" else said.rstrip("df") or "Vec3"
    if name not in _WIDTHS:
        raise state.error(f"template {shown(state.data['template'])} is not translated: {sorted(_WIDTHS)} are")
    return name


def coordinates(state: SceneObject) -> int:
    """How many coordinates a node of a state has, by its template."""
    return _WIDTHS[template(state)]


def places(state: SceneObject, x: np.ndarray) -> np.ndarray:
    """Where nodes of a state are `(n, 3)`, those of the plane at z = 0."""
    axes = {"Vec1": 1, "Vec2": 2, "Rigid2": 2}.get(template(state), 3)
    return np.pad(x[:, :axes], ((0, 0), (0, 3 - axes)))


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
