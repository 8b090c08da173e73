"""Scenes as users of SOFA write them: data of other lengths, out of use or left out, and what only pictures read."""

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tolerances import ROUND_OFF

import jaxmech as jm

EULER = "<EulerImplicitSolver/><SparseLDLSolver/>"
LOOP = "<FreeMotionAnimationLoop/><BlockGaussSeidelConstraintSolver/>"


def load(tmp_path, body, scheme=EULER, gravity="0 0 0", **options) -> Any:
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.1" gravity="{gravity}">{scheme}{body}</Node>')
    scene = jm.sofa.load(path, **options)
    _ = scene.parts  # raises the first refusal
    return scene


def end(scene, part=None, steps=1):
    of = scene.part(part)
    return jm.simulate(of.system, of.state, of.integrator, of.dt, steps=steps, save_every=steps).last


FRAMES = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  5 0 0 0 0 0.7 0.7"/>
  <UniformMass vertexMass="2 1 0.1 0 0 0 0.2 0 0 0 0.3 7 7"/>"""


@pytest.mark.parametrize(("numbers", "frames"), [("0 1 1", [0, 1, 1]), ("0 1", [1, 1, 1]), ("0 1 1 0", [1, 1, 1])])
def test_frames_of_points_as_many_as_points_or_one_for_all(tmp_path, numbers, frames):
    """SOFA takes `index` for all points where `rigidIndexPerPoint` has another length; quaternions are of unit length."""
    child = '<Node name="n"><MechanicalObject name="q" position="1 0 0  0 2 0  0 0 3"/><RigidMapping index="1" {}/></Node>'
    scene = load(tmp_path, FRAMES + child.format(f'rigidIndexPerPoint="{numbers}"'))
    turns, at = Rotation.from_rotvec([[0, 0, 0], [0, 0, np.pi / 2]]), np.array([[0, 0, 0], [5, 0, 0]])
    expected = at[frames] + turns[frames].apply(np.diag([1.0, 2, 3]))
    x = jm.kinematics(scene.system, scene.state)["n/q"]
    np.testing.assert_allclose(x, expected, rtol=ROUND_OFF, atol=1e-15)
    assert ("takes its index for all" in str(scene.report)) == (len(numbers.split()) != 3)
    inertia = scene.system.masses["UniformMass1"].inertia
    np.testing.assert_allclose(inertia, np.diag([0.1, 0.2, 0.3]))  # nothing beyond the eleventh number is read
    with pytest.raises(jm.sofa.SceneError, match="one of 2 frames"):
        load(tmp_path, FRAMES + child.format('rigidIndexPerPoint="0 1 2"'))


def test_of_an_index_of_several_numbers_the_first_is_read(tmp_path):
    """SOFA reads a number of it; points of `initialPoints` are in axes of the frame whatever `globalToLocalCoords` says."""
    child = '<Node name="n"><MechanicalObject name="q" {}/><RigidMapping index="1 0 7" {}/></Node>'
    points = "1 0 0  0 2 0"
    for place, said in ((f'position="{points}"', ""), ("", f'initialPoints="{points}" globalToLocalCoords="1"')):
        scene = load(tmp_path, FRAMES + child.format(place, said))
        x = jm.kinematics(scene.system, scene.state)["n/q"]
        np.testing.assert_allclose(x, [[5, 1, 0], [3, 0, 0]], rtol=ROUND_OFF, atol=1e-15)
        assert "index has 3 numbers: SOFA reads the first" in str(scene.report)


@pytest.mark.parametrize("mapping", ["tube", "frame"])
def test_what_lies_below_a_mapping_finds_its_nodes_where_it_puts_them(tmp_path, mapping):
    """Distances on circles around frames, places of points in a body that moves with a frame: they were those of the frames,
    and of the body in axes of its frame."""
    if mapping == "tube":
        below = """<Node name="n"><MechanicalObject name="q"/><TubularMapping nbPointsOnEachCircle="4" radius="0.3"/>
          <Node name="d"><MechanicalObject template="Vec1" name="l"/><EdgeSetTopologyContainer edges="0 1  1 6"/>
          <DistanceMapping/></Node></Node>"""
        scene = load(tmp_path, FRAMES + below)
        np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["n/d/l"], 0.0, atol=1e-14)
        return
    body = f"""<Node name="f">{FRAMES}</Node><Node name="b">
      <MechanicalObject name="q" position="1 0 0  0 1 0  0 0 1  0 0 0"/><UniformMass/>
      <Node name="m"><MechanicalObject name="r"/><TetrahedronSetTopologyContainer tetrahedra="0 1 2 3"/>
      <DeformableOnRigidFrameMapping input1="@.." input2="@/f/p" output="@r" index="1 0"/>
      <Node name="s"><MechanicalObject name="t" position="4.5 0.5 0.1"/><BarycentricMapping/></Node></Node></Node>"""
    scene = load(tmp_path, body)
    x = jm.kinematics(scene.system, scene.state)
    np.testing.assert_allclose(x["b/m/r"], [[5, 1, 0], [4, 0, 0], [5, 0, 1], [5, 0, 0]], rtol=ROUND_OFF, atol=1e-15)
    np.testing.assert_allclose(x["b/m/s/t"], [[4.5, 0.5, 0.1]], rtol=ROUND_OFF)
    weights = scene.system.mappings["b/m/s/BarycentricMapping1"].weights
    np.testing.assert_allclose(weights, [[0.5, 0.5, 0.1, -0.1]], atol=1e-14)


def test_a_state_that_says_where_it_rests_alone(tmp_path):
    """Its nodes are there at the start."""
    scene = load(tmp_path, '<MechanicalObject name="p" rest_position="1 2 3  4 5 6"/><UniformMass/>')
    np.testing.assert_array_equal(scene.state.position["p"], [[1, 2, 3], [4, 5, 6]])
    gears = '<Node name="n"><MechanicalObject template="Rigid3" name="q" rest_position="{}"/><RigidMapping/></Node>'
    scene = load(tmp_path, FRAMES + gears.format("0 0 0 0 0 0 1  1 0 0 0 0 0 2"))
    x = jm.kinematics(scene.system, scene.state)["n/q"]
    np.testing.assert_allclose(x, [[0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0, 1]], rtol=ROUND_OFF)


def test_velocities_and_places_of_the_plane(tmp_path):
    """The last velocity is that of all that follow; states of the plane are moved by as many numbers as they have."""
    body = """<MechanicalObject name="p" template="Vec2" position="0 1  2 3  4 5" velocity="1 0  0 7" dx="10" dy="20"/>
      <UniformMass/>"""
    scene = load(tmp_path, body)
    np.testing.assert_array_equal(scene.state.position["p"], [[10, 21], [12, 23], [14, 25]])
    np.testing.assert_array_equal(scene.state.velocity["p"], [[1, 0], [0, 7], [0, 7]])
    with pytest.raises(jm.sofa.SceneError, match="scale and rotation"):
        load(tmp_path, body.replace("dx", "rz"))
    with pytest.raises(jm.sofa.SceneError, match="another size"):
        load(tmp_path, body.replace("1 0  0 7", "1 0  0 7  0 0  0 0"))


def test_links_to_a_place_that_nobody_said(tmp_path):
    (tmp_path / "line.obj").write_text("v 1 2 3\nv 4 5 6\nl 1 2\n")
    links = " ".join(f'{name}="@loader.{name}"' for name in ("translation", "rotation", "scale3d"))
    body = f"""<MeshOBJLoader name="loader" filename="line.obj" {{}}/>
      <MechanicalObject name="p" position="@loader.position" {links}/><UniformMass/>"""
    scene = load(tmp_path, body.format(""))
    np.testing.assert_array_equal(scene.state.position["p"], [[1, 2, 3], [4, 5, 6]])
    scene = load(tmp_path, body.format('translation="0 0 10"'))  # by both
    np.testing.assert_array_equal(scene.state.position["p"], [[1, 2, 23], [4, 5, 26]])


def test_a_force_and_a_torque_that_change_with_time(tmp_path):
    """A step of 0.1 s takes those of its beginning, nil at first, then a tenth of those at 1 s."""
    body = """<MechanicalObject name="p" template="Rigid3" position="0 0 0 0 0 0 1"/><UniformMass vertexMass="2"/>
      <LinearForceField name="f" points="0" times="0 1" forces="0 0 0 0 0 0  8 0 0 0 0 6"/>"""
    last = end(load(tmp_path, body), steps=2)
    np.testing.assert_allclose(last.velocity["p"], [[0.04, 0, 0, 0, 0, 0.03]], rtol=1e-9, atol=1e-15)
    with pytest.raises(jm.sofa.SceneError, match="width|multiple of 6"):
        load(tmp_path, body.replace("0 0 0 0 0 0  8 0 0 0 0 6", "0 0 0  8 0 0 1"))


def test_what_is_out_of_use_or_read_by_pictures_alone(tmp_path):
    """Data whose name begins with "_", what a box shall have found, buttons of a mouse, engines that labels read."""
    grid = '<RegularGridTopology n="2 1 1" max="1 0 0"/><MechanicalObject name="p"/><UniformMass _totalMass="9"/>'
    box = '<BoxROI name="box" box="0.5 -1 -1  2 1 1" indices="0"/><FixedProjectiveConstraint indices="@box.indices"/>'
    label = """<ConstraintAttachButtonSetting/><NormEngine name="far" input="@p.position"/>
      <NormEngine name="further" input="@far.output"/><OglLabel label="@further.output"/>"""
    scene = load(tmp_path, grid + box + label)
    assert scene.system.constraints["FixedProjectiveConstraint1"].on[0].nodes.tolist() == [1]
    np.testing.assert_allclose(scene.system.masses["UniformMass1"].mass, 0.5)
    load_of = '<ConstantForceField indices="0" forces="@further.output"/>'
    with pytest.raises(jm.sofa.SceneError, match="NormEngine|far|further"):
        load(tmp_path, grid + box + label + load_of)


def test_a_movement_of_the_first_node(tmp_path):
    body = """<MechanicalObject name="p" position="1 0 0  2 0 0"/><UniformMass/>
      <LinearMovementProjectiveConstraint keyTimes="0 1" movements="0 0 0  0 3 0"/>"""
    scene = load(tmp_path, body, solver="exact")
    np.testing.assert_allclose(end(scene).position["p"], [[1, 0.3, 0], [2, 0, 0]], rtol=ROUND_OFF)
    scene = load(tmp_path, body.replace("Movement", "Velocity").replace("movements", "velocities"))
    assert scene.system.constraints["LinearVelocityProjectiveConstraint1"].on[0].nodes.tolist() == [0]


@pytest.mark.slow
def test_frames_turn_about_an_axis_of_their_own(tmp_path):
    """SOFA multiplies by the turn from the right; one about several axes is of Euler angles, which is refused."""
    start = Rotation.from_rotvec([0.3, -0.4, 0.5])
    words = " ".join(map(repr, start.as_quat().tolist()))
    body = f"""<MechanicalObject template="Rigid3" name="p" position="0 0 0 {words}  0 0 0 0 0 0 1"/><UniformMass/>
      <LinearMovementProjectiveConstraint indices="0 1" keyTimes="0 1 2"
        movements="0 0 0 0 0 0  1 0 0 0 4 0  0 0 0 0 9 0"/>"""
    last = end(load(tmp_path, body, solver="exact"))
    about = Rotation.from_rotvec([0, 0.4, 0])
    np.testing.assert_allclose(last.position["p"][:, :3], [[0.1, 0, 0]] * 2, rtol=1e-12, atol=1e-15)
    for q, turn in zip(np.asarray(last.position["p"])[:, 3:], (start * about, about), strict=True):
        np.testing.assert_allclose((Rotation.from_quat(q) * turn.inv()).magnitude(), 0, atol=1e-12)
    back = end(load(tmp_path, body.replace("1 0 0 0 4 0", "1 0 0 0 7 0"), solver="exact"))  # the shorter of two turns
    turned = start * Rotation.from_rotvec([0, (7 - 4 * np.pi) * 0.1, 0])
    np.testing.assert_allclose((Rotation.from_quat(back.position["p"][0, 3:]) * turned.inv()).magnitude(), 0, atol=1e-12)
    with pytest.raises(jm.sofa.SceneError, match="several axes"):
        load(tmp_path, body.replace("1 0 0 0 4 0", "1 0 0 0.1 4 0"))


def test_the_frame_of_an_oscillator(tmp_path):
    """`x = m + a sin(w t + p)`, where the sum of a quaternion and a turn is of first order, and then of unit length."""
    body = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1"/><UniformMass/>
      <OscillatorProjectiveConstraint oscillators="0  1 2 3 0 0 0 2  1 0 0 0 0 0.8  2 0.5"/>"""
    last = end(load(tmp_path, body, solver="exact"))
    s = np.sin(2 * 0.1 + 0.5)
    turn = np.array([0, 0, 0.4 * s, 1]) / np.hypot(1, 0.4 * s)
    np.testing.assert_allclose(last.position["p"], [[1 + s, 2, 3, *turn]], rtol=1e-12, atol=1e-15)


CORNERS = """<RegularGridTopology name="g" n="3 3 2" max="2 2 1"/><MechanicalObject name="p"/><UniformMass/>
  <BoxROI name="low" box="-1 -1 -0.1  3 3 0.1"/><BoxROI name="all" box="-1 -1 -1  3 3 3"/>
  <PatchTestMovementProjectiveConstraint indices="@{0}.indices" constrainedPoints="@{0}.pointsInROI" endConstraintTime="1"
    cornerMovements="{1}"/>"""


@pytest.mark.parametrize(("box", "count"), [("low", 4), ("all", 8)])
def test_corners_among_the_points_that_are_held(tmp_path, box, count):
    """Linear movements of the corners move all linearly: the fourth of one of eight goes along with z."""
    x = np.array([[i, j, k] for k in (0, 1) for j in (0, 1) for i in (0, 1)])[[0, 1, 3, 2, 4, 5, 7, 6]][:count] * [2, 2, 1]
    slope = np.array([[0.1, 0.3, 0], [0, -0.2, 0.1], [0.2, 0, 0.5]])
    scene = load(tmp_path, CORNERS.format(box, " ".join(map(repr, np.ravel(x @ slope).tolist()))), solver="exact")
    start, last = np.asarray(scene.state.position["p"]), np.asarray(end(scene).position["p"])
    moved = start @ slope * 0.1 if count == 8 else np.where(start[:, 2:] == 0, start @ slope * 0.1, 0)
    np.testing.assert_allclose(last - start, moved, rtol=1e-9, atol=1e-12)


PYRAMIDS = """<MeshTopology position="0 0 0  2 0 0  2 1 0  0 1 0  1 0.5 3" pyramids="0 1 2 3 4"/><MechanicalObject name="p"/>
  <NodalMassDensity property="5"/><FEMMass name="m" template="Vec3,Pyramid" {}/>"""


def test_masses_of_pyramids_and_sums_of_rows(tmp_path):
    """Of 2 m^3 and 5 kg/m^3; a lumped mass is the sum of each row, a quarter of the volume at the tip."""
    mass = [
        jm.matrix.component_matrix(s.system, s.state, "m", "mass")["p", "p"].to_dense((5, 5))
        for s in (load(tmp_path, PYRAMIDS.format("")), load(tmp_path, PYRAMIDS.format('lumping="1"')))
    ]
    consistent, lumped = (np.asarray(m)[::3, ::3] for m in mass)
    np.testing.assert_allclose(consistent.sum(), 10, rtol=1e-6)
    np.testing.assert_allclose(lumped, np.diag(consistent.sum(axis=1)), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(np.diag(lumped), [10 * 3 / 16] * 4 + [2.5], rtol=1e-6)


ROPE = """<MechanicalObject name="p" position="0 0 0  1 0 0  2 0 0"/><UniformMass vertexMass="1"/>
  <FixedProjectiveConstraint indices="0"/><MeshTopology name="t" edges="0 1  1 2"/>
  <Node name="lengths"><MechanicalObject template="Vec1" name="l" {}/><DistanceMapping topology="@../t" {}/>{}</Node>"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "mapping", "constraint", "length"),
    [
        ("", "", '<UniformLagrangianConstraint iterative="0"/>', 1.0),
        ("", 'computeDistance="1" applyRestPosition="1"', '<UniformLagrangianConstraint constrainToRestPos="1"/>', 1.0),
        ('rest_position="0.1 0.1"', "", '<FixedLagrangianConstraint fixAll="1"/>', 1.1),
    ],
)
def test_equations_of_mapped_nodes(tmp_path, state, mapping, constraint, length):
    """All coordinates are nil, or those at rest: lengths of a rope, with Newton's method."""
    body = ROPE.format(state, mapping, constraint)
    scene = load(tmp_path, body, LOOP + EULER, "0 -10 0", solver="exact")
    x = np.asarray(end(scene, steps=3).position["p"])
    assert x[2, 1] < -0.1
    np.testing.assert_allclose(np.linalg.norm(np.diff(x, axis=0), axis=1), length, rtol=1e-7)


@pytest.mark.slow
def test_nodes_held_where_they_are_at_rest(tmp_path):
    """As SOFA does: not where they are at the start."""
    body = '<MechanicalObject name="p" position="0 0 0  1 0 0" rest_position="0 0 0  2 0 0"/><UniformMass/>'
    last = end(load(tmp_path, body + '<FixedLagrangianConstraint indices="1"/>', LOOP + EULER))
    np.testing.assert_allclose(last.position["p"], [[0, 0, 0], [2, 0, 0]], atol=1e-12)
    frame = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1" rest_position="0 0 0 0 0 0.6 0.8"/>
      <UniformMass/><FixedLagrangianConstraint/>"""
    last = end(load(tmp_path, frame, LOOP + EULER, solver="exact"))
    np.testing.assert_allclose(last.position["p"], [[0, 0, 0, 0, 0, 0.6, 0.8]], atol=1e-9)


@pytest.mark.slow
def test_a_bead_that_nothing_moves(tmp_path):
    """The line through two points of a body passes through it: the body falls, its upper point stays at its height."""
    body = """<Node name="hook"><MechanicalObject name="h" position="0 0 0"/></Node>
      <Node name="body"><EulerImplicitSolver/><MechanicalObject name="p" position="-1 0 0  1 0 0"/><UniformMass/></Node>
      <SlidingLagrangianConstraint object1="@hook/h" object2="@body/p" sliding_point="0" axis_1="0" axis_2="1"/>"""
    scene = load(tmp_path, LOOP + body, "", "0 -10 0", solver="exact")
    last = end(scene, steps=2)
    np.testing.assert_allclose(np.asarray(last.position["body/p"])[:, 1].sum(), 0, atol=1e-9)
    np.testing.assert_array_equal(last.position["hook/h"], [[0, 0, 0]])


BALL = """<Node name="{0}"><EulerImplicitSolver {1}/><SparseLDLSolver/>
  <MechanicalObject name="p" position="{2} 0.1 0" rest_position="{2} 0 0" velocity="0 1 0"/><UniformMass vertexMass="2"/>
  <RestShapeSpringsForceField stiffness="30"/>{3}</Node>"""
DAMPED = [("a", 'rayleighStiffness="0.2"'), ("b", 'rayleighMass="0.7"'), ("c", "")]


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_each_time_integrator_damps_what_it_moves(tmp_path, solver):
    """Bodies that may touch are one system: what moves them differs in damping, and moves them as if it were alone."""
    touch = '<CollisionPipeline/><LocalMinDistance contactDistance="0.1"/><CollisionResponse response="{}"/>'
    touch = LOOP + touch.format("FrictionContactConstraint")
    bodies = "".join(BALL.format(n, d, 9 * k, '<SphereCollisionModel radius="1"/>') for k, (n, d) in enumerate(DAMPED))
    together = end(load(tmp_path, bodies, touch, solver=solver), steps=3)
    for k, (name, damping) in enumerate(DAMPED):
        alone = end(load(tmp_path, BALL.format(name, damping, 9 * k, ""), "", solver=solver), steps=3)
        found, expected = together.velocity[f"{name}/p"], alone.velocity[f"{name}/p"]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("where", ["correction", "solver", "body"])
def test_constraints_that_give(tmp_path, where):
    """SOFA's rows are those of `h J A^-1 J^T + r`; a node at rest is held by multipliers too, where these give."""
    said, loop = 'regularizationTerm="0.02"', "<FreeMotionAnimationLoop/><{}/>"
    held = f"<FixedLagrangianConstraint/><{{}}ConstraintCorrection {'' if where == 'solver' else said}/>"
    held = held.format("LinearSolver" if where == "body" else "Generic")
    loop = loop.format(f"GenericConstraintSolver {said if where == 'solver' else ''}")
    last = end(load(tmp_path, BALL.format("a", "", 0, held), loop), steps=1)
    h, m, k, r = 0.1, 2.0, 30.0, 0.02
    A = m + h * h * k
    free = 1 + (-h * k * 0.1 - h * h * k * 1) / A
    push = -(0.1 + h * free) / (h / A + r)
    np.testing.assert_allclose(last.velocity["a/p"][0, 1], free + push / A, rtol=1e-9)
    still = BALL.format("a", "", 0, held).replace("0.1 0", "0 0").replace("0 1 0", "0 0 0")
    (constraint,) = load(tmp_path, still, loop).system.constraints.values()
    np.testing.assert_allclose(constraint.compliance, h * r)
    touch = '<CollisionPipeline/><LocalMinDistance contactDistance="0.1"/><CollisionResponse response="{}"/>'
    ball = BALL.format("b", "", 9, '<SphereCollisionModel radius="1"/>')
    both = BALL.format("a", "", 0, held + '<SphereCollisionModel radius="1"/>') + ball
    with pytest.raises(jm.sofa.SceneError, match="with contacts is not translated"):
        load(tmp_path, both, loop + touch.format("FrictionContactConstraint"))
    with pytest.raises(jm.sofa.SceneError, match="regularizationTerm='0.02' is not translated"):
        load(tmp_path, BALL.format("a", "", 0, held), f"{loop}<LCPConstraintSolver {said}/>")


def test_what_no_constraint_links_is_moved_by_itself(tmp_path):
    held = BALL.format("a", 'rayleighMass="0.7"', 0, "<FixedLagrangianConstraint/>")
    scene = load(tmp_path, held + BALL.format("b", 'vdamping="3"', 9, ""), LOOP)
    assert sorted(scene.parts) == ["a", "b"]
    np.testing.assert_allclose(end(scene, "a", steps=2).position["a/p"], [[0, 0, 0]], atol=1e-12)


@pytest.mark.slow
def test_spheres_of_one_model_touch_each_other(tmp_path):
    """Every pair once, at both radii and contactDistance; two that meet head on go on together."""
    touch = '<CollisionPipeline/><LocalMinDistance contactDistance="0.1"/><CollisionResponse response="{}"/>'
    touch = LOOP + touch.format("FrictionContactConstraint")
    x, radii = np.array([[0, 0, 0], [2, 0, 0], [0, 3, 0], [0, 0, 5]]), np.array([0.2, 0.5, 0.2, 0.5])
    words = [" ".join(map(str, np.ravel(a).tolist())) for a in (x, radii)]
    body = f"""<Node name="a">{EULER}<MechanicalObject name="p" position="{words[0]}" velocity="8 0 0  0 0 0  0 0 0  0 0 0"/>
      <UniformMass vertexMass="1"/><SphereCollisionModel listRadius="{words[1]}" selfCollision="1"/></Node>"""
    scene = load(tmp_path, touch + body, "")
    found = [np.asarray(c.gaps({"a/p": scene.state.position["a/p"]})) for c in scene.integrator.contacts.values()]
    found = np.concatenate([g[np.isfinite(g)] for g in found])
    i, j = np.triu_indices(4, 1)
    expected = np.linalg.norm(x[i] - x[j], axis=1) - radii[i] - radii[j] - 0.1
    np.testing.assert_allclose(np.sort(found), np.sort(expected), rtol=1e-12)
    last = end(scene, steps=4)
    np.testing.assert_allclose(last.velocity["a/p"][:, 0], [4, 4, 0, 0], atol=1e-8)
    with pytest.raises(jm.sofa.SceneError, match="spheres alone"):
        load(tmp_path, touch + body.replace("SphereCollisionModel", "PointCollisionModel"), "")
