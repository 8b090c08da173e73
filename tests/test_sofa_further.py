"""Further components and data of SOFA's scenes, against numbers worked out by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import polar
from scipy.spatial.transform import Rotation
from test_sofa_joints_and_pressures import EULER, load
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._sofa.numerics.frames import element_frame

FRAMES = '<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  1 0 0 0 0 0 1"/><UniformMass/>'


def at(scene, x, v=None):
    """The state of the scene with its one state at `x`, with velocities `v`."""
    (name,) = scene.state.position
    velocity = scene.state.velocity if v is None else {name: jnp.asarray(v, float)}
    return dataclasses.replace(scene.state, position={name: jnp.asarray(x, float)}, velocity=velocity)


def force(scene, state):
    """The force on its one state."""
    (name,) = scene.state.position
    return np.asarray(jm.total_force(scene.system, state)[name])


def stiffness(scene, state, name):
    (p,) = scene.state.position
    count = len(scene.state.position[p])
    return np.asarray(jm.matrix.component_matrix(scene.system, state, name, "stiffness")[p, p].to_dense((count, count)))


def test_loaders_place_what_they_load(tmp_path):
    string = '<StringMeshCreator name="l" resolution="3" scale3d="2 1 1" rotation="0 0 90" translation="0 0 1"/>'
    scene = load(tmp_path, f'{string}<MechanicalObject name="p" src="@l"/><UniformMass/>')
    np.testing.assert_allclose(scene.state.position["p"], [[0, 0, 1], [0, 1, 1], [0, 2, 1]], atol=1e-15)
    (tmp_path / "one.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\nf 1 2 3\n")
    body = """<MeshOBJLoader name="l" filename="one.obj" {}/><TriangleSetTopologyContainer src="@l"/>
      <MechanicalObject name="p" src="@l"/><UniformMass/><TriangularFEMForceFieldOptim name="f"/>"""
    for data, cells in (
        ("", [[0, 1, 2]]),
        ('flipNormals="1"', [[2, 1, 0]]),
        ('triangulate="1"', [[0, 1, 2], [0, 1, 2], [0, 2, 3]]),
    ):
        found = load(tmp_path, body.format(data)).system.forces["f"].on[0].nodes
        assert found.tolist() == cells, data


def test_springs_between_the_origins_of_frames(tmp_path):
    """Of length 5 for 1: F = 10 * 4 along (3, 4, 0) / 5; no torque, and the same stiffness as between points."""
    spring = '<SpringForceField name="s" spring="0 1 10 2 1"/>'
    x, v = [[0, 0, 0, 0.6, 0, 0, 0.8], [3, 4, 0, 0, 0, 0, 1]], np.arange(12.0).reshape(2, 6)
    points = '<MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/>'
    for solver in ("sofa", "exact"):
        scene = load(tmp_path, FRAMES + spring, solver=solver)
        found, K = force(scene, at(scene, x, v)), stiffness(scene, at(scene, x, v), "s")
        u = np.array([0.6, 0.8, 0])
        np.testing.assert_allclose(found[0], [*(10 * 4 + 2 * u @ (v[1] - v[0])[:3]) * u, 0, 0, 0], rtol=ROUND_OFF)
        np.testing.assert_allclose(found[1], -found[0], rtol=ROUND_OFF)
        other = load(tmp_path, points + spring, solver=solver)
        there = at(other, np.asarray(x)[:, :3], v[:, :3])
        inner = [0, 1, 2, 6, 7, 8]
        np.testing.assert_allclose(K[np.ix_(inner, inner)], stiffness(other, there, "s"), rtol=1e-12, atol=1e-12)
        assert not np.delete(K, inner, axis=0).any()


def test_how_matrices_are_projected_is_no_matter_unless_a_jacobian_is_kept(tmp_path):
    mapped = """{frames}<Node name="n"><MechanicalObject name="m" position="1 0 0"/>{mapping}</Node>
      <MatrixProjectionMethod areJacobiansConstant="{kept}" mechanicalStates="@n/m @n/m"/>"""
    rigid = {"frames": FRAMES, "mapping": "<RigidMapping/>"}
    points = {"frames": '<MechanicalObject name="p"/><UniformMass/>', "mapping": "<IdentityMapping/>"}
    load(tmp_path, mapped.format(kept=0, **rigid))
    load(tmp_path, mapped.format(kept=1, **points))
    with pytest.raises(jm.sofa.SceneError, match="areJacobiansConstant"):
        load(tmp_path, mapped.format(kept=1, **rigid))


TRIANGLE = """<MeshTopology name="t" triangles="0 1 2" edges="0 1"/><MechanicalObject name="p"
  position="0 0 0  3 0 0  0 2 0" rest_position="0 0 0  1 0 0  0 1 0"/><UniformMass/>"""


def test_only_applyRestPosition_maps_the_rest(tmp_path):
    """An area of 3 and a squared length of 9, now; 1/2 and 1 at rest, which springs of 2 N/m take where it is mapped."""
    body = """{}<Node name="n"><MechanicalObject name="m" template="Vec1"/>
      <{} input="@../p" output="@m" topology="@../t" {}/><RestShapeSpringsForceField name="s" stiffness="2"/></Node>"""
    for kind, now, then in (("AreaMapping", 3.0, 0.5), ("SquareDistanceMapping", 9.0, 1.0)):
        for data, rest in (("", 0.0), ('applyRestPosition="1"', then)):
            scene = load(tmp_path, body.format(TRIANGLE, kind, data))
            np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["n/m"], [[now]], rtol=ROUND_OFF)
            np.testing.assert_allclose(scene.system.forces["n/s"].anchor, [[rest]], rtol=ROUND_OFF)


def test_the_rest_of_mapped_points_is_their_own(tmp_path):
    """Points in the axes of a frame at (5, 0, 0) rest where they are in them, as SOFA has it."""
    frame = '<MechanicalObject template="Rigid3" name="p" position="5 0 0 0 0 0 1"/><UniformMass/>'
    inner = """<Node name="n"><MechanicalObject name="m" position="1 0 0  0 1 0"/><RigidMapping/>
      <RestShapeSpringsForceField name="s"/></Node>"""
    scene = load(tmp_path, frame + inner)
    np.testing.assert_array_equal(jm.kinematics(scene.system, scene.state)["n/m"], [[6, 0, 0], [5, 1, 0]])
    np.testing.assert_array_equal(scene.system.forces["n/s"].anchor, [[1, 0, 0], [0, 1, 0]])


def test_a_distance_from_a_target_has_a_direction_there(tmp_path):
    """Lengths that are not given are nil, and at the target the direction is the first axis."""
    body = """<MechanicalObject name="p" position="1 2 3  4 2 3"/><UniformMass totalMass="2"/>
      <Node name="n"><MechanicalObject name="m" template="Vec1"/>
      <DistanceFromTargetMapping indices="0 1" targetPositions="1 2 3  1 2 3"/>
      <RestShapeSpringsForceField name="s" stiffness="5"/></Node>"""
    scene = load(tmp_path, body)
    np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["n/m"], [[0], [3]], atol=ROUND_OFF)
    K = jm.matrix.component_matrix(scene.system, scene.state, "n/s", "stiffness", projected=True)["p", "p"].to_dense((2, 2))
    np.testing.assert_allclose(K, np.diag([5.0, 0, 0, 5, 0, 0]), atol=1e-13)


def test_a_state_takes_the_topology_of_its_own_node(tmp_path):
    body = '<MeshTopology position="0 0 0 1 0 0"/><Node name="n">{}<MechanicalObject name="p"/><UniformMass/></Node>'
    assert len(load(tmp_path, body.format(EULER), scheme="").state.position["n/p"]) == 1
    own = EULER + '<MeshTopology position="0 0 0 1 0 0 2 0 0"/>'
    assert len(load(tmp_path, body.format(own), scheme="").state.position["n/p"]) == 3


FRAME_SPRING = """<FrameSpringForceField name="s" spring="BEGIN_SPRING 0 1 KS_T 10 KS_R 7 KD 2 VEC1 0.5 0 0
  VEC2 0 0.25 0 END_SPRING"/>"""


def test_frame_springs(tmp_path):
    x = np.array([[0, 0, 0, 0, 0, np.sin(0.15), np.cos(0.15)], [2, 1, 0, np.sin(0.1), 0, 0, np.cos(0.1)]])
    v = np.linspace(-1, 1, 12).reshape(2, 6)
    turns = Rotation.from_quat(x[:, 3:])
    arms, rate = turns.apply([[0.5, 0, 0], [0, 0.25, 0]]), v[1] - v[0]
    f = 10 * (x[1, :3] + arms[1] - x[0, :3] - arms[0]) + 2 * rate[:3]
    m = 7 * (turns[0].inv() * turns[1]).as_rotvec()
    by_hand = [[*f, *(m + np.cross(arms[0], f) + 2 * rate[3:])], [*-f, *-(m + np.cross(arms[1], f) - 2 * rate[3:])]]
    scene = load(tmp_path, FRAMES + FRAME_SPRING)
    np.testing.assert_allclose(force(scene, at(scene, x, v)), by_hand, rtol=1e-12)
    K = np.kron([[1, -1], [-1, 1]], np.diag([10.0] * 3 + [7.0] * 3))
    np.testing.assert_allclose(stiffness(scene, at(scene, x, v), "s"), K, atol=1e-13)
    exact = load(tmp_path, FRAMES + FRAME_SPRING, solver="exact")
    found = np.zeros((12, 12))
    for i in range(12):
        ends = []
        for step in (1e-6, -1e-6):
            d = step * np.eye(12)[i].reshape(2, 6)
            turned = (Rotation.from_rotvec(d[:, 3:]) * turns).as_quat()
            ends.append(force(exact, at(exact, np.concatenate([x[:, :3] + d[:, :3], turned], axis=1), v)).ravel())
        found[:, i] = (ends[1] - ends[0]) / 2e-6
    np.testing.assert_allclose(stiffness(exact, at(exact, x, v), "s"), found, atol=1e-7)


def test_torsion(tmp_path):
    """About z through (1, 0, 0): t e_z x (x - o - z e_z), in SOFA's matrix -t (I - u u^T)."""
    body = '<MechanicalObject name="p" position="3 2 5"/><UniformMass/><TorsionForceField name="s" {} torque="4"/>'
    body = body.format('indices="0" axis="0 0 2" origin="1 0 0"')
    scene = load(tmp_path, body)
    np.testing.assert_allclose(force(scene, scene.state), [[-8, 8, 0]], atol=1e-14)
    np.testing.assert_allclose(stiffness(scene, scene.state, "s"), -4 * np.diag([1.0, 1, 0]), atol=1e-14)
    assert "equivalent" in {row.fate for row in scene.report.rows if "Torsion" in row.component}
    exact = load(tmp_path, body, solver="exact")
    np.testing.assert_allclose(stiffness(exact, exact.state, "s"), [[0, 4, 0], [-4, 0, 0], [0, 0, 0]], atol=1e-14)
    frame = load(
        tmp_path, FRAMES.replace("1 0 0 0 0 0 1", "3 2 5 0 0 0 1") + body[body.index("<Torsion") :].replace('"0"', '"1"')
    )
    np.testing.assert_allclose(force(frame, frame.state)[1], [-8, 8, 0, 0, 0, 4], atol=1e-14)


def test_drag_by_direction(tmp_path):
    body = '<MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/>'
    scene = load(tmp_path, body + '<DiagonalVelocityDampingForceField name="s" dampingCoefficient="1 2 3"/>')
    np.testing.assert_allclose(
        force(scene, at(scene, np.zeros((2, 3)), [[1, 1, 1], [2, 0, 1]])), [[-1, -2, -3], [-2, 0, -3]]
    )


SHEET = """<MechanicalObject name="p" position="0 0 0  2 0 0  0.5 1 0  2 2 0.5"/><UniformMass/>
  <MeshTopology triangles="0 1 2  1 3 2"/><{} name="s" {}/>"""


def springs_of_triangles(X, x, *, twice):
    """Delingette's energy of E = 1000, nu = 0.3, side by side."""
    lam, mu, energy = 1000 * 0.3 / 0.91, 1000 * 0.7 / 0.91, 0.0
    for cell in ([0, 1, 2], [1, 3, 2]):
        (L, now), cot = ([], []), []
        for j in range(3):
            a, b, c = (X[cell[(j + i) % 3]] for i in range(3))
            L.append(np.linalg.norm(b - c))
            now.append(np.linalg.norm(x[cell[(j + 1) % 3]] - x[cell[(j + 2) % 3]]))
            cot.append((b - a) @ (c - a) / np.linalg.norm(np.cross(b - a, c - a)))
        corners = [X[i] for i in cell], [x[i] for i in cell]
        A0, A = (np.linalg.norm(np.cross(b - a, c - a)) / 2 for a, b, c in corners)
        for j in range(3):
            k, l = (j + 1) % 3, (j + 2) % 3
            own = (2 * cot[j] ** 2 * (lam + mu) + mu) / (16 * A0)
            link = (2 * cot[k] * cot[l] * (lam + mu) - mu) / (16 * A0)
            if twice:
                d = [n**2 - o**2 for n, o in zip(now, L, strict=True)]
                energy += own * d[j] ** 2 / 4 + link * d[k] * d[l] / 2
            else:
                d = [n - o for n, o in zip(now, L, strict=True)]
                energy += own * L[j] ** 2 * d[j] ** 2 + 2 * link * L[k] * L[l] * d[k] * d[l]
        if twice and A < A0:
            energy += 0.75 * (lam + mu) * A0 * (A / A0 - 1) ** 4
    return energy


@pytest.mark.parametrize("twice", [False, True])
def test_quadratic_springs_of_triangles(tmp_path, twice):
    kind = f"Triangular{'Biq' if twice else 'Q'}uadraticSpringsForceField"
    scene = load(tmp_path, SHEET.format(kind, 'youngModulus="1000" poissonRatio="0.3"'))
    X = np.asarray(scene.state.position["p"])
    x = X + np.array([[0, 0, 0.1], [0.2, 0.1, 0], [0, -0.3, 0], [0, 0.2, -0.4]])
    by_hand = np.zeros((4, 3))
    for index in np.ndindex(4, 3):
        d = np.zeros((4, 3))
        d[index] = 1e-6
        ends = (springs_of_triangles(X, x + s * d, twice=twice) for s in (1, -1))
        by_hand[index] = -(next(ends) - next(ends)) / 2e-6
    np.testing.assert_allclose(force(scene, at(scene, x)), by_hand, atol=1e-6 * np.abs(by_hand).max())


def test_rotations_that_fit_the_nodes(tmp_path):
    """The force of one tetrahedron, by SciPy's fit of its nodes, and by the polar factor of its deformation gradient."""
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  0.2 1 0  0.1 0.3 1.2"/><UniformMass/>
      <TetrahedronSetTopologyContainer tetrahedra="0 1 2 3"/><{} youngModulus="100" poissonRatio="0.3" name="s"/>"""
    linear = load(tmp_path, body.format("TetrahedronFEMForceField method='small'"))
    X = np.asarray(linear.state.position["p"])
    x = X @ Rotation.from_euler("xyz", (0.4, -0.3, 0.9)).as_matrix().T + 0.1 * np.sin(np.arange(12.0)).reshape(4, 3)
    F = (x[1:] - x[0]).T @ np.linalg.inv((X[1:] - X[0]).T)
    U, _, Vt = np.linalg.svd(F)
    fitted = Rotation.align_vectors(x - x.mean(0), X - X.mean(0))[0].as_matrix()
    for kind, R in (
        ("CorotationalFEMForceField template='Vec3,Tetrahedron' rotationMethod='polar'", fitted),
        ("FastTetrahedralCorotationalForceField method='polar'", U @ Vt),
    ):
        scene = load(tmp_path, body.format(kind))
        by_hand = force(linear, at(linear, x @ R)) @ R.T
        np.testing.assert_allclose(force(scene, at(scene, x)), by_hand, atol=1e-9)
    stable = load(
        tmp_path, body.format("CorotationalFEMForceField template='Vec3,Tetrahedron' rotationMethod='stable_polar'")
    )
    assert stable.system.forces["s"].rotation == "fitted"


def test_points_between_the_frames_of_a_beam(tmp_path):
    """The second frame turned by pi/2 about x: a point half way is blended of what both predict."""
    body = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  2 0 0 {0} 0 0 {0}  4 0 0 0 0 0 1"/>
      <UniformMass/><Node name="n"><MechanicalObject name="m" position="{1}"/><BeamLinearMapping {2}/></Node>"""
    places = "0.5 0.5 0  2 0 0.25"
    scene = load(tmp_path, body.format(0.5**0.5, places, ""))
    by_hand = [[1, 0.5, 0.5], [4, 0, 0.5]]  # (1, 1, 0) and (1, 0, 1) in halves; the last frame
    np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["n/m"], by_hand, atol=1e-12)
    straight = body.replace("{0} 0 0 {0}", "0 0 0 1").format(0, "1 1 0  3.5 0 0.5", 'localCoord="0"')
    scene = load(tmp_path, straight)
    np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["n/m"], [[1, 1, 0], [3.5, 0, 0.5]], atol=1e-12)


def test_a_centre_of_mass(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  4 0 0"/>{}<Node name="n"><MechanicalObject name="m"/>
      <CenterOfMassMapping/></Node>"""
    for mass, x in (('<UniformMass totalMass="3"/>', 2.0), ('<DiagonalMass vertexMass="1 3"/>', 3.0)):
        scene = load(tmp_path, body.format(mass))
        np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["n/m"], [[x, 0, 0]])


def test_nodes_that_their_corners_move(tmp_path):
    body = """<MechanicalObject name="p" position="1 1 0  0.5 2 0"/><UniformMass/><PatchTestMovementProjectiveConstraint
      name="c" indices="0 1" beginConstraintTime="1" endConstraintTime="3" cornerPoints="0 0 0  2 0 0  2 2 0  0 2 0"
      cornerMovements="0 0 0  4 0 0  0 4 0  0 0 8"/>"""
    motion = load(tmp_path, body).system.constraints["c"]
    np.testing.assert_allclose(motion.displacements[:, 0], 0)
    np.testing.assert_allclose(motion.displacements[:, 1], [[1, 1, 2], [0, 1, 6]])


def test_spheres_of_a_file(tmp_path):
    (tmp_path / "some.sph").write_text("SPH 1.0\nnums 2\n# two\nsphe 0 1 2 3 0.5\nsphe 1 4 5 6 0.25\n")
    body = """<SphereLoader filename="some.sph" translation="0 0 1"/><MechanicalObject name="p" position="@[-1].position"/>
      <SphereCollisionModel listRadius="@[-2].listRadius"/><UniformMass/>"""
    scene = load(tmp_path, body)
    np.testing.assert_array_equal(scene.state.position["p"], [[1, 2, 4], [4, 5, 7]])
    (tmp_path / "some.sph").write_text("SPH 1.0\nsphe 0 1 2 nan 1\n")
    with pytest.raises(jm.sofa.SceneError, match=r"some\.sph, line 2"):
        load(tmp_path, body)


def test_gravity_of_a_component(tmp_path):
    body = '<MechanicalObject name="p"/><UniformMass/><Gravity gravity="0 0 -3"/>'
    np.testing.assert_array_equal(load(tmp_path, body).system.gravity, [0, 0, -3])


def test_unknown_data_of_what_collides(tmp_path):
    body = '<MechanicalObject name="p"/><UniformMass/><SphereCollisionModel radius="1" {}="1"/><CollisionPipeline {}="1"/>'
    load(tmp_path, body.format("contactStiffness", "depth"))
    for data in (("contactStifness", "depth"), ("group", "deepth")):
        with pytest.raises(jm.sofa.SceneError, match="did you mean"):
            load(tmp_path, body.format(*data))


def test_a_factor_of_stiffness_for_some_of_the_tetrahedra(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  0 1 0  0 0 1  1 1 1"/><UniformMass/>
      <TetrahedronSetTopologyContainer tetrahedra="0 1 2 3  1 4 2 3"/>
      <TetrahedronFEMForceField name="s" localStiffnessFactor="2 5"/>"""
    np.testing.assert_array_equal(load(tmp_path, body).system.forces["s"].share, [2, 5])


def test_what_has_the_same_name_is_there_twice(tmp_path):
    """Links lead to the first; nodes too may have one name."""
    point = '<MechanicalObject name="p" position="0 0 0"/><UniformMass name="p"/>'
    load_of = '<ConstantForceField name="p" forces="{} 0 0"/>'
    scene = load(tmp_path, point + load_of.format(1) + load_of.format(2))
    np.testing.assert_array_equal(force(scene, scene.state), [[3, 0, 0]])
    twice = load(tmp_path, f'<Node name="a">{point}</Node>' * 2)
    assert set(twice.state.position) == {"a/p", "a~2/p"}


def test_the_shape_that_has_mass(tmp_path):
    """An area of 3 at the start, of 1/2 at rest: MeshMatrixMass takes the one, DiagonalMass the other, unless they say."""
    body = TRIANGLE.replace("<UniformMass/>", '<{} name="m" massDensity="2" {}/>').replace(' edges="0 1"', "")
    for kind, usual in (("MeshMatrixMass", 0), ("DiagonalMass", 1)):
        for data, on_rest in (("", usual), ('computeMassOnRest="1"', 1), ('computeMassOnRest="0"', 0)):
            scene = load(tmp_path, body.format(kind, data))
            weight = jm.mass.momentum(scene.system, at(scene, scene.state.position["p"], np.eye(3)[[0, 0, 0]]))
            np.testing.assert_allclose(np.sum(np.asarray(weight["p"])[:, 0]), 1.0 if on_rest else 6.0, rtol=1e-12)


def test_lists_of_springs_that_are_too_short(tmp_path):
    """Lengths that are not given are nil, and the last number of a list is that of the springs beyond it."""
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  3 0 0"/><UniformMass/>
      <SpringForceField name="s" indices1="0 1 0" indices2="1 2 2" stiffness="10 20" damping="0" {}/>"""
    springs = load(tmp_path, body.format("")).system.forces["s"]
    np.testing.assert_array_equal(springs.stiffness, [10, 20, 20])
    np.testing.assert_array_equal(np.broadcast_to(springs.rest_length, 3), [0, 0, 0])
    np.testing.assert_array_equal(load(tmp_path, body.format('lengths="1 2"')).system.forces["s"].rest_length, [1, 2, 2])


def test_numbers_of_springs_to_the_rest(tmp_path):
    """Of nodes beyond a list of stiffness, the first; what angular stiffness lacks of it is 100."""
    frames = FRAMES.replace('1"/>', '1  2 0 0 0 0 0 1"/>', 1)
    springs = load(tmp_path, frames + '<RestShapeSpringsForceField name="s" stiffness="7 8" angularStiffness="5"/>')
    found = springs.system.forces["s"]
    np.testing.assert_array_equal(found.stiffness, [7, 8, 7])
    np.testing.assert_array_equal(found.angular_stiffness, [5, 100, 5])


def test_springs_to_nodes_of_this_part_that_are_held(tmp_path):
    """They are places; where such a node may move, or is moved at the start, the springs are refused."""
    body = """<Node name="w"><MechanicalObject name="q" position="5 0 0  6 1 0" velocity="0 0 0  0 0 {1}"/>
      <UniformMass/>{0}</Node>
      <MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/>
      <RestShapeSpringsForceField name="s" points="1" external_points="1" external_rest_shape="@w/q" stiffness="3"/>"""
    for held in ('<FixedProjectiveConstraint indices="1"/>', '<PartialFixedProjectiveConstraint fixAll="1"/>'):
        scene = load(tmp_path, body.format(held, 0))
        np.testing.assert_array_equal(scene.system.forces["s"].anchor, [[6, 1, 0]])
    half = '<PartialFixedProjectiveConstraint indices="1" fixedDirections="1 1 0"/>'
    other, moved = "<FixedProjectiveConstraint/>", '<FixedProjectiveConstraint fixAll="1"/>'
    for held, speed in (("", 0), (other, 0), (half, 0), (moved, 1)):
        with pytest.raises(jm.sofa.SceneError, match="moves with this part"):
            load(tmp_path, body.format(held, speed))


def test_the_nodes_of_another_shape_are_counted_from_the_first(tmp_path):
    other = '<Node name="n"><MechanicalObject name="q" position="5 0 0  6 0 0"/></Node>'
    body = f"""{other}<Node name="m">{EULER}<MechanicalObject name="p" position="0 0 0  1 0 0  3 0 0"/><UniformMass/>
      <RestShapeSpringsForceField name="s" points="2 1" external_rest_shape="@../n/q" {{}}/></Node>"""
    for data, places in (("", [[5, 0, 0], [6, 0, 0]]), ('external_points="1 1"', [[6, 0, 0], [6, 0, 0]])):
        found = load(tmp_path, body.format(data), scheme="").system.forces["m/s"]
        np.testing.assert_array_equal(found.anchor, places)


def test_what_takes_the_place_of_what(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass name="m" vertexMass="5" totalMass="3"/>
      <ConstantForceField name="f" totalForce="9 9 9" forces="1 0 0  0 2 0"/>"""
    scene = load(tmp_path, body)
    assert float(scene.system.masses["m"].mass) == 1.5
    np.testing.assert_array_equal(force(scene, scene.state), [[1, 0, 0], [0, 2, 0]])
    cells = TRIANGLE.replace("<UniformMass/>", '<MeshMatrixMass name="m" massDensity="7" totalMass="6"/>')
    np.testing.assert_allclose(load(tmp_path, cells.replace(' edges="0 1"', "")).system.masses["m"].density, 2)  # area 3
    frames = FRAMES.replace("<UniformMass/>", '<UniformMass name="m" vertexMass="5 1 [2 0 0,0 2 0,0 0 2]" totalMass="3"/>')
    mass = load(tmp_path, frames).system.masses["m"]
    assert float(mass.mass) == 1.5
    np.testing.assert_array_equal(mass.inertia, np.eye(3))


@pytest.mark.parametrize("kind", ["MeshMatrixMass", "DiagonalMass"])
def test_densities_of_cells(tmp_path, kind):
    """Two triangles of an area of 1/2, of 2 and of 6."""
    body = f"""<MechanicalObject name="p" position="0 0 0  1 0 0  0 1 0  1 1 0"/><MeshTopology triangles="0 1 2  1 3 2"/>
      <{kind} name="m" massDensity="2 6"/>"""
    scene = load(tmp_path, body)
    there = at(scene, scene.state.position["p"], np.eye(3)[[0, 0, 0, 0]])
    each = np.asarray(jm.mass.momentum(scene.system, there)["p"])[:, 0]
    np.testing.assert_allclose(each, [1 / 3, 4 / 3, 4 / 3, 1], rtol=1e-12)


def test_the_frame_of_edges_is_their_polar_factor():
    """SciPy's, of random edges, of cells inside out and of nearly flat ones: `polar` and `svd` of tetrahedra."""
    edges = np.random.default_rng(0).normal(size=(600, 3, 3))
    U, s, Vt = np.linalg.svd(edges)
    s[400:, 2] = np.geomspace(1e-12, 1e-2, 200) * s[400:, 0]
    edges = np.einsum("nij,nj,njk->nik", U, s, Vt)
    assert 200 < np.sum(np.linalg.det(edges) < 0) < 400
    nodes = jnp.concatenate([jnp.zeros((600, 1, 3)), jnp.asarray(edges)], axis=1)
    frames = jax.jit(jax.vmap(lambda x: element_frame("tetrahedron", "polar", x, x)))(nodes)
    np.testing.assert_allclose(frames, [polar(one)[0] for one in edges], atol=1e-13)


def test_springs_outside_of_what_moves(tmp_path):
    """In SOFA such a force acts, and is in no matrix: it is refused, not forgotten; in the node of the solver it acts."""
    bodies = "".join(f'<Node name="{n}">{{}}<MechanicalObject name="p"/><UniformMass/></Node>' for n in "ab")
    spring = '<SpringForceField name="s" object1="@a/p" object2="{}" spring="0 0 10 0 1"/>'
    for second in ("@b/p", "@b"):
        with pytest.raises(jm.sofa.SceneError, match="@/a/p and @/b/p from outside"):
            load(tmp_path, bodies.format(EULER, EULER) + spring.format(second), scheme="")
    assert "s" in load(tmp_path, bodies.format("", "") + spring.format("@b/p")).system.forces


def test_a_velocity_that_goes_on_after_its_end(tmp_path):
    """3 m/s along x from the last key time, 0.1 s, on; a step late, as SOFA's constraints are."""
    body = """<MechanicalObject name="p"/><UniformMass/><LinearVelocityProjectiveConstraint indices="0" keyTimes="0 0.1"
      velocities="0 0 0  3 0 0" continueAfterEnd="true"/>"""
    scene = load(tmp_path, body)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=5).last
    np.testing.assert_allclose(end.velocity["p"], [[3, 0, 0]], rtol=ROUND_OFF)
    assert "lets go" not in str(scene.report)


def test_distances_along_the_edges_of_triangles(tmp_path):
    """Their topology lists no edges: as in SOFA, those of its cells. Two triangles have five."""
    body = """<MeshTopology name="t" position="0 0 0  1 0 0  1 1 0  0 2 0" triangles="0 1 2  0 2 3"/>
      <MechanicalObject name="p"/><UniformMass/>
      <Node name="n"><MechanicalObject template="Vec1" name="d"/><DistanceMapping topology="@../t" {}/>
      <RestShapeSpringsForceField stiffness="4"/></Node>"""
    scene = load(tmp_path, body.format('computeDistance="1"'))
    lengths = np.asarray(jm.kinematics(scene.system, scene.state)["n/d"])[:, 0]
    np.testing.assert_allclose(np.sort(lengths), [1, 1, 2**0.5, 2**0.5, 2], rtol=ROUND_OFF)
    with pytest.raises(jm.sofa.SceneError, match="in no order"):
        load(tmp_path, body.format('restLengths="1 1 1 1 1"'))
