"""Points and cells of SOFA's grids: regular, bent into a cylinder or a sphere, and sparse within a surface."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from . import mesh_files
from .component import Component
from .links import linked_object
from .topology import CELLS, Topology, grid
from .voxels import cells_of_surface

MOST_POINTS = 2_000_000


def counts(part: Component) -> tuple[int, int, int]:
    """How many points a grid has along each axis."""
    n, each = part.wholes("n", [2, 2, 2]), [part.whole(name) for name in ("nx", "ny", "nz")]
    if None not in each:
        n = each
    elif each != [None] * 3:
        raise part.error("needs all of nx, ny and nz, or n")
    n = [int(k) for k in n]
    if len(n) != 3 or min(n) < 1:
        raise part.error(f"n is {n}, expected three numbers of points, at least 1 each")
    if np.prod([float(k) for k in n]) > MOST_POINTS:
        raise part.error(f"n is {n}: more than {MOST_POINTS} points")
    part.ignored("computeTriangleList", "computeQuadList", "computeHexaList", "computeEdgeList", "computePointList")
    part.ignored("createTexCoords", "drawHexahedra")
    return n[0], n[1], n[2]


def _corners(part: Component, most: float) -> tuple[np.ndarray, np.ndarray]:
    """Two corners, which are 0 and `most` unless said; by six numbers in single precision where all six are there."""
    low, high = (part.reals(name, np.full(3, usual), count=3) for name, usual in (("min", 0.0), ("max", most)))
    names = [axis + end for end in ("min", "max") for axis in "xyz"]
    scale = part.single("scale", 1.0)
    if all([part.has(name) for name in names]):
        low, high = scale * np.array([part.single(name, 0.0) for name in names]).reshape(2, 3)
    return low, high


def regular(data: Any, part: Component) -> Topology:
    """RegularGridTopology; `p0`: where its first point is instead. Of a `cellWidth` SOFA takes how many cells fit between
    the corners, and leaves them as wide as `n` has made them."""
    del data
    low, high = _corners(part, 1.0)
    n, width = counts(part), part.real("cellWidth", 0.0)
    made, origin = grid(n, low, high), part.reals("p0", None, count=3)
    if width:
        made = _refilled(part, made.position[0], (high - low) / np.maximum(np.asarray(n) - 1, 1), (high - low) / width)
    return made if origin is None else replace(made, position=made.position - made.position[0] + origin)


def _refilled(part: Component, first: np.ndarray, step: np.ndarray, cells: np.ndarray) -> Topology:
    n = np.ceil(cells) + 1
    if not (n >= 1).all() or np.prod(n) > MOST_POINTS:
        raise part.error(f"cellWidth makes {n.tolist()} points, expected three numbers, {MOST_POINTS} in all at most")
    return grid((int(n[0]), int(n[1]), int(n[2])), first, first + step * (n - 1))


def _bent(part: Component, scaled: Callable[[np.ndarray], np.ndarray], deep: bool) -> Topology:
    """A grid from -1 to 1 in x and y (and z, if `deep`, else from 0 to 1), bent and turned to an axis."""
    n = counts(part)
    center, axis = part.reals("center", np.zeros(3), count=3), part.reals("axis", np.array([0.0, 0, 1]), count=3)
    if n[0] < 2 or n[1] < 2 or (deep and n[2] < 2) or not np.any(axis):
        raise part.error("needs an axis, and at least two points along each of its directions")
    flat = grid(n, np.array([-1.0, -1.0, -1.0 if deep else 0.0]), np.ones(3))
    if n[2] == 1:
        flat.position[:, 2] = 0.0
    z = axis / np.linalg.norm(axis)
    x = np.array([0.0, 1, 0]) if np.linalg.norm(z - [1.0, 0, 0]) < 1e-6 else np.array([1.0, 0, 0])
    y = np.cross(z, x)
    frame = np.stack([a / np.linalg.norm(a) for a in (np.cross(y, z), y, z)])
    with np.errstate(over="ignore", invalid="ignore"):
        points = center + scaled(flat.position) @ frame
    if not np.isfinite(points).all():
        raise part.error("its points are not finite: center, radius or length is too large")
    return Topology(points, quads=flat.quads, hexahedra=flat.hexahedra, edges=flat.edges, lattice=n)


def _rounded(x: np.ndarray) -> np.ndarray:
    """Points of squares or cubes about the origin on circles or spheres of the same half width."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return x * np.abs(x).max(axis=1, keepdims=True) / np.where(length > 1e-7, length, 1.0)


def cylinder(data: Any, part: Component) -> Topology:
    """CylinderGridTopology: every square about its axis becomes a circle."""
    del data
    r, length = part.real("radius", 1.0), part.real("length", 1.0)
    return _bent(part, lambda x: np.concatenate([_rounded(r * x[:, :2]), length * x[:, 2:]], axis=1), deep=False)


def sphere(data: Any, part: Component) -> Topology:
    """SphereGridTopology: every cube about its centre becomes a sphere."""
    del data
    r = part.real("radius", 1.0)
    return _bent(part, lambda x: _rounded(r * x), deep=True)


def sparse(data: Any, part: Component) -> Topology:
    """SparseGridTopology: the cells of a regular grid that a closed surface crosses, and then those within it.

    Points are sorted by x, then y, then z. `share`: half of a cell that is crossed counts (`fillWeighted`).
    """
    surface = _surface(data, part)
    if not len(surface.position) or not len(surface.triangles):
        raise part.error("has no surface: fileTopology, or position and triangles, are translated")
    low, high = _corners(part, 0.0)
    if not low.any() and not high.any():
        low, high = surface.position.min(0), surface.position.max(0)
        low, high = low - (high - low) / 100, high + (high - low) / 100
    if not (high > low).all():
        raise part.error(f"its corners {low.tolist()} and {high.tolist()} span no cells")
    n, width = part.wholes("n", np.full(3, 2)), part.real("cellWidth", 0.0)
    n = np.ceil((high - low) / width).astype(int) + 1 if width > 0 else np.maximum(n, 2)
    if len(n) != 3 or np.prod(n.astype(float)) > MOST_POINTS:
        raise part.error(f"n is {n.tolist()}, expected three numbers of at most {MOST_POINTS} points in all")
    weighted, inner = part.flag("fillWeighted", True), part.flag("onlyInsideCells", False)
    part.neutral(nbVirtualFinerLevels=0)
    part.ignored("marchingCubeStep", "convolutionSize", "dataResolution", "voxelSize")
    crossed, within = cells_of_surface(surface.position, surface.triangles, n, low, high)
    whole = grid((int(n[0]), int(n[1]), int(n[2])), low, high)
    chosen = np.concatenate([np.zeros(0, int) if inner else np.flatnonzero(crossed), np.flatnonzero(within)])
    if not len(chosen):
        raise part.error("no cell of its grid is in the surface")
    corners = whole.hexahedra[chosen]
    used = np.unique(corners)
    k, j, i = used // (n[0] * n[1]), used // n[0] % n[1], used % n[0]
    used = used[np.lexsort((k, j, i))]
    number = np.zeros(len(whole.position), np.int64)
    number[used] = np.arange(len(used))
    share = np.where(crossed[chosen], 0.5, 1.0) if weighted else None
    return Topology(whole.position[used], hexahedra=number[corners], share=share)


def _surface(data: Any, part: Component) -> Topology:
    """The triangles of a file, of a loader, or those that are given; quads as two."""
    name = part.text(("filename", "fileTopology"), "")
    if name:
        path = data.files.find(name, part.object.file, part.error)
        found = mesh_files.read(data.files.read(path, part.error), path, part.error)
    elif part.has("src"):
        found = data.topology(linked_object(part.object, "src", part.object.data["src"]))
    else:
        cells = {name: part.wholes(name, None, width=CELLS[name]) for name in ("triangles", "quads")}
        position = part.reals("position", np.zeros((0, 3)), width=3)
        found = Topology(position, **{name: c for name, c in cells.items() if c is not None})
    part.ignored("triangles", "quads", "position", "facets")
    split = found.quads[:, ((0, 1, 2), (0, 2, 3))].reshape(-1, 3)
    triangles = np.concatenate([found.triangles, split])
    if triangles.size and not 0 <= triangles.min() <= triangles.max() < len(found.position):
        raise part.error(f"its triangles name node {triangles.max()}, but there are {len(found.position)} points")
    return Topology(found.position, triangles=triangles)


GRIDS: dict[str, Callable[[Any, Component], Topology]] = {
    "RegularGridTopology": regular,
    "RegularGrid": regular,
    "CylinderGridTopology": cylinder,
    "CylinderGrid": cylinder,
    "SphereGridTopology": sphere,
    "SphereGrid": sphere,
    "SparseGridTopology": sparse,
    "SparseGrid": sparse,
}
