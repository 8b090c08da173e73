"""Engines: what makes data of other data, once, before a scene moves."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .component import Component
from .coordinates import places
from .graph import SceneObject
from .grids import MOST_POINTS
from .links import STATES, of_kind_upward
from .mesh_files import read_spheres
from .platonic import sphere
from .selections import nearest, taken_apart
from .swept_meshes import SWEPT
from .topological_mappings import subset_numbers
from .topology import CELLS, cut_into_tetrahedra, grid
from .transform import placed

_MOST_SHRUNK = 1e-100  # of what is undone


def _transform(part: Component, name: str) -> Any:
    """TransformEngine: points that are scaled, turned and shifted, in this order."""
    x = part.reals("input_position", None, width=3)
    part.neutral(quaternion="0 0 0 1")
    place = placed(part, scale="scale")
    if name != "output_position" or x is None:
        raise part.error(f"has no {'input_position' if x is None else name} that is translated")
    x = np.asarray(x, float).reshape(-1, 3)
    if not part.flag("inverse", False):
        return place(x)
    origin, *ends = place(np.concatenate([np.zeros((1, 3)), np.eye(3)]))
    turned = np.stack(ends, axis=1) - origin[:, None]
    if not np.all(np.linalg.norm(turned, axis=0) > _MOST_SHRUNK):
        raise part.error(f"has no inverse: a factor of its scale is at most {_MOST_SHRUNK}")
    return np.linalg.solve(turned, (x - origin).T).T


def _at(part: Component, name: str) -> Any:
    """PointsFromIndices: the points of these numbers."""
    x, numbers = part.reals("position", None, width=3), part.wholes("indices")
    if name != "indices_position" or x is None or numbers is None or numbers.min(initial=0) < 0:
        raise part.error("needs position and indices, and gives indices_position")
    x = np.asarray(x, float).reshape(-1, 3)
    if numbers.max(initial=-1) >= len(x):
        raise part.error(f"indices names point {numbers.max()}, but there are {len(x)}")
    return x[numbers]


def _nearest(part: Component, name: str) -> Any:
    """NearestPointROI: of each point of the second state, the nearest of the first that is closer than `radius`."""
    states = [part.link(names) or part.link(older) for names, older in (("object1", "input1"), ("object2", "input2"))]
    if not all(isinstance(s, SceneObject) and s.kind in STATES for s in states):
        raise part.error("needs object1 and object2, two mechanical states")
    which = "rest_position" if part.flag("useRestPosition", True) else "position"
    points = [places(s, part.data.linked(part.object, "object", f"{s.path}.{which}")) for s in states]
    radius = part.real("radius", 1.0)
    chosen = [part.wholes(f"inputIndices{i}") for i in (1, 2)]
    chosen = [np.arange(len(x)) if c is None or not len(c) else c for c, x in zip(chosen, points, strict=True)]
    for c, x in zip(chosen, points, strict=True):
        if c.min(initial=0) < 0 or c.max(initial=-1) >= len(x):
            raise part.error("its inputIndices name points that are not there")
    there = points[0][chosen[0]]
    if not len(there) or len(there) * len(chosen[1]) > 200_000_000:
        raise part.error(f"has {len(there)} and {len(chosen[1])} points: none, or too many")
    every = [np.linalg.norm(there - x, axis=1) for x in points[1][chosen[1]]]
    nearest = np.array([int(np.argmin(gap)) for gap in every], np.int64)  # the first of several
    gaps = np.array([gap.min() for gap in every])
    near = gaps < radius
    first, second = chosen[0][nearest[near]], chosen[1][near]
    pairs = np.stack([np.zeros_like(first), first, np.ones_like(second), second], axis=1).reshape(-1, 2)
    found = {"indices1": first, "indices2": second, "distances": gaps[near], "indexPairs": pairs}
    found["edges"] = np.stack([2 * second, 2 * second + 1], axis=1)
    return _one_of(part, name, found)


def _one_of(part: Component, name: str, found: dict[str, Any]) -> Any:
    if name not in found:
        raise part.error(f"has no data '{name}' that is translated: {sorted(found)} are")
    return found[name]


def _sets(part: Component, name: str) -> Any:
    """MergeSets: numbers of either of two sets, of both, or of one alone."""
    one, other = (part.wholes(n, np.zeros(0, np.int64)) for n in ("in1", "in2"))
    how = part.choice("op", "union", ("union", "intersection", "difference", "symmetric_difference"))
    operation = {
        "union": np.union1d,
        "intersection": np.intersect1d,
        "difference": np.setdiff1d,
        "symmetric_difference": np.setxor1d,
    }[how]
    return _one_of(part, name, {"out": operation(one, other)})


def _complement(part: Component, name: str) -> Any:
    """ComplementaryROI: the points that none of several sets has."""
    x = part.reals("position", None, width=3)
    if x is None:
        raise part.error("has no position")
    sets = [part.wholes(f"setIndices{i}", np.zeros(0, np.int64)) for i in range(1, part.whole("nbSet", 0) + 1)]
    left = np.setdiff1d(np.arange(len(x)), np.concatenate([*sets, np.zeros(0, np.int64)]))
    return _one_of(part, name, {"indices": left, "pointsInROI": np.asarray(x)[left]})


def _difference(part: Component, name: str) -> Any:
    """DifferenceEngine: one list less another."""
    one, other = part.reals("input", None, width=3), part.reals("substractor", None, width=3)
    if one is None or other is None or len(other) not in (1, len(one)):
        raise part.error("needs input and substractor, as many of each")
    return _one_of(part, name, {"output": np.asarray(one) - other})


def _spheres(part: Component, name: str) -> Any:
    """SphereLoader: the centres and the radii of spheres in a file."""
    data: Any = part.data
    path = data.files.find(part.text("filename", ""), part.object.file, part.error)
    spheres = read_spheres(data.files.read(path, part.error), path, part.error)
    return _one_of(part, name, {"position": placed(part)(spheres[:, :3]), "listRadius": spheres[:, 3]})


def _grid(part: Component, name: str) -> Any:
    """GenerateGrid: points, hexahedra (x last) and six tetrahedra of each; of no cubes along z, quads and triangles."""
    low, high = part.reals("min", np.zeros(3), count=3), part.reals("max", np.zeros(3), count=3)
    n = part.wholes("resolution", np.array([3, 3, 3]))
    if len(n) != 3 or n.min() < 0 or np.prod(n + 1.0) > MOST_POINTS:
        raise part.error(f"resolution is {n.tolist()}, expected three numbers of cubes, of at most {MOST_POINTS} points")
    nx, ny, nz = max(int(n[0]), 1), max(int(n[1]), 1), int(n[2])
    top = np.array([high[0], high[1], high[2] if nz else low[2]])
    made = grid((nx + 1, ny + 1, nz + 1), low, top)
    turned = np.arange(nx * ny * max(nz, 1)).reshape(max(nz, 1), ny, nx).transpose(2, 1, 0).ravel()
    found: dict[str, Any] = {"output_position": made.position, "position": made.position}
    if nz:
        found["hexahedra"] = made.hexahedra[turned]
        cut = cut_into_tetrahedra(made, False).tetrahedra.reshape(-1, 6, 4)
        found["tetrahedra"] = cut[turned].reshape(-1, 4)
    else:
        found["quads"] = made.quads[turned]
        found["triangles"] = found["quads"][:, ((0, 1, 3), (3, 1, 2))].reshape(-1, 3)
    return _one_of(part, name, found)


def _pair_of_boxes(part: Component, name: str) -> Any:
    """PairBoxROI: the points in one box that are not in a smaller one."""
    x = part.reals(("position", "rest_position"), None, width=3)
    if x is None:
        state = of_kind_upward(part.object.node, lambda o: o.kind in STATES)
        if state is None:
            raise part.error("has no position, and there is no state in its node or above")
        x = places(state, part.data.linked(part.object, "position", f"{state.path}.rest_position"))
    outer, inner = part.reals("inclusiveBox", None, width=6), part.reals("includedBox", None, width=6)
    if outer is None or inner is None or len(outer) != 1 or len(inner) != 1:
        raise part.error("needs inclusiveBox and includedBox, six numbers each")
    part.ignored("meshPosition")
    inside = [((x >= np.minimum(b[:3], b[3:])) & (x <= np.maximum(b[:3], b[3:]))).all(1) for b in (outer[0], inner[0])]
    chosen = np.flatnonzero(inside[0] & ~inside[1])
    return _one_of(part, name, {"indices": chosen, "pointsInROI": np.asarray(x)[chosen]})


def _several(part: Component, prefix: str, count: str, width: int) -> list[np.ndarray]:
    """`prefix1`, `prefix2`, ..."""
    many = part.whole(count, 2)
    if not 0 <= many <= 1000:
        raise part.error(f"{count} is {many}, expected at most 1000")
    found = [part.reals(f"{prefix}{i}", None, width=width) for i in range(1, many + 1)]
    return [np.zeros((0, width) if width > 1 else 0) if a is None else np.asarray(a) for a in found]


def _meshes(part: Component, name: str) -> Any:
    """MergeMeshes: points one after the other, and cells that name them there."""
    points = _several(part, "position", "nbMeshes", 3)
    shift = np.cumsum([0, *(len(p) for p in points[:-1])])
    found = {"position": np.concatenate([*points, np.zeros((0, 3))])}
    for cells, width in CELLS.items():
        rows = _several(part, cells, "nbMeshes", width)
        rows = [(c + s).astype(np.int64) for c, s in zip(rows, shift, strict=True) if c.size]
        found[cells] = np.concatenate([*rows, np.zeros((0, width), np.int64)])
    return _one_of(part, name, found)


def _vectors(part: Component, name: str) -> Any:
    """MergeVectors: one list after the other."""
    return _one_of(part, name, {"output": np.concatenate([*_several(part, "input", "nbInputs", 1), np.zeros(0)])})


def _points_of_two(part: Component, name: str) -> Any:
    """MergePoints: the points of a second set after those of a first."""
    one, other = (part.reals(f"position{i}", np.zeros((0, 3)), width=3) for i in (1, 2))
    part.neutral(updateX2=False, mappingX2="")
    every = np.arange(len(one) + len(other))
    found = {"points": np.concatenate([one, other]), "indices1": every[: len(one)], "indices2": every[len(one) :]}
    return _one_of(part, name, found | {"position": found["points"]})


def _chosen_values(part: Component, name: str) -> Any:
    """ValuesFromIndices: the entries of a list with these numbers."""
    entries, numbers = part.reals("in"), part.wholes("indices")
    if entries is None or numbers is None or numbers.min(initial=0) < 0 or numbers.max(initial=-1) >= len(entries):
        raise part.error("needs `in` and `indices`, numbers of its entries")
    return _one_of(part, name, {"out": np.asarray(entries)[numbers]})


def _numbers_of_values(part: Component, name: str) -> Any:
    """IndicesFromValues: where each of some values stands in a list, and the numbers of its other entries."""
    sought, entries = (np.asarray(part.reals(n, np.zeros(0))) for n in ("values", "global"))
    part.neutral(recursiveSearch=False)
    equal = sought[:, None] == entries
    for value, count in zip(sought, equal.sum(axis=1), strict=True):
        if count != 1:
            raise part.error(f"global has {value:g} of values {count} times, expected once")
    numbers = np.nonzero(equal)[1]
    return _one_of(part, name, {"indices": numbers, "otherIndices": np.setdiff1d(np.arange(len(entries)), numbers)})


def _by_index(part: Component, name: str) -> Any:
    """IndexValueMapper: a value at some numbers, what stands in `inputValues` or `defaultValue` at the others."""
    numbers, value = part.wholes("indices", np.zeros(0, np.int64)), part.real("value", 0.0)
    given, usual = part.reals("inputValues", np.zeros(0)), part.real("defaultValue", 0.0)
    count = max(len(given), int(numbers.max(initial=-1)) + 1)
    if numbers.min(initial=0) < 0 or count > MOST_POINTS:
        raise part.error("its indices are negative, or too large")
    table = np.full(count, usual)
    table[: len(given)] = given
    table[numbers] = value
    return _one_of(part, name, {"outputValues": table})


def _boundary(part: Component, name: str) -> Any:
    """MeshBoundaryROI: the points of sides that one cell alone has, of all cells or of those within `inputROI`."""
    within, sides = part.wholes("inputROI"), [np.zeros((0, 2), np.int64)]
    for cells, width in (("triangles", 3), ("quads", 4)):
        rows = part.wholes(cells, np.zeros((0, width), np.int64), width=width)
        rows = rows[np.isin(rows, within).all(axis=1)] if within is not None and len(within) else rows
        sides.append(np.stack([rows, np.roll(rows, -1, axis=1)], axis=2).reshape(-1, 2))
    sides, counts = np.unique(np.sort(np.concatenate(sides), axis=1), axis=0, return_counts=True)
    return _one_of(part, name, {"indices": np.unique(sides[counts == 1])})


def _named(make: Callable[[Component], dict[str, Any]]) -> Callable[[Component, str], Any]:
    return lambda part, name: _one_of(part, name, make(part))


_ENGINES: dict[str, Callable[[Component, str], Any]] = {
    "TransformEngine": _transform,
    "PointsFromIndices": _at,
    "NearestPointROI": _nearest,
    "MergeSets": _sets,
    "ComplementaryROI": _complement,
    "DifferenceEngine": _difference,
    "GenerateGrid": _grid,
    "PairBoxROI": _pair_of_boxes,
    "MergeMeshes": _meshes,
    "MergeVectors": _vectors,
    "MergePoints": _points_of_two,
    "ValuesFromIndices": _chosen_values,
    "IndicesFromValues": _numbers_of_values,
    "IndexValueMapper": _by_index,
    "SphereLoader": _spheres,
    "MeshBoundaryROI": _boundary,
    "SubsetTopologicalMapping": subset_numbers,
    "SubsetTopology": taken_apart,
    "ProximityROI": _named(nearest),
    "GenerateSphere": _named(sphere),
    **{kind: _named(make) for kind, make in SWEPT.items()},
}
ENGINES = tuple(_ENGINES)


def computed(data: Any, object: SceneObject, name: str) -> np.ndarray:
    """The data `name` that an engine makes."""
    part = Component(data, object)
    made = _ENGINES[object.kind](part, name)
    part.done()
    return made
