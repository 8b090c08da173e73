"""What scenes of SOFA leave unsaid, or empty: lists of no nodes, weights, links to nothing."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from test_sofa_further import force, stiffness
from test_sofa_joints_and_pressures import load
from tolerances import ROUND_OFF

import jaxmech as jm

FOUR = """<RegularGridTopology name="g" n="2 2 1" min="0 0 0" max="2 1 0"/><MechanicalObject name="p"/><UniformMass/>
  <BoxROI name="none" box="8 8 8  9 9 9"/>"""


@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_a_box_that_holds_no_node(tmp_path, solver):
    """Constraints hold none, and loads on cells have none; a force without nodes acts on all of them, as in SOFA."""
    body = """<FixedProjectiveConstraint indices="@none.indices"/>
      <PartialFixedProjectiveConstraint indices="@none.indices" fixedDirections="1 0 0"/>
      <QuadPressureForceField quadList="@none.quadIndices" pressure="5 0 0"/>
      <TrianglePressureForceField triangleList="@none.triangleIndices" pressure="5 0 0"/>
      <ConstantForceField indices="@none.indices" totalForce="0 8 0"/>"""
    scene = load(tmp_path, FOUR + body, solver=solver)
    np.testing.assert_allclose(force(scene, scene.state), np.tile([0, 2.0, 0], (4, 1)), rtol=ROUND_OFF)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=1).last
    np.testing.assert_allclose(end.velocity["p"], np.tile([0, 2.0 / 0.25 * 0.1, 0], (4, 1)), rtol=1e-9)


def test_cells_between_two_planes_are_pressed_on(tmp_path):
    """Of three rectangles of 2 by 1, or their halves, those between y = 0.9 and y = 2.1, and those of a list."""
    sheet = """<RegularGridTopology name="g" n="2 4 1" min="0 0 0" max="2 3 0"/><MechanicalObject name="p"/><UniformMass/>"""
    for kind, listed in (("Quad", 0), ("Triangle", "0 1")):
        press = f'<{kind}PressureForceField pressure="0 0 3" normal="0 2 0" dmin="1.8" dmax="4.2" {{}}/>'
        for data, expected in (("", [0, 3, 3, 0]), (f'{kind.lower()}List="{listed}"', [3, 6, 3, 0])):
            scene = load(tmp_path, sheet + press.format(data))
            rows = force(scene, scene.state)[:, 2].reshape(4, 2).sum(axis=1)
            np.testing.assert_allclose(rows, expected, rtol=ROUND_OFF, atol=1e-14)


SKIN = """<MechanicalObject template="Rigid3" name="p" position="0 0 0 0 0 0 1  2 0 0 0 0 0 1  0 0 9 0 0 0 1"/><UniformMass/>
  <Node name="skin"><MechanicalObject name="m" position="0.5 0 0  0 1 0"/><SkinningMapping {}/></Node>"""


def test_points_of_a_skin_follow_the_nearest_frames(tmp_path):
    """Weights of the inverse square of the distance, of two frames, or of all where four are more than there are."""
    for said, nearest in (('nbRef="2"', 2), ("", 3)):
        scene = load(tmp_path, SKIN.format(said))
        frames, points = np.array([[0, 0, 0], [2, 0, 0], [0, 0, 9.0]]), np.array([[0.5, 0, 0], [0, 1, 0]])
        squares = np.sum((points[:, None] - frames) ** 2, axis=2)
        weights = np.where(np.arange(3) < nearest, 1 / squares, 0)  # here the nearest are the first
        weights /= weights.sum(axis=1, keepdims=True)
        turn, shift = Rotation.from_rotvec([0, 0, 0.7]), np.array([0.1, 0.2, 0.3])
        x = np.array(scene.state.position["p"])
        x[1] = [*(frames[1] + shift), *turn.as_quat()]
        moved = dataclasses.replace(scene.state, position={"p": jnp.asarray(x)})
        carried = frames[1] + shift + turn.apply(points - frames[1])
        expected = weights[:, 1:2] * carried + (1 - weights[:, 1:2]) * points
        np.testing.assert_allclose(jm.kinematics(scene.system, moved)["skin/m"], expected, rtol=1e-12, atol=1e-12)
    with pytest.raises(jm.sofa.SceneError, match="nbRef is 0"):
        load(tmp_path, SKIN.format('nbRef="0"'))
    with pytest.raises(jm.sofa.SceneError, match="as many of each"):
        load(tmp_path, SKIN.format('indices="0 1"'))


def constant_strain(x, u, young, poisson, thickness):
    """`-K u` of one triangle in plane stress, and `K`, from the textbook's matrix of its strains."""
    (x1, y1), (x2, y2), (x3, y3) = x
    b, c = np.array([y2 - y3, y3 - y1, y1 - y2]), np.array([x3 - x2, x1 - x3, x2 - x1])
    size = (x2 - x1) * (y3 - y1) - (x3 - x1) * (y2 - y1)
    B = np.zeros((3, 6))
    B[0, ::2], B[1, 1::2], B[2, ::2], B[2, 1::2] = b, c, c, b
    B /= size
    D = young / (1 - poisson**2) * np.array([[1, poisson, 0], [poisson, 1, 0], [0, 0, (1 - poisson) / 2]])
    K = abs(size) / 2 * thickness * B.T @ D @ B
    return -(K @ u.ravel()).reshape(3, 2), K


@pytest.mark.parametrize("cells", ["0 1 2", "0 2 1"])
@pytest.mark.parametrize("solver", ["sofa", "exact"])
@pytest.mark.parametrize(("kind", "thickness"), [("TriangularFEMForceField", 1.0), ("TriangleFEMForceField", 0.5)])
def test_triangles_of_the_method_small(tmp_path, kind, thickness, solver, cells):
    """Linear elasticity in the plane of x and y; nothing resists across it. Whichever way the triangle goes round."""
    body = f"""<MeshTopology position="0 0 0  2 0.5 0  0.3 1 0" triangles="{cells}"/>
      <MechanicalObject name="p"/><UniformMass/>
      <{kind} name="f" method="small" youngModulus="30" poissonRatio="0.3" {'thickness="0.5"' if thickness < 1 else ""}/>"""
    scene = load(tmp_path, body, solver=solver)
    x = np.array([[0, 0, 0], [2, 0.5, 0], [0.3, 1, 0.0]])
    u = np.array([[0.1, 0, 3], [0.2, -0.4, 1], [0, 0.6, -2]])
    moved = dataclasses.replace(scene.state, position={"p": jnp.asarray(x + u)})
    expected, K = constant_strain(x[:, :2], u[:, :2], 30, 0.3, thickness)
    np.testing.assert_allclose(force(scene, moved), np.pad(expected, ((0, 0), (0, 1))), rtol=1e-12, atol=1e-12)
    flat = [0, 1, 3, 4, 6, 7]
    np.testing.assert_allclose(stiffness(scene, moved, "f")[np.ix_(flat, flat)], K, rtol=1e-12, atol=1e-12)
    with pytest.raises(jm.sofa.SceneError, match="stands across"):
        load(tmp_path, body.replace("0.3 1 0", "0.3 0.075 1"), solver=solver)


def test_a_transform_that_is_undone(tmp_path):
    body = """<TransformEngine name="there" input_position="1 2 3  4 -1 0" {0}/><TransformEngine name="back" {0} inverse="1"
      input_position="@there.output_position"/><MechanicalObject name="p" position="@back.output_position"/><UniformMass/>"""
    place = 'scale="2 3 0.5" rotation="10 20 -70" translation="5 6 7"'
    scene = load(tmp_path, body.format(place))
    np.testing.assert_allclose(scene.state.position["p"], [[1, 2, 3], [4, -1, 0]], rtol=1e-12, atol=1e-12)
    with pytest.raises(jm.sofa.SceneError, match="no inverse"):
        load(tmp_path, body.format(place.replace("0.5", "0")))


def test_a_link_to_nothing_is_none(tmp_path):
    scheme = '<EulerImplicitSolver/><PCGLinearSolver preconditioner="" iterations="3"/>'
    scene = load(tmp_path, FOUR + '<ConstantForceField forces="0 4 0"/>', scheme=scheme)
    end = jm.simulate(scene.system, scene.state, scene.integrator, 0.1, steps=1).last
    np.testing.assert_allclose(end.velocity["p"][:, 1], 1.6, rtol=1e-9)


@pytest.mark.parametrize("solver", ["sofa", "exact"])
def test_nodes_that_are_not_active(tmp_path, solver):
    """Nothing of them moves, or acts on what does; what is in them is not asked what it is."""
    push = '<ConstantForceField totalForce="0 6 0"/><UnheardOf/>'
    body = f"""<MechanicalObject name="p" position="0 0 0"/><UniformMass totalMass="2"/>
      <Node name="a" activated="0">{push}</Node><Node name="b" sleeping="true">{push}<Node name="c">{push}</Node></Node>
      <Node name="d" activated="true"><ConstantForceField totalForce="4 0 0"/></Node>"""
    scene = load(tmp_path, body, solver=solver)
    np.testing.assert_allclose(force(scene, scene.state), [[4, 0, 0]], rtol=ROUND_OFF)
    assert [row.component for row in scene.report.of("ignored") if "not active" in row.remark] == ["@/a", "@/b"]
    with pytest.raises(jm.sofa.SceneError, match="activated is 'never'"):
        load(tmp_path, body.replace('activated="0"', 'activated="never"'))


FLAT = '<MechanicalObject template="{}" name="p" position="{}"/><UniformMass totalMass="2"/>'


@pytest.mark.slow
def test_gravity_in_fewer_dimensions(tmp_path):
    """Masses fall by the first components of gravity, as many as their states have; not by two kinds of it at once."""
    path = tmp_path / "scene.scn"

    def end(gravity, body):
        path.write_text(f'<Node name="r" dt="0.1" gravity="{gravity}"><RungeKutta4Solver/>{body}</Node>')
        scene = jm.sofa.load(path)
        return jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=1).last.velocity

    for template, position in (("Vec2d", "0 0"), ("Rigid2d", "0 0 0")):
        v = end("3 -8 5", FLAT.format(template, position))["p"]
        np.testing.assert_allclose(v[0, :2], [0.3, -0.8], rtol=1e-12)
    np.testing.assert_allclose(end("3 -8 5", FLAT.format("Vec1d", "0"))["p"], [[0.3]], rtol=1e-12)
    both = f'<Node name="a">{FLAT.format("Vec1", "0")}</Node><Node name="b">{FLAT.format("Vec3", "0 0 0")}</Node>'
    v = end("0 -8 5", both)
    np.testing.assert_allclose(v["b/p"], [[0, -0.8, 0.5]], rtol=1e-12)
    assert not np.any(v["a/p"])
    with pytest.raises(jm.sofa.SceneError, match=r"\[1, 3\] dimensions"):
        end("1 0 0", both)


def test_a_loop_of_several_steps(tmp_path):
    """One step in one is the usual loop; more are refused by name."""
    body = '<MultiStepAnimationLoop collisionSteps="1" {}/>' + FLAT.format("Vec3", "0 0 0")
    assert load(tmp_path, body.format('integrationSteps="1"')).system
    with pytest.raises(jm.sofa.SceneError, match="integrationSteps='3' is not translated"):
        load(tmp_path, body.format('integrationSteps="3"'))
