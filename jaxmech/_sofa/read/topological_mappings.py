"""Topological mappings: the topology of one container from that of another."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from .component import Component
from .graph import SceneNode, SceneObject
from .links import of_kind_upward
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


MAPPINGS: dict[str, Callable[[Component, Topology], Topology]] = {
    "Hexa2TetraTopologicalMapping": _tetrahedra,
    "Hexa2PrismTopologicalMapping": _prisms,
    "Tetra2TriangleTopologicalMapping": _plain(outer_triangles),
    "Hexa2QuadTopologicalMapping": _plain(outer_quads),
    "Quad2TriangleTopologicalMapping": _plain(split_quads),
    "Triangle2EdgeTopologicalMapping": _plain(edges_of),
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
