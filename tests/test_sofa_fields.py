"""Springs, shapes that push back and other force fields of SOFA, against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._sofa.numerics.penalties import SofaCone, SofaEllipsoid, SofaPlane, SofaSphere

EULER = "<EulerImplicitSolver/><SparseLDLSolver/>"


def load(tmp_path, body, **options):
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.05" gravity="0 0 0"><DefaultAnimationLoop/>{EULER}{body}</Node>')
    return jm.sofa.load(path, **options)


def on_one_node(tmp_path, field, position, velocity="1 2 3", **options):
    """The force on a node, and its stiffness."""
    body = f'<MechanicalObject name="p" position="{position}" velocity="{velocity}"/><UniformMass/>{field}'
    scene = load(tmp_path, body, **options)
    force = jm.total_force(scene.system, scene.state)["p"][0]
    stiffness = jm.matrix.component_matrix(scene.system, scene.state, "f", "stiffness")["p", "p"].to_dense((1, 1))
    return np.asarray(force), np.asarray(stiffness)


def test_a_plane_of_a_normal_that_is_not_of_unit_length(tmp_path):
    """d = 2 * 0.2 - 1 = -0.6: f = -k d n + c d v, stiffness k n n^T."""
    field = '<PlaneForceField name="f" normal="0 2 0" d="1" stiffness="10" damping="3" maxForce="{}"/>'
    force, K = on_one_node(tmp_path, field.format(0), "1 0.2 0.3")
    by_hand = -0.6 * (3 * np.array([1.0, 2, 3]) - 10 * np.array([0.0, 2, 0]))
    np.testing.assert_allclose(force, by_hand, rtol=ROUND_OFF)
    np.testing.assert_allclose(K, np.diag([0.0, 40, 0]))
    weak, _ = on_one_node(tmp_path, field.format(2), "1 0.2 0.3")
    np.testing.assert_allclose(weak, 2 * by_hand / np.linalg.norm(by_hand), rtol=ROUND_OFF)
    off, K = on_one_node(tmp_path, field.format(0), "1 0.6 0.3")
    assert not off.any() and not K.any()


def test_a_sphere(tmp_path):
    """d = 1 - 2: f = 10 n - 3 v, stiffness 10 (2 n n^T - I)."""
    field = '<SphereForceField name="f" center="1 0 0" radius="2" stiffness="10" damping="3"/>'
    force, K = on_one_node(tmp_path, field, "2 0 0")
    np.testing.assert_allclose(force, [10 - 3, -6, -9], rtol=ROUND_OFF)
    np.testing.assert_allclose(K, np.diag([10.0, -10, -10]), atol=1e-13)
    outside, _ = on_one_node(tmp_path, field, "4 0 0")
    assert not outside.any()
    held, _ = on_one_node(tmp_path, field.replace("/>", ' bilateral="1"/>'), "4 0 0", "0 0 0")
    np.testing.assert_allclose(held, [-10, 0, 0], rtol=ROUND_OFF)


def test_a_cone(tmp_path):
    """Half an angle of 30 degrees about z: beside it, the next point of the side is at a right angle."""
    field = '<ConicalForceField name="f" coneCenter="0 0 0" coneHeight="0 0 4" coneAngle="30" stiffness="10" damping="0"/>'
    beside, K = on_one_node(tmp_path, field, "2 0 2")
    depth = np.sqrt(8) * np.sin(np.deg2rad(15))
    m = np.array([-np.cos(np.deg2rad(30)), 0, np.sin(np.deg2rad(30))])
    np.testing.assert_allclose(beside, 10 * depth * m, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(K, 10 * np.outer(m, m), atol=1e-12)
    beyond, _ = on_one_node(tmp_path, field, "0 0 6")
    np.testing.assert_allclose(beyond, [0, 0, -20], atol=1e-12)
    behind, _ = on_one_node(tmp_path, field, "0 0 -1")
    np.testing.assert_allclose(behind, [0, 0, 10], atol=1e-12)
    within, _ = on_one_node(tmp_path, field, "0.1 0 2")
    assert not within.any()


def test_an_ellipsoid_has_no_symmetric_matrix(tmp_path):
    """d = 1/2 - 1 on its axis: f = 5 n - 1/2 c v."""
    field = '<EllipsoidForceField name="f" center="0 0 0" vradius="2 3 4" stiffness="10" damping="3"/>'
    force, _ = on_one_node(tmp_path, field, "1 0 0", solver="exact")
    np.testing.assert_allclose(force, [5 - 1.5, -3, -4.5], rtol=ROUND_OFF)
    with pytest.raises(jm.sofa.SceneError, match="not symmetric"):
        on_one_node(tmp_path, field, "1 0 0")


PENALTIES = ["Plane", "Sphere", "Conical"]


@pytest.mark.parametrize("kind", PENALTIES)
def test_the_exact_tangent_of_a_penalty_is_the_derivative(tmp_path, kind):
    options = {"Plane": 'normal="0 1 0" d="1"', "Sphere": 'radius="3"', "Conical": 'coneHeight="0 0 4" coneAngle="30"'}[kind]
    field = f'<{kind}ForceField name="f" {options} stiffness="10" damping="3"/>'
    _, K = on_one_node(tmp_path, field, "2 0.1 1.5", solver="exact")
    e, columns = 1e-6, []
    for i in range(3):
        ahead, behind = ([2.0, 0.1, 1.5] + s * e * np.eye(3)[i] for s in (1, -1))
        ends = [on_one_node(tmp_path, field, " ".join(map(repr, p.tolist())))[0] for p in (ahead, behind)]
        columns.append((ends[1] - ends[0]) / (2 * e))
    np.testing.assert_allclose(K, np.stack(columns, axis=1), atol=1e-7)


def of_points(kind, **numbers):
    return kind(("p", [0]), damping=0.0, stiffness=numbers.pop("stiffness", 7.0), **numbers)


@pytest.mark.parametrize(
    "field",
    [
        of_points(SofaPlane, normal=[0.6, 0.0, 1.6], offset=0.2),
        of_points(SofaSphere, center=[0.1, 0.2, 0.3], radius=1.5, bilateral=True),
        of_points(SofaEllipsoid, center=[0.0, 0.1, 0.0], radii=[0.5, 1.0, 2.0]),
        of_points(SofaEllipsoid, center=[0.0, 0.1, 0.0], radii=[0.5, 1.0, 2.0], stiffness=-7.0),
        of_points(SofaCone, top=[0.0, 0.0, 1.0], height=[0.0, 0.0, -1.0], angle=0.5),
    ],
    ids=["plane", "sphere", "ellipsoid", "around_an_ellipsoid", "cone"],
)
def test_no_place_is_stiffer_than_what_explicit_steps_are_limited_by(field):
    """Eigenvalues of `-df/dx` at places near and far, on the axes too: none above the closed form's, some close to it."""
    far = np.random.default_rng(3).normal(size=(300, 3)) * np.geomspace(0.05, 500.0, 300)[:, None]
    places = np.concatenate([far, far * [1e-3, 1e-3, 1.0]])

    @jax.jit
    def stiffness(x):
        K = -jax.vmap(jax.jacfwd(lambda x: field.element_force((x,), (jnp.zeros(3),))[0]))(x)
        return K, jax.hessian(field.stiffest().element_energy)(jnp.zeros(3))

    each, most = stiffness(places)
    found, limit = np.linalg.eigvals(each).real.max(), np.linalg.eigvalsh(most).max()
    assert 0.9 * limit < found < limit * (1 + 1e-9), (found, limit)


def test_a_node_above_a_sphere_of_sofa_limits_explicit_steps():
    ball = of_points(SofaSphere, center=[0.0, 0.0, 0.0], radius=1.0)
    system = jm.System({"p": jm.Vec3()}, forces={"ball": ball}, masses={"m": jm.mass.UniformMass(("p", [0]), 2.0)})
    limit = jm.integrator.critical_time_step(system, system.at_rest({"p": [[0.0, 0.0, 3.0]]}))
    np.testing.assert_allclose(limit, 2 / np.sqrt(7.0 / 2.0), rtol=1e-9)


@pytest.mark.parametrize(
    ("field", "damping"),
    [
        (SofaPlane(("p", [0]), [0.0, 0.0, 2.0], 0.2, 7.0, 30.0), 30.0 * 1.2),
        (SofaSphere(("p", [0]), [0.0, 0.0, 0.1], 1.5, 7.0, 30.0), 30.0 * 0.9),
        (SofaEllipsoid(("p", [0]), [0.0, 0.0, 0.0], [2.0, 2.0, 1.0], 7.0, 30.0), 30.0 * 0.5),
        (SofaCone(("p", [0]), [0.0, 0.0, 1.0], [0.0, 0.0, -1.0], 0.5, 7.0, 30.0), 30.0 * 0.5),
        (SofaCone(("p", [0]), [0.0, 0.0, -1.0], [0.0, 0.0, 3.0], 0.5, 7.0, 30.0), 0.0),
        (SofaCone(("p", [0]), [1.0, 0.0, -1.0], [0.0, 0.0, 3.0], 0.5, 7.0, 30.0), 30.0),
    ],
    ids=["plane", "sphere", "ellipsoid", "below_a_cone", "in_a_cone", "beside_a_cone"],
)
def test_explicit_steps_know_what_damps_where_a_node_is(field, damping):
    """`h^2/4 K + h C < M`; it was left out, and what a plane held was thrown away."""
    mass = {"m": jm.mass.UniformMass(("p", [0]), 2.0)}
    system = jm.System({"p": jm.Vec3()}, forces={"field": field}, masses=mass)
    state = system.at_rest({"p": [[0.0, 0.0, -0.5]]})
    h = jm.integrator.critical_time_step(system, state)
    K = jax.hessian(field.stiffest().element_energy)(jnp.zeros(3))
    np.testing.assert_allclose(h**2 / 4 * np.linalg.eigvalsh(K).max() + h * damping, 2.0, rtol=1e-6)


def test_springs_of_a_regular_grid(tmp_path):
    """3 x 2 x 2 nodes: 20 lines, 22 diagonals of squares, 8 of cubes, of `stiffness / length`."""
    body = """<RegularGridTopology n="3 2 2" min="0 0 0" max="4 1 1"/><MechanicalObject name="p"/><UniformMass/>
      <RegularGridSpringForceField name="g" linesStiffness="8" quadsStiffness="6" cubesStiffness="5"/>"""
    scene = load(tmp_path, body)
    springs = scene.system.forces["g"]
    stiffness, length = np.asarray(springs.stiffness), np.asarray(springs.rest_length)
    assert {k: int(np.sum(stiffness == k)) for k in (8, 6, 5)} == {8: 20, 6: 22, 5: 8}
    ends = np.asarray(scene.state.position["p"])[[np.asarray(s.nodes) for s in springs.on]]
    np.testing.assert_allclose(np.linalg.norm(ends[1] - ends[0], axis=-1), length)
    assert not np.abs(jm.total_force(scene.system, scene.state)["p"]).max() > 1e-12
    line = load(tmp_path, body.replace("3 2 2", "2 1 1").replace("4 1 1", "2 0 0"))
    stretched = line.system.at_rest({"p": jnp.array([[0.0, 0, 0], [3.0, 0, 0]])})
    np.testing.assert_allclose(jm.total_force(line.system, stretched)["p"][0], [8 / 2 * 1.0, 0, 0], rtol=ROUND_OFF)


def test_a_rope_does_not_push(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  {} 0 0"/><UniformMass/>
      <SpringForceField name="s" spring="0 1 10 0 1" elongationOnly="1"/>"""
    for end, pull in ((1.5, 5.0), (0.5, 0.0)):
        scene = load(tmp_path, body.format(end))
        np.testing.assert_allclose(jm.total_force(scene.system, scene.state)["p"][0], [pull, 0, 0])
    mesh = '<MechanicalObject name="p" position="0 0 0  2 0 0"/><UniformMass/><MeshTopology edges="0 1"/>'
    scene = load(tmp_path, mesh + '<MeshSpringForceField name="s" linesStiffness="10" noCompression="1"/>')
    for end, pull in ((2.5, 2.5), (1.5, 0.0)):
        state = scene.system.at_rest({"p": jnp.array([[0.0, 0, 0], [end, 0, 0]])})
        np.testing.assert_allclose(jm.total_force(scene.system, state)["p"][0], [pull, 0, 0])


def test_old_names_of_tetrahedra(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  0 1 0  0 0 1"/><UniformMass/>
      <MeshTopology tetrahedra="0 1 2 3"/><MeshSpringForceField name="s" tetrasStiffness="7" tetrasDamping="0"/>"""
    scene = load(tmp_path, body)
    assert len(scene.system.forces["s"].on[0].nodes) == 6 and scene.where("@/s.tetrasStiffness")(scene.system) == 7


def test_bending_springs_of_triangles(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0  0 1 0  1 1 0.5"/><UniformMass/>
      <MeshTopology triangles="0 1 2  1 3 2"/><TriangleBendingSprings name="s"/>"""
    springs = load(tmp_path, body).system.forces["s"]
    assert [s.nodes.tolist() for s in springs.on] == [[0], [3]]
    assert (float(springs.stiffness), float(springs.damping), float(springs.rest_length[0])) == (100.0, 5.0, 1.5)


def test_two_kinds_of_damping_are_refused(tmp_path):
    body = """<MechanicalObject name="p" position="0 0 0  1 0 0"/><UniformMass/><SpringForceField spring="0 1 10 2 1"/>
      <UniformVelocityDampingForceField implicit="{}"/>"""
    assert load(tmp_path, body.format(0)).system
    with pytest.raises(jm.sofa.SceneError, match="damping that is in the matrix"):
        _ = load(tmp_path, body.format(1)).system
    assert load(tmp_path, body.format(1), solver="exact").system


def test_what_moves_nothing_is_ignored(tmp_path):
    body = """<FreeMotionAnimationLoop/><GenericConstraintSolver/><GenericConstraintCorrection/><VonMisesStress/>
      <MechanicalObject name="p" position="0 0 0"/><UniformMass/>"""
    assert not load(tmp_path, body).report.of("refused")
    refused = load(tmp_path, body + '<StopperLagrangianConstraint name="b"/>').report.of("refused")
    assert [row.component.split("(")[1] for row in refused] == ["StopperLagrangianConstraint)"]
