"""Joints of springs, pressures and damping of SOFA, against its formulas written anew; names, engines and surfaces."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tolerances import ROUND_OFF

import jaxmech as jm

EULER = "<EulerImplicitSolver/><SparseLDLSolver/>"
FRAMES = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  1 0 0 0 0 0 1"/>
  <UniformMass vertexMass="1 1 [1 0 0,0 1 0,0 0 1]"/>"""


def load(tmp_path, body, scheme=EULER, **options):
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.1" gravity="0 0 0"><DefaultAnimationLoop/>{scheme}{body}</Node>')
    scene = jm.sofa.load(path, **options)
    _ = scene.parts  # raises the first refusal
    return scene


JOINTS = {
    "pivot": ("0 0 0 0 1 0", ((-0.8, 0.8), (-1.57, 1.57), (0, 0))),
    "two free": ("0 0 0 1 0 1", ((-0.3, 0.2), (-1, 1), (-0.5, 0.4))),
    "held": ("0 1 0 0 0 0", ((-1, 1),) * 3),
    "ball": ("1 0 0 1 1 1", ((-0.3, 0.2), (-0.5, 0.5), (-3, 3))),
}


def joint_by_hand(free, limits, x, v):
    """Force and stiffness of KS_T 7 3000, KS_R 11 2000, KS_B 20, KD 3, axis by axis."""
    turn = Rotation.from_quat(x[0, 3:]).inv() * Rotation.from_quat(x[1, 3:])
    R, t, M = Rotation.from_quat(x[0, 3:]).as_matrix(), turn.as_rotvec(), turn.as_matrix()
    along, s = np.where(free[:3], 7.0, 3000.0), np.where(free[3:], 11.0, 2000.0)
    loose = [i for i in range(3) if free[3 + i]]
    m = s * t
    if len(loose) == 1 and limits[loose[0]][0] < t[loose[0]] < limits[loose[0]][1]:
        i = loose[0]
        j, k = (i + 1) % 3, (i + 2) % 3
        angle = np.arctan2(np.hypot(M[j, i], M[k, i]), M[i, i])
        m[j], m[k] = -M[k, i] * angle * s[j], M[j, i] * angle * s[k]
    elif loose:
        lawful = np.zeros(3)
        for i in loose:
            low, high = limits[i]
            lawful[i] = t[i] if low < t[i] < high else high if t[i] > 0 else low
        extra = t - lawful
        assert np.linalg.norm(extra) < np.pi
        for i in loose:
            if t[i] != lawful[i]:
                s[i] = 20.0
                m[i] = 20.0 * extra[i]
    gap, rate = x[1, :3] - x[0, :3], v[1] - v[0]
    force = np.concatenate([R @ (along * (R.T @ gap)), R @ m]) + 3 * rate
    K = np.zeros((6, 6))
    K[:3, :3], K[3:, 3:] = (R * along) @ R.T, (R * s) @ R.T
    return force, K


@pytest.mark.parametrize("kind", JOINTS)
def test_a_joint_of_springs(tmp_path, kind):
    axes, limits = JOINTS[kind]
    lim = " ".join(f"R_LIM_{a} {low} {high}" for a, (low, high) in zip("XYZ", limits, strict=True))
    spring = f"BEGIN_SPRING 0 1 FREE_AXIS {axes} KS_T 7 3000 KS_R 11 2000 KS_B 20 KD 3 {lim} END_SPRING"
    scene = load(tmp_path, f'{FRAMES}<JointSpringForceField name="s" spring="{spring}"/>')
    free = np.array(axes.split()) == "1"
    free[3:] &= [low != high for low, high in limits]
    rng = np.random.default_rng(1)
    for size in (0.2, 1.0, 1.0):
        x, v = np.zeros((2, 7)), rng.normal(size=(2, 6))
        turn = Rotation.random(rng=rng)
        x[:, :3] = rng.normal(size=(2, 3))
        w = rng.normal(size=3)
        x[0, 3:], x[1, 3:] = turn.as_quat(), (turn * Rotation.from_rotvec(size * w / np.linalg.norm(w))).as_quat()
        state = dataclasses.replace(scene.state, position={"p": jnp.asarray(x)}, velocity={"p": jnp.asarray(v)})
        force, K = joint_by_hand(free, limits, x, v)
        np.testing.assert_allclose(jm.total_force(scene.system, state)["p"], [force, -force], rtol=1e-11, atol=1e-9)
        found = jm.matrix.component_matrix(scene.system, state, "s", "stiffness")["p", "p"].to_dense((2, 2))
        np.testing.assert_allclose(found, np.block([[K, -K], [-K, K]]), rtol=1e-11, atol=1e-9)


def test_what_joints_refuse(tmp_path):
    for spring, reason in (
        ("BEGIN_SPRING 0 1 KS_T 1", "END_SPRING"),
        ("BEGIN_SPRING 0 1 KS_T 1 END_SPRING", "expected 2"),
        ("BEGIN_SPRING 0 1 KT 1 2 END_SPRING", "'KT'"),
        ("BEGIN_SPRING 0 7 END_SPRING", "frame 7"),
        ("", "no spring"),
    ):
        with pytest.raises(jm.sofa.SceneError, match=reason):
            load(tmp_path, f'{FRAMES}<JointSpringForceField spring="{spring}"/>')


@pytest.mark.parametrize("name", ["JointSpringForceField", "AngularSpringForceField"])
def test_the_exact_tangent_of_springs_between_frames(tmp_path, name):
    """By differences along an increment of both frames."""
    data = {
        "JointSpringForceField": 'spring="BEGIN_SPRING 0 1 KS_T 7 30 KS_R 11 20 END_SPRING"',
        "AngularSpringForceField": 'indices="0 1" angularStiffness="5"',
    }[name]
    scene = load(tmp_path, f'{FRAMES}<{name} name="s" {data}/>', solver="exact")
    x = np.array([[0.1, 0.2, 0.3, 0, 0, 0.6, 0.8], [1.2, 0, 0.5, 0.36, 0.48, 0, 0.8]])
    rng = np.random.default_rng(0)
    d = rng.normal(size=(2, 6))

    def moved(step):
        turns = Rotation.from_rotvec(step * d[:, 3:]) * Rotation.from_quat(x[:, 3:])
        there = np.concatenate([x[:, :3] + step * d[:, :3], turns.as_quat()], axis=1)
        return dataclasses.replace(scene.state, position={"p": jnp.asarray(there)})

    f = [np.asarray(jm.total_force(scene.system, moved(h))["p"]) for h in (1e-5, -1e-5)]
    K = jm.matrix.component_matrix(scene.system, moved(0.0), "s", "stiffness")["p", "p"].to_dense((2, 2))
    np.testing.assert_allclose(K @ d.ravel(), -(f[0] - f[1]).ravel() / 2e-5, rtol=1e-7, atol=1e-7)


def test_a_frame_on_a_frame(tmp_path):
    """A frame that is turned by a right angle about z carries one that is turned about x."""
    body = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0.7071067811865476 0.7071067811865476"/>
      <UniformMass/><Node name="c"><MechanicalObject template="Rigid3" name="q" position="2 0 0 0.6 0 0 0.8"/>
      <RigidRigidMapping input="@.." output="@."/></Node>"""
    scene = load(tmp_path, body)
    there = jm.kinematics(scene.system, scene.state)["c/q"][0]
    turn = Rotation.from_euler("z", 90, degrees=True) * Rotation.from_quat([0.6, 0, 0, 0.8])
    np.testing.assert_allclose(there, [0, 2, 0, *turn.as_quat()], atol=1e-14)
    plane = load(
        tmp_path,
        """<MechanicalObject template="Rigid2" name="p" position="1 1 1.5707963267948966"/><Node name="c">
      <MechanicalObject template="Vec2" name="q" position="2 0"/><RigidMapping input="@.." output="@."/></Node>""",
        scheme="<EulerImplicitSolver/><CGLinearSolver/>",
    )
    np.testing.assert_allclose(jm.kinematics(plane.system, plane.state)["c/q"], [[1, 3]], atol=1e-14)
    mass = next(iter(plane.system.masses.values()))  # none is given: 1 kg, and 1 kg m^2
    assert float(mass.mass) == 1 and mass.inertia.tolist() == [[1]]


SQUARE = """<MeshTopology position="0 0 0  1 0 0  1 1 0.2  0 1 0" {}/><MechanicalObject name="p"/>
  <UniformMass vertexMass="1"/>"""
QUAD, TRIANGLES = 'quads="0 1 2 3"', 'triangles="0 1 2  0 2 3"'


def test_pressure_on_quads_is_that_on_two_triangles_without_stiffness(tmp_path):
    field = '<SurfacePressureForceField name="s" pressure="6"/>'
    quad, split = (load(tmp_path, SQUARE.format(cells) + field) for cells in (QUAD, TRIANGLES))
    force = [np.asarray(jm.total_force(s.system, s.state)["p"]) for s in (quad, split)]
    np.testing.assert_allclose(force[0], force[1], atol=1e-14)
    x = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0.2], [0, 1, 0]])
    first, second = np.cross(x[1] - x[0], x[2] - x[0]), np.cross(x[2] - x[0], x[3] - x[0])
    np.testing.assert_allclose(force[0], [first + second, first, first + second, second], atol=1e-14)
    K = [jm.matrix.component_matrix(s.system, s.state, "s", "stiffness")["p", "p"].to_dense((4, 4)) for s in (quad, split)]
    assert not K[0].any()
    problem = split.integrator.problem(split.system, split.state, 0.1)
    np.testing.assert_allclose(problem.A.to_dense(), np.eye(12) + 0.01 * K[1], atol=1e-14)  # not symmetric, as in SOFA
    assert np.abs(K[1] - K[1].T).max() > 0.1


def test_a_pressure_that_pulses(tmp_path):
    """Up to 2 Pa and back, by 0.7 Pa in each step of 0.1 s, as SOFA counts; the area is 1/2 and shared by three nodes."""
    body = """<MeshTopology position="0 0 0  1 0 0  0 1 0" triangles="0 1 2"/><MechanicalObject name="p"/>
      <UniformMass vertexMass="1e6"/><SurfacePressureForceField pressure="2" pulseMode="1" pressureSpeed="7"/>"""
    scene = load(tmp_path, body)
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=8)
    v = np.asarray(run.state.velocity["p"])[:, 0, 2]
    np.testing.assert_allclose(np.diff(v) * 1e7 * 6, [0.7, 1.4, 2, 1.3, 0.6, 0, 0.7, 1.4], atol=1e-5)


def test_a_pressure_within_a_box(tmp_path):
    field = '<SurfacePressureForceField name="s" pressure="6" min="-1 -1 -1" max="2 2 0.1"/>'
    body = '<MeshTopology position="0 0 0  1 0 0  0 1 0  1 1 1" triangles="0 1 2  1 3 2"/><MechanicalObject name="p"/>'
    scene = load(tmp_path, f'{body}<UniformMass vertexMass="1"/>{field}')
    np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["p"], [[0, 0, 1]] * 3 + [[0, 0, 0]], atol=1e-14)


def test_a_load_on_edges(tmp_path):
    """3 N/m on an edge of 2 m: 3 N on each of its ends."""
    body = '<MeshTopology position="0 0 0  2 0 0  2 5 0" edges="0 1  1 2"/><MechanicalObject name="p"/><UniformMass/>'
    chosen = ('edges="0 1"', 'edgeIndices="0"', 'normal="0 1 0" dmin="-0.1" dmax="0.1"')
    for which in chosen:
        scene = load(tmp_path, f'{body}<EdgePressureForceField pressure="0 0 3" {which}/>')
        np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["p"], [[0, 0, 3], [0, 0, 3], [0, 0, 0]])
    with pytest.raises(jm.sofa.SceneError, match="no pressure and no p_intensity"):
        load(tmp_path, f'{body}<EdgePressureForceField edges="0 1"/>')
    with pytest.raises(jm.sofa.SceneError, match="needs a TriangleSetTopologyContainer"):
        load(tmp_path, f'{body}<EdgePressureForceField p_intensity="1" edges="0 1"/>')


BORDERED = """<TriangleSetTopologyContainer name="t" position="0 0 0  2 0 0  2 3 0  0 3 0" triangles="0 1 2  0 2 3"
  edges="0 1  1 2  2 3  0 3  0 2"/><MechanicalObject name="p" velocity="0 0 0  0 5 0  0 5 0  0 0 0"/>
  <UniformMass vertexMass="1"/><EdgePressureForceField name="s" {}/>"""


def test_a_load_across_edges(tmp_path):
    """Towards the triangles at the border, and to where a binormal points; 7 N/m on edges of 2 m and 3 m."""
    push = {"sofa": 2, "exact": 3}  # SOFA takes the length of the first edge for the first that is chosen
    for solver, length in push.items():
        options = {"scheme": EULER, "solver": solver}
        scene = load(tmp_path, BORDERED.format('p_intensity="7" edgeIndices="1 4"'), **options)
        force = jm.total_force(scene.system, scene.state)["p"]  # edge 4 lies between two triangles
        f = 3.5 * length
        np.testing.assert_allclose(force, [[0, 0, 0], [-f, 0, 0], [-f, 0, 0], [0, 0, 0]], atol=1e-14)
        scene = load(tmp_path, BORDERED.format('p_intensity="1 7" edgeIndices="0 1" binormal="0 0 4"'), **options)
        force = jm.total_force(scene.system, scene.state)["p"]
        np.testing.assert_allclose(force, [[0, 1, 0], [-10.5, 1, 0], [-10.5, 0, 0], [0, 0, 0]], atol=1e-14)
        assert solver == "sofa" or bool(scene.system.forces["s"].length[1] == 3)


@pytest.mark.slow
def test_a_load_across_edges_turns_with_them_a_step_late(tmp_path):
    """SOFA applies the normals that edges had when it last applied a load: at the start of the step before."""
    scene = load(tmp_path, BORDERED.format('p_intensity="7" edges="0 1" binormal="0 0 1"'))
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=4)
    x, v = np.asarray(run.state.position["p"]), np.asarray(run.state.velocity["p"])
    for step in range(1, 4):  # from step to step + 1
        along = x[step - 1, 1] - x[step - 1, 0]
        along /= np.linalg.norm(along)
        expected = 7 * 2 / 2 * np.cross([0, 0, 1], along) * 0.1
        np.testing.assert_allclose(v[step + 1, 1] - v[step, 1], expected, atol=1e-12)
    assert not scene.integrator.problem(scene.system, scene.state, 0.1).A.to_dense()[0, 1:].any()
    exact = load(tmp_path, BORDERED.format('p_intensity="7" edges="0 1" binormal="0 0 1"'), solver="exact")
    leaf = exact.where("@/s.p_intensity")

    def end(value):
        system = eqx.tree_at(leaf, exact.system, value)
        return jm.simulate(system, exact.state, exact.integrator, 0.1, steps=2).last.position["p"][1, 0]

    slope = (end(7.001) - end(6.999)) / 0.002
    np.testing.assert_allclose(jax.grad(end)(jnp.asarray(7.0)), slope, rtol=1e-6)


def test_damping_of_each_node_is_in_the_matrix(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  2 0 0" velocity="1 0 0  1 0 0  1 0 0"/>
      <UniformMass vertexMass="1"/><DiagonalVelocityDampingForceField dampingCoefficient="2 2 2  3 3 3"/>"""
    scene = load(tmp_path, body)
    np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["p"][:, 0], [-2, -3, -3])
    A = scene.integrator.problem(scene.system, scene.state, 0.1).A.to_dense()
    np.testing.assert_allclose(np.diag(A)[::3], [1.2, 1.3, 1.3], rtol=ROUND_OFF)


def test_velocities_that_are_damped_afterwards(tmp_path):
    """v *= exp(-rate h) when the step is over: positions have moved by all of it."""
    body = '<MechanicalObject name="p" position="0 0 0" velocity="1 0 0"/><UniformMass/>'
    after = load(tmp_path, body, scheme=f'{EULER}<DampVelocitySolver rate="3"/>')
    end = jm.simulate(after.system, after.state, after.integrator, 0.1, steps=1).last
    np.testing.assert_allclose([end.position["p"][0, 0], end.velocity["p"][0, 0]], [0.1, np.exp(-0.3)], rtol=ROUND_OFF)
    with pytest.raises(jm.sofa.SceneError, match="after an EulerImplicitSolver"):
        load(tmp_path, body, scheme=f"<DampVelocitySolver/>{EULER}")


def test_nodes_that_stop_below_a_threshold(tmp_path):
    """What is slower than the threshold after the damping stands still, whole nodes at a time."""
    body = '<MechanicalObject name="p" position="0 0 0  0 0 0  0 0 0" velocity="1 0 0  0.4 0.4 0  0.6 0.6 0"/><UniformMass/>'
    scheme = f'{EULER}<DampVelocitySolver rate="3" threshold="0.6"/>'
    scene = load(tmp_path, body, scheme=scheme)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=1).last
    kept = 0.6 * np.exp(-0.3)
    np.testing.assert_allclose(end.velocity["p"], [[np.exp(-0.3), 0, 0], [0, 0, 0], [kept, kept, 0]], rtol=ROUND_OFF)
    np.testing.assert_allclose(end.position["p"][1], [0.04, 0.04, 0], rtol=ROUND_OFF)
    with pytest.raises(jm.sofa.SceneError, match="with solver='sofa' alone"):
        load(tmp_path, body, scheme=scheme, solver="exact")
    with pytest.raises(jm.sofa.SceneError, match=r"threshold='0\.6' is not translated"):
        load(tmp_path, body, scheme=f"{scheme}<DampVelocitySolver/>")


def test_a_sheet_that_is_stretched_at_rest(tmp_path):
    """restScale 0.5: at rest it pulls as one of half its size that is stretched to twice that."""
    body = """<MeshTopology position="0 0 0  1 0 0  0 1 0" triangles="0 1 2"/><MechanicalObject name="p"/><UniformMass/>
      <TriangularFEMForceFieldOptim name="s" youngModulus="100" poissonRatio="0" restScale="0.5"/>"""
    scene = load(tmp_path, body)
    force = jm.total_force(scene.system, scene.state)["p"]
    np.testing.assert_allclose(force[1], [-25.0, 0, 0], atol=1e-12)  # stress 100 x strain 1, over half a height of 1/2


def test_nodes_of_a_box_are_fixed(tmp_path):
    body = '<MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/><BoxConstraint box="-1 -1 -1 0.5 1 1"/>'
    scene = load(tmp_path, body)
    assert next(iter(scene.system.constraints.values())).on[0].nodes.tolist() == [0]
    with pytest.raises(jm.sofa.SceneError, match="no node in its boxes"):
        load(tmp_path, body.replace("-1 -1 -1 0.5", "-1 -1 -1 -0.5"))


def test_weakly_fixed_nodes(tmp_path):
    body = '<MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/><FixedWeakConstraint name="s" {}/>'
    some = load(tmp_path, body.format('indices="1" stiffness="7"')).system.forces["s"]
    assert some.on[0].nodes.tolist() == [1] and float(some.stiffness) == 7
    assert load(tmp_path, body.format('fixAll="1"')).system.forces["s"].on[0].nodes.tolist() == [0, 1]
    with pytest.raises(jm.sofa.SceneError, match="no indices|no points"):
        load(tmp_path, body.format(""))


MODEL = '<TriangleCollisionModel name="t" {}/><LineCollisionModel {}/>'


@pytest.mark.parametrize(
    ("first", "second", "touch"),
    [("", None, False), ('selfCollision="1"', None, True), ("", "", True), ('group="1 2"', 'group="2"', False)]
    + [('group="1"', 'group="2"', True), ('simulated="0"', 'moving="0"', False), ("", 'active="0"', False)],
)
def test_which_surfaces_may_touch(tmp_path, first, second, touch):
    """Not two of one body, of one group, or two that nothing moves: scenes that look for contacts in vain are read."""
    pipeline = "<CollisionPipeline/><BruteForceBroadPhase/><BVHNarrowPhase/><CollisionResponse/>"
    body = f'{pipeline}<MechanicalObject name="p" position="0 0 0"/><UniformMass/>{MODEL.format(first, first)}'
    if second is not None:
        body += f'<Node name="other"><MechanicalObject/>{MODEL.format(second, second)}</Node>'
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root"><DefaultAnimationLoop/>{EULER}{body}</Node>')
    fates = {row.fate for row in jm.sofa.load(path).report.rows if "TriangleCollisionModel" in row.component}
    assert fates == ({"read"} if touch else {"ignored"})


def test_engines_that_join_lists(tmp_path):
    body = """<MergeMeshes name="m" nbMeshes="2" position1="0 0 0  1 0 0" position2="5 0 0  6 0 0" edges1="0 1" edges2="0 1"
      />      <MergePoints name="two" position1="0 0 0" position2="1 0 0  2 0 0"/>
      <MergeVectors name="v" nbInputs="2" input1="1 2" input2="3"/>
      <ValuesFromIndices name="some" in="5 6 7" indices="2 0"/>
      <IndexValueMapper name="by" inputValues="1 1" indices="2" value="9"/>
      <MechanicalObject name="p" position="@m.position"/><MeshTopology position="@m.position" edges="@m.edges"/>
      <UniformMass/><MeshSpringForceField name="s" stiffness="1"/><PairBoxROI name="pair" position="@p.position"
      inclusiveBox="-1 -1 -1 5.5 1 1" includedBox="-1 -1 -1 0.5 1 1"/><FixedProjectiveConstraint indices="@pair.indices"/>
      <MergeROIs name="unread" nbROIs="1" indices1="0 1"/>"""
    scene = load(tmp_path, body)
    assert [s.nodes.tolist() for s in scene.system.forces["s"].on] == [[0, 2], [1, 3]]
    assert next(iter(scene.system.constraints.values())).on[0].nodes.tolist() == [1, 2]
    data = {o.name: o for o in scene.root.walk()}
    for name, what, wanted in (
        ("two", "points", [[0, 0, 0], [1, 0, 0], [2, 0, 0]]),
        ("two", "indices2", [1, 2]),
        ("v", "output", [1, 2, 3]),
        ("some", "out", [7, 5]),
        ("by", "outputValues", [1, 1, 9]),
    ):
        np.testing.assert_array_equal(scene.data.produced(data[name], what), wanted)
    assert "nothing reads what it makes" in str(scene.report)


SOLVERS = """EigenCholmodSupernodalLLT SparseCholeskySolver SparseLUSolver EigenSparseQR ParallelCGLinearSolver
  AsyncSparseLDLSolver"""


@pytest.mark.parametrize("name", SOLVERS.split())
def test_solvers_by_their_names(tmp_path, name):
    body = '<MechanicalObject name="p" position="0 0 0" velocity="1 0 0"/><UniformMass/>'
    scheme = f'<EulerImplicitSolver/><{name} template="CompressedRowSparseMatrixMat3x3d" verbose="0"/>'
    scene = load(tmp_path, body, scheme=scheme)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=1).last
    np.testing.assert_allclose(end.position["p"], [[0.1, 0, 0]])


SCHEMES = """RungeKutta4IntegrationScheme RungeKutta2IntegrationScheme CentralDifferenceIntegrationScheme
  NewmarkIntegrationScheme BDFIntegrationScheme"""


@pytest.mark.parametrize("name", SCHEMES.split())
def test_integration_schemes_by_their_new_names(tmp_path, name):
    body = '<MechanicalObject name="p" position="0 0 0" velocity="1 0 0"/><UniformMass/>'
    scene = load(tmp_path, body, scheme=f"<{name}/><SparseLDLSolver/>")
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=2).last
    np.testing.assert_allclose(end.position["p"], [[0.2, 0, 0]], rtol=1e-12)


def test_the_equilibrium_by_its_new_name(tmp_path):
    """A spring of 10 N/m under 5 N: half a metre, after iterations of its own."""
    body = """<MechanicalObject name="p" position="0 0 0"/><UniformMass/><RestShapeSpringsForceField stiffness="10"/>
      <ConstantForceField forces="5 0 0"/>"""
    scheme = '<StaticEquilibriumIntegrationScheme maxNbIterationsNewton="3"/><SparseLDLSolver/>'
    scene = load(tmp_path, body, scheme=scheme)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=1).last
    np.testing.assert_allclose(end.position["p"], [[0.5, 0, 0]], rtol=1e-12)


@pytest.mark.slow
def test_the_gradient_of_a_pressure_that_pulses(tmp_path):
    """By the path of its end, and by differences."""
    body = SQUARE.format(QUAD) + '<SurfacePressureForceField name="s" pressure="5" pulseMode="1" pressureSpeed="20"/>'
    scene = load(tmp_path, body)
    leaf = scene.where("@/s.pressure")

    def end(p):
        system = eqx.tree_at(leaf, scene.system, p)
        return jm.simulate(system, scene.state, scene.integrator, 0.1, steps=5, save_every=5).last.position["p"][2, 2]

    value = jnp.asarray(5.0)
    slope = jax.jit(jax.grad(end))(value)
    np.testing.assert_allclose(slope, (end(value + 1e-3) - end(value - 1e-3)) / 2e-3, rtol=1e-6)


@pytest.mark.parametrize("kind", ["Tetrahedron", "Hexahedron"])
def test_a_solid_of_a_material_of_its_own(tmp_path, kind):
    """Stretched by 1.1 along x, without lateral strain: E = 0.105, P = 1.1 (lambda + 2 mu) E on a face of 1 m^2."""
    cut = '<Node name="t"><MeshTopology name="top"/><Hexa2TetraTopologicalMapping input="@../grid" output="@top"/>'
    field = f"""<StVenantKirchhoffMaterial name="m" youngModulus="100" poissonRatio="0.25"/>
      <HyperelasticityFEMForceField name="s" template="Vec3d,{kind}"/>"""
    body = (
        """<RegularGridTopology name="grid" n="2 2 2" min="0 0 0" max="1 1 1"/><MechanicalObject name="p"/><UniformMass/>"""
    )
    scene = load(tmp_path, f"{body}{cut}{field}</Node>" if kind == "Tetrahedron" else body + field)
    x = scene.state.position["p"] * jnp.array([1.1, 1, 1])
    force = jm.total_force(scene.system, dataclasses.replace(scene.state, position={"p": x}))["p"]
    right = np.asarray(x[:, 0]) > 1
    np.testing.assert_allclose(force[right, 0].sum(), -1.1 * (40 + 2 * 40) * 0.105, rtol=1e-12)
    path = "@/t/m.youngModulus" if kind == "Tetrahedron" else "@/m.youngModulus"
    assert float(scene.where(path)(scene.system)) == 100


def test_elements_by_their_older_names(tmp_path):
    body = '<RegularGridTopology n="2 2 2" min="0 0 0" max="1 1 1"/><MechanicalObject name="p"/><UniformMass/>'
    for law in ("LinearSmallStrain", "Corotational"):
        forces = []
        for name, template in ((f"{law}FEMForceField", "Vec3,Hexahedron"), (f"Hexahedron{law}FEMForceField", "Vec3")):
            scene = load(tmp_path, f'{body}<{name} template="{template}" youngModulus="10" poissonRatio="0.2"/>')
            x = scene.state.position["p"] * jnp.array([1.1, 1, 0.9])
            forces.append(jm.total_force(scene.system, dataclasses.replace(scene.state, position={"p": x}))["p"])
        np.testing.assert_array_equal(*forces)
        assert np.abs(forces[0]).max() > 0.1


DIRECTED = (
    '{}<UniformMass vertexMass="1"/><RestShapeSpringsForceField name="s" points="0" stiffness="50" activeDirections="{}"/>'
)


@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_springs_that_pull_in_some_directions(tmp_path, solver):
    """No force along the others; in SOFA's assembled matrix translations are all there, and turns as they are active."""
    points = '<MechanicalObject name="p" position="1 2 3" rest_position="0 0 0"/>'
    frames = '<MechanicalObject name="p" template="Rigid3" position="1 2 3 0.6 0 0 0.8" rest_position="0 0 0 0 0 0 1"/>'
    for scheme, tangent in ((EULER, [50, 50, 50]), ("<EulerImplicitSolver/><CGLinearSolver/>", [50, 0, 50])):
        scene = load(tmp_path, DIRECTED.format(points, "1 0 1"), scheme=scheme, solver=solver)
        np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["p"], [[-50, 0, -150]])
        A = scene.integrator.problem(scene.system, scene.state, 0.1).A.to_dense()
        tangent = [50, 0, 50] if solver == "exact" else tangent
        np.testing.assert_allclose(A, np.diag(1 + 0.01 * np.array(tangent)), rtol=ROUND_OFF)
    scene = load(tmp_path, DIRECTED.format(frames, "0 1 1 1 0 1 1"), solver=solver)
    angle = 2 * np.arctan2(0.6, 0.8)
    force = jm.total_force(scene.system, scene.state)["p"]
    np.testing.assert_allclose(force, [[0, -100, -150, -100 * angle, 0, 0]], atol=1e-12)
    if solver == "sofa":
        K = jm.matrix.component_matrix(scene.system, scene.state, "s", "stiffness")["p", "p"].to_dense((1, 1))
        np.testing.assert_allclose(K, np.diag([50, 50, 50, 100, 0, 100]))
        with pytest.raises(jm.sofa.SceneError, match="with several linear solvers"):
            load(tmp_path, DIRECTED.format(points, "1 0 1"), scheme=f"{EULER}<CGLinearSolver/>")


@pytest.mark.parametrize("frames", [False, True])
def test_several_numbers_of_stiffness_in_the_matrix(tmp_path, frames):
    """`k[i]` is of spring `i` in the force, of node `i` in the matrix that SOFA assembles; beyond the end, the first is."""
    places = [f"{i} 0 0 0 0 0 1" if frames else f"{i} 0 0" for i in range(4)]
    body = f"""<MechanicalObject name="p" template="{"Rigid3" if frames else "Vec3"}" position="{" ".join(places)}"/>
      <UniformMass vertexMass="{"1 1 [1 0 0,0 1 0,0 0 1]" if frames else 1}"/>
      <RestShapeSpringsForceField name="s" points="1 3 0" stiffness="2 5" angularStiffness="7 11"/>"""

    def diagonal(**options):
        scene = load(tmp_path, body, **options)
        K = jm.matrix.component_matrix(scene.system, scene.state, "s", "stiffness")["p", "p"].to_dense((4, 4))
        return np.diag(K).reshape(4, -1)[:, [0, -1]], scene

    force, matrix = np.array([[2, 7], [2, 7], [0, 0], [5, 11]]), np.array([[2, 7], [5, 11], [0, 0], [2, 7]])
    if not frames:
        force, matrix = force[:, [0, 0]], matrix[:, [0, 0]]
    for options in ({"solver": "exact"}, {"scheme": "<EulerImplicitSolver/><CGLinearSolver/>"}):
        found, scene = diagonal(**options)
        np.testing.assert_array_equal(found, force)
        assert scene.where("@/s.stiffness")(scene.system).tolist() == [2, 5, 2]
    found, scene = diagonal()
    np.testing.assert_array_equal(found, matrix)
    x = scene.state.position["p"].at[:, 1].add(1.0)
    moved = dataclasses.replace(scene.state, position={"p": x})
    np.testing.assert_allclose(jm.total_force(scene.system, moved)["p"][:, 1], -force[:, 0])
    assert "k[i] is of node i" in str(scene.report)
    with pytest.raises(jm.sofa.SceneError):
        scene.where("@/s.stiffness")


def test_bending_of_one_triangle(tmp_path):
    """No two triangles meet: there is no spring, and the scene is one without."""
    body = """<MeshTopology position="0 0 0  1 0 0  0 1 0" triangles="0 1 2"/><MechanicalObject name="p"/><UniformMass/>
      <TriangularBendingSprings/><FastTriangularBendingSprings/>"""
    scene = load(tmp_path, body)
    assert not scene.system.forces
    assert "no two triangles" in str(scene.report)
