"""How a quad is cut into triangles, and a hexahedron into tetrahedra or prisms: tables of local node numbers.

Each pattern is drawn once, for a block whose origin is its corner 0, and mirrored for the seven other corners.
"""

from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np

from .._runtime.array_types import Int
from .reference import reference_element

_KUHN = ((0, 1, 2, 6), (0, 2, 3, 6), (0, 3, 7, 6), (0, 7, 4, 6), (0, 4, 5, 6), (0, 5, 1, 6))
_SOFA = ((0, 5, 1, 6), (0, 1, 3, 6), (1, 3, 6, 2), (6, 3, 0, 7), (6, 7, 0, 5), (7, 5, 4, 0))
_DIAGONAL = ((0, 1, 2), (0, 2, 3))
_COLUMN = ((0, 1, 2, 4, 5, 6), (0, 2, 3, 4, 6, 7))
_AWAY = ((6, 7, 4, 5), (6, 5, 1, 2), (6, 2, 3, 7))  # the faces that corner 0 is not on, from the opposite corner

BLOCKS = {"triangle": "quad", "tetrahedron": "hexahedron", "prism": "hexahedron"}
SPLITS = {
    "triangle": ("alternating", "kuhn", "lowest"),
    "tetrahedron": ("alternating", "kuhn", "sofa", "lowest"),
    "prism": ("alternating", "kuhn"),
}
# Seen in a mirror, a cell is inside out: these swaps turn it back.
_SWAPPED = {"triangle": [0, 2, 1], "tetrahedron": [0, 1, 3, 2], "prism": [0, 2, 1, 3, 5, 4]}


@dataclass(frozen=True)
class SplitTables:
    """`cells[o, v]` `(s, k)`: local nodes of the children of a block of origin `o`, for variant `v` of the pattern.

    `diagonals[o, v]` `(f,)`: 0 where the children cut a face of the block from its first to its third node, 1 from
    the second to the fourth, -1 where they leave it whole.
    """

    cells: Int[np.ndarray, "o v s k"]
    diagonals: Int[np.ndarray, "o v f"]

    def cut(
        self, blocks: Int[np.ndarray, "e b"], origins: Int[np.ndarray, " e"], variants: Int[np.ndarray, " e"] | int = 0
    ) -> Int[np.ndarray, "m k"]:
        """The children of all blocks, block after block."""
        children = blocks[np.arange(len(blocks))[:, None, None], self.cells[origins, variants]]
        return children.reshape(-1, children.shape[-1])


@cache
def split_tables(kind: str, split: str, axis: int = 2) -> SplitTables:
    """The tables that cut a block into cells of `kind`; prisms stand along the local `axis` of the block.

    'lowest' for tetrahedra has 8 variants, see `lowest_variant`; the others have one.
    """
    corners = block_corners(kind)
    patterns = [_DIAGONAL]
    if kind == "prism":
        patterns = [_mirror(corners, np.zeros(3, int), axis)[np.asarray(_COLUMN)]]
    elif kind == "tetrahedron":
        patterns = {"sofa": [_SOFA], "lowest": [_cones(bits) for bits in product((0, 1), repeat=3)]}.get(split, [_KUHN])
    cells = np.array([[_positive(_mirror(corners, m)[np.asarray(p)], corners, kind) for p in patterns] for m in corners])
    diagonals = np.array([[_diagonals(table, kind) for table in row] for row in cells])
    return SplitTables(cells, diagonals)


def block_corners(kind: str) -> Int[np.ndarray, "b d"]:
    """The corners of the block that is cut into cells of `kind`, as zeros and ones."""
    return (np.asarray(reference_element(BLOCKS[kind]).vertices) > 0).astype(int)


def corner_numbers(places: Int[np.ndarray, "n d"], corners: Int[np.ndarray, "b d"]) -> Int[np.ndarray, " n"]:
    """Which of the corners each place is."""
    return (places[:, None] == corners).all(-1).argmax(1)


def opposite_corners(kind: str) -> Int[np.ndarray, " b"]:
    """For each corner of the block, the one at the other end of its longest diagonal."""
    corners = block_corners(kind)
    return corner_numbers(1 - corners, corners)


def lowest_variant(blocks: Int[np.ndarray, "e 8"], origins: Int[np.ndarray, " e"]) -> Int[np.ndarray, " e"]:
    """Which of the three faces away from the origin are cut from the corner opposite to it, as three bits: those
    that have their lowest node there, or at the other end of that diagonal.
    """
    corners = block_corners("tetrahedron")
    away = np.stack([_mirror(corners, m) for m in corners])[:, np.asarray(_AWAY)]  # (o, 3, 4)
    nodes = blocks[np.arange(len(blocks))[:, None, None], away[origins]]
    return (nodes.argmin(-1) % 2 == 0) @ np.array([4, 2, 1])


def _cones(bits: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The cones from corner 0 over the triangles of the faces that it is not on. The faces that it is on are cut by
    their diagonal through it, so that the pattern fits any choice on the others.
    """
    cells = []
    for (a, b, c, d), from_opposite in zip(_AWAY, bits, strict=True):
        cells += [(0, a, b, c), (0, a, c, d)] if from_opposite else [(0, b, c, d), (0, b, d, a)]
    return cells


def _mirror(corners: Int[np.ndarray, "b d"], mirror: Int[np.ndarray, " d"], axis: int = 2) -> Int[np.ndarray, " b"]:
    """Where each corner goes when the block is seen in a mirror normal to each axis that `mirror` marks, and its last
    axis is turned into `axis`.
    """
    turned = corners if axis == 2 else np.roll(corners, axis - 2, axis=1)
    return corner_numbers(turned ^ mirror, corners)


def _positive(cells: Int[np.ndarray, "s k"], corners: Int[np.ndarray, "b d"], kind: str) -> Int[np.ndarray, "s k"]:
    points = corners[cells[:, : corners.shape[1] + 1]].astype(float)
    negative = np.linalg.det(points[:, 1:] - points[:, :1]) < 0
    return np.where(negative[:, None], cells[:, _SWAPPED[kind]], cells)


def _diagonals(cells: Int[np.ndarray, "s k"], kind: str) -> list[int]:
    """Which diagonal of each face of the block the faces of its children make."""
    block, child = reference_element(BLOCKS[kind]), reference_element(kind)
    made = {frozenset(cell[list(face)].tolist()) for cell in cells for face in child.faces}
    found = []
    for ring in block.faces:
        # A face with three corners of the ring has a diagonal of it: the one that joins its first and last corner.
        cut = [corner for corner, node in enumerate(ring) if frozenset(ring) - {node} in made]
        found.append(1 - cut[0] % 2 if cut else -1)
    return found
