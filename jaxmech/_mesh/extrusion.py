"""Plane meshes drawn out into space."""

from typing import Any, overload

import numpy as np

from .._runtime.argument_checks import check_choice, check_counts, check_instance, plain
from .._runtime.array_types import Int
from .._runtime.jax_internals import Tracer
from .mesh import Mesh
from .mixed import NODES, MixedMesh
from .reference import reference_element
from .shapes import positive_length

_DRAWN = {
    "triangle": "prism",
    "quad": "hexahedron",
    "edge": "quad",
    "triangle6": "prism15",
    "quad8": "hexahedron20",
    "quad9": "hexahedron27",
    "edge3": "quad8",
}


@overload
def extruded_mesh(mesh: Mesh, *, height: Any, layers: int) -> Mesh: ...
@overload
def extruded_mesh(mesh: MixedMesh, *, height: Any, layers: int) -> MixedMesh: ...
def extruded_mesh(mesh: Mesh | MixedMesh, *, height: Any, layers: int) -> Mesh | MixedMesh:
    """Cells of the plane drawn out along z by `height` [m], in `layers`: triangles as prisms, quads as hexahedra.

    Quadratic cells become quadratic ones (`triangle6` `prism15`, `quad8` `hexahedron20`, `quad9` `hexahedron27`), and curved
    sides stay so. Layer `i` of the points is that of the plane at `z = height i / layers`; middle nodes between layers
    follow. Cells of layer `i` follow those of layer `i - 1`. Of a `MixedMesh` groups are kept: of edges they name the sides
    that these become, of nodes the columns above them. Raises `ValueError` for other cells, points that are not in the
    plane, a height that is not positive, and less than one layer.
    Source: P. J. Frey, P. L. George, *Mesh Generation*, 2nd ed., 2008, ISBN 978-1-84821-029-5, chapter 3.

    Example:

        plate = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0), kind="quad")
        block = jm.mesh.extruded_mesh(plate, height=0.5, layers=3)
        assert block.kind == "hexahedron" and jnp.allclose(block.measure(), 1.0)  # [m^3]
    """
    owner = "extruded_mesh"
    check_instance(owner, "mesh", mesh, (Mesh, MixedMesh))
    blocks = {mesh.kind: mesh.cells} if isinstance(mesh, Mesh) else mesh.blocks
    for kind in blocks:
        check_choice(owner, "kind of mesh", kind, tuple(_DRAWN))
    layers = plain(layers)
    check_counts(owner, layers=layers)
    height = positive_length(owner, "height", height)
    if any(isinstance(array, Tracer) for array in (mesh.points, *blocks.values())):
        raise TypeError(f"{owner}: the mesh it makes is one of the host, call it outside jit.")
    plane = np.asarray(mesh.points)
    if plane.shape[1] != 2:
        raise ValueError(f"{owner}: mesh has points {plane.shape}, expected (n, 2), points of the plane.")
    drawn = {kind: _drawn(kind, "quad9" in blocks) for kind in blocks}
    places = {kind: _places(kind, drawn[kind], np.asarray(cells), len(plane), layers) for kind, cells in blocks.items()}
    used = np.unique(np.concatenate([p.ravel() for p in places.values()]))
    between = used[used // len(plane) % 2 == 1]  # half levels: middle nodes only, where there are any
    at = np.concatenate([*(2 * i * len(plane) + np.arange(len(plane)) for i in range(layers + 1)), between])
    number = np.full((2 * layers + 1) * len(plane), -1)
    number[at] = np.arange(len(at))
    points = np.column_stack([plane[at % len(plane)], height * (at // len(plane)) / (2 * layers)])
    if isinstance(mesh, Mesh):
        return Mesh(points, number[places[mesh.kind]], drawn[mesh.kind])
    cells = {drawn[kind]: number[p] for kind, p in places.items()}
    groups = {name: _columns(group, mesh, drawn, number, layers) for name, group in mesh.groups.items()}
    return MixedMesh(points, cells, groups)


def _drawn(kind: str, nines: bool) -> str:
    return "quad9" if kind == "edge3" and nines else _DRAWN[kind]


def _places(kind: str, drawn: str, cells: np.ndarray, count: int, layers: int) -> Int[np.ndarray, "e k"]:
    """The nodes of all cells, as numbers of the plane and `count` times twice their layer."""
    flat, solid = reference_element(kind), np.asarray(reference_element(drawn).vertices, float)
    node = [int(np.flatnonzero((np.asarray(flat.vertices) == v[:-1]).all(axis=1))[0]) for v in solid]
    level = np.round(solid[:, -1] + 1).astype(int)
    first = cells[:, node] + count * level
    return np.concatenate([first + 2 * count * i for i in range(layers)])


def _columns(group: Any, mesh: MixedMesh, drawn: dict[str, str], number: np.ndarray, layers: int) -> dict[str, np.ndarray]:
    """A group of the plane, of what its members have become."""
    grown = {}
    for kind, members in group.items():
        numbers = np.asarray(members)
        if kind == NODES:
            above = number.reshape(-1, len(mesh.points))[:, numbers].ravel()
            grown[NODES] = above[above >= 0]
        else:
            count = len(mesh.blocks[kind])
            grown[drawn[kind]] = np.concatenate([numbers + count * i for i in range(layers)])
    return grown
