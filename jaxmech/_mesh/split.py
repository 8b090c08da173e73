"""Meshes of hexahedra and quads cut into simplices or prisms."""

import numpy as np

from .._runtime.argument_checks import check_choice, plain
from .._runtime.array_types import Int
from .adjacency import opposite_faces
from .alternation import clashing_blocks, mirrored_corners
from .mesh import Mesh
from .reference import reference_element
from .split_tables import BLOCKS, SPLITS, SplitTables, lowest_variant, split_tables
from .topological_mapping import TopologicalMapping, host_cells


def hexahedra_to_tetrahedra(mesh: Mesh, *, split: str = "alternating") -> TopologicalMapping:
    """Every hexahedron cut into 6 tetrahedra, on the same points. Child `6 i + j` comes from hexahedron `i`.

    - 'alternating' (default): hexahedra that share a face are mirror images in it, which prefers no diagonal. It
      needs no lattice: the pattern is carried from neighbour to neighbour. In a `box_mesh` it gives the cells of
      `box_mesh(kind="tetrahedron")`. Not every mesh can be cut so: the six hexahedra round a hollow cube cannot;
    - 'kuhn': the diagonal from the first to the seventh node of each;
    - 'sofa': the split of SOFA's `Hexa2TetraTopologicalMapping`;
    - 'lowest': each face is cut from its lowest node, which fits whatever the mesh is.

    Volumes are kept where faces are flat. Raises `ValueError` for another kind of cells, another split, and for a
    split that does not cut the face of two neighbours along the same diagonal ('kuhn' and 'sofa' do where hexahedra
    are numbered alike, as in a lattice). Source of the patterns: J. Dompierre et al., "How to subdivide pyramids,
    prisms and hexahedra into tetrahedra", 8th International Meshing Roundtable, 1999; H. W. Kuhn, "Some combinatorial
    lemmas in topology", 1960, doi:10.1147/rd.45.0518.
    Points stay [m], in the mesh's own array.

    Example:

        bricks = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
        cut = jm.mesh.hexahedra_to_tetrahedra(bricks).mesh
        assert cut.cells.shape == (12, 4) and jnp.allclose(cut.measure(), 2.0)  # [m^3]
    """
    return _split("hexahedra_to_tetrahedra", mesh, "tetrahedron", split)


def quads_to_triangles(mesh: Mesh, *, split: str = "alternating") -> TopologicalMapping:
    """Every quad cut into 2 triangles, on the same points. Child `2 i + j` comes from quad `i`.

    - 'alternating' (default): quads that share an edge are mirror images in it, as far as the mesh allows (not all
      round a ring of an odd number of them);
    - 'kuhn': the diagonal from the first to the third node of each;
    - 'lowest': the diagonal through the lowest node. On the boundary of hexahedra, it gives the boundary of
      `hexahedra_to_tetrahedra(mesh, split="lowest")`.

    Raises `ValueError` for another kind of cells, another split, and an edge that three quads share ('alternating').
    Points stay [m].

    Example:

        tiles = jm.mesh.box_mesh(cells=(2, 1), size=(2.0, 1.0), kind="quad")
        cut = jm.mesh.quads_to_triangles(tiles).mesh
        assert cut.cells.shape == (4, 3) and jnp.allclose(cut.measure(), 2.0)  # [m^2]
    """
    return _split("quads_to_triangles", mesh, "triangle", split)


def hexahedra_to_prisms(mesh: Mesh, *, axis: int = 2, split: str = "alternating") -> TopologicalMapping:
    """Every hexahedron cut into 2 prisms that stand along its local `axis` (0: first to second node, 1: second to
    third, 2: first to fifth), on the same points. Child `2 i + j` comes from hexahedron `i`.

    `split` is 'alternating' (default: neighbours are mirror images) or 'kuhn' (for axis 2, the diagonal from the
    first to the third node of each). Raises `ValueError` for another kind of cells, another axis or split, and where
    neighbours do not cut the face they share alike: their axes must agree, as in a lattice.
    Points stay [m]. Source of the patterns: J. Dompierre et al., "How to subdivide pyramids, prisms and hexahedra into
    tetrahedra", 8th International Meshing Roundtable, 1999.

    Example:

        bricks = jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
        cut = jm.mesh.hexahedra_to_prisms(bricks).mesh
        assert cut.kind == "prism" and cut.cells.shape == (4, 6)
    """
    axis = plain(axis)
    if isinstance(axis, bool) or not isinstance(axis, int) or axis not in (0, 1, 2):
        raise ValueError(f"hexahedra_to_prisms: axis must be 0, 1 or 2, got {axis!r:.80}.")
    return _split("hexahedra_to_prisms", mesh, "prism", split, axis)


def _split(owner: str, mesh: Mesh, kind: str, split: str, axis: int = 2) -> TopologicalMapping:
    blocks = host_cells(owner, mesh, BLOCKS[kind])
    check_choice(owner, "split", split, SPLITS[kind])
    tables = split_tables(kind, split, axis)
    origins, variants = _fitting_origins(owner, mesh, blocks, kind, split, tables)
    children = tables.cut(blocks, origins, variants)
    parents = np.repeat(np.arange(len(blocks)), len(children) // len(blocks))[:, None]
    return TopologicalMapping(Mesh(mesh.points, children, kind), parents, np.arange(len(mesh.points)), len(blocks))


def _fitting_origins(
    owner: str, mesh: Mesh, blocks: Int[np.ndarray, "e b"], kind: str, split: str, tables: SplitTables
) -> tuple[Int[np.ndarray, " e"], Int[np.ndarray, " e"]]:
    """Origin and variant of the pattern of each block, such that neighbours fit."""
    element, zero = reference_element(mesh.kind), np.zeros(len(blocks), np.int64)
    if split == "lowest":
        origins = blocks.argmin(1)
        return origins, lowest_variant(blocks, origins) if kind == "tetrahedron" else zero
    if kind == "triangle" and split == "kuhn":
        return zero, zero
    try:
        opposite = opposite_faces(blocks, element, len(mesh.points))
    except ValueError as error:
        raise ValueError(f"{owner}: mesh cannot be cut: {error}") from None
    choices, clash = [zero], None
    if split == "alternating":
        # One corner of each diagonal that the first block can be cut along.
        choices = list(mirrored_corners(blocks, element, opposite, kind)[:, : element.nodes // 2].T)
    for origins in choices:
        clash = clashing_blocks(blocks, element, opposite, tables.diagonals[origins, 0])
        if clash is None:
            return origins, zero
    other = "split='lowest' fits any mesh" if kind == "tetrahedron" else "their local axes must agree"
    assert clash is not None
    raise ValueError(
        f"{owner}: split '{split}' does not fit mesh: hexahedra {clash[0]} and {clash[1]} would not cut the face they "
        f"share along the same diagonal; {other}."
    )
