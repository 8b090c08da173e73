"""Which cells share a face: faces matched by their nodes. Host only, arrays in and out."""

import numpy as np

from .._runtime.array_types import Int
from .reference import ReferenceElement


def cell_faces(cells: Int[np.ndarray, "e k"], element: ReferenceElement, count: int) -> Int[np.ndarray, "f m"]:
    """The nodes (below `count`) of every face of every cell, cell after cell, outward.

    Where a cell has faces of several kinds, those with fewer nodes are filled up with `count`.
    """
    most = max(len(face) for face in element.faces)
    if min(len(face) for face in element.faces) < most:
        cells = np.hstack([cells, np.full((len(cells), 1), count, cells.dtype)])
    local = np.array([(*face, *[element.nodes] * (most - len(face))) for face in element.faces])
    return cells[:, local].reshape(-1, most)


def distinct_rows(rows: Int[np.ndarray, "r c"], count: int) -> tuple[Int[np.ndarray, " g"], Int[np.ndarray, " r"]]:
    """The first row of each set of nodes (numbers up to `count`, in any order), and the set that each row is.

    Sets are numbered as they first appear.
    """
    keys = row_keys(np.sort(rows, axis=1), count + 1)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[which.ravel()]


def listed_by(groups: Int[np.ndarray, " r"], values: Int[np.ndarray, " r"], count: int) -> Int[np.ndarray, "g p"]:
    """For each of `count` groups its values, in the order they come in; -1 fills the shorter lists."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups, minlength=count)
    table = np.full((count, max(1, sizes.max(initial=0))), -1, np.int32)
    column = np.arange(len(groups)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    table[groups[order], column] = values[order]
    return table


def opposite_faces(cells: Int[np.ndarray, "e k"], element: ReferenceElement, count: int) -> Int[np.ndarray, " f"]:
    """For every row of `cell_faces`, the row that is the same face of another cell; -1 on the boundary.

    Raises `ValueError` for a face that three cells share.
    """
    faces = cell_faces(cells, element, count)
    first, which = distinct_rows(faces, count)
    rows = listed_by(which, np.arange(len(faces)), len(first))
    if rows.shape[1] > 2:
        crowded = rows[np.flatnonzero(rows[:, 2] >= 0)[0]]
        owners = (crowded[crowded >= 0] // len(element.faces)).tolist()
        nodes = [node for node in faces[crowded[0]].tolist() if node < count]
        raise ValueError(f"the face with nodes {nodes} belongs to cells {owners}, expected at most two.")
    opposite = np.full(len(faces), -1, np.int64)
    if rows.shape[1] == 2:
        one, other = rows[rows[:, 1] >= 0].T
        opposite[one], opposite[other] = other, one
    return opposite


def row_keys(rows: Int[np.ndarray, "r c"], count: int) -> Int[np.ndarray, " r"]:
    """One 64-bit number per row of numbers below `count`, equal for equal rows: faster to sort than rows."""
    keys, bound = rows[:, 0].astype(np.int64), count
    for column in rows.T[1:]:
        if bound > np.iinfo(np.int64).max // count:  # would overflow: renumber what there is so far
            keys, bound = np.unique(keys, return_inverse=True)[1].astype(np.int64), len(rows)
        keys, bound = keys * count + column, bound * count
    return keys
