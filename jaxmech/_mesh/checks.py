"""What is wrong with a mesh, said before a solve fails of it."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from .._runtime.argument_checks import check_flags, check_instance
from .mesh import Mesh
from .mixed import MixedMesh
from .reference import reference_element


def check_mesh(mesh: Mesh | MixedMesh, *, connected: bool = True) -> None:
    """Raise `ValueError` for what makes a mesh unfit for a solid: the first of these, with the numbers it is about.

    - two points of one cell that are the same, and two cells with the same nodes;
    - a node that no cell uses: it moves freely, and the stiffness is singular;
    - a cell that is inverted or flat, at any point of its 'mass' quadrature (cells of as many dimensions as the points);
    - faces (of a `MixedMesh`) with nodes that no cell of the highest dimension has: orphans;
    - cells that hang together with the others nowhere, unless `connected` is False.

    Points in [m]. Host only.
    Source: P. J. Frey, P. L. George, *Mesh Generation*, 2nd ed., 2008, ISBN 978-1-84821-029-5, chapter 1 (valid meshes).

    Example:

        jm.mesh.check_mesh(mesh)  # nothing is wrong with it
        try:
            jm.mesh.check_mesh(jm.mesh.Mesh(np.vstack([mesh.points, [[9.0, 9.0, 9.0]]]), mesh.cells, mesh.kind))
        except ValueError as error:
            assert "no cell uses node 8" in str(error)
    """
    check_instance("check_mesh", "mesh", mesh, (Mesh, MixedMesh))
    check_flags("check_mesh", connected=connected)
    parts = mesh.parts() if isinstance(mesh, MixedMesh) else (mesh,)
    for part in parts:
        _check_nodes(part)
    used = np.unique(np.concatenate([np.asarray(part.cells).ravel() for part in parts]))
    if isinstance(mesh, MixedMesh):
        _check_orphans(mesh, used)
    unused = np.setdiff1d(np.arange(len(mesh.points)), used)
    if unused.size:
        raise ValueError(f"check_mesh: no cell uses node {unused[0]} ({unused.size} such nodes of {len(mesh.points)}).")
    for part in parts:
        _check_volumes(part)
    if connected:
        _check_connected(parts, len(mesh.points))


def _check_nodes(part: Mesh) -> None:
    cells = np.sort(np.asarray(part.cells), axis=1)
    twice = np.flatnonzero((cells[:, 1:] == cells[:, :-1]).any(1))
    if twice.size:
        own = np.asarray(part.cells)[twice[0]].tolist()
        raise ValueError(f"check_mesh: {part.kind} {twice[0]} names a node twice: {own}.")
    _, first, counts = np.unique(cells, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        cell = first[np.argmax(counts > 1)]
        own = np.asarray(part.cells)[cell].tolist()
        raise ValueError(f"check_mesh: {part.kind} {cell} is there twice, with nodes {own}.")


def _check_orphans(mesh: MixedMesh, used: np.ndarray) -> None:
    for kind, cells in mesh.blocks.items():
        orphans = np.flatnonzero(~np.isin(np.asarray(cells), used).all(1))
        if orphans.size:
            raise ValueError(
                f"check_mesh: {kind} {orphans[0]} is an orphan, it has nodes of no cell of dimension {mesh.dimension} "
                f"({orphans.size} such cells)."
            )


def _check_volumes(part: Mesh) -> None:
    element = reference_element(part.kind)
    if element.dimension != part.points.shape[1]:
        return
    places, _ = element.quadrature("mass")
    points, cells = np.asarray(part.points, float), np.asarray(part.cells)
    volumes = np.linalg.det(np.einsum("eka,qkb->eqab", points[cells], element.shape_gradients(places))).min(axis=1)
    if not (volumes > 0).all():
        worst = int(np.argmin(volumes))
        count = int((volumes <= 0).sum())
        raise ValueError(
            f"check_mesh: {part.kind} {worst} is inverted or flat (det J = {volumes[worst]:.3g}); its nodes are "
            f"{cells[worst].tolist()} ({count} such cells)."
        )


def _check_connected(parts: tuple[Mesh, ...], count: int) -> None:
    pairs = np.concatenate(
        [np.stack([np.repeat(c[:, 0], c.shape[1]), c.ravel()]) for c in (np.asarray(part.cells) for part in parts)], axis=1
    )
    graph = coo_array((np.ones(pairs.shape[1]), pairs), shape=(count, count))
    number, labels = connected_components(graph, directed=False)
    if number > 1:
        sizes = np.bincount(labels)
        node = int(np.argmax(labels == np.argmin(sizes)))
        raise ValueError(
            f"check_mesh: the cells fall into {number} bodies; that of node {node} has {sizes.min()} nodes (connected=False "
            "allows it)."
        )
