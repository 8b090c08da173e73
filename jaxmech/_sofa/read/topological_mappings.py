"""Topological mappings: the topology of one container from that of another."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from .component import Component
from .graph import SceneNode, SceneObject
from .links import STATES, of_kind_upward
from .points_of_cells import points_of_cells
from .topology import (
    Topology,
    cut_into_prisms,
    cut_into_tetrahedra,
    edges_of,
    flipped_over,
    outer_quads,
    outer_triangles,
    split_quads,
    with_faces,
)


def _plain(made: Callable[[Topology], Topology]) -> Callable[[Component, Topology], Topology]:
    return lambda part, mesh: made(mesh)


def _tetrahedra(part: Component, mesh: Topology) -> Topology:
    return cut_into_tetrahedra(mesh, part.flag("swapping", False))


def _prisms(part: Component, mesh: Topology) -> Topology:
    return cut_into_prisms(mesh, part.flag("swapping", False))


def _points(part: Component, mesh: Topology) -> Topology:
    """Mesh2PointTopologicalMapping: the points of `points_of_cells`; cells are copied where each point has one point."""
    nodes, weights, shift = points_of_cells(part, mesh)
    made = Topology(np.einsum("nk,nkd->nd", weights, mesh.position[nodes]) + shift)
    first = len(part.reals("pointBaryCoords", np.zeros((0, 3)), width=3))
    for name, cells in (("edges", mesh.all_edges()), ("triangles", mesh.triangles), ("tetrahedra", mesh.tetrahedra)):
        if part.flag(f"copy{name.capitalize()}", False):
            if not first:
                raise part.error(f"copy{name.capitalize()} needs pointBaryCoords")
            made = replace(made, **{name: first * cells})
    return made


def _rings(part: Component, mesh: Topology) -> Topology:
    """Edge2QuadTopologicalMapping: a circle, or an ellipse, about x of each frame of its input, and quads along edges."""
    frames, circle = _frames_of_input(part, len(mesh.position)), _ellipse(part)
    turned = np.einsum("fij,kj->fki", Rotation.from_quat(frames[:, 3:]).as_matrix(), circle)
    edges, chosen = mesh.all_edges(), part.wholes("edgeList", np.zeros(0, np.int64))
    if chosen.size and not 0 <= chosen.min() <= chosen.max() < len(edges):
        raise part.error(f"edgeList names edge {chosen.max()}, but there are {len(edges)}")
    first, last = (len(circle) * (edges[chosen] if len(chosen) else edges)).T[:, :, None]
    j = np.arange(len(circle))
    after = np.roll(j, -1)
    quads = np.stack([first + j, last + j, last + after, first + after], axis=2).reshape(-1, 4)
    if part.flag("flipNormals", False) and not len(chosen):  # SOFA flips a list of edges from another corner
        quads = np.roll(quads, 1, axis=1)
    part.ignored("toQuadContainer", "toQuadModifier")
    return Topology((frames[:, None, :3] + turned).reshape(-1, 3), quads=quads)


def _frames_of_input(part: Component, count: int) -> np.ndarray:
    """The frames `(count, 7)` of the state beside the input of a mapping, or above."""
    data: Any = part.data
    owner = linked_topology(data, part, "input")
    state = None if owner is None else of_kind_upward(owner.node, lambda o: o.kind in STATES)
    frames = np.zeros((0, 3)) if state is None else data.produced(state, "position")
    if frames.shape[1] != 7 or len(frames) < count:
        raise part.error(f"its input is no topology of frames (Rigid3): {count} are expected")
    return frames[:count]


def _ellipse(part: Component) -> np.ndarray:
    """The points of a circle in the plane of y and z; of an ellipse about `focalAxis`, and across x and it."""
    around, radius, focal = part.whole("nbPointsOnEachCircle", 0), part.real("radius", 1.0), part.real("radiusFocal", 0.0)
    if not part.has("radius") and not part.has("radiusFocal"):
        raise part.error("has neither radius nor radiusFocal")
    if not 1 <= around <= 10_000 or not radius > 0:
        raise part.error(f"nbPointsOnEachCircle is {around} and radius {radius}, expected 1 to 10000 and a positive number")
    z = np.asarray(part.reals("focalAxis", np.array([0.0, 0, 1]), count=3), float)
    angle = 2 * np.pi * np.arange(around) / around
    if not focal > 0:
        return radius * np.stack([np.zeros(around), np.cos(angle), np.sin(angle)], axis=1)
    if not z.any():
        raise part.error("focalAxis is nil")
    z = z / np.linalg.norm(z)
    return radius * np.outer(np.cos(angle), np.cross(z, [1.0, 0, 0])) + focal * np.outer(np.sin(angle), z)


MAPPINGS: dict[str, Callable[[Component, Topology], Topology]] = {
    "Hexa2TetraTopologicalMapping": _tetrahedra,
    "Hexa2PrismTopologicalMapping": _prisms,
    "Tetra2TriangleTopologicalMapping": _plain(outer_triangles),
    "Hexa2QuadTopologicalMapping": _plain(outer_quads),
    "Quad2TriangleTopologicalMapping": _plain(split_quads),
    "Triangle2EdgeTopologicalMapping": _plain(edges_of),
    "Edge2QuadTopologicalMapping": _rings,
    "IdentityTopologicalMapping": _plain(lambda mesh: replace(mesh, lattice=None)),
    "Mesh2PointTopologicalMapping": _points,
}


def linked_topology(data: Any, part: Component, name: str) -> SceneObject | None:
    """The topology that data link to: of a node, the one that it has."""
    found = part.link(name)
    return of_kind_upward(found, data.is_topology) if isinstance(found, SceneNode) else found


def mapped_into(data: Any, container: SceneObject) -> Topology | None:
    """What a topological mapping of the scene fills this container with; None unless there is one."""
    for object in data.root.walk():
        if object.kind not in MAPPINGS:
            continue
        part = Component(data, object)
        if linked_topology(data, part, "output") is container:
            source = linked_topology(data, part, "input")
            if source is None or source is container:
                raise part.error("has no input, the topology to map")
            made = MAPPINGS[object.kind](part, with_faces(data.topology(source)))
            flipped = part.flag("flipNormals", False)
            part.neutral(noInitialTriangles=False, noNewTriangles=False)
            part.done()
            return flipped_over(made) if flipped else made
    return None


_CELLS = {"edge": "edges", "triangle": "triangles", "quad": "quads", "tetrahedron": "tetrahedra", "hexahedron": "hexahedra"}


def subset_numbers(part: Component, name: str) -> np.ndarray:
    """SubsetTopologicalMapping, which fills nothing: the numbers in its input of the points and cells of its output, of
    points at the very same places (`pointD2S`), and of cells of the same points (`edgeD2S` ...)."""
    data: Any = part.data
    owners = [linked_topology(data, part, end) for end in ("input", "output")]
    whole, piece = (None if owner is None else with_faces(data.topology(owner)) for owner in owners)
    if whole is None or piece is None:
        raise part.error("needs input and output, two topologies")
    same = part.flag("samePoints", False)
    handled = [cell for cell in _CELLS if part.flag(f"handle{_CELLS[cell].capitalize()}", False)]
    of_points = np.arange(len(whole.position)) if same else _places(part, "point", whole.position, piece.position)
    if name == "pointD2S":
        return np.zeros(0, np.int64) if same else of_points
    for cell in handled:
        if name == f"{cell}D2S":
            theirs, own = (m.all_edges() if cell == "edge" else getattr(m, _CELLS[cell]) for m in (whole, piece))
            return _places(part, cell, np.sort(theirs, axis=1), np.sort(of_points[own], axis=1))
    raise part.error(f"has no data '{name}' that is translated: {['pointD2S', *(f'{cell}D2S' for cell in handled)]} are")


def _places(part: Component, what: str, whole: np.ndarray, piece: np.ndarray) -> np.ndarray:
    """Where the rows of `piece` are in `whole`; the last of several."""
    known = {tuple(row): i for i, row in enumerate(whole.tolist())}
    found = [known.get(tuple(row)) for row in piece.tolist()]
    if None in found:
        raise part.error(f"{what} {found.index(None)} of its output is none of its input")
    return np.array(found, np.int64)
