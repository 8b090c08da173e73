"""Further components and data of SOFA's scenes, against numbers worked out by hand."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm

EULER = "<EulerImplicitSolver/><SparseLDLSolver/>"
FRAMES = '<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  1 0 0 0 0 0 1"/><UniformMass/>'


def load(tmp_path, body, scheme=EULER, **options):
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.1" gravity="0 0 0"><DefaultAnimationLoop/>{scheme}{body}</Node>')
    scene = jm.sofa.load(path, **options)
    _ = scene.parts  # raises the first refusal
    return scene


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
    body = '<MeshTopology position="0 0 0 1 0 0" edges="0 1"/><Node name="n">{}<MechanicalObject name="p"/><UniformMass/></Node>'
    assert len(load(tmp_path, body.format(EULER), scheme="").state.position["n/p"]) == 1
    own = EULER + '<MeshTopology position="0 0 0 1 0 0 2 0 0"/>'
    assert len(load(tmp_path, body.format(own), scheme="").state.position["n/p"]) == 3
