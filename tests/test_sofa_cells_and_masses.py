"""SOFA's cubes, sheets, points of cells, elements with mass and plasticity, masses of files, and includes, against numbers
worked out by hand."""

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from test_sofa_geometry import computed
from test_sofa_joints_and_pressures import load
from tolerances import ROUND_OFF

import jaxmech as jm

TETRAHEDRON = """<MeshTopology name="t" position="0 0 0  2 0 0  0 2 0  0 0 2" tetrahedra="0 1 2 3"/>
  <MechanicalObject name="p"/><UniformMass/>"""


def test_the_skin_of_a_cube(tmp_path):
    """Of 3 by 2 by 3 points, all are on the skin: z = 0, then z = 2, then between the sides along x; y is flat."""
    cube = '<CubeTopology name="c" nx="3" ny="2" nz="3" min="0 0 0" max="2 1 2" {}/>'
    x, quads, edges = (computed(tmp_path, cube.format(""), f"@c.{name}") for name in ("position", "quads", "edges"))
    assert x[[5, 6, 11, 12, 17]].tolist() == [[2, 1, 0], [0, 0, 2], [2, 1, 2], [0, 0, 1], [2, 1, 1]]
    assert len(quads) == 2 * 2 + 2 * 4 + 2 * 2 and quads[0].tolist() == [0, 3, 4, 1] and quads[2].tolist() == [6, 7, 10, 9]
    sides = x[quads]
    normals = np.cross(sides[:, 1] - sides[:, 0], sides[:, 2] - sides[:, 0])
    outwards = np.einsum("qd,qd->q", normals, sides.mean(1) - [1, 0.5, 1])
    np.testing.assert_allclose(outwards, [1, 1, 1, 1, *[0.5] * 8, 1, 1, 1, 1], rtol=ROUND_OFF)  # seen from outside
    assert edges[:3].tolist() == [[0, 1], [0, 3], [0, 12]] and len(edges) == len(x) + len(quads) - 2  # Euler
    split = computed(tmp_path, cube.format('splitNormals="1"'), "@c.quads")
    assert len(np.unique(split)) == 2 * (6 + 9 + 6) and split[0].tolist() == [15, 18, 19, 16]
    inner = '<CubeTopology name="c" nx="3" ny="3" nz="3" internalPoints="1"/>'
    assert len(computed(tmp_path, inner, "@c.position")) == 27


POINTS = """<Node name="n"><PointSetTopologyContainer name="c"/>
  <Mesh2PointTopologicalMapping input="@../t" output="@c" {}/><MechanicalObject name="q"/>{}</Node>"""


def test_points_of_cells(tmp_path):
    """The nodes, the middles of six edges, and the centre; forces on them go to the corners by their weights."""
    which = 'pointBaryCoords="0 0 0" edgeBaryCoords="0.5 0 0" tetraBaryCoords="0.25 0.25 0.25" copyTetrahedra="1"'
    pull = '<Mesh2PointMechanicalMapping/><ConstantForceField indices="5 10" forces="4 0 0  8 0 0"/>'
    scene = load(tmp_path, TETRAHEDRON + POINTS.format(which, pull))
    x = np.asarray(jm.kinematics(scene.system, scene.state)["n/q"])
    assert x[3:6].tolist() == [[0, 0, 2], [1, 0, 0], [0, 1, 0]] and x[10].tolist() == [0.5, 0.5, 0.5] and len(x) == 11
    f = np.asarray(jm.total_force(scene.system, scene.state)["p"])
    np.testing.assert_allclose(f[:, 0], [2 + 2, 2, 2 + 2, 2], rtol=ROUND_OFF)  # the second edge is that from 0 to 2
    assert scene.data.topology(next(o for o in scene.root.walk() if o.name == "c")).tetrahedra.tolist() == [[0, 1, 2, 3]]
    with pytest.raises(jm.sofa.SceneError, match="has no hexa"):
        load(tmp_path, TETRAHEDRON + POINTS.format('hexaBaryCoords="0 0 0"', ""))
    with pytest.raises(jm.sofa.SceneError, match="makes no points"):
        load(tmp_path, TETRAHEDRON + POINTS.format("", ""))


def test_a_mapping_takes_the_topology_of_a_node(tmp_path):
    """As SOFA's own scenes write it: input="@../"."""
    body = """<RegularGridTopology name="grid" n="2 2 2" max="1 1 1"/><MechanicalObject name="p"/><UniformMass/>
      <Node name="n"><TetrahedronSetTopologyContainer name="c"/>
      <Hexa2TetraTopologicalMapping input="@../" output="@c"/><TetrahedronFEMForceField/></Node>"""
    assert load(tmp_path, body).system.forces["n/TetrahedronFEMForceField1"].on[0].nodes.shape == (6, 4)


def test_hexahedra_with_mass(tmp_path):
    """Of 2 m^3 and 3 kg/m^3: every entry of the matrix is 8/27 of 6 kg, and each node weighs an eighth of them."""
    body = """<Gravity gravity="0 -5 0"/><RegularGridTopology n="2 2 2" max="2 1 1"/><MechanicalObject name="p"/>
      <{} name="f" density="3" youngModulus="10" poissonRatio="0"/>"""
    for kind in ("HexahedronFEMForceFieldAndMass", "HexahedralFEMForceFieldAndMass"):
        scene = load(tmp_path, body.format(kind), "<EulerImplicitSolver/><CGLinearSolver/>")
        M = jm.matrix.component_matrix(scene.system, scene.state, "f/mass", "mass")["p", "p"].to_dense((8, 8))
        np.testing.assert_allclose(M, np.kron(np.full((8, 8), 6 * 8 / 27), np.eye(3)), rtol=ROUND_OFF, atol=1e-14)
        f = np.asarray(jm.total_force(scene.system, scene.state)["p"])
        np.testing.assert_allclose(f, np.tile([0, -6 / 8 * 5, 0], (8, 1)), rtol=ROUND_OFF, atol=1e-14)
    exact = load(tmp_path, body.format(kind), solver="exact")
    f = np.asarray(jm.total_force(exact.system, exact.state)["p"])
    np.testing.assert_allclose(f, np.tile([0, -6 / 8 * 5, 0], (8, 1)), rtol=ROUND_OFF, atol=1e-14)
    with pytest.raises(jm.sofa.SceneError, match="diagonals alone"):
        load(tmp_path, body.format(kind))
    with pytest.raises(jm.sofa.SceneError, match="beside other masses"):
        load(tmp_path, body.format("HexahedronFEMForceFieldAndMass") + "<UniformMass/>")


PLASTIC = (
    TETRAHEDRON
    + """<TetrahedronFEMForceField name="f" youngModulus="10" poissonRatio="0" method="{}"
  plasticYieldThreshold="{}" plasticMaxThreshold="{}" plasticCreep="0.5"/>"""
)


@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_a_tetrahedron_that_creeps(tmp_path, solver):
    """Stretched by 0.1 along x, six times its volume of 8/6: e = 0.8. Half of that is left behind, which is cut to 0.3;
    the stress is then 10 (0.8 - 0.3) / 8, and the force on a face `V grad N` times as much."""
    stretched = jnp.asarray([[0, 0, 0], [2.2, 0, 0], [0, 2, 0], [0, 0, 2]])
    pulls = {}
    for most, yields in ((0.3, 0.1), (9.0, 0.1), (9.0, 1.0)):
        scene = load(tmp_path, PLASTIC.format("large", yields, most), solver=solver)
        moved = dataclasses.replace(scene.state, position={"p": stretched})
        later = jm.integrator.accepted(scene.system, scene.state, moved, 0.05)
        pulls[most, yields] = float(jm.total_force(scene.system, later)["p"][1, 0])
        before = jm.total_force(scene.system, moved)["p"][1, 0]
        np.testing.assert_allclose(before, -10 * 0.1 * 8 / 6 / 2, rtol=ROUND_OFF)  # nothing has crept yet
    volume_by_height = 8 / 6 / 2
    expected = {key: -10 * left / 8 * volume_by_height for key, left in zip(pulls, (0.5, 0.4, 0.8), strict=True)}
    np.testing.assert_allclose(list(pulls.values()), list(expected.values()), rtol=1e-12)


def test_what_creeps_has_gradients(tmp_path):
    """Of the force after two steps of creep, by thresholds, modulus and place, beside differences."""
    scene = load(tmp_path, PLASTIC.format("large", 0.01, 0.3))
    names = ["@/f.plasticCreep", "@/f.plasticMaxThreshold", "@/f.youngModulus"]
    way = jnp.asarray([[0, 0, 0.1], [0.3, 0, 0], [0, 0.1, 0.1], [0.1, 0, 0.2]])

    @jax.jit
    def pull(values):
        system = eqx.tree_at(lambda s: [scene.where(n)(s) for n in names], scene.system, list(values[:3]))
        state = scene.state
        for part in (values[3], 2 * values[3]):
            there = dataclasses.replace(state, position={"p": scene.state.position["p"] + part * way})
            state = jm.integrator.accepted(system, state, there, 0.05)
        return jm.total_force(system, state)["p"][1, 0]

    at, h = jnp.array([0.2, 0.3, 10.0, 1.0]), 1e-6
    found = jax.grad(pull)(at)
    differences = [(pull(at.at[i].add(h)) - pull(at.at[i].add(-h))) / (2 * h) for i in range(4)]
    np.testing.assert_allclose(found, differences, rtol=1e-6, atol=1e-9)  # rounding by h
    with pytest.raises(jm.sofa.SceneError, match="no forces in SOFA"):
        load(tmp_path, PLASTIC.format('polar" computeGlobalMatrix="1', 0.01, 0.3))


def test_what_an_include_replaces(tmp_path):
    """Data that included elements have, in all of them, or in those of a name; a file that is merged adds to its parent."""
    (tmp_path / "group.xml").write_text(
        """<Node name="_Group_"><MeshTopology name="c" src=""/><UniformMass name="m" totalMass="1"/>
        <Node name="below"><MeshTopology name="d" src=""/></Node></Node>"""
    )
    (tmp_path / "merge.xml").write_text(
        """<Node name="_Merge_"><MechanicalObject name="p" velocity="0 0 0  0 0 1"/><FixedProjectiveConstraint/></Node>"""
    )
    body = """<StringMeshCreator name="l"/><MechanicalObject name="p" position="0 0 0  1 0 0"/>
      <include href="group.xml" src="@l" m__totalMass="6" tags="none"/><include href="merge.xml"/>"""
    scene = load(tmp_path, body)
    said = {o.path: o.data for o in scene.root.walk()}
    assert said["@/c"]["src"] == said["@/below/d"]["src"] == "@l" and "tags" not in said["@/c"]
    mass: Any = scene.system.masses["m"]
    assert float(mass.mass) == 3 and "FixedProjectiveConstraint1" in scene.system.constraints
    assert np.asarray(scene.state.velocity["p"]).tolist() == [[0, 0, 0], [0, 0, 1]]


def test_sheets_that_no_file_holds(tmp_path):
    """Of 3 by 3 points: quads, and triangles up, down and in turn."""
    made = '<GridMeshCreator name="g" filename="nofile" resolution="3 3" trianglePattern="{}" scale3d="4 4 1"/>'
    expected = {1: [[0, 1, 4], [0, 4, 3], [1, 2, 4], [2, 5, 4]], 2: [[0, 1, 4], [0, 4, 3], [1, 2, 5], [1, 5, 4]]}
    expected[3] = [[0, 1, 3], [1, 4, 3], [1, 2, 4], [2, 5, 4]]
    for pattern, triangles in expected.items():
        assert computed(tmp_path, made.format(pattern), "@g.triangles")[:4].tolist() == triangles
    assert computed(tmp_path, made.format(0), "@g.quads").tolist()[0] == [0, 1, 4, 3]
    assert (
        len(computed(tmp_path, made.format(0), "@g.edges")) == 12
        and len(computed(tmp_path, made.format(2), "@g.edges")) == 16
    )
    assert computed(tmp_path, made.format(0), "@g.position")[5].tolist() == [4, 2, 0]
    with pytest.raises(jm.sofa.SceneError, match="trianglePattern is 4"):
        computed(tmp_path, made.format(4), "@g.quads")


def test_the_mass_of_a_file_and_the_centre_of_frames(tmp_path):
    """A torque of 1 on 2.5 kg with 0.3 m^2 per mass turns by 4/3 rad/s^2; quaternions of files are not of unit length."""
    (tmp_path / "a.rigid").write_text("Xsp 3.0\nvertexMass 2.5\ninrt 0.1 0 0\n0 0.2 0 0 0 0.3\n# 4 5\nfoo 1\ncntr 1 2 3\n")
    frames = '<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  4 2 0 0 0 0 1"/>'
    below = """<Node name="n"><MechanicalObject name="c"/><CenterOfMassMapping/>
      <ConstantForceField indices="0" forces="6 0 0"/></Node><Node name="m"><MechanicalObject template="Rigid3" name="q"/>
      <RigidMapping initialPoints="1 0 0 0.7 0 0 0.7" index="1"/></Node>"""
    scene = load(tmp_path, frames + '<UniformMass name="w" filename="a.rigid"/>' + below)
    x = jm.kinematics(scene.system, scene.state)
    np.testing.assert_allclose(x["n/c"], [[2, 1, 0]])
    np.testing.assert_allclose(x["m/q"], [[5, 2, 0, 0.5**0.5, 0, 0, 0.5**0.5]], rtol=ROUND_OFF)
    np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["p"][:, 0], [3, 3], rtol=ROUND_OFF)
    M = jm.matrix.component_matrix(scene.system, scene.state, "w", "mass")["p", "p"].to_dense((2, 2))
    np.testing.assert_allclose(np.diag(M)[:6], [2.5, 2.5, 2.5, 0.25, 0.5, 0.75], rtol=ROUND_OFF)
    (tmp_path / "a.rigid").write_text("Xsp 3.0\ninrt 0.1 0\n")
    with pytest.raises(jm.sofa.SceneError, match="a.rigid, line 2: expected 9 finite numbers"):
        load(tmp_path, frames + '<UniformMass filename="a.rigid"/>')


CELLS = {  # shape functions of (r, s, t), points and weights, the rest shape
    "Edge": (lambda r: [(1 - r) / 2, (1 + r) / 2], [([0.0], 2.0)], "0 0 0  1 2 0.5"),
    "Triangle": (lambda r, s: [1 - r - s, r, s], [([1 / 3, 1 / 3], 0.5)], "0 0 0  2 0.1 0.3  0.4 1.5 0.2"),
    "Quad": (
        lambda r, s: [(1 + a * r) * (1 + b * s) / 4 for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))],
        [([a, b], 1.0) for a in (-(3**-0.5), 3**-0.5) for b in (-(3**-0.5), 3**-0.5)],
        "0 0 0  2 0.1 0.3  1.9 1.5 0.6  0.2 1.2 0.1",
    ),
    "Prism": (
        lambda r, s, t: [n * m for m in (1 - t, t) for n in (1 - r - s, r, s)],
        [([1 / 3, 1 / 3, (1 + g) / 2], 0.25) for g in (-(3**-0.5), 3**-0.5)],
        "0 0 0  2 0.1 0.3  0.4 1.5 0.2  0.1 0 1  1.8 0.2 1.2  0.5 1.3 1.4",
    ),
    "Pyramid": (
        lambda r, s, t: [
            *((1 + a * r) * (1 + b * s) * (1 - t) / 8 for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))),
            (1 + t) / 2,
        ],
        [([a, b, c], 1.0) for a in (-(3**-0.5), 3**-0.5) for b in (-(3**-0.5), 3**-0.5) for c in (-(3**-0.5), 3**-0.5)],
        "0 0 0  2 0.1 0.3  1.9 1.5 0.6  0.2 1.2 0.1  0.9 0.7 1.5",
    ),
}


def stiffness_by_hand(shape, rule, X, young, poisson):
    """`sum_q w |J| B^T D B`, Hooke's law of as many dimensions as `X` has; gradients of shapes by a complex step."""
    d = X.shape[1]
    lam, mu = young * poisson / ((1 + poisson) * (1 - (d - 1) * poisson)), young / (2 * (1 + poisson))
    K = np.zeros((len(X), d, len(X), d))
    for at, weight in rule:
        at = np.asarray(at)
        dN = np.stack([np.imag(shape(*(at + 1e-30j * e))) / 1e-30 for e in np.eye(len(at))], axis=1)
        J = X.T @ dN
        G = dN @ np.linalg.pinv(J)
        size = weight * np.sqrt(np.linalg.det(J.T @ J))
        K += size * (lam * np.einsum("ka,lb->kalb", G, G) + mu * np.einsum("kb,la->kalb", G, G))
        K += size * mu * np.einsum("kc,lc,ab->kalb", G, G, np.eye(d))
    return K


@pytest.mark.slow_cases("Triangle")
@pytest.mark.parametrize("cell", CELLS)
def test_generic_elements_of_all_cells(tmp_path, cell):
    """Their matrix by hand; corotational ones turn with their nodes: the force is that of the turned back nodes, turned."""
    shape, rule, text = CELLS[cell]
    plural = "edges" if cell == "Edge" else f"{cell.lower()}s"
    X = np.array(text.split(), float).reshape(-1, 3)
    body = f"""<MeshTopology position="{text}" {plural}="{" ".join(map(str, range(len(X))))}"/>
      <MechanicalObject name="p"/><UniformMass/><{{}} template="Vec3,{cell}" youngModulus="100" poissonRatio="0.3" {{}}/>"""
    K = stiffness_by_hand(shape, rule, X, 100, 0.3)
    u = 0.1 * np.sin(np.arange(X.size, dtype=float)).reshape(X.shape)
    scene = load(tmp_path, body.format("LinearSmallStrainFEMForceField", 'name="f"'))

    def force(scene, x):
        state = dataclasses.replace(scene.state, position={"p": jnp.asarray(x)})
        return np.asarray(jm.total_force(scene.system, state)["p"])

    straight = -np.einsum("kalb,lb->ka", K, u)
    np.testing.assert_allclose(force(scene, X + u), straight, atol=1e-11)
    if cell == "Edge":
        with pytest.raises(jm.sofa.SceneError, match="identity"):
            load(tmp_path, body.format("CorotationalFEMForceField", ""))
        return
    turning = load(tmp_path, body.format("CorotationalFEMForceField", ""))
    R = Rotation.from_euler("xyz", (0.4, -0.3, 0.9)).as_matrix()
    np.testing.assert_allclose(force(turning, X @ R.T + 0.2), 0, atol=1e-11)
    x = (X + u) @ R.T
    R = (
        frame_of(x) @ frame_of(X).T
        if cell == "Triangle"
        else Rotation.align_vectors(x - x.mean(0), X - X.mean(0))[0].as_matrix()
    )
    by_hand = -np.einsum("kalb,lb->ka", K, (x - x[0]) @ R - (X - X[0])) @ R.T
    np.testing.assert_allclose(force(turning, x), by_hand, atol=1e-9)
    if cell == "Quad":  # flat at rest in one direction more than the fit has
        exact = load(tmp_path, body.format("CorotationalFEMForceField", 'name="f"'), solver="exact")
        state = dataclasses.replace(exact.state, position={"p": jnp.asarray(x)})
        K = np.asarray(jm.matrix.component_matrix(exact.system, state, "f", "stiffness")["p", "p"].to_dense((4, 4)))
        d = np.cos(np.arange(12.0)).reshape(4, 3)
        slope = (force(turning, x + 1e-5 * d) - force(turning, x - 1e-5 * d)) / 2e-5
        np.testing.assert_allclose(-K @ d.ravel(), slope.ravel(), atol=1e-6)


def frame_of(x):
    """Columns: along the first edge of a triangle, across it, and its normal."""
    along, normal = x[1] - x[0], np.cross(x[1] - x[0], x[2] - x[0])
    along, normal = along / np.linalg.norm(along), normal / np.linalg.norm(normal)
    return np.column_stack([along, np.cross(normal, along), normal])


@pytest.mark.parametrize("cell", ("Triangle", "Quad"))
def test_generic_elements_of_the_plane(tmp_path, cell):
    """Plane stress; the rotation is the angle that fits the nodes."""
    shape, rule, text = CELLS[cell]
    X = np.array(text.split(), float).reshape(-1, 3)[:, :2]
    body = f"""<MeshTopology position="{text}" {cell.lower()}s="{" ".join(map(str, range(len(X))))}"/>
      <MechanicalObject template="Vec2" name="p" position="{" ".join(map(str, X.ravel()))}"/><UniformMass/>
      <CorotationalFEMForceField template="Vec2,{cell}" youngModulus="100" poissonRatio="0.3"/>"""
    angle = 2.1
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    x = (X + 0.1 * np.sin(np.arange(X.size, dtype=float)).reshape(X.shape)) @ R.T
    P, Q = x - x.mean(0), X - X.mean(0)
    angle = np.arctan2(np.sum(Q[:, 0] * P[:, 1] - Q[:, 1] * P[:, 0]), np.sum(P * Q))
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    by_hand = -np.einsum("kalb,lb->ka", stiffness_by_hand(shape, rule, X, 100, 0.3), P @ R - Q) @ R.T
    for solver in ("sofa", "exact"):
        scene = load(tmp_path, body, solver=solver)
        state = dataclasses.replace(scene.state, position={"p": jnp.asarray(x)})
        np.testing.assert_allclose(jm.total_force(scene.system, state)["p"], by_hand, atol=1e-11)


def test_prisms_of_hexahedra(tmp_path):
    """Two of each, neighbours mirrored where they swap; they fill the box."""
    body = """<RegularGridTopology name="g" n="3 2 2" min="0 0 0" max="2 1 1"/><Node name="n">
      <MeshTopology name="m"/><Hexa2PrismTopologicalMapping input="@../g" output="@m" swapping="{}"/></Node>"""
    plain = computed(tmp_path, body.format(0), "@n/m.prisms")
    assert plain[:2].tolist() == [[0, 1, 7, 3, 4, 10], [0, 7, 6, 3, 10, 9]] and len(plain) == 4
    assert computed(tmp_path, body.format(1), "@n/m.prisms")[:2].tolist() == [[1, 0, 6, 4, 3, 9], [1, 6, 7, 4, 9, 10]]
