"""Points and cells as SOFA's loaders, grids and topological mappings number them."""

from dataclasses import dataclass, field, replace

import numpy as np

CELLS = {"edges": 2, "triangles": 3, "quads": 4, "tetrahedra": 4, "hexahedra": 8, "prisms": 6, "pyramids": 5}
ALIASES = {"points": "position", "vertices": "position", "lines": "edges", "tetras": "tetrahedra", "hexas": "hexahedra"}
HEXAHEDRON_EDGES = ((0, 1), (0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (2, 6), (3, 7), (4, 5), (4, 7), (5, 6), (6, 7))
PRISM_EDGES = ((0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5))
PYRAMID_EDGES = ((0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (1, 4), (2, 4), (3, 4))
CELL_NAMES = {name: (name, *(a for a, of in ALIASES.items() if of == name)) for name in CELLS}
_TETRAHEDRA = ((0, 5, 1, 6), (0, 1, 3, 6), (1, 3, 6, 2), (6, 3, 0, 7), (6, 7, 0, 5), (7, 5, 4, 0))
_PRISMS = ((0, 1, 5, 3, 2, 6), (0, 5, 4, 3, 6, 7))
_MIRRORS = ((1, 0, 3, 2, 5, 4, 7, 6), (3, 2, 1, 0, 7, 6, 5, 4), (4, 5, 6, 7, 0, 1, 2, 3))
TETRAHEDRON_FACES = ((1, 2, 3), (0, 3, 2), (0, 1, 3), (0, 2, 1))  # of a tetrahedron, opposite to each of its nodes


def _none(width: int) -> np.ndarray:
    return np.zeros((0, width), np.int64)


@dataclass(frozen=True)
class Topology:
    """Points `(n, 3)` and cells `(e, k)`; `lattice`: how many points a grid has along each axis."""

    position: np.ndarray
    edges: np.ndarray = field(default_factory=lambda: _none(2))
    triangles: np.ndarray = field(default_factory=lambda: _none(3))
    quads: np.ndarray = field(default_factory=lambda: _none(4))
    tetrahedra: np.ndarray = field(default_factory=lambda: _none(4))
    hexahedra: np.ndarray = field(default_factory=lambda: _none(8))
    prisms: np.ndarray = field(default_factory=lambda: _none(6))
    pyramids: np.ndarray = field(default_factory=lambda: _none(5))
    lattice: tuple[int, int, int] | None = None
    share: np.ndarray | None = None  # of each hexahedron, how much of it counts

    def all_edges(self) -> np.ndarray:
        """The edges of all cells, each once, in the order in which they are met."""
        pairs = [self.edges]
        rings = {"triangles": ((0, 1), (1, 2), (0, 2)), "quads": ((0, 1), (1, 2), (2, 3), (0, 3))}
        rings |= {"tetrahedra": ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)), "hexahedra": HEXAHEDRON_EDGES}
        rings |= {"prisms": PRISM_EDGES, "pyramids": PYRAMID_EDGES}
        for cells, ring in rings.items():
            pairs.append(getattr(self, cells)[:, np.asarray(ring)].reshape(-1, 2))
        return distinct(np.concatenate(pairs))

    def cells(self) -> tuple[str, np.ndarray]:
        """The cells of the highest dimension that there are, as masses take them."""
        for name in ("hexahedra", "tetrahedra", "quads", "triangles", "edges"):
            if len(getattr(self, name)):
                return name, getattr(self, name)
        return "edges", self.edges


def distinct(cells: np.ndarray) -> np.ndarray:
    """Cells whose nodes are not those of one before."""
    _, first = np.unique(np.sort(cells, axis=1), axis=0, return_index=True)
    return cells[np.sort(first)]


def grid(counts: tuple[int, int, int], low: np.ndarray, high: np.ndarray) -> Topology:
    """A regular grid, numbered x first, then y, then z; hexahedra, or quads or edges where it is flat."""
    steps = (high - low) / np.maximum(np.asarray(counts) - 1, 1)
    middle = np.array([True, True, False]) & (np.asarray(counts) == 1)  # one point stands in the middle, but not in z
    low = np.where(middle, (low + high) / 2, low)
    k, j, i = np.meshgrid(*(np.arange(n) for n in reversed(counts)), indexing="ij")
    places = np.stack([i, j, k], axis=-1).reshape(-1, 3)
    position = low + steps * places
    long = [axis for axis in range(3) if counts[axis] > 1]
    strides = np.cumprod([1, *counts[:2]])
    ring = [(0, 0), (1, 0), (1, 1), (0, 1)]
    corners = {3: [(*c, k) for k in (0, 1) for c in ring], 2: ring, 1: [(0,), (1,)], 0: []}[len(long)]
    first = np.flatnonzero((places[:, long] < np.asarray(counts)[long] - 1).all(1)) if long else np.zeros(0, int)
    offsets = np.array([sum(step * strides[axis] for step, axis in zip(c, long, strict=True)) for c in corners], np.int64)
    made = {3: "hexahedra", 2: "quads", 1: "edges"}.get(len(long))
    made = {made: first[:, None] + offsets} if made else {}
    return Topology(position, lattice=counts, **made)


def with_faces(topology: Topology) -> Topology:
    """A grid with all of its quads, those of xy first, then of xz and yz, and two triangles of each, as SOFA's grids have
    them; anything else as it is."""
    if topology.lattice is None:
        return topology
    n, quads = np.asarray(topology.lattice), []
    places = np.stack(np.unravel_index(np.arange(n.prod()), n[::-1])[::-1], axis=1)
    strides = np.cumprod([1, *n[:2]])
    for a, b in ((0, 1), (0, 2), (1, 2)):
        first = np.flatnonzero((places[:, a] < n[a] - 1) & (places[:, b] < n[b] - 1))
        quads.append(first[:, None] + np.array([0, strides[a], strides[a] + strides[b], strides[b]]))
    made = replace(topology, quads=np.concatenate(quads))
    return replace(made, triangles=split_quads(made).triangles)


def cut_into_tetrahedra(topology: Topology, swapping: bool) -> Topology:
    """Every hexahedron as six tetrahedra, as Hexa2TetraTopologicalMapping cuts it; `swapping` mirrors neighbours."""
    (cells, odd), table = _mirrored(topology, swapping), np.asarray(_TETRAHEDRA)
    children = np.where(odd[:, None, None], cells[:, table[:, (0, 1, 3, 2)]], cells[:, table])
    return Topology(topology.position, tetrahedra=children.reshape(-1, 4))


def cut_into_prisms(topology: Topology, swapping: bool) -> Topology:
    """Every hexahedron as two prisms, as Hexa2PrismTopologicalMapping cuts it."""
    cells, _ = _mirrored(topology, swapping)
    return Topology(topology.position, prisms=cells[:, np.asarray(_PRISMS)].reshape(-1, 6))


def _mirrored(topology: Topology, swapping: bool) -> tuple[np.ndarray, np.ndarray]:
    """Hexahedra, neighbours mirrored where `swapping`, and which of them are turned inside out."""
    cells = topology.hexahedra
    odd = np.zeros(len(cells), bool)
    if swapping:
        nx, ny = (2, 1) if topology.lattice is None else (topology.lattice[0] - 1, topology.lattice[1] - 1)
        i = np.arange(len(cells))
        for mirror, where in zip(_MIRRORS, (i % nx % 2 == 0, i // nx % ny % 2 == 1, i // (nx * ny) % 2 == 1), strict=True):
            cells = np.where(where[:, None], cells[:, mirror], cells)
            odd ^= where
    return cells, odd


def outer_triangles(topology: Topology) -> Topology:
    """The faces that one tetrahedron alone has, as Tetra2TriangleTopologicalMapping keeps them."""
    faces = topology.tetrahedra[:, np.asarray(TETRAHEDRON_FACES)].reshape(-1, 3)
    _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return replace(Topology(topology.position), triangles=faces[np.sort(first[counts == 1])])


def outer_quads(topology: Topology) -> Topology:
    """The faces that one hexahedron alone has."""
    sides = ((0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7))
    faces = topology.hexahedra[:, np.asarray(sides)].reshape(-1, 4)
    _, first, counts = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
    return replace(Topology(topology.position), quads=faces[np.sort(first[counts == 1])])


def split_quads(topology: Topology) -> Topology:
    """Every quad as two triangles along its first diagonal."""
    cells = topology.quads[:, ((0, 1, 2), (0, 2, 3))].reshape(-1, 3)
    return replace(Topology(topology.position), triangles=cells)


def flipped_over(topology: Topology) -> Topology:
    """Triangles and quads that are run through the other way."""
    return replace(topology, triangles=topology.triangles[:, (0, 2, 1)], quads=topology.quads[:, (0, 3, 2, 1)])


def edges_of(topology: Topology) -> Topology:
    """The edges of all cells, each once."""
    return Topology(topology.position, edges=topology.all_edges())
