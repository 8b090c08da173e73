"""Engines of SOFA's scenes that choose points and cells, spheres, and grids of a cell's width, against their rules."""

import numpy as np
import pytest
from test_sofa_geometry import POINTS, computed
from test_sofa_joints_and_pressures import load
from tolerances import ROUND_OFF

import jaxmech as jm

NEAREST = """<MechanicalObject position="0 0 0  1 0 0  2 0 0  3 0 0  4 0 0  5 0 0  0 9 0"/>
  <ProximityROI name="r" centers="0 0 0  5.4 0 0" radii="2.5" N="{}"/>"""


def test_the_nearest_points(tmp_path):
    """Distances 0, 1, 2, 2.4, 1.4, 0.4 to the nearer of two places; within 2.5 of one."""
    for most in (1, 2, 4, 9):
        found = computed(tmp_path, NEAREST.format(most), "@r.indices").tolist()
        assert sorted(found) == sorted([0, 5, 1, 4, 2, 3][:most])
    far = computed(tmp_path, NEAREST.format(2), "@r.indicesOut").tolist()
    assert far == [1, 2, 3, 4, 6]
    found, gaps = (computed(tmp_path, NEAREST.format(3), f"@r.{name}") for name in ("indices", "distance"))
    np.testing.assert_allclose(gaps, np.array([0, 1, 2, 2.4, 1.4, 0.4])[found], atol=1e-14)
    assert found[0] == 1  # the farthest stands first in a heap
    ring = NEAREST.format(2).replace("0 0 0  5.4 0 0", "2.5 0 0")
    assert sorted(computed(tmp_path, ring, "@r.indices").tolist()) == [2, 3]
    alike = ring.replace("0 0 0  1 0 0  2 0 0", "2 1 0  2 -1 0  3 1 0", 1).replace("3 0 0  4 0 0  5 0 0", "3 -1 0", 1)
    assert sorted(computed(tmp_path, alike, "@r.indices").tolist()) == [2, 3]  # of four that are as far, the last
    with pytest.raises(jm.sofa.SceneError, match="N is 0"):
        computed(tmp_path, NEAREST.format(0), "@r.indices")


PARTS = """<RegularGridTopology name="g" n="4 2 2" min="0 0 0" max="3 1 1"/><Node name="t"><MeshTopology name="m"/>
  <Hexa2TetraTopologicalMapping input="@../g" output="@m"/><MechanicalObject/>
  <SubsetTopology name="s" box="1.1 -1 -1  -1 2 2" {}/></Node>"""


def test_both_parts_of_a_mesh(tmp_path):
    """The cells of the first cube lie within; both parts keep the points between them first where they name their own."""
    x, cells = (computed(tmp_path, PARTS.format(""), f"@t/m.{name}") for name in ("position", "tetrahedra"))
    within = (x[cells][..., 0] <= 1.1).all(axis=1)
    get = {
        said: lambda name, said=said: computed(tmp_path, PARTS.format(said), f"@t/s.{name}")
        for said in ("", "localIndices='1'")
    }
    plain, local = get.values()
    assert within.sum() == 6
    np.testing.assert_array_equal(plain("tetrahedraInROI"), cells[within])
    np.testing.assert_array_equal(plain("tetrahedraOutROI"), cells[~within])
    np.testing.assert_array_equal(plain("indices"), np.flatnonzero(x[:, 0] <= 1.1))
    np.testing.assert_array_equal(plain("tetrahedronIndices"), np.flatnonzero(within))
    assert local("nbrborder").tolist() == [4]
    np.testing.assert_array_equal(local("pointsInROI")[:4], x[x[:, 0] == 1])
    np.testing.assert_array_equal(local("pointsOutROI")[:4], x[x[:, 0] == 1])
    np.testing.assert_array_equal(local("pointsInROI")[local("tetrahedraInROI")], x[cells[within]])
    np.testing.assert_array_equal(local("pointsOutROI")[local("tetrahedraOutROI")], x[cells[~within]])
    ball = PARTS.replace("/></Node>", ' centers="0 0 0  3 1 1" radii="1.5 0.1"/></Node>').format("")
    np.testing.assert_array_equal(computed(tmp_path, ball, "@t/s.indices"), [0, 1, 4, 5, 8, 9, 12, 15])
    with pytest.raises(jm.sofa.SceneError, match="has no data 'hexaInROI'"):
        computed(tmp_path, PARTS.format(""), "@t/s.hexaInROI")


def test_a_cell_lies_in_one_of_several_boxes(tmp_path):
    """Two boxes that share a cell between them hold all of its points, and not the cell."""
    body = """<MeshTopology name="m" position="0 0 0  1 0 0  2 0 0  3 0 0" edges="0 1  1 2  2 3"/><MechanicalObject/>
      <SubsetTopology name="s" box="-1 -1 -1 1.2 1 1  1.8 -1 -1 4 1 1"/>"""
    assert computed(tmp_path, body, "@s.indices").tolist() == [0, 1, 2, 3]
    assert computed(tmp_path, body, "@s.edgeIndices").tolist() == [0, 2]
    assert computed(tmp_path, body, "@s.edgesOutROI").tolist() == [[1, 2]]


SPHERE = '<MechanicalObject/><GenerateSphere name="s" radius="2" origin="1 2 3" {}/>'


@pytest.mark.parametrize(
    ("solid", "faces", "outwards"), [("tetrahedron", 4, -1), ("octahedron", 8, 1), ("icosahedron", 20, -1)]
)
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_spheres_of_triangles_and_tetrahedra(tmp_path, solid, faces, outwards, degree):
    """Euler's formula, points on the sphere, each once; edges fall into equal angles; the volume nears that of a ball."""
    body = SPHERE.format(f'platonicSolid="{solid}" tessellationDegree="{degree}"')
    names = ("output_TrianglesPosition", "triangles", "position", "tetrahedra")
    x, triangles, y, cells = (computed(tmp_path, body, f"@s.{name}") for name in names)
    assert len(triangles) == faces * degree**2 and len(x) == faces * degree**2 // 2 + 2
    assert len(np.unique(np.round(x, 9), axis=0)) == len(x)
    np.testing.assert_allclose(np.linalg.norm(x - [1, 2, 3], axis=1), 2, rtol=ROUND_OFF)
    sides, counts = np.unique(np.sort(triangles[:, ((0, 1), (1, 2), (0, 2))].reshape(-1, 2)), axis=0, return_counts=True)
    assert (counts == 2).all() and len(x) - len(sides) + len(triangles) == 2
    looks = np.linalg.det(x[triangles] - [1, 2, 3]) * outwards
    assert (looks > 0).all()
    volume = np.abs(np.linalg.det(y[cells[:, 1:]] - y[cells[:, :1]])).sum() / 6
    np.testing.assert_allclose(volume, looks.sum() / 6, rtol=1e-12)
    if degree == 5:
        assert 0.80 < volume / (32 * np.pi / 3) < 1
        first = np.linalg.norm(
            x[[0, *range(faces // 2 + 2, faces // 2 + 6)]] - x[[*range(faces // 2 + 2, faces // 2 + 6), 1]], axis=1
        )
        np.testing.assert_allclose(first, first[0], rtol=1e-12)


def test_how_the_triangles_of_a_sphere_are_numbered(tmp_path):
    """The eighth of an octahedron in four: points 6 to 17 halve the edges 01, 02, 04, 05, 12, ..."""
    triangles = computed(tmp_path, SPHERE.format('platonicSolid="octahedron" tessellationDegree="2"'), "@s.triangles")
    assert triangles[:4].tolist() == [[7, 10, 2], [7, 6, 10], [6, 1, 10], [0, 6, 7]]
    usual = computed(tmp_path, SPHERE.format(""), "@s.triangles")
    assert usual[:6].tolist() == [[0, 1, 5], [0, 2, 1], [0, 3, 2], [0, 4, 3], [0, 5, 4], [1, 2, 10]]
    x = computed(tmp_path, SPHERE.format(""), "@s.output_TrianglesPosition")
    np.testing.assert_allclose((x[0] - [1, 2, 3]) / 2, [0.361472, -0.530314, -0.766880], atol=1e-6)
    for said, reason in (('tessellationDegree="0"', "tessellationDegree is 0"), ('BezierTriangleDegree="2"', "straight")):
        with pytest.raises(jm.sofa.SceneError, match=reason):
            computed(tmp_path, SPHERE.format(said), "@s.position")


def test_a_grid_of_a_cells_width(tmp_path):
    """As many cells as fit between the corners, as wide as the numbers of points have made them."""
    body = '<RegularGridTopology name="g" min="1 2 3" max="3 3 3.5" n="{}" cellWidth="0.5"/>'
    x = computed(tmp_path, body.format("5 3 2"), "@g.position")
    assert len(x) == 5 * 3 * 2
    np.testing.assert_allclose([x[0], x[-1]], [[1, 2, 3], [3, 3, 3.5]], rtol=ROUND_OFF)
    x = computed(tmp_path, body.format("2 2 2"), "@g.position")
    np.testing.assert_allclose([x[0], x[1], x[-1]], [[1, 2, 3], [3, 2, 3], [9, 4, 3.5]], rtol=ROUND_OFF)
    with pytest.raises(jm.sofa.SceneError, match="cellWidth makes"):
        computed(tmp_path, body.format("2 2 2").replace("0.5", "1e-9"), "@g.position")


def test_lists_of_lists_are_read_by_nothing(tmp_path):
    body = '<MechanicalObject position="0 0 0  1 0 0"/><UniformMass/><MergeROIs name="m" nbROIs="1" indices1="0"/>{}'
    assert "nothing reads what it makes" in str(load(tmp_path, body.format("")).report)
    with pytest.raises(jm.sofa.SceneError, match="MergeROIs.*has no data 'roiIndices'"):
        load(tmp_path, body.format('<FixedProjectiveConstraint indices="@m.roiIndices"/>'))


def test_regions_of_states_of_the_plane_and_of_frames(tmp_path):
    """Points of the plane lie at z = 0, whatever the angle of a frame; links to frames are their places."""
    box = '<BoxROI name="r" box="-1 -1 -1  1 1 1" {}/>'
    for template, position in (("Vec2", "0 0  0.5 0.5  2 0"), ("Rigid2", "0 0 5  0.5 0.5 -7  2 0 0")):
        body = f'<MechanicalObject name="p" template="{template}" position="{position}"/>' + box.format("")
        assert computed(tmp_path, body, "@r.indices").tolist() == [0, 1]
    frames = "".join(f"{x} 0 0 0 0 0 1  " for x in (0, 3, 0.5))
    body = f'<MechanicalObject name="p" template="Rigid3" position="{frames}"/>' + box.format('position="@p.position"')
    assert computed(tmp_path, body, "@r.indices").tolist() == [0, 2]
    quads = '<MeshTopology name="m" quads="0 1 2 3  1 2 3 0  0 1 3 2"/>' + box.format(
        'triangles="@m.quads" position="@m.position"'
    )
    with pytest.raises(jm.sofa.SceneError, match=r"triangles links to \(3, 4\) numbers, expected 3 in a row"):
        computed(tmp_path, POINTS + quads, "@r.triangleIndices")
