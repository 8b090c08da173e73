"""Mappings of several states, and engines that make positions, in scenes of SOFA."""

import dataclasses

import jax.numpy as jnp
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


@pytest.mark.slow
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


CARRIED = """<Node name="root" dt="0.01" gravity="0 -1 0"><EulerImplicitSolver/><SparseLDLSolver/>
  <{kind} name="t" position="0 0 0  1 0 0  0 2 0  0 0 1  1 1 1" tetrahedra="0 1 2 3  1 2 3 4"/>
  <MechanicalObject name="p"/><UniformMass totalMass="1"/>
  <TetrahedronFEMForceField name="fem" youngModulus="1e3" poissonRatio="0.3"/><FixedProjectiveConstraint indices="0 1 2"/>
  <Node name="beam"><MechanicalObject template="Rigid3" name="f" position="0.2 0.3 0.1 0 0 0.6 0.8  0.6 0.6 0.6 0 0 0 1"/>
    <MeshTopology edges="0 1"/><UniformMass totalMass="1"/><BeamFEMForceField radius="0.05" youngModulus="1e4"/>
    <BarycentricMapping isMechanical="true" input="@../p" output="@f"/></Node></Node>"""


@pytest.mark.slow
def test_frames_that_tetrahedra_carry(tmp_path):
    """They turn with their cell, and by the orthogonal factor of what its stretch makes of their axes."""
    path = tmp_path / "scene.scn"
    path.write_text(CARRIED.format(kind="TetrahedronSetTopologyContainer"))
    with pytest.raises(jm.sofa.SceneError, match="not the derivative of their turns"):
        _ = jm.sofa.load(path).parts
    scene = jm.sofa.load(path, solver="exact")
    x = np.array(scene.state.position["p"])
    at = lambda y: np.array(jm.kinematics(scene.system, scene.system.at_rest({"p": y}))["beam/f"])  # noqa: E731
    start = at(x)
    np.testing.assert_allclose(start[:, :3], [[0.2, 0.3, 0.1], [0.6, 0.6, 0.6]], atol=1e-14)
    turn = Rotation.from_rotvec([0.4, 2.5, -0.7])
    moved = at(turn.apply(x) + [1, 2, 3])
    np.testing.assert_allclose(moved[:, :3], turn.apply(start[:, :3]) + [1, 2, 3], atol=1e-13)
    apart = (turn * Rotation.from_quat(start[:, 3:])).inv() * Rotation.from_quat(moved[:, 3:])
    np.testing.assert_allclose(apart.magnitude(), 0, atol=1e-7)
    F = np.array([[1.2, 0.3, 0.0], [-0.1, 0.9, 0.2], [0.0, 0.1, 1.1]])
    E = (x[1:4] - x[0]).T
    axes = np.linalg.inv(E) @ Rotation.from_quat([0, 0, 0.6, 0.8]).as_matrix()
    u, _, vh = np.linalg.svd(F @ E @ (axes / np.linalg.norm(axes, axis=0)))
    found = Rotation.from_quat(at(x @ F.T)[0, 3:]).as_matrix()
    np.testing.assert_allclose(found, u @ vh, atol=1e-12)
    v = np.sin(np.arange(15.0)).reshape(5, 3)
    state = dataclasses.replace(scene.state, velocity={"p": jnp.asarray(v)})
    rate = np.asarray(jm.mapping.velocities(scene.system, state)["beam/f"])
    ahead, behind = at(x + 1e-5 * v), at(x - 1e-5 * v)
    np.testing.assert_allclose(rate[:, :3], (ahead - behind)[:, :3] / 2e-5, atol=1e-8)
    spin = Rotation.from_quat(ahead[:, 3:]) * Rotation.from_quat(behind[:, 3:]).inv()
    np.testing.assert_allclose(rate[:, 3:], spin.as_rotvec() / 2e-5, atol=1e-8)
    path.write_text(CARRIED.format(kind="MeshTopology"))
    with pytest.raises(jm.sofa.SceneError, match="from a TetrahedronSetTopologyContainer alone"):
        _ = jm.sofa.load(path, solver="exact").parts


@pytest.mark.slow
def test_a_beam_within_tetrahedra_moves(tmp_path):
    """Steps converge with the true tangent of frames that turn with their cells, and the free corners fall."""
    path = tmp_path / "scene.scn"
    path.write_text(CARRIED.format(kind="TetrahedronSetTopologyContainer"))
    scene = jm.sofa.load(path, solver="exact")
    run = jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=3)
    moved = np.asarray(run.last.position["p"] - scene.state.position["p"])
    np.testing.assert_allclose(moved[:3], 0, atol=1e-15)
    assert (moved[3:, 1] < 0).all()
