"""Splits that fit where cells meet: blocks cut as mirror images of their neighbours, and the check that they fit."""

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from .._runtime.array_types import Int
from .reference import ReferenceElement
from .split_tables import opposite_corners


def mirrored_corners(
    blocks: Int[np.ndarray, "e b"], element: ReferenceElement, opposite: Int[np.ndarray, " f"], kind: str
) -> Int[np.ndarray, "e b"]:
    """For each block, the corners that the corners of the lowest block of its connected part are mirrored to: blocks
    whose splits have these origins are mirror images in the face they share.

    They are carried from neighbour to neighbour along a tree. Whether the blocks that the tree does not join are
    mirror images too depends on the mesh: in a lattice they all are.
    """
    parents = _parent_blocks(len(blocks), opposite)
    faces = len(element.faces)
    # The face of each block that its parent is across, and the same face in the parent.
    across = np.where(opposite < 0, -1, opposite // faces).reshape(len(blocks), faces)
    own = np.arange(len(blocks)) * faces + (across == parents[:, None]).argmax(1)
    shared = opposite[own] % faces
    # A corner on the shared face stays; one off it is carried by the other end of its diagonal, which is on it.
    on_face = np.array([[corner in face for corner in range(element.nodes)] for face in element.faces])
    far = opposite_corners(kind)
    end = np.where(on_face, np.arange(element.nodes), far)[shared]
    nodes = np.take_along_axis(blocks[parents], end, axis=1)
    there = (blocks[:, None, :] == nodes[:, :, None]).argmax(-1)
    carried = np.where(on_face[shared], there, far[there])
    root = parents == np.arange(len(blocks))
    carried[root] = np.arange(element.nodes)
    return _composed(carried.astype(np.int8), parents)


def clashing_blocks(
    blocks: Int[np.ndarray, "e b"],
    element: ReferenceElement,
    opposite: Int[np.ndarray, " f"],
    diagonals: Int[np.ndarray, "e f"],
) -> Int[np.ndarray, " 2"] | None:
    """The first two hexahedra that do not cut the face they share along the same diagonal; `None` if all do."""
    lowest = blocks[:, np.asarray(element.faces)].argmin(-1)
    through_lowest = np.where(diagonals < 0, -1, (diagonals + lowest) % 2 == 0).ravel()
    inside = np.flatnonzero(opposite >= 0)
    clashes = inside[through_lowest[inside] != through_lowest[opposite[inside]]]
    if not clashes.size:
        return None
    return np.array([clashes[0], opposite[clashes[0]]]) // len(element.faces)


def _parent_blocks(count: int, opposite: Int[np.ndarray, " f"]) -> Int[np.ndarray, " e"]:
    """A tree over each connected part, as the block that each block hangs on; the lowest of a part on itself."""
    faces = len(opposite) // count
    row, column = np.arange(len(opposite)) // faces, opposite // faces
    row, column = row[opposite >= 0], column[opposite >= 0]
    graph = coo_array((np.ones(len(row), np.int8), (row, column)), shape=(count, count))
    _, part = connected_components(graph, directed=False)
    roots = np.unique(part, return_index=True)[1]
    # One more block, next to the lowest of each part, so that one search reaches them all.
    row, column = np.append(row, np.full(len(roots), count)), np.append(column, roots)
    graph = coo_array((np.ones(len(row), np.int8), (row, column)), shape=(count + 1, count + 1)).tocsr()
    parents = breadth_first_order(graph, count, directed=True)[1][:count]
    return np.where(parents == count, np.arange(count), parents)


def _composed(carried: Int[np.ndarray, "e b"], parents: Int[np.ndarray, " e"]) -> Int[np.ndarray, "e b"]:
    """Where the corners of the root of each tree end up in each block, from what one step along the tree does: the
    steps of all blocks are joined two by two, then four by four, and so on.
    """
    ancestors = parents
    while True:
        carried = np.take_along_axis(carried, carried[ancestors].astype(np.intp), axis=1)
        further = ancestors[ancestors]
        if (further == ancestors).all():
            return carried
        ancestors = further
