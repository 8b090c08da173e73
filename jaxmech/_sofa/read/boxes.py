"""What lies in the boxes of a BoxROI, the balls of a SphereROI, the surface of a MeshROI, or beside the parallelograms of a
PlaneROI."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .component import Component
from .coordinates import places
from .graph import SceneObject
from .links import STATES, of_kind_upward
from .topology import CELL_NAMES, CELLS

Inside = Callable[[np.ndarray], np.ndarray]
_BEYOND = 100.0  # how far beyond its box a ray goes
_MOST_LOOKS = 200_000_000


def _boxes(part: Component) -> Inside:
    boxes, turned = part.reals("box", None, width=6), part.reals(("orientedBox", "orientedBoxes"), None, width=10)
    if boxes is None:
        boxes = np.array([[0.0, 0, 0, 1, 1, 1]]) if turned is None else np.zeros((0, 6))
    low, high = np.minimum(boxes[:, None, :3], boxes[:, None, 3:]), np.maximum(boxes[:, None, :3], boxes[:, None, 3:])
    slabs = [] if turned is None else [_slab(box) for box in turned]

    def inside(x: np.ndarray) -> np.ndarray:
        found = np.asarray(((x >= low) & (x <= high)).all(-1).any(0))
        for slab in slabs:
            found |= slab(x)
        return found

    return inside


def _slab(numbers: np.ndarray) -> Inside:
    """Three corners of a parallelogram and how deep it is, half of it on each side; between its sides, and as far beyond as
    SOFA looks."""
    (p0, p1, p2), depth = numbers[:9].reshape(3, 3), numbers[9]
    along, across = p1 - p0, p2 - p1
    normal = np.cross(along, p2 - p0)
    sides = [np.cross(side, normal) for side in (along, across)]
    if not np.any(normal):
        return lambda x: np.zeros(len(x), bool)
    normal, sides = normal / np.linalg.norm(normal), [side / np.linalg.norm(side) for side in sides]

    def inside(x: np.ndarray) -> np.ndarray:
        found = np.abs((x - p0) @ normal) <= abs(depth / 2)
        for side in sides:
            reach = abs((p2 - p0) @ side)
            found &= (np.abs((x - p0) @ side) <= reach) & (np.abs((x - p2) @ side) <= reach)
        return found

    return inside


def _planes(part: Component) -> Inside:
    planes = part.reals("plane", None, width=10)
    if planes is None:
        raise part.error("has no plane, three points and a depth")
    slabs = [_slab(plane) for plane in planes]
    return lambda x: np.asarray(np.stack([slab(x) for slab in slabs]).any(axis=0))


def _spheres(part: Component) -> Inside:
    centers, radii = part.reals("centers", None, width=3), part.reals("radii")
    if centers is None or radii is None or len(radii) not in (1, len(centers)):
        raise part.error("needs centers and radii, as many of each")
    part.neutral(direction="0 0 0", edgeAngle=0.0, triAngle=0.0, normal="0 0 0")
    return lambda x: (np.linalg.norm(x[None] - centers[:, None], axis=-1) <= np.reshape(radii, (-1, 1))).any(0)


def _surface(part: Component) -> Inside:
    """A closed surface: what sees it an odd number of times along a ray, which as SOFA's goes beyond the nearer corner."""
    corners, triangles = part.reals("ROIposition", None, width=3), part.wholes("ROItriangles", None, width=3)
    if corners is None or triangles is None or not triangles.size:
        raise part.error("needs ROIposition and ROItriangles, a closed surface")
    if triangles.min() < 0 or triangles.max() >= len(corners):
        raise part.error(f"ROItriangles name points that are not there: there are {len(corners)}")
    part.neutral(computeMeshROI=True)
    part.ignored("ROIedges", "box")
    low, high, ends = corners.min(axis=0), corners.max(axis=0), corners[triangles]
    sides = np.roll(ends, -1, axis=1) - ends
    normals = np.cross(sides[:, 0], sides[:, 1])

    def sees(p: np.ndarray) -> int:
        nearer = np.sum((low - p) ** 2) < np.sum((high - p) ** 2)
        ray = (low - _BEYOND if nearer else high + _BEYOND) - p
        across = normals @ ray
        there = across != 0
        far = np.einsum("ti,ti->t", normals[there], ends[there, 0] - p) / across[there]
        hit = p + far[:, None] * ray
        turns = np.cross(sides[there], hit[:, None] - ends[there])
        on = (np.einsum("tki,ti->tk", turns, normals[there]) >= 0).all(axis=1)
        return int(np.sum(on & (far >= 0)))

    def inside(x: np.ndarray) -> np.ndarray:
        if len(x) * len(triangles) > _MOST_LOOKS:
            raise part.error(f"has {len(x)} points and {len(triangles)} triangles to look at: too many")
        found = ((x >= low) & (x <= high)).all(axis=1)
        found[found] = [sees(p) % 2 == 1 for p in x[found]]
        return found

    return inside


_SHAPES = {"BoxROI": _boxes, "SphereROI": _spheres, "PlaneROI": _planes, "BoxConstraint": _boxes, "MeshROI": _surface}
REGIONS = tuple(_SHAPES)
_CELLS = {"edge": "edges", "triangle": "triangles", "quad": "quads", "tetrahedron": "tetrahedra", "hexahedron": "hexahedra"}


def chosen(data: Any, object: SceneObject, name: str) -> np.ndarray:
    """What lies within: points, and cells all of whose points do (or whose centre does, where it is not `strict`; of a
    surface either)."""
    part = Component(data, object)
    within = _SHAPES[object.kind](part)
    position = part.reals(("position", "rest_position"), None, width=3)
    if position is None:
        state = of_kind_upward(object.node, lambda o: o.kind in STATES)
        if state is None:
            raise part.error("has no position, and there is no state in its node or above")
        position = places(state, data.produced(state, "rest_position"))
    inside = within(position)
    given = {mesh: part.wholes(names, None, width=CELLS[mesh]) for mesh, names in CELL_NAMES.items()}
    quads = part.wholes("quad", None, width=4)
    given["quads"] = given["quads"] if quads is None else quads
    part.ignored("doUpdate", "indices")  # once, at the start; what is found takes the place of what was written
    either = object.kind == "MeshROI"
    strict = part.flag("strict", not either)
    part.ignored(*(f"compute{w}" for w in ("Edges", "Triangles", "Tetrahedra", "Hexahedra", "Quad")))
    mesh = None if name == "indices" else part.link("topology") or of_kind_upward(object.node, data.is_topology)
    part.done()
    of_points = {"indices": np.flatnonzero(inside), "indicesOut": np.flatnonzero(~inside), "nbIndices": inside.sum()[None]}
    of_points |= {"pointsInROI": position[inside], "pointsOutROI": position[~inside]}
    if name in of_points:
        return of_points[name]
    for cell, plural in _CELLS.items():
        if name in (f"{cell}Indices", f"{plural}InROI", f"{cell}InROI"):
            break
    else:
        raise part.error(f"has no data '{name}' that is translated")
    picked = given[plural]
    picked = data.produced(mesh, plural) if picked is None and isinstance(mesh, SceneObject) else picked
    if picked is None:
        raise part.error(f"has no {plural} to choose from")
    if picked.size and not 0 <= picked.min() <= picked.max() < len(inside):
        raise part.error(f"{plural} name node {picked.max()}, but there are {len(inside)} positions")
    there = inside[picked].all(1)
    if not strict:
        there = there & either | within(position[picked].mean(axis=1))
    return np.flatnonzero(there) if name.endswith("Indices") else picked[there]
