"""Topological mappings: meshes made of the cells of others, and the index maps between the two."""

import itertools
import re
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import jaxmech as jm

ROUND_OFF = 1e-12  # sums of some hundred float64 numbers of order 1
BUILD_SECONDS = 5.0  # measured at 0.5 s: only a Python loop over cells can exceed it

HEXAHEDRON_SPLITS = ("alternating", "kuhn", "sofa", "lowest")
QUAD_SPLITS = ("alternating", "kuhn", "lowest")
BRICK = jm.mesh.box_mesh(cells=(3, 2, 4), size=(1.5, 1.0, 0.7), origin=(0.3, -0.2, 1.1), kind="hexahedron")
TETRAHEDRA = jm.mesh.box_mesh(cells=(3, 2, 2), size=(1.5, 1.0, 0.7))
TILES = jm.mesh.box_mesh(cells=(3, 4), size=(1.5, 1.0), kind="quad")
SHEET = jm.mesh.box_mesh(cells=(3, 4), size=(1.5, 1.0))
ROPE = jm.mesh.Mesh([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1], [1, 2]], "edge")
UPRIGHT = np.tile([0.0, 0, 0, 1], (3, 1))
settings.register_profile("topology", max_examples=15, deadline=None, database=None, derandomize=True)
few = settings(settings.get_profile("topology"))


def says(text):
    return re.escape(text)


def volumes(mesh):
    """Signed volumes or areas of simplices, without compiling for every size."""
    corners = np.asarray(mesh.points)[np.asarray(mesh.cells)]
    size = mesh.points.shape[1]
    return np.linalg.det(corners[:, 1:] - corners[:, :1]) / (2 if size == 2 else 6)


def rotations():
    """The 24 ways to number the corners of a hexahedron from another corner, as permutations."""
    corners = np.asarray(jm.mesh.reference_element("hexahedron").vertices)
    for axes in itertools.permutations(range(3)):
        for signs in itertools.product((-1, 1), repeat=3):
            turn = np.eye(3, dtype=int)[list(axes)] * np.array(signs)[:, None]
            if round(np.linalg.det(turn)) == 1:
                yield [int(np.flatnonzero((corners == image).all(1))[0]) for image in corners @ turn.T]


def renumbered(mesh, generator):
    """The same hexahedra, the corners of each numbered from elsewhere, in another order and with other node numbers."""
    ways = np.array(list(rotations()))
    assert len(ways) == 24
    cells = np.take_along_axis(np.asarray(mesh.cells), ways[generator.integers(24, size=len(mesh.cells))], axis=1)
    numbers = generator.permutation(len(mesh.points))
    points = np.empty(mesh.points.shape)
    points[numbers] = mesh.points
    return jm.mesh.Mesh(points, numbers[generator.permutation(cells)], "hexahedron")


def fan(count, layers):
    """`count` columns of hexahedra round one edge."""
    angle = np.pi * np.arange(2 * count) / count
    flat = np.vstack([np.zeros((1, 2)), np.stack([np.cos(angle), np.sin(angle)], -1)])
    i = np.arange(count)
    cells = np.stack([0 * i, 2 * i + 1, 2 * i + 2, (2 * i + 2) % (2 * count) + 1], -1)
    heights = np.arange(layers + 1)
    points = np.vstack([np.column_stack([flat, np.full(len(flat), h)]) for h in heights])
    blocks = np.vstack([np.hstack([cells + h * len(flat), cells + (h + 1) * len(flat)]) for h in heights[:-1]])
    return jm.mesh.Mesh(points, blocks, "hexahedron")


def check_index_maps(mapping, parent):
    """Every child cell has only nodes of its parents, and parents and children say the same."""
    parents, children, nodes = np.asarray(mapping.parents), mapping.children(), np.asarray(mapping.nodes)
    assert mapping.parent_count == len(parent.cells) == len(children)
    np.testing.assert_array_equal(mapping.mesh.points, parent.points[nodes])
    np.testing.assert_array_equal(mapping.parent, parents[:, 0])
    cells = nodes[np.asarray(mapping.mesh.cells)]
    down = {(p, c) for c, row in enumerate(parents.tolist()) for p in row if p >= 0}
    up = {(p, c) for p, row in enumerate(children.tolist()) for c in row if c >= 0}
    assert down == up
    for p, c in down:
        assert set(cells[c]) <= set(np.asarray(parent.cells)[p].tolist())
    for row in children.tolist():
        listed = [c for c in row if c >= 0]
        assert listed == sorted(set(listed)) and row == listed + [-1] * (len(row) - len(listed))


def check_conforming(parent, child):
    """No face of the child hangs: those of one cell only are the halves of the parent's boundary."""
    outside = np.asarray(parent.boundary().cells)
    faces, _ = jm.mesh.boundary_faces(child)
    assert len(faces) == 2 * len(outside)
    quads = {frozenset(q) for q in outside.tolist()}
    assert all(any(set(f) < q for q in quads) for f in faces[:: max(1, len(faces) // 40)].tolist())


# Hexahedra to tetrahedra


@pytest.mark.parametrize("split", HEXAHEDRON_SPLITS)
def test_tetrahedra_fill_their_hexahedra(split):
    mapping = jm.mesh.hexahedra_to_tetrahedra(BRICK, split=split)
    assert mapping.mesh.kind == "tetrahedron" and len(mapping.mesh.cells) == 6 * len(BRICK.cells)
    assert mapping.mesh.points is BRICK.points
    check_index_maps(mapping, BRICK)
    assert mapping.children().shape == (len(BRICK.cells), 6)
    measures = np.asarray(mapping.mesh.cell_measures())
    assert (measures > 0).all()
    np.testing.assert_allclose(measures[mapping.children()].sum(1), BRICK.cell_measures(), rtol=ROUND_OFF)
    check_conforming(BRICK, mapping.mesh)
    assert (mapping.mesh.neighbours() >= 0).sum() == 4 * len(measures) - 2 * len(BRICK.boundary().cells)


@few
@seed(0)
@given(cells=st.tuples(*[st.integers(1, 4)] * 3), split=st.sampled_from(HEXAHEDRON_SPLITS[:3]))
def test_a_box_is_cut_as_box_mesh_cuts_it(cells, split):
    box = {"cells": cells, "size": (1.0, 2.0, 3.0)}
    child = jm.mesh.hexahedra_to_tetrahedra(jm.mesh.box_mesh(**box, kind="hexahedron"), split=split).mesh
    np.testing.assert_array_equal(child.cells, jm.mesh.box_mesh(**box, split=split).cells)


@few
@seed(0)
@given(
    cells=st.tuples(*[st.integers(1, 4)] * 3),
    split=st.sampled_from(["alternating", "lowest"]),
    number=st.integers(0, 2**32 - 1),
)
def test_hexahedra_numbered_anyhow_are_cut_into_a_conforming_mesh(cells, split, number):
    box = jm.mesh.box_mesh(cells=cells, size=(1.0, 2.0, 3.0), kind="hexahedron")
    mesh = renumbered(box, np.random.default_rng(number))
    child = jm.mesh.hexahedra_to_tetrahedra(mesh, split=split).mesh
    check_conforming(mesh, child)
    assert (volumes(child) > 0).all()
    np.testing.assert_allclose(volumes(child).sum(), 6.0, rtol=ROUND_OFF)


def test_alternating_tetrahedra_are_mirror_images_whatever_the_numbering():
    box = jm.mesh.box_mesh(cells=(4, 4, 2), size=(4.0, 4.0, 2.0), kind="hexahedron")
    mesh = renumbered(box, np.random.default_rng(1))
    child = jm.mesh.hexahedra_to_tetrahedra(mesh).mesh

    def cell_set(points):
        return {frozenset(map(tuple, cell)) for cell in np.rint(points).astype(int)[np.asarray(child.cells)].tolist()}

    points = np.asarray(child.points)
    for axis, size in enumerate((4, 4, 2)):
        mirrored = points.copy()
        mirrored[:, axis] = size - mirrored[:, axis]
        assert cell_set(mirrored) == cell_set(points)


@pytest.mark.parametrize("count", [3, 4, 5])
@pytest.mark.parametrize("split", ["alternating", "lowest"])
def test_hexahedra_round_an_edge_are_cut_into_a_conforming_mesh(count, split):
    mesh = renumbered(fan(count, 3), np.random.default_rng(count))
    child = jm.mesh.hexahedra_to_tetrahedra(mesh, split=split).mesh
    check_conforming(mesh, child)
    assert (volumes(child) > 0).all()
    np.testing.assert_allclose(volumes(child).sum(), 3 * count * np.sin(np.pi / count), rtol=ROUND_OFF)


def test_parts_that_do_not_touch_are_cut_each_from_its_first():
    one = jm.mesh.box_mesh(cells=(2, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
    two = jm.mesh.Mesh(
        np.vstack([one.points, one.points + 5.0]), np.vstack([one.cells, np.add(one.cells, 12)]), "hexahedron"
    )
    cells = np.asarray(jm.mesh.hexahedra_to_tetrahedra(two).mesh.cells)
    np.testing.assert_array_equal(cells[12:] - 12, cells[:12])
    np.testing.assert_array_equal(cells[:12], jm.mesh.hexahedra_to_tetrahedra(one).mesh.cells)


def test_splits_that_would_not_conform_are_refused():
    twisted = np.asarray(jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron").cells).copy()
    twisted[1] = twisted[1][[3, 0, 1, 2, 7, 4, 5, 6]]  # turned by a quarter about z
    mesh = jm.mesh.Mesh(jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0)).points, twisted, "hexahedron")
    message = "hexahedra_to_tetrahedra: split 'kuhn' does not fit mesh: hexahedra 0 and 1 would not cut the face"
    with pytest.raises(ValueError, match=says(message)):
        jm.mesh.hexahedra_to_tetrahedra(mesh, split="kuhn")
    cube = np.asarray(jm.mesh.reference_element("hexahedron").vertices, float)
    faces = np.asarray(jm.mesh.reference_element("hexahedron").faces)
    shell = jm.mesh.Mesh(np.vstack([cube / 2, cube]), np.hstack([faces, faces + 8]), "hexahedron")
    np.testing.assert_allclose(shell.measure(), 7.0, rtol=ROUND_OFF)
    with pytest.raises(ValueError, match="split 'alternating' does not fit mesh: .*split='lowest' fits any mesh"):
        jm.mesh.hexahedra_to_tetrahedra(shell)
    tetrahedra = jm.mesh.hexahedra_to_tetrahedra(shell, split="lowest").mesh
    check_conforming(shell, tetrahedra)
    np.testing.assert_allclose(volumes(tetrahedra).sum(), 7.0, rtol=ROUND_OFF)
    with pytest.raises(ValueError, match="hexahedra_to_prisms: split 'kuhn' does not fit mesh: .*axes must agree"):
        jm.mesh.hexahedra_to_prisms(mesh, axis=0, split="kuhn")


def test_a_beam_cut_in_tetrahedra_inherits_the_numbers_of_its_hexahedra():
    mapping = jm.mesh.hexahedra_to_tetrahedra(BRICK)
    young = jnp.arange(1.0, len(BRICK.cells) + 1)
    per_child = young[mapping.parent]
    np.testing.assert_array_equal(np.asarray(per_child)[mapping.children()], np.tile(young[:, None], 6))


# Hexahedra to prisms


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("split", ["alternating", "kuhn"])
def test_prisms_fill_their_hexahedra(axis, split):
    mapping = jm.mesh.hexahedra_to_prisms(BRICK, axis=axis, split=split)
    assert mapping.mesh.kind == "prism" and len(mapping.mesh.cells) == 2 * len(BRICK.cells)
    check_index_maps(mapping, BRICK)
    measures = np.asarray(mapping.mesh.cell_measures())
    assert (measures > 0).all()
    np.testing.assert_allclose(measures[mapping.children()].sum(1), BRICK.cell_measures(), rtol=ROUND_OFF)
    # Of the boundary, only the two sides across the axis are cut.
    cells = np.array([3, 2, 4])
    sides = 2 * (np.prod(cells) // cells)
    assert (mapping.mesh.neighbours() < 0).sum() == sides.sum() + sides[axis]
    # Prisms stand along the axis: the edges from one triangle to the other.
    corners = np.asarray(mapping.mesh.points)[np.asarray(mapping.mesh.cells)]
    along = np.abs(corners[:, 3:] - corners[:, :3])
    assert (along[..., axis] > 0).all() and np.delete(along, axis, axis=-1).max() < ROUND_OFF


def test_alternating_prisms_prefer_no_diagonal():
    mesh = jm.mesh.box_mesh(cells=(2, 2, 1), size=(2.0, 2.0, 1.0), kind="hexahedron")
    for split, valences in (("alternating", (8, 2)), ("kuhn", (6, 2))):
        cells = np.asarray(jm.mesh.hexahedra_to_prisms(mesh, split=split).mesh.cells)
        middle = int(mesh.nodes_where(lambda x: (x == [1.0, 1.0, 0.0]).all(1))[0])
        assert (cells == middle).any(1).sum() in valences


def test_prisms_have_mass_and_hold_points():
    mapping = jm.mesh.hexahedra_to_prisms(BRICK)
    masses = {}
    for name, mesh in (("prisms", mapping.mesh), ("hexahedra", BRICK)):
        system = jm.System({"body": jm.Vec3()}, masses={"mass": jm.mass.ConsistentMass.from_mesh("body", mesh, 3.0)})
        rest = system.at_rest({"body": mesh.points})
        spin = jnp.cross(jnp.array([0.1, -0.4, 0.3]), mesh.points)
        masses[name] = jm.mass.kinetic_energy(system, jm.State(rest.position, {"body": spin}, rest.time))
    # The energy of a velocity that is linear in space does not depend on the cells.
    np.testing.assert_allclose(masses["prisms"], masses["hexahedra"], rtol=1e-11)
    inside = np.array([[0.5, 0.3, 1.3], [1.7, 0.7, 1.75]])
    carried = jm.mapping.BarycentricMapping.from_mesh("body", "inside", mapping.mesh, inside)
    weights, nodes = np.asarray(carried.weights), np.asarray(carried.parents[0].nodes)
    assert (weights > -ROUND_OFF).all() and nodes.shape == (2, 6)
    np.testing.assert_allclose(np.einsum("nk,nkd->nd", weights, np.asarray(BRICK.points)[nodes]), inside, atol=ROUND_OFF)


def test_a_prism_worked_out_by_hand(tmp_path):
    # A triangle of legs 2 and 3, swept by 4 and sheared: V = 2 * 3 / 2 * 4.
    base = np.array([[0.0, 0, 0], [2, 0, 0], [0, 3, 0]])
    prism = jm.mesh.Mesh(np.vstack([base, base + [1, 1, 4]]), [np.arange(6)], "prism")
    np.testing.assert_allclose(prism.measure(), 12.0, rtol=ROUND_OFF)
    assert len(prism.edges()) == 9 and (prism.neighbours() == -1).all() and prism.neighbours().shape == (1, 5)
    with pytest.raises(ValueError, match=says("Mesh.boundary: cells of kind 'prism' have faces of two kinds: take")):
        prism.boundary()
    jm.mesh.write_mesh(tmp_path / "prism.vtu", prism)
    again = jm.mesh.read_mesh(tmp_path / "prism.vtu")
    assert again.kind == "prism" and (again.cells == prism.cells).all()


# Quads to triangles


@pytest.mark.parametrize("split", QUAD_SPLITS)
def test_triangles_fill_their_quads(split):
    mapping = jm.mesh.quads_to_triangles(TILES, split=split)
    assert mapping.mesh.kind == "triangle" and mapping.mesh.points is TILES.points
    check_index_maps(mapping, TILES)
    measures = volumes(mapping.mesh)
    assert (measures > 0).all()
    np.testing.assert_allclose(measures[mapping.children()].sum(1), TILES.cell_measures(), rtol=ROUND_OFF)
    if split != "lowest":
        expected = jm.mesh.box_mesh(cells=(3, 4), size=(1.5, 1.0), split=split)
        np.testing.assert_array_equal(mapping.mesh.cells, expected.cells)


def test_the_skin_of_the_tetrahedra_is_the_cut_skin_of_the_hexahedra():
    mesh = renumbered(BRICK, np.random.default_rng(2))
    skin = jm.mesh.boundary_of(jm.mesh.hexahedra_to_tetrahedra(mesh, split="lowest").mesh).mesh
    cut = jm.mesh.quads_to_triangles(jm.mesh.boundary_of(mesh).mesh, split="lowest").mesh
    assert {frozenset(t) for t in skin.cells.tolist()} == {frozenset(t) for t in cut.cells.tolist()}
    cut = jm.mesh.quads_to_triangles(mesh.boundary()).mesh  # a closed surface, which alternates
    np.testing.assert_allclose(cut.measure(), BRICK.boundary().measure(), rtol=ROUND_OFF)
    assert len(jm.mesh.boundary_faces(cut)[0]) == 0


# Faces, edges and boundaries


FACES = [
    (jm.mesh.hexahedra_to_quads, BRICK, "quad"),
    (jm.mesh.tetrahedra_to_triangles, TETRAHEDRA, "triangle"),
    (jm.mesh.triangles_to_edges, SHEET, "edge"),
]


@pytest.mark.parametrize(("faces_of", "mesh", "kind"), FACES)
def test_every_face_is_there_once_with_both_of_its_cells(faces_of, mesh, kind):
    mapping = faces_of(mesh)
    parents, cells = np.asarray(mapping.parents), np.asarray(mapping.mesh.cells)
    assert mapping.mesh.kind == kind
    check_index_maps(mapping, mesh)
    assert len(np.unique(np.sort(cells, 1), axis=0)) == len(cells)
    assert (np.diff(parents[:, 0]) >= 0).all()
    inside = parents[:, 1] >= 0
    assert (parents[inside, 0] < parents[inside, 1]).all()
    assert (mapping.children() >= 0).all() and mapping.children().shape[1] == len(jm.mesh.reference_element(mesh.kind).faces)
    # Pairs of parents are pairs of neighbours.
    neighbours = mesh.neighbours()
    pairs = {frozenset((c, int(n))) for c, row in enumerate(neighbours) for n in row if n >= 0}
    assert pairs == {frozenset(p) for p in parents[inside].tolist()}
    # Faces are outward from their first parent, on the boundary from the mesh.
    corners, centres = (np.asarray(mesh.points)[np.asarray(m)] for m in (cells, mesh.cells))
    along = corners[:, 1] - corners[:, 0]
    normal = np.cross(along, corners[:, 2] - corners[:, 0]) if along.shape[1] == 3 else np.c_[along[:, 1], -along[:, 0]]
    assert (np.sum(normal * (corners.mean(1) - centres.mean(1)[parents[:, 0]]), axis=1) > 0).all()
    # Euler's characteristic of a ball, or of a disk, is 1.
    signs = len(mesh.points) - len(mesh.edges()) + (len(cells) - len(mesh.cells) if kind != "edge" else len(mesh.cells))
    assert signs == 1
    boundary = jm.mesh.boundary_of(mesh)
    np.testing.assert_array_equal(boundary.mesh.cells, cells[~inside])
    np.testing.assert_array_equal(boundary.parent, parents[~inside, 0])


@few
@seed(0)
@given(cells=st.tuples(*[st.integers(1, 4)] * 3), kind=st.sampled_from(["tetrahedron", "hexahedron"]))
def test_the_boundary_of_a_solid_is_closed(cells, kind):
    mesh = jm.mesh.box_mesh(cells=cells, size=(1.0, 1.0, 1.0), kind=kind)
    boundary = jm.mesh.boundary_of(mesh)
    surface = boundary.mesh
    np.testing.assert_array_equal(surface.cells, mesh.boundary().cells)
    # Each edge belongs to two faces, which run along it in opposite senses: what is outside of one is so of the other.
    face = np.asarray(surface.cells)
    edges = np.stack([face, np.roll(face, -1, axis=1)], -1).reshape(-1, 2)
    along, times = np.unique(edges, axis=0, return_counts=True)
    assert (times == 1).all() and {tuple(e) for e in along} == {tuple(e[::-1]) for e in along}
    compact = jm.mesh.submesh(surface)
    assert len(compact.mesh.points) == len(np.unique(face))
    assert len(compact.mesh.points) - len(along) // 2 + len(face) == 2
    np.testing.assert_array_equal(np.asarray(compact.nodes)[np.asarray(compact.mesh.cells)], face)
    corners = np.asarray(surface.points)[face]
    normals = np.cross(corners[:, 2] - corners[:, 0], corners[:, -1] - corners[:, 1]) / 2
    np.testing.assert_allclose(np.sum(corners.mean(1) * normals) / 3, 1.0, rtol=ROUND_OFF)  # the divergence theorem
    outward = corners.mean(1) - np.asarray(mesh.points)[np.asarray(mesh.cells)].mean(1)[np.asarray(boundary.parent)]
    assert (np.sum(normals * outward, axis=1) > 0).all()


def test_chains_of_mappings_compose_by_indexing():
    tetrahedra = jm.mesh.hexahedra_to_tetrahedra(BRICK)
    skin = jm.mesh.boundary_of(tetrahedra.mesh)
    hexahedron = np.asarray(tetrahedra.parent)[np.asarray(skin.parent)]
    quads = {frozenset(q): p for q, p in zip(*(a.tolist() for a in jm.mesh.boundary_faces(BRICK)), strict=True)}
    for triangle, parent in zip(skin.mesh.cells.tolist(), hexahedron.tolist(), strict=True):
        assert [p for q, p in quads.items() if set(triangle) < q] == [parent]


def test_edges_of_more_than_two_triangles():
    book = jm.mesh.Mesh(np.random.default_rng(0).random((5, 3)), [[0, 1, 2], [1, 0, 3], [0, 1, 4]], "triangle")
    mapping = jm.mesh.triangles_to_edges(book)
    np.testing.assert_array_equal(mapping.parents[0], [0, 1, 2])
    np.testing.assert_array_equal(mapping.children(), [[0, 1, 2], [0, 3, 4], [0, 5, 6]])
    message = "Mesh.neighbours: the face with nodes [0, 1] belongs to cells [0, 1, 2], expected at most two."
    with pytest.raises(ValueError, match=says(message)):
        book.neighbours()


def test_cells_that_share_no_face():
    alone = jm.mesh.triangles_to_edges(jm.mesh.Mesh(np.eye(3), [[0, 1, 2]], "triangle"))
    np.testing.assert_array_equal(alone.parents, [[0, -1]] * 3)


def test_neighbours_are_across_the_faces():
    mesh = jm.mesh.box_mesh(cells=(2, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
    neighbours = mesh.neighbours()
    assert neighbours.dtype == np.int32 and (neighbours >= 0).sum() == 2
    shared = set(np.asarray(mesh.cells)[0].tolist()) & set(np.asarray(mesh.cells)[1].tolist())
    for cell in (0, 1):
        face = jm.mesh.reference_element("hexahedron").faces[int(np.argmax(neighbours[cell]))]
        assert set(np.asarray(mesh.cells)[cell][list(face)].tolist()) == shared
    with pytest.raises(ValueError, match=says("Mesh.neighbours: cells of kind 'edge' have no faces.")):
        ROPE.neighbours()


# Subsets, identity


def test_submesh_keeps_order_and_drops_points():
    chosen = [7, 2, 5]
    mapping = jm.mesh.submesh(BRICK, chosen)
    check_index_maps(mapping, BRICK)
    np.testing.assert_array_equal(mapping.parent, chosen)
    np.testing.assert_allclose(mapping.mesh.cell_measures(), BRICK.cell_measures()[jnp.array(chosen)], rtol=ROUND_OFF)
    assert len(mapping.mesh.points) < len(BRICK.points) and (np.diff(mapping.nodes) > 0).all()
    mask = np.zeros(len(BRICK.cells), bool)
    mask[chosen] = True
    np.testing.assert_array_equal(jm.mesh.submesh(BRICK, mask).parent, sorted(chosen))
    grown = jax.grad(
        lambda s: jm.mesh.submesh(eqx.tree_at(lambda m: m.points, BRICK, s * BRICK.points), chosen).mesh.measure()
    )
    np.testing.assert_allclose(grown(1.0), 3 * mapping.mesh.measure(), rtol=1e-11)


def test_identity():
    mapping = jm.mesh.TopologicalMapping.identity(SHEET)
    check_index_maps(mapping, SHEET)
    assert mapping.mesh is SHEET and (mapping.children()[:, 0] == np.arange(len(SHEET.cells))).all()


def test_a_compact_skin_follows_its_solid():
    skin = jm.mesh.submesh(jm.mesh.boundary_of(BRICK).mesh)
    system = jm.System(
        {"body": jm.Vec3(), "skin": jm.Vec3()}, mappings={"skin": jm.mapping.SubsetMapping(("body", skin.nodes), "skin")}
    )
    state = system.at_rest({"body": 2.0 * BRICK.points})
    np.testing.assert_array_equal(jm.kinematics(system, state)["skin"], 2.0 * skin.mesh.points)


# Edges to quads


def test_a_tube_round_a_straight_line():
    tube = jm.mesh.edges_to_quads(ROPE, UPRIGHT, radius=0.5, sides=40)
    assert tube.mesh.kind == "quad" and len(tube.mesh.cells) == 80
    np.testing.assert_array_equal(tube.parent, np.repeat([0, 1], 40))
    np.testing.assert_array_equal(tube.nodes, np.repeat([0, 1, 2], 40))
    np.testing.assert_array_equal(tube.children(), np.arange(80).reshape(2, 40))
    points = np.asarray(tube.mesh.points)
    np.testing.assert_allclose(np.hypot(points[:, 1], points[:, 2]), 0.5, rtol=ROUND_OFF)
    # A prism on a polygon: perimeter 2 n r sin(pi/n), length 2.
    np.testing.assert_allclose(tube.mesh.measure(), 2 * 40 * 0.5 * 2 * np.sin(np.pi / 40), rtol=ROUND_OFF)
    assert len(jm.mesh.boundary_of(tube.mesh).mesh.cells) == 80  # two rims
    surface = np.asarray(tube.mesh.cells)
    assert set(surface.ravel().tolist()) == set(range(120))


@pytest.mark.parametrize("reverse", [False, True])
def test_tubes_look_outward_whichever_way_their_edges_run(reverse):
    angle = np.linspace(0, 1.2, 5)
    points = np.stack([np.sin(angle), 1 - np.cos(angle), 0 * angle], -1)  # a bend in the plane, frames along it
    frames = np.stack([0 * angle, 0 * angle, np.sin(angle / 2), np.cos(angle / 2)], -1)
    edges = np.stack([np.arange(4), np.arange(1, 5)], -1)
    line = jm.mesh.Mesh(points, edges[:, ::-1] if reverse else edges, "edge")
    tube = jm.mesh.edges_to_quads(line, frames, radius=np.stack([np.full(5, 0.1), np.full(5, 0.2)], -1), sides=8)
    corners = np.asarray(tube.mesh.points)[np.asarray(tube.mesh.cells)]
    normals = np.cross(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    axis = points[edges].mean(1)[np.asarray(tube.parent)]
    assert (np.sum(normals * (corners.mean(1) - axis), axis=1) > 0).all()
    for node in range(5):  # the half axes
        own = np.asarray(tube.mesh.points)[np.asarray(tube.nodes) == node] - points[node]
        np.testing.assert_allclose(np.linalg.norm(own[[0, 2]], axis=1), [0.1, 0.2], rtol=ROUND_OFF)


def test_a_tube_moves_with_its_frames():
    tube = jm.mesh.edges_to_quads(ROPE, UPRIGHT, radius=np.array([0.5, 0.4, 0.3]), sides=6)
    frames = np.hstack([ROPE.points, UPRIGHT])
    skin = jm.mapping.RigidMapping.from_global("line", "skin", tube.nodes, frames, tube.mesh.points)
    system = jm.System({"line": jm.Rigid3(), "skin": jm.Vec3()}, mappings={"skin": skin})
    np.testing.assert_allclose(
        jm.kinematics(system, system.at_rest({"line": frames}))["skin"], tube.mesh.points, atol=ROUND_OFF
    )


# Sizes, refusals


def test_a_hundred_thousand_cells_are_mapped_quickly():
    mesh = jm.mesh.box_mesh(cells=(40, 30, 28), size=(3.0, 2.8, 2.0), kind="hexahedron")
    start = time.perf_counter()
    tetrahedra = jm.mesh.hexahedra_to_tetrahedra(mesh)
    assert tetrahedra.children().shape == (33_600, 6)
    assert len(jm.mesh.hexahedra_to_quads(mesh).parents) == 41 * 30 * 28 + 40 * 31 * 28 + 40 * 30 * 29
    jm.mesh.tetrahedra_to_triangles(tetrahedra.mesh)
    assert time.perf_counter() - start < BUILD_SECONDS


@pytest.mark.parametrize(
    ("make", "right", "wrong"),
    [
        (jm.mesh.hexahedra_to_tetrahedra, "hexahedron", TETRAHEDRA),
        (jm.mesh.hexahedra_to_prisms, "hexahedron", TILES),
        (jm.mesh.hexahedra_to_quads, "hexahedron", SHEET),
        (jm.mesh.tetrahedra_to_triangles, "tetrahedron", BRICK),
        (jm.mesh.quads_to_triangles, "quad", SHEET),
        (jm.mesh.triangles_to_edges, "triangle", TILES),
        (lambda mesh: jm.mesh.edges_to_quads(mesh, UPRIGHT, radius=1.0), "edge", SHEET),
    ],
)
def test_the_wrong_kind_of_cells_is_named(make, right, wrong):
    with pytest.raises(ValueError, match=says(f"mesh has cells of kind '{wrong.kind}', expected '{right}'.")):
        make(wrong)
    with pytest.raises(TypeError, match=says("mesh must be of type Mesh, got 3")):
        make(3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: jm.mesh.hexahedra_to_tetrahedra(BRICK, split="five"),
            ValueError,
            "hexahedra_to_tetrahedra: split must be one of",
        ),
        (lambda: jm.mesh.quads_to_triangles(TILES, split="sofa"), ValueError, "quads_to_triangles: split must be one of"),
        (
            lambda: jm.mesh.hexahedra_to_prisms(BRICK, split="lowest"),
            ValueError,
            "hexahedra_to_prisms: split must be one of",
        ),
        (
            lambda: jm.mesh.hexahedra_to_prisms(BRICK, axis=3),
            ValueError,
            "hexahedra_to_prisms: axis must be 0, 1 or 2, got 3",
        ),
        (lambda: jm.mesh.hexahedra_to_prisms(BRICK, axis=1.0), ValueError, "axis must be 0, 1 or 2, got 1.0"),
        (lambda: jm.mesh.boundary_of(ROPE), ValueError, "cells of kind 'edge' have no faces."),
        (lambda: jm.mesh.boundary_of(TETRAHEDRA.boundary()), ValueError, "boundary_of: mesh has none"),
        (lambda: jm.mesh.submesh(BRICK, [0, 24]), ValueError, "submesh: cells names 24, but there are 24 cells."),
        (lambda: jm.mesh.submesh(BRICK, [-1]), ValueError, "submesh: cells names -1, but"),
        (lambda: jm.mesh.submesh(BRICK, [3, 1, 3]), ValueError, "submesh: cells names 3 more than once."),
        (lambda: jm.mesh.submesh(BRICK, np.zeros(24, bool)), ValueError, "submesh: cells selects (0,) cells"),
        (lambda: jm.mesh.submesh(BRICK, [True]), ValueError, "submesh: cells has shape (1,), expected (24,)"),
        (
            lambda: jm.mesh.submesh(BRICK, [0.5]),
            TypeError,
            "submesh: cells must be whole numbers or booleans, got dtype float64.",
        ),
        (lambda: jm.mesh.edges_to_quads(ROPE, UPRIGHT, radius=-1.0), ValueError, "edges_to_quads: radius must be positive"),
        (lambda: jm.mesh.edges_to_quads(ROPE, UPRIGHT, radius=np.ones(2)), ValueError, "radius has shape (2,), expected"),
        (lambda: jm.mesh.edges_to_quads(ROPE, UPRIGHT, radius=1.0, sides=2), ValueError, "sides must be at least 3, got 2."),
        (
            lambda: jm.mesh.edges_to_quads(ROPE, UPRIGHT[:2], radius=1.0),
            ValueError,
            "orientations has shape (2, 4), expected (3, 4)",
        ),
        (lambda: jm.mesh.edges_to_quads(ROPE, 2 * UPRIGHT, radius=1.0), ValueError, "orientations[0] is [0. 0. 0. 2.]"),
        (
            lambda: jm.mesh.edges_to_quads(ROPE, np.tile([0, 0, 0.5**0.5, 0.5**0.5], (3, 1)), radius=1.0),
            ValueError,
            "edge 0 does not follow the x axes of orientations [0, 1]",
        ),
        (
            lambda: jm.mesh.TopologicalMapping(SHEET, [[0]], np.arange(20), 1),
            ValueError,
            "parents has shape (1, 1), expected (24, p)",
        ),
        (
            lambda: jm.mesh.TopologicalMapping(SHEET, [[0]] * 24, np.arange(3), 1),
            ValueError,
            "nodes has shape (3,), expected (20,)",
        ),
        (lambda: jm.mesh.TopologicalMapping(SHEET, [[4]] * 24, np.arange(20), 4), ValueError, "parents of cell 0 are [4]"),
        (lambda: jm.mesh.TopologicalMapping(SHEET, [[0.5]] * 24, np.arange(20), 4), TypeError, "must be whole numbers"),
    ],
)
def test_refusals_name_what_is_wrong(call, error, message):
    with pytest.raises(error, match=says(message)):
        call()


def test_a_mapping_passes_through_jit_and_traced_cells_are_refused():
    mapping = jm.mesh.hexahedra_to_tetrahedra(
        TWO := jm.mesh.box_mesh(cells=(2, 1, 1), size=(2.0, 1.0, 1.0), kind="hexahedron")
    )
    carried = eqx.filter_jit(lambda m, values: values[m.parent])(mapping, jnp.array([3.0, 5.0]))
    np.testing.assert_array_equal(carried, np.repeat([3.0, 5.0], 6))
    with pytest.raises(TypeError, match=says("hexahedra_to_tetrahedra: the mesh it makes depends on the values of cells")):
        eqx.filter_jit(jm.mesh.hexahedra_to_tetrahedra)(TWO)
    with pytest.raises(TypeError, match=says("TopologicalMapping.children: the size of its result")):
        eqx.filter_jit(lambda m: m.children())(mapping)
