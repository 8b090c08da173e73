"""Engines: what makes data of other data, once, before a scene moves."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .component import Component
from .graph import SceneObject
from .transform import placed


def _transform(part: Component, name: str) -> Any:
    """TransformEngine: points that are scaled, turned and shifted, in this order."""
    x = part.reals("input_position", None, width=3)
    part.neutral(inverse=False, quaternion="0 0 0 1")
    place = placed(part, scale="scale")
    if name != "output_position" or x is None:
        raise part.error(f"has no {'input_position' if x is None else name} that is translated")
    return place(np.asarray(x, float).reshape(-1, 3))


def _at(part: Component, name: str) -> Any:
    """PointsFromIndices: the points of these numbers."""
    x, numbers = part.reals("position", None, width=3), part.wholes("indices")
    if name != "indices_position" or x is None or numbers is None or numbers.min(initial=0) < 0:
        raise part.error("needs position and indices, and gives indices_position")
    x = np.asarray(x, float).reshape(-1, 3)
    if numbers.max(initial=-1) >= len(x):
        raise part.error(f"indices names point {numbers.max()}, but there are {len(x)}")
    return x[numbers]


_ENGINES: dict[str, Callable[[Component, str], Any]] = {"TransformEngine": _transform, "PointsFromIndices": _at}
ENGINES = tuple(_ENGINES)


def computed(data: Any, object: SceneObject, name: str) -> np.ndarray:
    """The data `name` that an engine makes."""
    part = Component(data, object)
    made = _ENGINES[object.kind](part, name)
    part.done()
    return made
