"""Articulated systems in scenes of SOFA: against forward kinematics written as SOFA goes through its centres."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmech as jm

TURNED = "0.18257418583505536 0.3651483716701107 0.5477225575051661 0.7302967433402214"  # a quarter and more about (1, 2, 3)
# parent, child, place on the parent, on the child, articulations (translation, rotation, axis, index)
ARM = [
    (0, 1, (1.0, 2.0, 3.0), (0.1, 0.2, 0.3), [(0, 1, (0.0, 0.0, 1.0), 0), (0, 1, (0.0, 3.0, 0.0), 1)]),
    (1, 2, (1.0, 0.0, 0.0), (-1.0, 0.5, 0.0), [(1, 0, (1.0, 2.0, 0.0), 2), (1, 1, (0.0, 1.0, 1.0), 3)]),
    (1, 3, (0.0, 1.0, 0.0), (0.0, 0.0, 0.0), [(0, 1, (0.0, 0.0, 0.0), 4)]),  # SOFA's axis without length moves nothing
    (3, 4, (0.0, 0.0, 0.5), (0.0, -0.5, 0.0), []),
]
ANGLES = [0.4, -0.7, 0.3, 1.9, 5.0]


def row(numbers):
    return " ".join(map(repr, numbers))


def centre(parent, child, on_parent, on_child, articulations, process=0, name="rotationAxis"):
    inside = "".join(
        f'<Articulation translation="{t}" rotation="{r}" {name}="{row(axis)}" articulationIndex="{i}"/>'
        for t, r, axis, i in articulations
    )
    return f"""<Node><ArticulationCenter parentIndex="{parent}" childIndex="{child}" posOnParent="{row(on_parent)}"
      posOnChild="{row(on_child)}" articulationProcess="{process}"/><Node>{inside}</Node></Node>"""


def arm(centres, angles, bodies, *, root="", more="", below="", links='input1="@../q" output="@p"', gravity="0 0 0"):
    places = " ".join(["0.5 0 0 " + TURNED] + ["9 8 7 0 0 1 0"] * (bodies - 1))  # of the root alone it counts
    return f"""<Node name="root" dt="0.05" gravity="{gravity}"><EulerImplicitSolver/><SparseLDLSolver/>{root}
      <Node name="arm"><MechanicalObject name="q" template="Vec1" position="{row(angles)}"/><UniformMass/>{more}
        <ArticulatedHierarchyContainer/><Node name="centres">{"".join(centres)}</Node>
        <Node name="bodies"><MechanicalObject name="p" template="Rigid3" position="{places}"/>
          <ArticulatedSystemMapping {links}/>{below}</Node></Node></Node>"""


def load(tmp_path, text, **options):
    path = tmp_path / "scene.scn"
    path.write_text(text)
    return jm.sofa.load(path, **options)


def as_sofa(angles, root, bodies):
    """The bodies of `ARM`, each put on the axes of its parent, then moved by one articulation after the other."""
    place, turn = [np.asarray(root[:3], float)] * bodies, [Rotation.from_quat(root[3:])] * bodies
    for parent, child, on_parent, on_child, articulations in ARM:
        turn[child] = turn[parent]
        place[child] = place[parent] + turn[parent].apply(np.subtract(on_parent, on_child))
        for translation, rotation, axis, i in articulations:
            if not np.any(axis):
                continue
            axis = turn[child].apply(np.asarray(axis) / np.linalg.norm(axis))
            if rotation:
                more = Rotation.from_rotvec(angles[i] * axis)
                arm = turn[child].apply(np.negative(on_child))
                place[child] = place[child] + more.apply(arm) - arm
                turn[child] = more * turn[child]
            place[child] = place[child] + translation * angles[i] * axis
    return np.array(place), np.array([t.as_matrix() for t in turn])


def check(bodies, place, turn):
    np.testing.assert_allclose(bodies[:, :3], place, atol=1e-12)
    np.testing.assert_allclose(Rotation.from_quat(bodies[:, 3:]).as_matrix(), turn, atol=1e-12)


@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_bodies_are_where_sofa_puts_them(tmp_path, solver):
    """Several articulations of one centre in their order, of another length, sliding and turning; a fixed body."""
    scene = load(tmp_path, arm([centre(*c) for c in ARM], ANGLES, 5), solver=solver)
    assert not scene.report.of("refused")
    check(
        jm.kinematics(scene.system, scene.state)["arm/bodies/p"],
        *as_sofa(ANGLES, (0.5, 0, 0, *map(float, TURNED.split())), 5),
    )
    assert scene.system.mappings["arm/bodies/ArticulatedSystemMapping1"].geometric_stiffness == (
        "none" if solver == "sofa" else "symmetric"
    )
    # J as SOFA has it: about the axis through the place of the articulation, for the first one
    q_dot = np.zeros((5, 1))
    q_dot[0] = 2.0
    moving = dataclasses.replace(scene.state, velocity={"arm/q": jnp.asarray(q_dot)})
    v = jm.mapping.velocities(scene.system, moving)["arm/bodies/p"]
    place, turn = as_sofa(ANGLES, (0.5, 0, 0, *map(float, TURNED.split())), 5)
    axis, at = turn[0] @ (0, 0, 1.0), place[0] + turn[0] @ (1.0, 2.0, 3.0)
    np.testing.assert_allclose(v[1:, 3:], [2 * axis] * 4, atol=1e-12)
    np.testing.assert_allclose(v[1:, :3], np.cross(2 * axis, place[1:] - at), atol=1e-12)
    np.testing.assert_array_equal(v[0], np.zeros(6))


def test_a_root_that_moves(tmp_path):
    """By input2: the last of its frames unless indexInput2 says another; older names of the links and of the axis."""
    root = f"""<Node name="base"><MechanicalObject name="b" template="Rigid3" position="7 0 0 0 0 0 1  0 -1 2 {TURNED}"
      velocity="0 0 0 0 0 0  1 2 3 0 0 0"/><UniformMass/></Node>"""
    links = 'object1="@../q" input2="@/base/b" object2="@p"'
    scene = load(tmp_path, arm([centre(*c, name="axis") for c in ARM], ANGLES, 5, root=root, links=links))
    turned = tuple(map(float, TURNED.split()))
    check(jm.kinematics(scene.system, scene.state)["arm/bodies/p"], *as_sofa(ANGLES, (0, -1, 2, *turned), 5))
    np.testing.assert_allclose(
        jm.mapping.velocities(scene.system, scene.state)["arm/bodies/p"][4, :3], [1, 2, 3], atol=1e-12
    )
    first = load(tmp_path, arm([centre(*c) for c in ARM], ANGLES, 5, root=root, links=links + ' indexInput2="0"'))
    check(jm.kinematics(first.system, first.state)["arm/bodies/p"], *as_sofa(ANGLES, (7, 0, 0, 0, 0, 0, 1), 5))
    lost = arm([centre(*c) for c in ARM[:2]], ANGLES, 5, root=root, links=links)
    with pytest.raises(jm.sofa.SceneError, match="all bodies but the first"):
        _ = load(tmp_path, lost).system


def test_translations_before_and_after_the_rotation(tmp_path):
    """On the parent the axes of translations do not turn with the child, on the child they do; 1 counts from the start."""
    both = [(0, 1, (0.0, 0.0, 1.0), 0), (1, 0, (2.0, 0.0, 0.0), 1)]
    for process, first, place in ((1, 0.0, [2 * 0.5, 0, 0]), (2, 0.0, [0, 2 * 0.5, 0]), (1, 0.3, [2 * 0.2, 0, 0])):
        text = arm([centre(0, 1, (0, 0, 0), (0, 0, 0), both, process)], [first, first], 2).replace(
            "0.5 0 0 " + TURNED, "0 0 0 0 0 0 1"
        )
        scene = load(tmp_path, text)
        there = scene.system.at_rest({"arm/q": jnp.array([[first + np.pi / 2], [0.5]])})
        body = np.asarray(jm.kinematics(scene.system, there)["arm/bodies/p"][1])
        np.testing.assert_allclose(body, [*place, 0, 0, np.sqrt(0.5), np.sqrt(0.5)], atol=1e-12)


def test_what_sofa_adds_up_is_said_or_refused(tmp_path):
    def fate(centres, **options):
        scene = load(tmp_path, arm(centres, ANGLES, 5), **options)
        return next(r for r in scene.report.rows if "ArticulatedSystemMapping" in r.component)

    hinge = [(0, 1, (0.0, 0.0, 1.0), 0)]
    zero = ((0, 0, 0), (0, 0, 0))
    along, across = (
        [centre(0, 1, *zero, hinge), centre(1, 2, *zero, [(0, 1, axis, 1)], 1)] for axis in ((0, 0, -1.0), (0, 1.0, 0))
    )
    assert fate(along).fate == "equal"
    assert fate(across).fate == "equivalent" and "turns" in fate(across).remark
    two = [(0, 1, (1.0, 0, 0), 0), (0, 1, (0, 1.0, 0), 1)]
    for centres, words in (
        ([centre(0, 1, *zero, two, 1)], "how one got there"),
        ([centre(0, 1, *zero, [(0, 1, (0, 0, 2.0), 0)], 2)], "length 2"),
        ([centre(1, 2, *zero, []), centre(0, 1, *zero, [])], "before the centre of its parent"),
        ([centre(0, 1, *zero, hinge), centre(1, 2, *zero, hinge)], "articulationIndex 0 stands at two centres"),
        ([centre(0, 1, *zero, [*hinge, *hinge])], "one articulationIndex"),
        ([centre(0, 9, *zero, [])], "bodies 0 and 9"),
        ([centre(0, 1, *zero, []), centre(2, 1, *zero, [])], "each once a childIndex"),
        ([centre(0, 1, *zero, [(0, 1, (1.0, 0, 0), 5)])], "has 5 numbers"),
        ([centre(0, 1, *zero, hinge, 3)], "expected 0, 1 or 2"),
        (["<Articulation/>"], "in no node below"),
    ):
        scene = load(tmp_path, arm(centres, ANGLES, 5))
        assert any(words in r.remark for r in scene.report.of("refused")), words
    circle = [centre(1, 2, *zero, []), centre(2, 1, *zero, [])]
    assert "hangs on itself" in fate(circle, solver="exact").remark
    assert fate([centre(1, 2, *zero, []), centre(0, 1, *zero, hinge)], solver="exact").fate == "equivalent"
    nothing = arm([], ANGLES, 5).replace("<ArticulatedHierarchyContainer/>", "")
    with pytest.raises(jm.sofa.SceneError, match="there is no ArticulatedHierarchyContainer"):
        _ = load(tmp_path, nothing).system


TIP = """<Node name="tip"><MechanicalObject name="t" position="2 0 0"/><RigidMapping rigidIndexPerPoint="1"/>
  <ConstantForceField name="pull" forces="0 0 0"/></Node>"""


def test_what_hangs_on_bodies_is_placed_where_their_data_say(tmp_path):
    """SOFA moves the bodies by their centres after what is mapped from them was placed: on them without their angles."""
    rigid = '<RigidMapping index="1" globalToLocalCoords="1"/>'
    part = f'<Node name="m"><MechanicalObject name="v" position="0 3 0"/>{rigid}</Node>'
    hinge = [centre(0, 1, (0, 0, 0), (0, 0, 0), [(0, 1, (0.0, 0.0, 1.0), 0)])]
    text = arm(hinge, [np.pi / 2], 2, below=part).replace("0.5 0 0 " + TURNED, "0 0 0 0 0 0 1")
    scene = load(tmp_path, text.replace("9 8 7 0 0 1 0", "0 0 0 0 0 0 1"))
    np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["arm/bodies/m/v"], [[-3, 0, 0]], atol=1e-12)


@pytest.mark.slow_cases("exact")
@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_a_servo_holds_a_hinge_that_a_force_and_a_torque_turn(tmp_path, solver):
    """One step by hand, linearised without geometric stiffness or converged; gradients are differences."""
    more = (
        '<RestShapeSpringsForceField name="servo" stiffness="30"/><ConstantForceField name="motor" indices="0" forces="4"/>'
    )
    hinge = [centre(0, 1, (0, 0, 0), (0, 0, 0), [(0, 1, (0.0, 0.0, 1.0), 0)])]
    text = arm(hinge, [0.0], 2, more=more, below=TIP.replace('0 0 0"/></Node>', '10 5 0"/></Node>'))
    scene = load(tmp_path, text.replace("0.5 0 0 " + TURNED, "0 0 0 0 0 0 1"), solver=solver)
    h, k, torque = 0.05, 30.0, 4.0 + 2 * 5.0
    target, motor = scene.where("@/arm/q.rest_position"), scene.where("@/arm/motor.forces")

    @jax.jit
    def velocity(held, torque):
        system = eqx.tree_at(
            lambda s: (target(s), motor(s)), scene.system, (jnp.reshape(held, (1, 1)), jnp.reshape(torque, (1,)))
        )
        return scene.integrator.step(system, scene.state, None, h)[0].velocity["arm/q"][0, 0]

    if solver == "sofa":  # the mapping has no geometric stiffness there
        np.testing.assert_allclose(velocity(0.0, 4.0), h * torque / (1 + h**2 * k), rtol=1e-12)
    else:  # v = h (tau - k q + 2 (5 cos q - 10 sin q)), q = h v
        v = float(velocity(0.0, 4.0))
        q = h * v
        np.testing.assert_allclose(v, h * (4 - k * q + 2 * (5 * np.cos(q) - 10 * np.sin(q))), rtol=1e-7)
    slopes = jax.jit(jax.grad(velocity, (0, 1)))(0.1, 4.0)
    e = 1e-4
    np.testing.assert_allclose(slopes[0], (velocity(0.1 + e, 4.0) - velocity(0.1 - e, 4.0)) / (2 * e), rtol=1e-6)
    np.testing.assert_allclose(slopes[1], (velocity(0.1, 4.0 + e) - velocity(0.1, 4.0 - e)) / (2 * e), rtol=1e-6)


def test_a_body_that_hangs_on_nothing_may_be_fixed(tmp_path):
    """As in SOFA's own example; one that moves may not, but by its angles."""
    held = '<FixedProjectiveConstraint template="Rigid3" indices="{}"/>'
    scene = load(tmp_path, arm([centre(*c) for c in ARM], ANGLES, 5, below=held.format(0)))
    assert not scene.system.constraints
    with pytest.raises(jm.sofa.SceneError, match="constrain its parents"):
        _ = load(tmp_path, arm([centre(*c) for c in ARM], ANGLES, 5, below=held.format("0 1"))).system


def test_a_total_force_of_angles(tmp_path):
    more = '<ConstantForceField name="motor" totalForce="4"/>'
    scene = load(tmp_path, arm([centre(*c) for c in ARM], ANGLES, 5, more=more))
    np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["arm/q"], np.full((5, 1), 0.8))


def test_rest_positions_of_one_force_field_alone_are_a_number(tmp_path):
    springs = '<RestShapeSpringsForceField/><RestShapeSpringsForceField name="other"/>'
    scene = load(tmp_path, arm([centre(*c) for c in ARM], ANGLES, 5, more=springs))
    with pytest.raises(jm.sofa.SceneError, match="is no number of the system"):
        scene.where("@/arm/q.rest_position")


SCRIPT = """
import Sofa

class Turn(Sofa.Core.Controller):
    def __init__(self, robot):
        Sofa.Core.Controller.__init__(self, name="turn")
        self.robot, self.steps = robot, 0

    def onAnimateBeginEvent(self, event):
        self.steps += 1
        self.robot.angles.value = [0.1 * self.steps]

def createScene(root):
    root.gravity.value = [0, 0, 0]
    robot = root.addChild("robot")
    robot.addData("angles", [0.3], None, "angles of articulations [rad]", "", "vector<float>")
    robot.addObject("EulerImplicitSolver")
    robot.addObject("SparseLDLSolver")
    q = robot.addObject("MechanicalObject", name="q", template="Vec1", rest_position=robot.getData("angles").getLinkPath())
    q.position.value = [0.0]
    robot.addObject("UniformMass", totalMass=1)
    robot.addObject("RestShapeSpringsForceField", stiffness=1e12, points=[0])
    robot.addObject("ArticulatedHierarchyContainer")
    bodies = robot.addChild("bodies")
    bodies.addObject("MechanicalObject", name="p", template="Rigid3", position=[[0, 0, 0, 0, 0, 0, 1]] * 2)
    bodies.addObject("ArticulatedSystemMapping", input1=q.getLinkPath(), output="@p")
    center = robot.addChild("centers").addChild("center")
    center.addObject("ArticulationCenter", parentIndex=0, childIndex=1, posOnParent=[0, 1, 0], posOnChild=[0, 0, 0])
    hinge = center.addChild("articulation")
    hinge.addObject("Articulation", translation=0, rotation=1, rotationAxis=[0, 0, 1], articulationIndex=0)
    robot.addObject(Turn(robot))
"""


def test_a_controller_turns_a_servo_by_data_of_its_own(tmp_path):
    """The rest position of the angles links to data of the script: it starts with what they hold, and follows them."""
    path = tmp_path / "scene.py"
    path.write_text(SCRIPT)
    scene = jm.sofa.record(path, steps=3)
    assert scene.changes == (
        {"@/robot/q.rest_position": "0.1"},
        {"@/robot/q.rest_position": "0.2"},
        {"@/robot/q.rest_position": repr(0.1 * 3)},
    )
    np.testing.assert_array_equal(scene.where("@/robot/q.rest_position")(scene.system), [[0.3]])
    last = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=3, control=scene.control()).last
    np.testing.assert_allclose(last.position["robot/q"], [[0.3]], rtol=1e-6)
    np.testing.assert_allclose(
        jm.kinematics(scene.system, last)["robot/bodies/p"][1], [0, 1, 0, 0, 0, np.sin(0.15), np.cos(0.15)], atol=1e-6
    )


def test_angles_that_a_controller_writes_are_refused_by_name(tmp_path):
    path = tmp_path / "scene.py"
    path.write_text(SCRIPT.replace("self.robot.angles.value =", "self.robot.q.position.value ="))
    scene = jm.sofa.record(path, steps=2)
    with pytest.raises(jm.sofa.SceneError, match=r"writes @/robot/q\.position: states are not written"):
        scene.control()


def test_a_controller_of_the_mouse_moves_nothing(tmp_path):
    more = '<MechanicalStateController template="Vec1" index="0" onlyTranslation="1" handleEventTriggersUpdate="1"/>'
    scene = load(tmp_path, arm([centre(*c) for c in ARM], ANGLES, 5, more=more))
    _ = scene.parts
    assert "MechanicalStateController" in str(scene.report)
