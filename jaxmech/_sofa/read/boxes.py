"""What of a mesh lies in the boxes of a BoxROI, or the balls of a SphereROI."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .component import Component
from .graph import SceneObject
from .links import STATES, of_kind_upward
from .topology import CELL_NAMES, CELLS


def _boxes(part: Component) -> Callable[[np.ndarray], np.ndarray]:
    boxes = part.reals("box", None, width=6)
    if boxes is None:
        raise part.error("has no box: other shapes are not translated")
    low, high = np.minimum(boxes[:, None, :3], boxes[:, None, 3:]), np.maximum(boxes[:, None, :3], boxes[:, None, 3:])
    return lambda x: ((x >= low) & (x <= high)).all(-1).any(0)


def _spheres(part: Component) -> Callable[[np.ndarray], np.ndarray]:
    centers, radii = part.reals("centers", None, width=3), part.reals("radii")
    if centers is None or radii is None or len(radii) not in (1, len(centers)):
        raise part.error("needs centers and radii, as many of each")
    part.neutral(direction="0 0 0", edgeAngle=0.0, triAngle=0.0, normal="0 0 0")
    return lambda x: (np.linalg.norm(x[None] - centers[:, None], axis=-1) <= np.reshape(radii, (-1, 1))).any(0)


_SHAPES = {"BoxROI": _boxes, "SphereROI": _spheres}
REGIONS = tuple(_SHAPES)


def chosen(data: Any, object: SceneObject, name: str) -> np.ndarray:
    """What lies in the boxes: points, and cells all of whose points do."""
    part = Component(data, object)
    within = _SHAPES[object.kind](part)
    position = part.reals(("position", "rest_position"), None, width=3)
    if position is None:
        state = of_kind_upward(object.node, lambda o: o.kind in STATES)
        if state is None:
            raise part.error("has no position, and there is no state in its node or above")
        position = data.produced(state, "rest_position")[:, :3]
    inside = within(position)
    cells = {"triangleIndices": "triangles", "tetrahedronIndices": "tetrahedra", "hexahedronIndices": "hexahedra"}
    cells |= {"edgeIndices": "edges", "quadIndices": "quads"}
    given = {mesh: part.wholes(names, None, width=CELLS[mesh]) for mesh, names in CELL_NAMES.items()}
    part.neutral(strict=True, doUpdate=True)
    part.ignored(*(f"compute{w}" for w in ("Edges", "Triangles", "Tetrahedra", "Hexahedra", "Quad")))
    mesh = None if name == "indices" else part.link("topology") or of_kind_upward(object.node, data.is_topology)
    part.done()
    if name == "indices":
        return np.flatnonzero(inside)
    if name not in cells:
        raise part.error(f"has no data '{name}' that is translated")
    picked = given[cells[name]]
    picked = getattr(data.topology(mesh), cells[name]) if picked is None and isinstance(mesh, SceneObject) else picked
    if picked is None:
        raise part.error(f"has no {cells[name]} to choose from")
    if picked.size and not 0 <= picked.min() <= picked.max() < len(inside):
        raise part.error(f"{cells[name]} name node {picked.max()}, but there are {len(inside)} positions")
    return np.flatnonzero(inside[picked].all(1))
