"""Meshes of quadratic cells: nodes in the middle of edges, and of faces and cells where a kind has them."""

from typing import Any, overload

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_choice, check_instance
from .._runtime.array_types import Array
from .._runtime.jax_internals import Tracer
from .adjacency import distinct_rows
from .mesh import Mesh
from .mixed import NODES, MixedMesh
from .reference import ReferenceElement, reference_element

QUADRATIC = {
    "edge": ("edge3",),
    "triangle": ("triangle6",),
    "quad": ("quad8", "quad9"),
    "tetrahedron": ("tetrahedron10",),
    "pyramid": ("pyramid13",),
    "prism": ("prism15",),
    "hexahedron": ("hexahedron20", "hexahedron27"),
}


_WITHOUT_FACE_NODES = ("pyramid", "prism")  # their quadratic kinds have none in the middles of quadrilaterals


@overload
def quadratic_mesh(mesh: Mesh, kind: str | None = None) -> Mesh: ...
@overload
def quadratic_mesh(mesh: MixedMesh, kind: str | None = None) -> MixedMesh: ...
def quadratic_mesh(mesh: Mesh | MixedMesh, kind: str | None = None) -> Mesh | MixedMesh:
    """The same cells with nodes in the middle, on straight sides: those of `mesh` keep their numbers, new ones follow.

    `kind`: the quadratic kind, the one with fewest nodes unless given. Move the new points (`eqx.tree_at`) to curve the
    sides. Differentiable by the points of `mesh`. Of a `MixedMesh` cells of all kinds share their middles, and its groups
    are kept: a new node is in a group of nodes that has all corners it lies between; with a `kind` that has nodes in the
    middles of quadrilaterals ("quad9", "hexahedron27"), all its quads and hexahedra have them.
    Raises `ValueError` for cells that have no such quadratic kind, and where faces would not fit: "hexahedron27" beside
    pyramids or prisms, which have no node there. Points keep their unit [m].

    Example:

        plate = jm.mesh.quadratic_mesh(jm.mesh.box_mesh(cells=(1, 1), size=(1.0, 1.0)))
        assert plate.kind == "triangle6" and plate.cells.shape == (2, 6)
        assert plate.points.shape == (9, 2) and jnp.allclose(plate.measure(), 1.0)  # [m^2]
    """
    check_instance("quadratic_mesh", "mesh", mesh, (Mesh, MixedMesh))
    blocks = {mesh.kind: mesh.cells} if isinstance(mesh, Mesh) else mesh.blocks
    kinds = _kinds(blocks, kind)
    points, cells, between = _with_middles(mesh.points, {own: np.asarray(a) for own, a in blocks.items()}, kinds)
    if isinstance(mesh, Mesh):
        return Mesh(points, cells[mesh.kind], kinds[mesh.kind])
    groups = {name: _of_quadratic(group, kinds, between, len(mesh.points)) for name, group in mesh.groups.items()}
    return MixedMesh(points, {kinds[own]: a for own, a in cells.items()}, groups)


def _kinds(blocks: dict[str, Any], kind: str | None) -> dict[str, str]:
    """The quadratic kind of every kind."""
    for own in blocks:
        if own not in QUADRATIC:
            raise ValueError(f"quadratic_mesh: cells of kind '{own}' have no quadratic kind, those of {list(QUADRATIC)} do.")
    if kind is None:
        return {own: QUADRATIC[own][0] for own in blocks}
    check_choice("quadratic_mesh", "kind", kind, tuple(choice for own in blocks for choice in QUADRATIC[own]))
    whole = any(kind in QUADRATIC[own][1:] for own in blocks)
    if whole and any(own in _WITHOUT_FACE_NODES for own in blocks):
        raise ValueError(
            f"quadratic_mesh: kind '{kind}' has nodes in faces, where pyramids and prisms of the mesh have none."
        )
    return {own: QUADRATIC[own][-1 if whole else 0] for own in blocks}


def _with_middles(
    points: Array, blocks: dict[str, np.ndarray], kinds: dict[str, str]
) -> tuple[Array | np.ndarray, dict[str, np.ndarray], list[np.ndarray]]:
    """Points, cells by their linear kind, and the corners between which the new points are, those of edges first."""
    middles = {own: _middles(reference_element(kinds[own]), reference_element(own)) for own in blocks}
    xp = jnp if isinstance(points, Tracer) else np  # on the host: no program for each size
    every, between, cells = [xp.asarray(points)], [], {own: [a] for own, a in blocks.items()}
    count = len(points)
    for size in sorted({size for of_kind in middles.values() for size in of_kind}):
        there = [own for own in blocks if size in middles[own]]
        rows = [blocks[own][:, middles[own][size]].reshape(-1, size) for own in there]
        first, which = distinct_rows(np.concatenate(rows), len(points))
        between.append(np.concatenate(rows)[first])
        every.append(xp.mean(every[0][between[-1]], axis=1))
        for own, numbers in zip(there, np.split(count + which, np.cumsum([len(a) for a in rows])[:-1]), strict=True):
            cells[own].append(numbers.reshape(len(blocks[own]), -1))
        count += len(first)
    return xp.concatenate(every), {own: np.hstack(parts) for own, parts in cells.items()}, between


def _middles(element: ReferenceElement, linear: ReferenceElement) -> dict[int, np.ndarray]:
    """The corners whose mean each further node is, `(middles, corners)`, by their number: 2 of edges, 4 of faces, 8."""
    corners, groups = np.asarray(linear.vertices, float), {}
    for node in range(linear.nodes, element.nodes):
        # At the mean of corners, the linear shape functions are alike there, and nil elsewhere.
        own = np.flatnonzero(linear.shape(np.asarray(element.vertices[node], float)) > 0.01)
        assert np.allclose(corners[own].mean(axis=0), element.vertices[node])
        groups.setdefault(len(own), []).append(own)
    return {size: np.asarray(groups[size]) for size in sorted(groups)}


def _of_quadratic(
    group: dict[str, Any], kinds: dict[str, str], between: list[np.ndarray], count: int
) -> dict[str, np.ndarray]:
    """A group of cells and nodes, with the new nodes between its own."""
    found = {kinds[own]: np.asarray(numbers) for own, numbers in group.items() if own != NODES}
    if NODES in group:
        nodes = np.asarray(group[NODES])
        inside = np.concatenate([np.isin(corners, nodes).all(axis=1) for corners in between])
        found[NODES] = np.concatenate([nodes, count + np.flatnonzero(inside)])
    return found
