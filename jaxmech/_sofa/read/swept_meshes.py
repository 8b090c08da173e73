"""Engines that sweep: a disc along its axis, quads along their normals, edges along a direction."""

from typing import Any

import numpy as np

from .component import Component
from .grids import MOST_POINTS

# Of a prism, its upper triangle first, and of a cell between two rings: lower numbers on the upper layer.
_OF_PRISM = ((1, 0, 2, 3), (1, 2, 4, 3), (3, 4, 5, 2))
_OF_CELL = ((0, 5, 4, 7), (0, 1, 5, 3), (5, 0, 3, 7), (0, 3, 7, 2), (7, 0, 2, 4), (6, 7, 2, 4))


def cylinder(part: Component) -> dict[str, Any]:
    """GenerateCylinder: layers of a point and rings about it, in tetrahedra; its side in triangles of its own points."""
    around, rings, layers = (
        part.whole(f"res{name}", usual) for name, usual in (("Circumferential", 6), ("Radial", 3), ("Height", 5))
    )
    radius, height = part.real("radius", 0.2), part.real("height", 1.0)
    origin = np.asarray(part.reals("origin", np.zeros(3), count=3), float)
    opened = part.flag("openSurface", True)
    for name in ("BezierTriangleDegree", "BezierTetrahedronDegree"):
        if part.whole(name, 0) > 1:
            raise part.error(f"{name} above 1 is not translated: straight triangles and tetrahedra are")
    if around < 3 or rings < 1 or layers < 2 or (float(around) * rings + 1) * layers > MOST_POINTS:
        raise part.error(
            f"resCircumferential, resRadial and resHeight are {around}, {rings} and {layers}: expected 3, 1 and 2 at least, "
            f"of at most {MOST_POINTS} points"
        )
    angle, z = 2 * np.pi * np.arange(around) / around, np.arange(layers) * height / (layers - 1)
    circle = np.stack([np.cos(angle), np.sin(angle), np.zeros(around)], axis=1)
    disc = np.concatenate([np.zeros((1, 3)), *(j * radius / rings * circle for j in range(1, rings + 1))])
    up = z[:, None, None] * np.array([0.0, 0, 1])
    position = (disc + up).reshape(-1, 3) + origin
    of_side = (radius * circle + up).reshape(-1, 3) + origin
    found: dict[str, Any] = {name: position for name in ("output_TetrahedraPosition", "position", "output_position")}
    found |= {"tetrahedra": _between_layers(around, rings, layers)}
    return found | ({"output_TrianglesPosition": of_side, "triangles": _side(around, layers)} if opened else {})


def _between_layers(around: int, rings: int, layers: int) -> np.ndarray:
    """Of each layer but the first, the prisms about its middle, then the cells between its rings from within."""
    size, k = around * rings + 1, 1 + np.arange(around)
    before = np.roll(k, 1)
    top = np.stack([np.zeros_like(k), before, k], axis=1)
    prisms = np.concatenate([top, top - size], axis=1)[:, np.array(_OF_PRISM)].reshape(-1, 4)
    top = np.stack([k, before, k + around, before + around], axis=1)
    cells = np.concatenate([top, top - size], axis=1)[:, np.array(_OF_CELL)].reshape(-1, 4)
    one = np.concatenate([prisms, *(cells + j * around for j in range(rings - 1))])
    return (one + size * np.arange(1, layers)[:, None, None]).reshape(-1, 4)


def _side(around: int, layers: int) -> np.ndarray:
    k = np.arange(around)
    after = np.roll(k, -1)
    one = np.stack([np.stack([k + around, k, after], 1), np.stack([k + around, after, after + around], 1)], axis=1)
    return (one.reshape(-1, 3) + around * np.arange(layers - 1)[:, None, None]).reshape(-1, 3)


def _swept(
    part: Component, count: str, points: str, cells: str, width: int
) -> tuple[int, np.ndarray, np.ndarray, float, float]:
    """How many slices, the points and cells that are swept, and how far back and forth."""
    slices, back, forth = part.whole(count, 1), part.real("thicknessIn", 0.0), part.real("thicknessOut", 1.0)
    x, rows = part.reals(points, None, width=3), part.wholes(cells, None, width=width)
    if x is None or rows is None or not len(x) or not len(rows):
        raise part.error(f"needs {points} and {cells}")
    if rows.min() < 0 or rows.max() >= len(x):
        raise part.error(f"{cells} name point {rows.max() if rows.min() >= 0 else rows.min()}, but there are {len(x)}")
    if slices < 1 or (slices + 1.0) * len(x) > MOST_POINTS:
        raise part.error(f"{count} is {slices}, expected 1 or more, of at most {MOST_POINTS} points")
    return slices, np.asarray(x, float), rows, back, forth


def hexahedra_of_quads(part: Component) -> dict[str, Any]:
    """ExtrudeQuadsAndGenerateHexas: the points of each normal one after the other, and of each quad its hexahedra."""
    slices, x, quads, back, forth = _swept(part, "numberOfSlices", "surfaceVertices", "surfaceQuads", 4)
    scale = np.asarray(part.reals("scale", np.ones(3), count=3), float)
    flipped = part.flag("flipNormals", False)
    part.ignored("isVisible")
    corners = x[quads]
    of_quads = _unit(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    normals = np.zeros_like(x)
    np.add.at(normals, quads, of_quads[:, None])
    normals = _unit(normals)
    depth = (back + forth) / slices * np.arange(slices + 1) - back
    points = (x * scale)[:, None] + depth[:, None] * normals[:, None]
    numbers = (slices + 1) * (quads if flipped else quads[:, ::-1])
    level = np.arange(slices)[:, None]
    cells = np.concatenate([numbers[:, None] + level, numbers[:, None] + level + 1], axis=2)
    found: dict[str, Any] = {"extrudedVertices": points.reshape(-1, 3), "extrudedHexas": cells.reshape(-1, 8)}
    return found | {"extrudedSurfaceQuads": (slices + 1) * quads}


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors of unit length; nil ones stay nil."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(length > 0, length, 1)


def quads_of_edges(part: Component) -> dict[str, Any]:
    """ExtrudeEdgesAndGenerateQuads: the points of each section one after the other; `thicknessIn` is of the direction as it
    stands, `thicknessOut` of its unit vector."""
    sections, x, edges, back, forth = _swept(part, "numberOfSections", "curveVertices", "curveEdges", 2)
    along = np.asarray(part.reals("extrudeDirection", np.array([1.0, 0, 0]), count=3), float)
    steps = (back + forth) / sections * np.arange(sections + 1)[:, None] * _unit(along[None]) - back * along
    low, level = edges[:, None], len(x) * np.arange(sections)[:, None]
    quads = np.concatenate([low + level, low[:, :, ::-1] + level + len(x)], axis=2)
    return {"extrudedVertices": (x + steps[:, None]).reshape(-1, 3), "extrudedQuads": quads.reshape(-1, 4)}


SWEPT = {
    "GenerateCylinder": cylinder,
    "ExtrudeQuadsAndGenerateHexas": hexahedra_of_quads,
    "ExtrudeEdgesAndGenerateQuads": quads_of_edges,
}
