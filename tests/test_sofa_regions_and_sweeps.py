"""Regions within surfaces, meshes that are swept, and topological mappings of SOFA's scenes, against their rules."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from test_sofa_further import FRAMES, at, force, stiffness
from test_sofa_geometry import computed
from test_sofa_joints_and_pressures import load
from tolerances import ROUND_OFF

import jaxmech as jm

# A box from 0 to 2 with a tetrahedron cut off at (2, 2, 2).
SURFACE = """<MeshTopology name="s" position="0 0 0  2 0 0  2 2 0  0 2 0  0 0 2  2 0 2  0 2 2  2 2 0.5  2 0.5 2  0.5 2 2"
  triangles="0 2 1  0 3 2  0 1 5  0 5 4  0 4 6  0 6 3
  1 2 7  1 7 8  1 8 5  2 3 7  3 9 7  3 6 9  4 5 8  4 8 9  4 9 6  7 9 8"/>"""
INSIDE = """<MeshROI name="r" position="1 1 1  1.9 1.9 1.9  1.2 1.3 1.4  3 1 1  0.1 0.2 1.9  1.6 1.6 1.2  1.6 1.6 1.4"
  ROIposition="@s.position" ROItriangles="@s.triangles" edges="0 1  0 2  3 4  3 1" {}/>"""


def test_what_lies_within_a_surface(tmp_path):
    """On this side of the plane through the cut: `x + y + z < 4.5`. Edges of which both ends are, or the middle is."""
    for said, edges in (("", [0, 1, 2]), ('strict="1"', [1])):
        body = SURFACE + INSIDE.format(said)
        assert computed(tmp_path, body, "@r.indices").tolist() == [0, 2, 4, 5]
        assert computed(tmp_path, body, "@r.edgeIndices").tolist() == edges
    with pytest.raises(jm.sofa.SceneError, match="computeMeshROI"):
        computed(tmp_path, SURFACE + INSIDE.format('computeMeshROI="0"'), "@r.indices")


def test_the_boundary_of_a_mesh(tmp_path):
    """Of three squares in a row, and of the first two; a triangle beside them closes a side."""
    body = '<MechanicalObject/><MeshBoundaryROI name="r" quads="0 1 5 4  1 2 6 5  2 3 7 6" {}/>'
    assert computed(tmp_path, body.format(""), "@r.indices").tolist() == list(range(8))
    within = body.format('inputROI="0 1 2 4 5 6"')
    assert computed(tmp_path, within, "@r.indices").tolist() == [0, 1, 2, 4, 5, 6]
    ring = '<MechanicalObject/><MeshBoundaryROI name="r" triangles="0 1 4  1 2 4  2 3 4  3 0 4"/>'
    assert computed(tmp_path, ring, "@r.indices").tolist() == [0, 1, 2, 3]


def test_a_cylinder_of_tetrahedra(tmp_path):
    """Seven points around, of two rings; its tetrahedra fill the prism of a heptagon and look the right way."""
    body = """<MechanicalObject/><GenerateCylinder name="c" radius="2" height="3" origin="1 2 3" resCircumferential="7"
      resRadial="2" resHeight="4"/>"""
    x, cells = (computed(tmp_path, body, f"@c.{name}") for name in ("position", "tetrahedra"))
    np.testing.assert_allclose(x[[0, 1, 8, 15]], [[1, 2, 3], [2, 2, 3], [3, 2, 3], [1, 2, 4]], rtol=ROUND_OFF)
    volumes = np.linalg.det(x[cells[:, 1:]] - x[cells[:, :1]]) / 6
    np.testing.assert_allclose(volumes.sum(), 7 / 2 * 4 * np.sin(2 * np.pi / 7) * 3, rtol=1e-12)
    assert len(cells) == 3 * 7 * 3 + 6 * 7 * 3 and volumes.min() > 0
    assert cells[:3].tolist() == [[22, 15, 16, 0], [22, 16, 7, 0], [0, 7, 1, 16]]
    assert cells[21].tolist() == [16, 7, 1, 14]
    skin, y = computed(tmp_path, body, "@c.triangles"), computed(tmp_path, body, "@c.output_TrianglesPosition")
    areas = np.linalg.norm(np.cross(y[skin[:, 1]] - y[skin[:, 0]], y[skin[:, 2]] - y[skin[:, 0]]), axis=1) / 2
    np.testing.assert_allclose(areas.sum(), 7 * 2 * 2 * np.sin(np.pi / 7) * 3, rtol=1e-12)
    closed = body.replace("/>", ' openSurface="0"/>').replace("<MechanicalObject openSurface=", "<MechanicalObject name=")
    assert len(computed(tmp_path, closed, "@c.tetrahedra")) == len(cells)
    with pytest.raises(jm.sofa.SceneError, match="no data 'triangles'"):
        computed(tmp_path, closed, "@c.triangles")
    with pytest.raises(jm.sofa.SceneError, match="expected 3, 1 and 2"):
        computed(tmp_path, body.replace('resHeight="4"', 'resHeight="1"'), "@c.position")


def test_quads_that_become_hexahedra(tmp_path):
    """A roof of two squares at right angles: its ridge goes along the mean of both normals."""
    body = """<MechanicalObject/><ExtrudeQuadsAndGenerateHexas name="e" surfaceVertices="0 0 0  1 0 0  1 1 0  0 1 0  1 0 -1
      1 1 -1" surfaceQuads="0 1 2 3  1 4 5 2" numberOfSlices="2" thicknessIn="0.5" thicknessOut="1.5" {}/>"""
    x = computed(tmp_path, body.format(""), "@e.extrudedVertices").reshape(6, 3, 3)
    normals = np.array([[0, 0, 1], [1, 0, 1], [1, 0, 1], [0, 0, 1], [1, 0, 0], [1, 0, 0]], float)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    start = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [1, 0, -1], [1, 1, -1]])
    np.testing.assert_allclose(x, start[:, None] + np.array([-0.5, 0.5, 1.5])[:, None] * normals[:, None], atol=1e-15)
    cells = computed(tmp_path, body.format(""), "@e.extrudedHexas")
    assert cells.tolist()[:2] == [[9, 6, 3, 0, 10, 7, 4, 1], [10, 7, 4, 1, 11, 8, 5, 2]]
    flipped = computed(tmp_path, body.format('flipNormals="1"'), "@e.extrudedHexas")
    assert flipped.tolist()[2] == [3, 12, 15, 6, 4, 13, 16, 7]
    wide = computed(tmp_path, body.format('scale="3 1 1"'), "@e.extrudedVertices").reshape(6, 3, 3)
    np.testing.assert_allclose(wide - x, np.tile([[[2.0, 0, 0]]], (6, 3, 1)) * start[:, None, :1], atol=1e-15)
    assert computed(tmp_path, body.format(""), "@e.extrudedSurfaceQuads").tolist() == [[0, 3, 6, 9], [3, 12, 15, 6]]


def test_edges_that_become_quads(tmp_path):
    """What goes back is of the direction as it stands, what goes forth of its unit vector."""
    body = """<MechanicalObject/><ExtrudeEdgesAndGenerateQuads name="e" curveVertices="0 0 0  1 0 0  2 0 0"
      curveEdges="0 1  1 2" extrudeDirection="0 2 0" numberOfSections="2" thicknessIn="1" thicknessOut="3"/>"""
    x = computed(tmp_path, body, "@e.extrudedVertices").reshape(3, 3, 3)
    np.testing.assert_allclose(x[:, 1], [[1, -2, 0], [1, 0, 0], [1, 2, 0]], atol=1e-15)
    assert computed(tmp_path, body, "@e.extrudedQuads").tolist() == [[0, 1, 4, 3], [3, 4, 7, 6], [1, 2, 5, 4], [4, 5, 8, 7]]
    with pytest.raises(jm.sofa.SceneError, match="name point 7"):
        computed(tmp_path, body.replace("1 2", "1 7"), "@e.extrudedQuads")


TUBE = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  1 0 0 {0}  2 1 0 0 0 0 1"/><UniformMass/>
  <EdgeSetTopologyContainer name="line" edges="0 1  1 2"/><Node name="tube"><QuadSetTopologyContainer name="skin"/>
  <QuadSetTopologyModifier/><Edge2QuadTopologicalMapping input="@../line" output="@skin" nbPointsOnEachCircle="5" {1}/>
  <MechanicalObject name="q"/><TubularMapping nbPointsOnEachCircle="5" radius="0.3"/></Node>"""


def test_quads_around_a_line_of_frames(tmp_path):
    """Circles of a TubularMapping, which is where the mapping of the topology puts its points."""
    turn = Rotation.from_rotvec([0.3, 0.2, -0.5])
    body = TUBE.format(" ".join(map(repr, turn.as_quat().tolist())), "{}")
    scene = load(tmp_path, body.format('radius="0.3"'))
    x = jm.kinematics(scene.system, scene.state)["tube/q"]
    skin = computed(tmp_path, body.format('radius="0.3"'), "@tube/skin.position")
    np.testing.assert_allclose(skin, x, atol=1e-14)
    quads = computed(tmp_path, body.format('radius="0.3"'), "@tube/skin.quads")
    assert quads.tolist()[4:6] == [[4, 9, 5, 0], [5, 10, 11, 6]]
    for said, expected in (('flipNormals="1"', [1, 6, 5, 0]), ('flipNormals="1" edgeList="0"', [0, 1, 6, 5])):
        assert computed(tmp_path, body.format(f'radius="0.3" {said}'), "@tube/skin.quads").tolist()[0] == expected
    oval = computed(tmp_path, body.format('radius="0.3" radiusFocal="0.1" focalAxis="0 2 0"'), "@tube/skin.position")
    angle = 2 * np.pi * np.arange(5) / 5
    expected = np.stack([np.zeros(5), 0.1 * np.sin(angle), -0.3 * np.cos(angle)], axis=1)
    np.testing.assert_allclose(oval[5:10], [1, 0, 0] + turn.apply(expected), atol=1e-14)
    with pytest.raises(jm.sofa.SceneError, match="neither radius"):
        computed(tmp_path, body.format(""), "@tube/skin.quads")


def test_a_subset_of_a_mesh_names_its_points(tmp_path):
    """The state of the piece follows the points of the whole that are at the same places."""
    body = """<RegularGridTopology name="g" n="3 2 1" min="0 0 0" max="2 1 0"/><MechanicalObject name="p"/><UniformMass/>
      <Node name="n"><MeshTopology name="piece" position="2 1 0  1 0 0  2 0 0" triangles="1 2 0"/>
      <MechanicalObject name="q"/><SubsetTopologicalMapping name="s" input="@../g" output="@piece" handleTriangles="1"/>
      <SubsetMapping indices="@s.pointD2S"/></Node>"""
    assert computed(tmp_path, body, "@n/s.pointD2S").tolist() == [5, 1, 2]
    assert computed(tmp_path, body, "@n/s.triangleD2S").tolist() == [2]
    scene = load(tmp_path, body)
    np.testing.assert_array_equal(jm.kinematics(scene.system, scene.state)["n/q"], [[2, 1, 0], [1, 0, 0], [2, 0, 0]])
    with pytest.raises(jm.sofa.SceneError, match="point 0 of its output"):
        computed(tmp_path, body.replace("2 1 0  1 0 0", "2 1.5 0  1 0 0"), "@n/s.pointD2S")


def lamina(x, rest, fibre):
    """Force and stiffness without change of rotation, from the strains of a triangle in axes along its fibre at rest."""
    E, F, nu = 30.0, 8.0, 0.3

    def axes(p):
        e = (p[1] - p[0]) / np.linalg.norm(p[1] - p[0])
        n = np.cross(p[1] - p[0], p[2] - p[0])
        return np.stack([e, np.cross(n / np.linalg.norm(n), e)])

    f = axes(rest) @ fibre
    f /= np.linalg.norm(f)
    turn = np.array([[f[0], f[1]], [-f[1], f[0]]])
    T, X = turn @ axes(x), (rest - rest[0]) @ (turn @ axes(rest)).T
    area = np.linalg.norm(np.cross(rest[1] - rest[0], rest[2] - rest[0])) / 2
    B = np.zeros((3, 6))
    for k in range(3):
        (x1, y1), (x2, y2) = X[(k + 1) % 3], X[(k + 2) % 3]
        B[:, 2 * k : 2 * k + 2] = np.array([[y1 - y2, 0], [0, x2 - x1], [x2 - x1, y1 - y2]]) / (2 * area)
    whole = 1 - nu**2 * F / E
    D = np.array([[E / whole, nu * F / whole, 0], [nu * F / whole, F / whole, 0], [0, 0, E / (2 + 2 * nu)]])
    P = np.kron(np.eye(3), T)
    u = (x - x[0]) @ T.T - X
    return -(area * P.T @ B.T @ D @ B @ u.ravel()).reshape(3, 3), area * P.T @ B.T @ D @ B @ P


@pytest.mark.parametrize("fibres", ['fiberAngle="40"', 'fiberCenter="5 -1 0.4"'])
def test_sheets_of_fibres(tmp_path, fibres):
    """Stiff along their fibres; in SOFA's matrix rotations are kept, in the exact one the derivative is taken."""
    rest = np.array([[0, 0, 0], [2, 0.5, 0.3], [0.3, 1, -0.2]])
    body = f"""<MeshTopology position="{" ".join(map(str, rest.ravel()))}" triangles="0 1 2"/><MechanicalObject name="p"/>
      <UniformMass/><TriangularAnisotropicFEMForceField name="f" youngModulus="30" poissonRatio="0.3"
      transverseYoungModulus="8" {fibres}/>"""
    along = np.array([np.cos(np.deg2rad(40)), np.sin(np.deg2rad(40)), 0])
    if "Center" in fibres:
        along = np.cross(np.cross(rest[1] - rest[0], rest[2] - rest[0]), [5, -1, 0.4] - rest.mean(axis=0))
    x = rest @ Rotation.from_rotvec([0.3, -0.8, 0.5]).as_matrix().T + 0.1 * np.random.default_rng(0).normal(size=(3, 3))
    expected, K = lamina(x, rest, along)
    scene = load(tmp_path, body)
    np.testing.assert_allclose(force(scene, at(scene, x)), expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(stiffness(scene, at(scene, x), "f"), K, rtol=1e-11, atol=1e-11)
    exact = load(tmp_path, body, solver="exact")
    steps = [[lamina(x + s * 1e-5 * d.reshape(3, 3), rest, along)[0] for s in (1, -1)] for d in np.eye(9)]
    by_differences = -np.stack([(a - b).ravel() / 2e-5 for a, b in steps], axis=1)
    np.testing.assert_allclose(stiffness(exact, at(exact, x), "f"), by_differences, atol=1e-7)
    assert scene.where("@/f.transverseYoungModulus")(scene.system) == 8


def test_fibres_that_stand_across(tmp_path):
    body = """<MeshTopology position="0 0 0  0 1 0  0 0 1" triangles="0 1 2"/><MechanicalObject name="p"/><UniformMass/>
      <TriangularAnisotropicFEMForceField {}/>"""
    with pytest.raises(jm.sofa.SceneError, match="across triangle 0"):
        load(tmp_path, body.format(""))
    with pytest.raises(jm.sofa.SceneError, match="its square times transverseYoungModulus"):
        load(tmp_path, body.format('fiberAngle="90" youngModulus="1" transverseYoungModulus="9"'))


ELEMENTS = (
    "TetrahedronFEMForceField",
    "TetrahedralCorotationalFEMForceField",
    "HexahedronFEMForceField",
    "TriangleFEMForceField",
    "HexahedronCorotationalFEMForceField",
    "TriangularFEMForceField",
    "TriangularFEMForceFieldOptim",
    "TriangleLinearSmallStrainFEMForceField",
)


def test_moduli_that_nobody_says(tmp_path):
    """All linear elements of SOFA have those of one class: 5000 and 0.45; beams of frames too."""
    box = '<RegularGridTopology name="g" n="2 2 2"/><MechanicalObject name="p"/><UniformMass/>'
    line = (
        FRAMES.replace('name="p"', 'name="q"') + '<MeshTopology edges="0 1"/><BeamFEMForceField name="BeamFEMForceField"/>'
    )
    cells = "".join(f'<{kind} name="{kind}"/>' for kind in ELEMENTS)
    for body, kinds in ((box + cells, ELEMENTS), (line, ["BeamFEMForceField"])):
        scene = load(tmp_path, body)
        for kind in kinds:
            found = [float(scene.where(f"@/{kind}.{name}")(scene.system)) for name in ("youngModulus", "poissonRatio")]
            assert found == [5000, 0.45], kind
