"""Every cell cut into smaller ones, alike."""

from functools import cache
from typing import Any, overload

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_choice, check_instance
from .._runtime.array_types import Int
from .._runtime.jax_internals import Tracer
from .adjacency import distinct_rows
from .mesh import Mesh
from .mixed import NODES, MixedMesh
from .quadratic import QUADRATIC
from .reference import reference_element

# Of the quadratic cell with nodes in all middles: the corners of its children, in VTK's order. Nodes in the middles of the
# quadrilateral faces follow those that a prism or a pyramid has. The last children of a pyramid are tetrahedra.
_CUTS = {
    "edge": ("edge3", ((0, 2), (2, 1))),
    "triangle": ("triangle6", ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5))),
    "quad": ("quad9", ((0, 4, 8, 7), (4, 1, 5, 8), (8, 5, 2, 6), (7, 8, 6, 3))),
    "tetrahedron": (
        "tetrahedron10",
        ((0, 4, 6, 7), (4, 1, 5, 8), (6, 5, 2, 9), (7, 8, 9, 3), (6, 8, 7, 4), (6, 8, 4, 5), (6, 8, 5, 9), (6, 8, 9, 7)),
    ),
    "prism": (
        "prism15",
        (
            (0, 6, 8, 12, 15, 17),
            (6, 1, 7, 15, 13, 16),
            (8, 7, 2, 17, 16, 14),
            (6, 7, 8, 15, 16, 17),
            (12, 15, 17, 3, 9, 11),
            (15, 13, 16, 9, 4, 10),
            (17, 16, 14, 11, 10, 5),
            (15, 16, 17, 9, 10, 11),
        ),
    ),
    "pyramid": (
        "pyramid13",
        (
            (0, 5, 13, 8, 9),
            (5, 1, 6, 13, 10),
            (13, 6, 2, 7, 11),
            (8, 13, 7, 3, 12),
            (9, 10, 11, 12, 4),
            (9, 12, 11, 10, 13),
            (5, 13, 9, 10),
            (6, 13, 10, 11),
            (7, 13, 11, 12),
            (8, 13, 12, 9),
        ),
    ),
    "hexahedron": (
        "hexahedron27",
        (
            (0, 8, 24, 11, 16, 22, 26, 20),
            (8, 1, 9, 24, 22, 17, 21, 26),
            (24, 9, 2, 10, 26, 21, 18, 23),
            (11, 24, 10, 3, 20, 26, 23, 19),
            (16, 22, 26, 20, 4, 12, 25, 15),
            (22, 17, 21, 26, 12, 5, 13, 25),
            (26, 21, 18, 23, 25, 13, 6, 14),
            (20, 26, 23, 19, 15, 25, 14, 7),
        ),
    ),
}
_LINEAR = {kind: linear for linear in _CUTS for kind in (linear, *QUADRATIC[linear])}
_PARTS = 64  # new nodes are at multiples of 1/64 of the corners at most: hexahedra of 27 nodes have them at quarters


_BY_CORNERS = {
    4: ("tetrahedron", "tetrahedron10"),
    5: ("pyramid", "pyramid13"),
}  # children of pyramids, linear and quadratic


@overload
def refined_mesh(mesh: Mesh) -> Mesh: ...
@overload
def refined_mesh(mesh: MixedMesh) -> MixedMesh: ...
def refined_mesh(mesh: Mesh | MixedMesh) -> Mesh | MixedMesh:
    """Every edge halved: 2 edges, 4 triangles or quads, 8 tetrahedra, prisms or hexahedra in place of one.

    In place of a pyramid are 6, and 4 tetrahedra, after those of other tetrahedra. Cells are linear or quadratic; children
    of cell `e` are cells `q e, ..., q e + q - 1`. Points [m] keep their numbers, new ones follow, where the shape functions
    have them: curved sides stay as they are. Differentiable by the points of `mesh`. Of a `MixedMesh` groups are kept:
    children are in those of their parents, and a new node is in a group of nodes that has all corners it lies between.
    Raises `ValueError` for a `Mesh` of pyramids, whose children are of two kinds (`MixedMesh.from_mesh`).
    Source: J. Bey, Computing 55 (1995) 355, doi:10.1007/BF02238487 (tetrahedra).

    Example:

        fine = jm.mesh.refined_mesh(mesh)
        assert len(fine.cells) == 8 * len(mesh.cells) and jnp.allclose(fine.measure(), mesh.measure())
    """
    check_instance("refined_mesh", "mesh", mesh, (Mesh, MixedMesh))
    blocks = {mesh.kind: mesh.cells} if isinstance(mesh, Mesh) else mesh.blocks
    for kind in blocks:
        check_choice("refined_mesh", "kind of mesh", kind, tuple(_LINEAR))
        if isinstance(mesh, Mesh) and len(_children(kind)[1]) > 1:
            raise ValueError(
                f"refined_mesh: cells in place of a {kind} are of two kinds, which no Mesh holds: refine a MixedMesh, "
                "jm.mesh.MixedMesh.from_mesh(mesh)."
            )
    if any(isinstance(cells, Tracer) for cells in blocks.values()):
        raise TypeError("refined_mesh: how many points there are depends on values, call it outside jit.")
    points, cut, corners, first = _cut(mesh.points, {kind: np.asarray(cells) for kind, cells in blocks.items()})
    if isinstance(mesh, Mesh):
        return Mesh(points, cut[mesh.kind], mesh.kind)
    groups = {}
    for name, group in mesh.groups.items():
        found: dict[str, list[np.ndarray]] = {}
        for kind, numbers in group.items():
            for child, of_child in _of_children(kind, np.asarray(numbers), len(mesh.points), corners, first).items():
                found.setdefault(child, []).append(of_child)
        groups[name] = {child: np.concatenate(parts) for child, parts in found.items()}
    return MixedMesh(points, cut, groups)


def _cut(points: Any, blocks: dict[str, np.ndarray]) -> tuple[Any, dict[str, np.ndarray], np.ndarray, dict[Any, int]]:
    """Points, cells of each kind, of every new node the corners it lies between, -1 where there are fewer than 8.

    And where the children of a kind begin among those of their own, by both kinds.
    """
    points = points if isinstance(points, Tracer) else np.asarray(points)  # on the host no size is compiled
    kinds = sorted(blocks, key=lambda kind: (-reference_element(kind).dimension, len(_children(kind)[1])))
    keys = [_keys(kind, blocks[kind]) for kind in kinds]
    codes, ends = np.concatenate(keys), np.cumsum([0, *map(len, keys)])
    first, which = distinct_rows(codes, (len(points) + 2) * (_PARTS + 1))
    new, begun = [], {}
    cut: dict[str, list[np.ndarray]] = {}
    for kind, begin, end in zip(kinds, ends, ends[1:], strict=False):
        cells, (places, children) = blocks[kind], _children(kind)
        shape = reference_element(kind).shape(places)
        cell, place = np.divmod(first[(first >= begin) & (first < end)] - begin, len(places))
        new.append((shape[place].astype(points.dtype)[:, :, None] * points[cells[cell]]).sum(axis=1))
        numbers = np.hstack([cells, len(points) + which[begin:end].reshape(len(cells), -1)])
        for child, nodes in children.items():
            begun[kind, child] = sum(map(len, cut.setdefault(child, [])))
            cut[child].append(numbers[:, nodes].reshape(-1, nodes.shape[1]))
    joined = jnp if isinstance(points, Tracer) else np
    whole = {kind: np.concatenate(parts) for kind, parts in cut.items()}
    return joined.concatenate([points, *new]), whole, codes[first] // (_PARTS + 1) - 1, begun


def _keys(kind: str, cells: np.ndarray) -> Int[np.ndarray, "n 8"]:
    """Which corners each new node of each cell lies between, and how near each is: equal for nodes that are the same."""
    linear = reference_element(_LINEAR[kind])
    parts = np.round(_PARTS * linear.shape(_children(kind)[0])).astype(np.int64)
    code = np.where(parts > 0, (cells[:, None, : linear.nodes] + 1).astype(np.int64) * (_PARTS + 1) + parts, 0)
    return np.pad(code.reshape(-1, linear.nodes), ((0, 0), (0, 8 - linear.nodes)))


@cache
def _children(kind: str) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Where the further nodes of a cell are; the nodes of its children by kind: those of the cell, then the further ones."""
    element, linear = reference_element(kind), reference_element(_LINEAR[kind])
    whole, corners = _CUTS[linear.kind]
    nodes = np.asarray(reference_element(whole).vertices, float)
    if linear.kind in ("prism", "pyramid"):
        nodes = np.concatenate([nodes, [nodes[list(face)].mean(axis=0) for face in linear.faces if len(face) == 4]])
    every, numbers = list(np.asarray(element.vertices, float)), {}
    for of_child in corners:
        child = _BY_CORNERS[len(of_child)][element.order - 1] if linear.kind == "pyramid" else kind
        vertices = np.asarray(reference_element(child).vertices, float)
        row = []
        for place in reference_element(_LINEAR[child]).shape(vertices) @ nodes[list(of_child)]:
            found = [k for k, other in enumerate(every) if np.allclose(place, other)]
            row.append(found[0] if found else len(every))
            every.extend([] if found else [place])
        numbers.setdefault(child, []).append(row)
    return np.asarray(every[element.nodes :]), {child: np.asarray(rows) for child, rows in numbers.items()}


def _of_children(
    kind: str, numbers: np.ndarray, count: int, corners: np.ndarray, first: dict[Any, int]
) -> dict[str, Int[np.ndarray, " m"]]:
    """The numbers of a group after the cut, by kind."""
    if kind != NODES:
        counts = {child: len(nodes) for child, nodes in _children(kind)[1].items()}
        return {c: first[kind, c] + (n * numbers[:, None] + np.arange(n)).ravel() for c, n in counts.items()}
    inside = np.append(np.isin(np.arange(count), numbers), True)  # the last stands for none
    return {kind: np.concatenate([numbers, count + np.flatnonzero(inside[corners].all(axis=1))])}
