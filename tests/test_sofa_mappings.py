"""Mappings of several states, and engines that make positions, in scenes of SOFA."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmech as jm

EULER = "<EulerImplicitSolver/><SparseLDLSolver/>"


def load(tmp_path, body, **options):
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.05" gravity="0 0 0"><DefaultAnimationLoop/>{EULER}{body}</Node>')
    return jm.sofa.load(path, **options)


TWO = """<Node name="a"><MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/></Node>
  <Node name="b"><MechanicalObject name="q" position="4 3 0  9 0 0  0 0 2"/><UniformMass/></Node>"""


def both(tmp_path, mapping, **options):
    body = f'{TWO}<Node name="c"><MechanicalObject name="m" template="{"Vec1" if "Distance" in mapping else "Vec3"}"/>'
    return load(tmp_path, body + mapping + "</Node>", **options)


def test_points_of_several_states(tmp_path):
    chosen = '<SubsetMultiMapping input="@../a @../b/q" output="@m" indexPairs="1 2  0 1  1 0"/>'
    scene = both(tmp_path, chosen)
    x = jm.kinematics(scene.system, scene.state)["c/m"]
    np.testing.assert_array_equal(x, [[0, 0, 2], [1, 0, 0], [4, 3, 0]])
    whole = both(tmp_path, '<IdentityMultiMapping input="@../a @../b" output="@m"/>')
    x = jm.kinematics(whole.system, whole.state)["c/m"]
    np.testing.assert_array_equal(x, [[0, 0, 0], [1, 0, 0], [4, 3, 0], [9, 0, 0], [0, 0, 2]])
    with pytest.raises(jm.sofa.SceneError, match="node 3 of input 1"):
        _ = both(tmp_path, chosen.replace("1 0", "1 3")).system


TURNED = " ".join(map(repr, Rotation.from_rotvec([0.3, -0.8, 0.5]).as_quat().tolist()))
OF_FRAMES = f"""<Node name="a"><MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  1 0 2 {TURNED}"
  velocity="1 2 3 0.4 0.5 0.6  0.3 0.2 0.1 -2 1 3"/><UniformMass vertexMass="2"/>{{}}</Node>
  <Node name="b"><MechanicalObject template="Rigid3" name="q" position="4 3 0 {TURNED}" velocity="0 1 0 2 -1 0.5"/>
  <UniformMass vertexMass="3"/>{{}}</Node>"""
SPRINGS = '<RestShapeSpringsForceField points="{}" stiffness="50" angularStiffness="7"/>'


@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_frames_of_several_states(tmp_path, solver):
    """Springs that hold gathered frames are those that hold the frames themselves; origins move as their frames do."""
    child = """<Node name="c"><MechanicalObject template="{}" name="m"/>
      <{}MultiMapping input="@../a @../b" output="@m" {} applyRestPosition="1"/>{}</Node>"""
    chosen = child.format("Rigid3", "Subset", 'indexPairs="1 0  0 1"', SPRINGS.format("0 1"))
    runs = []
    for body in (OF_FRAMES.format("", "") + chosen, OF_FRAMES.format(SPRINGS.format("1"), SPRINGS.format("0"))):
        scene = load(tmp_path, body, solver=solver)
        runs.append(jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=4).last)
    for state in ("a/p", "b/q"):
        assert np.abs(runs[0].velocity[state] - scene.state.velocity[state]).max() > 0.1
        np.testing.assert_allclose(runs[0].position[state], runs[1].position[state], atol=1e-12)
        np.testing.assert_allclose(runs[0].velocity[state], runs[1].velocity[state], atol=1e-12)
    whole = load(tmp_path, OF_FRAMES.format("", "") + child.format("Rigid3", "Identity", "", ""))
    x = jm.kinematics(whole.system, whole.state)
    np.testing.assert_array_equal(x["c/m"], np.concatenate([x["a/p"], x["b/q"]]))
    origins = load(tmp_path, OF_FRAMES.format("", "") + child.format("Vec3", "Subset", 'indexPairs="1 0  0 1"', ""))
    x = jm.kinematics(origins.system, origins.state)
    np.testing.assert_array_equal(x["c/m"], [[4, 3, 0], [1, 0, 2]])
    v = jm.mapping.velocities(origins.system, origins.state)["c/m"]
    np.testing.assert_allclose(v, [[0, 1, 0], [0.3, 0.2, 0.1]])


def test_distances_between_states(tmp_path):
    mapping = """<MeshTopology name="e" edges="0 1"/><DistanceMultiMapping topology="@e" input="@../a @../b" output="@m"
      indexPairs="0 0  1 0" restLengths="1" computeDistance="1" geometricStiffness="{}"/>
      <RestShapeSpringsForceField stiffness="2"/>"""
    scene = both(tmp_path, mapping.format("None"))
    np.testing.assert_allclose(jm.kinematics(scene.system, scene.state)["c/m"], [[4.0]])  # 5 - 1
    moved = scene.system.at_rest(
        {"a/p": scene.state.position["a/p"], "b/q": scene.state.position["b/q"].at[0].set([8.0, 6, 0])}
    )
    force = jm.total_force(scene.system, moved)
    np.testing.assert_allclose(force["a/p"][0], [2 * 9 * 0.8, 2 * 9 * 0.6, 0])  # 2 N/m, 10 - 1 m from nil: no rest is mapped
    with pytest.raises(jm.sofa.SceneError, match="not the derivative"):
        _ = both(tmp_path, mapping.format("Stabilized")).system
    assert both(tmp_path, mapping.format("Stabilized"), solver="exact").system


def test_positions_of_engines(tmp_path):
    body = """<TransformEngine name="t" input_position="1 0 0  0 2 0" scale="2 2 2" rotation="0 0 90" translation="0 0 5"/>
      <PointsFromIndices name="some" position="@t.output_position" indices="1"/>
      <MechanicalObject name="p" position="@t.output_position"/><UniformMass/>
      <Node name="fixed"><MechanicalObject name="q" position="@../some.indices_position"/></Node>"""
    scene = load(tmp_path, body)
    np.testing.assert_allclose(scene.state.position["p"], [[0, 2, 5], [-4, 0, 5]], atol=1e-14)
    np.testing.assert_allclose(scene.state.position["fixed/q"], [[-4, 0, 5]], atol=1e-14)
    turned = load(tmp_path, body.replace("/>", ' quaternion="0 0 1 0"/>', 1)).report.of("refused")
    assert turned and "quaternion" in turned[0].remark


def test_a_state_that_says_nothing_is_one_node(tmp_path):
    """As SOFA has it; rotations are about x, then y, then z, of the place and of the frame."""
    body = '<MechanicalObject name="p" template="Rigid3" dx="2" rz="90"/><UniformMass/>'
    np.testing.assert_allclose(load(tmp_path, body).state.position["p"], [[2, 0, 0, 0, 0, 0.5**0.5, 0.5**0.5]], atol=1e-15)
    body = '<MechanicalObject name="p" template="Rigid3" position="1 0 0 1 0 0 0" rotation="0 0 90"/><UniformMass/>'
    turned = np.asarray(load(tmp_path, body).state.position["p"])[0]
    np.testing.assert_allclose(turned[:3], [0, 1, 0], atol=1e-15)  # about z, of a frame that is turned by pi about x
    np.testing.assert_allclose(turned[3:] * np.sign(turned[3]), [0.5**0.5, 0.5**0.5, 0, 0], atol=1e-15)
    announced = load(tmp_path, '<MechanicalObject name="p" size="3"/><UniformMass/>').report.of("refused")
    assert "has no position" in announced[0].remark


@pytest.mark.parametrize("kind", ["Distance", "Area", "SquareDistance"])
def test_a_mapping_to_a_state_of_another_template(tmp_path, kind):
    """As where nobody says the template, which is then that of points."""
    body = f"""<MeshTopology position="0 0 0  1 0 0  0 1 0" triangles="0 1 2" edges="0 1"/>
      <MechanicalObject name="p"/><UniformMass/><Node name="n"><MechanicalObject name="q"/><{kind}Mapping/></Node>"""
    (row, *_) = load(tmp_path, body).report.of("refused")
    assert "gives 1 numbers for each node: the template of @/n/q is Vec3" in row.remark
