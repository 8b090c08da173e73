"""Grids, regions and engines of SOFA's scenes: points, cells and numbers, against what their rules say."""

import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._sofa.read.links import linked_data
from jaxmech._sofa.read.topology import grid, with_faces
from jaxmech._sofa.read.voxels import cells_of_surface

CUBE = """<MeshTopology name="cube" position="0 0 0  2 0 0  2 2 0  0 2 0  0 0 2  2 0 2  2 2 2  0 2 2"
  quads="0 3 2 1  4 5 6 7  0 1 5 4  1 2 6 5  2 3 7 6  3 0 4 7"/>"""
POINTS = '<MechanicalObject name="p" position="0 0 0  1 0 0  0 1 0  3 0 0"/>'


def computed(tmp_path, body, link):
    """What a link of a scene leads to."""
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root">{body}</Node>')
    scene = jm.sofa.load(path)
    data = scene.data
    return data.produced(*linked_data(next(iter(scene.root.walk())), "data", link))


@pytest.mark.parametrize("kind", ["Cylinder", "Sphere"])
def test_grids_that_are_bent(tmp_path, kind):
    """Squares become circles about the axis, cubes spheres about the centre; the middle stays."""
    body = f'<{kind}GridTopology name="g" n="3 3 3" center="1 2 3" axis="1 0 0" radius="2" {{}}/>'
    x = computed(tmp_path, body.format('length="5"' if kind == "Cylinder" else ""), "@g.position") - [1, 2, 3]
    if kind == "Cylinder":
        np.testing.assert_allclose(np.unique(x[:, 0]), [0, 2.5, 5], atol=1e-12)
        radius = np.linalg.norm(x[:, 1:], axis=1)
    else:
        radius = np.linalg.norm(x, axis=1)
    np.testing.assert_allclose(np.unique(np.round(radius, 12)), [0, 2], rtol=ROUND_OFF)
    hexahedra = computed(tmp_path, body.format(""), "@g.hexahedra")
    np.testing.assert_array_equal(hexahedra, grid((3, 3, 3), np.zeros(3), np.ones(3)).hexahedra)


def test_corners_of_a_grid_as_sofa_reads_them(tmp_path):
    """From 0 to 1 in two points each unless said; six numbers in single precision, or none of them; one layer of points
    stands in the middle in x and y, and at the beginning in z; `p0` is the first point and moves no other corner."""
    one_word = " ".join(f'{a}{end}="{x}"' for end, x in (("min", 0.1), ("max", 1.1)) for a in "xyz")
    single = np.float32([0.1, 1.1]).astype(float)
    for data, low, high, count in (
        ("", 0, 1, 8),
        ('n="3 2 2" max="2 2 2"', 0, 2, 12),
        (one_word, single[0], single[1], 8),
        (f'{one_word} scale="10"', 10 * single[0], 10 * single[1], 8),
        (one_word.replace('zmax="1.1"', ""), 0, 1, 8),
        ('p0="3 3 3" max="2 2 2"', 3, 5, 8),
    ):
        x = computed(tmp_path, f'<RegularGridTopology name="g" {data}/>', "@g.position")
        assert len(x) == count
        np.testing.assert_allclose([x.min(0), x.max(0)], np.array([low, high])[:, None] * np.ones(3), rtol=1e-15)
    flat = computed(tmp_path, '<RegularGridTopology name="g" n="1 1 1" max="4 4 4"/>', "@g.position")
    np.testing.assert_array_equal(flat, [[2, 2, 0]])
    with pytest.raises(jm.sofa.SceneError, match="all of nx"):
        computed(tmp_path, '<RegularGridTopology name="g" nx="3"/>', "@g.position")


def test_scales_as_sofa_reads_them(tmp_path):
    """One number in single precision; several are none; of a loader it multiplies `scale3d`, of a state it replaces it."""
    (tmp_path / "tip.obj").write_text("v 1 1 1\n")
    loader, state = '<MeshOBJLoader name="s" filename="tip.obj" {}/>', '<MechanicalObject name="s" position="1 1 1" {}/>'
    tenth = np.float64(np.float32(0.1))
    for body, data, x in (
        (loader, 'scale="0.1"', [tenth] * 3),
        (loader, 'scale="0.5 0.5 0.5"', [1, 1, 1]),
        (loader, 'scale="0.5 "', [1, 1, 1]),
        (loader, 'scale="0.5" scale3d="1 2 3"', [0.5, 1, 1.5]),
        (state, 'scale="0.5" scale3d="1 2 3"', [0.5, 0.5, 0.5]),
        (state, 'scale3d="1 2 3" sx="0.1"', [tenth, 1, 1]),
        (state, 'translation="5 5 5" dx="0.1"', [1 + tenth, 1, 1]),
    ):
        np.testing.assert_allclose(computed(tmp_path, body.format(data), "@s.position"), [x], rtol=1e-15)


def test_the_faces_of_a_grid():
    mesh = with_faces(grid((3, 2, 2), np.zeros(3), np.ones(3)))
    assert mesh.quads[0].tolist() == [0, 1, 4, 3] and mesh.quads[4].tolist() == [0, 1, 7, 6]
    assert len(mesh.quads) == 2 * 2 + 2 * 2 + 3 and mesh.quads[8].tolist() == [0, 3, 9, 6]
    assert mesh.triangles[:2].tolist() == [[0, 1, 4], [0, 4, 3]]


def test_a_sheet_of_triangles_takes_those_of_a_grid(tmp_path):
    body = """<RegularGridTopology name="g" n="3 3 1" min="0 0 0" max="1 1 0"/>
      <TriangleSetTopologyContainer name="t" src="@g"/>"""
    assert computed(tmp_path, body, "@t.triangles").shape == (8, 3)
    assert computed(tmp_path, body, "@t.quads").shape == (0, 4)


def test_cells_that_a_surface_crosses_and_those_within():
    """A cube from 1 to 4 in a grid of 5 cells of length 1, its faces within the second and the fourth cells."""
    cube = grid((2, 2, 2), np.full(3, 0.9), np.full(3, 4.1))
    sides = with_faces(cube).triangles
    crossed, within = cells_of_surface(cube.position, sides, np.full(3, 6), np.zeros(3), np.full(3, 5.0))
    assert crossed.sum() == 125 - 27 and within.sum() == 27
    small = cube.position - 0.9 + 1.2  # from 1.2 to 4.4: all but the first cell along each axis
    crossed, within = cells_of_surface(small, sides, np.full(3, 6), np.zeros(3), np.full(3, 5.0))
    assert within.sum() == 2**3 and crossed.sum() == 4**3 - 2**3


def test_a_sparse_grid(tmp_path):
    """Those that are crossed come first and count half; points are sorted by x, y, z."""
    body = CUBE + '<Node name="n"><SparseGridTopology name="g" n="5 5 5" src="@../cube"/></Node>'
    hexahedra, x = (computed(tmp_path, body, f"@n/g.{name}") for name in ("hexahedra", "position"))
    assert len(hexahedra) == 64 and len(x) == 125
    np.testing.assert_array_equal(x, x[np.lexsort((x[:, 2], x[:, 1], x[:, 0]))])
    np.testing.assert_allclose([x.min(), x.max()], [-0.02, 2.02])
    middle = x[hexahedra[-8:]].mean(1)  # the eight within come last
    assert (np.abs(middle - 1) < 0.6).all()
    only = body.replace("<SparseGridTopology", '<SparseGridTopology onlyInsideCells="1"')
    assert len(computed(tmp_path, only, "@n/g.hexahedra")) == 8


def test_half_of_a_cell_is_half_as_stiff(tmp_path):
    body = f"""<EulerImplicitSolver/><SparseLDLSolver/>{CUBE}<Node name="n">
      <SparseGridTopology name="g" n="4 4 4" src="@../cube" {{}}/><MechanicalObject name="p"/><UniformMass/>
      <HexahedronFEMForceField name="f" youngModulus="6" poissonRatio="0"/></Node>"""
    found = []
    for weighted in (0, 1):
        path = tmp_path / "scene.scn"
        path.write_text(f'<Node name="root">{body.format(f"fillWeighted={chr(34)}{weighted}{chr(34)}")}</Node>')
        scene = jm.sofa.load(path)
        found.append(scene.system.forces["n/f"])
        assert scene.where("@/n/f.youngModulus")(scene.system) == 6
    assert np.all(np.asarray(found[0].share) == 1) and sorted(np.unique(np.asarray(found[1].share))) == [0.5, 1]


REGIONS = {
    "oriented box": ('<BoxROI name="r" orientedBox="0 -1 -1  0 -1 1  0 1 1  2.1"/>', "indices", [0, 1, 2]),
    "a plane with a depth": ('<PlaneROI name="r" plane="-1 -1 0  4 -1 0  4 2 0  0.1"/>', "indices", [0, 1, 2, 3]),
    "outside": ('<BoxROI name="r" box="-1 -1 -1 1 1 1"/>', "indicesOut", [3]),
    "how many": ('<BoxROI name="r" box="-1 -1 -1 1 1 1"/>', "nbIndices", [3]),
    "points": ('<BoxROI name="r" box="2 -1 -1 4 1 1"/>', "pointsInROI", [[3, 0, 0]]),
    "cells": (
        '<BoxROI name="r" box="-1 -1 -1 1 1 1" triangles="0 1 2  1 2 3"/>',
        "trianglesInROI",
        [[0, 1, 2]],
    ),
    "cells by their centre": (
        '<BoxROI name="r" box="-1 -1 -1 2 1 1" triangles="0 1 2  1 2 3" strict="0"/>',
        "triangleIndices",
        [0, 1],
    ),
    "union": ('<MergeSets name="r" in1="3 1" in2="1 2"/>', "out", [1, 2, 3]),
    "difference": ('<MergeSets name="r" in1="3 1" in2="1 2" op="difference"/>', "out", [3]),
    "complement": (
        '<ComplementaryROI name="r" position="@p.position" nbSet="1" setIndices1="0 2"/>',
        "indices",
        [1, 3],
    ),
    "numbers of values": ('<IndicesFromValues name="r" global="4 7 5 9" values="9 4"/>', "indices", [3, 0]),
    "numbers of other values": ('<IndicesFromValues name="r" global="4 7 5 9" values="9 4"/>', "otherIndices", [1, 2]),
    "less": ('<DifferenceEngine name="r" input="1 2 3" substractor="1 1 1"/>', "output", [[0, 1, 2]]),
    "squares": (
        '<GenerateGrid name="r" max="2 1 9" resolution="2 1 0"/>',
        "triangles",
        [[0, 1, 3], [3, 1, 4], [1, 2, 4], [4, 2, 5]],
    ),
    "points of squares": (
        '<GenerateGrid name="r" max="2 0 9" resolution="1 0 0"/>',
        "output_position",
        [[0, 0, 0], [2, 0, 0], [0, 0, 0], [2, 0, 0]],
    ),
}


@pytest.mark.parametrize("case", REGIONS)
def test_regions_and_engines(tmp_path, case):
    body, name, expected = REGIONS[case]
    np.testing.assert_allclose(computed(tmp_path, POINTS + body, f"@r.{name}"), expected, atol=1e-12)


@pytest.mark.parametrize(("everything", "count"), [("1 2", 0), ("3 1 3", 2)])
def test_values_that_have_no_number_of_their_own(tmp_path, everything, count):
    body = f'<IndicesFromValues name="r" global="{everything}" values="3"/>'
    with pytest.raises(jm.sofa.SceneError, match=f"global has 3 of values {count} times, expected once"):
        computed(tmp_path, POINTS + body, "@r.indices")


def test_cubes_of_a_generated_grid(tmp_path):
    body = '<GenerateGrid name="g" max="1 1 1" resolution="1 1 2"/>'
    assert computed(tmp_path, body, "@g.hexahedra").tolist() == [[0, 1, 3, 2, 4, 5, 7, 6], [4, 5, 7, 6, 8, 9, 11, 10]]
    assert computed(tmp_path, body, "@g.tetrahedra")[0].tolist() == [0, 5, 1, 7]


def test_the_nearest_points_of_two_states(tmp_path):
    body = f"""{POINTS}<MechanicalObject name="q" position="0.9 0 0  9 9 9  0 1.2 0"/>
      <NearestPointROI name="n" object1="@p" object2="@q" radius="0.5"/>"""
    assert computed(tmp_path, body, "@n.indices1").tolist() == [1, 2]
    assert computed(tmp_path, body, "@n.indices2").tolist() == [0, 2]
    assert computed(tmp_path, body, "@n.indexPairs").tolist() == [[0, 1], [1, 0], [0, 2], [1, 2]]
    np.testing.assert_allclose(computed(tmp_path, body, "@n.distances"), [0.1, 0.2])


def test_topological_mappings(tmp_path):
    body = """<MeshTopology name="m" position="0 0 0  1 0 0  0 1 0  1 1 0" quads="0 1 3 2"/><Node name="n">
      <{0}SetTopologyContainer name="t"/><{1}TopologicalMapping input="@../m" output="@t" {2}/></Node>"""
    triangles = computed(tmp_path, body.format("Triangle", "Quad2Triangle", ""), "@n/t.triangles")
    turned = computed(tmp_path, body.format("Triangle", "Quad2Triangle", 'flipNormals="1"'), "@n/t.triangles")
    assert triangles.tolist() == [[0, 1, 3], [0, 3, 2]] and turned.tolist() == [[0, 3, 1], [0, 2, 3]]
    assert computed(tmp_path, body.format("Quad", "Identity", ""), "@n/t.quads").tolist() == [[0, 1, 3, 2]]
