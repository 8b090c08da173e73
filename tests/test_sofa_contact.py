"""Contact and constraints with multipliers in scenes of SOFA: what they become, and numbers worked out by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import jaxmech as jm
from jaxmech._sofa.command_line import main

LOOP = """<FreeMotionAnimationLoop/><GenericConstraintSolver tolerance="1e-6" maxIterations="1000"/>"""
PIPELINE = """<CollisionPipeline/><BruteForceBroadPhase/><BVHNarrowPhase/>
  <LocalMinDistance alarmDistance="0.5" contactDistance="0.05"/>
  <CollisionResponse response="{}" responseParams="mu=0.1&amp;tol=1"/>"""
FRICTION = PIPELINE.format("FrictionContactConstraint")
FLOOR = """<Node name="floor"><MeshTopology position="-9 0 -9  9 0 -9  9 {} 9  -9 0 9" triangles="0 1 2  0 2 3"/>
  <MechanicalObject name="q"/><TriangleCollisionModel simulated="0" moving="0"/></Node>"""
SCHEME = "<EulerImplicitSolver {}/><SparseLDLSolver/>"


def ball(name, place, more="", scheme=""):
    return f"""<Node name="{name}">{SCHEME.format(scheme)}<MechanicalObject name="p" position="{place}" velocity="1 0 0"/>
      <UniformMass totalMass="2"/><SphereCollisionModel radius="0.25"/><UncoupledConstraintCorrection/>{more}</Node>"""


def load(tmp_path, body, **options):
    path = tmp_path / "scene.scn"
    path.write_text(f'<Node name="root" dt="0.01" gravity="0 -10 0">{body}</Node>')
    scene = jm.sofa.load(path, **options)
    _ = scene.parts  # raises the first refusal
    return scene


def end(scene, steps):
    return jm.simulate(scene.system, scene.state, scene.integrator, scene.dt, steps=steps, save_every=steps).last


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["sofa", pytest.param("exact", marks=pytest.mark.slow)])
def test_a_ball_falls_on_a_floor_and_slides(tmp_path, solver):
    """The floor has taken m g T of vertical momentum, and mu times that along: v = 1 - 0.1 g T."""
    scene = load(tmp_path, LOOP + FRICTION + FLOOR.format(0) + ball("ball", "0 0.5 0"), solver=solver)
    last = end(scene, 30)
    np.testing.assert_allclose(last.position["ball/p"][0, 1], 0.3, atol=1e-9)  # its radius and contactDistance
    np.testing.assert_allclose(last.velocity["ball/p"], [[1 - 0.1 * 10 * 0.3, 0, 0]], atol=1e-8)
    report = str(scene.report)
    assert "solved together" in report and "equal      @/ball/EulerImplicitSolver1" not in report


@pytest.mark.slow  # by differences
def test_the_gradient_through_a_contact(tmp_path):
    drag = '<UniformVelocityDampingForceField name="drag" dampingCoefficient="0.5" implicit="1"/>'
    scene = load(tmp_path, LOOP + FRICTION + FLOOR.format(0) + ball("ball", "0 0.3002 0", drag))
    leaf = scene.where("@/ball/drag.dampingCoefficient")

    @jax.jit  # one program for all three
    @jax.value_and_grad
    def x(c):
        system = eqx.tree_at(leaf, scene.system, c)
        return jm.simulate(system, scene.state, scene.integrator, 0.01, steps=4, save_every=4).last.position["ball/p"][0, 0]

    (above, _), (_, slope), (below, _) = (x(jnp.asarray(0.5 + d)) for d in (1e-4, 0.0, -1e-4))
    np.testing.assert_allclose(slope, (above - below) / 2e-4, rtol=1e-6)


def test_bodies_of_several_time_integrators_are_one_system(tmp_path):
    scene = load(tmp_path, LOOP + FRICTION + ball("a", "0 0 0") + ball("b", "1 0.1 0"))
    assert sorted(scene.system.dofs) == ["a/p", "b/p"]
    (contact,) = scene.integrator.contacts.values()
    x = {name: scene.state.position[name] for name in scene.system.dofs}
    np.testing.assert_allclose(contact.gaps(x), [np.hypot(1, 0.1) - 0.5 - 0.05])
    assert float(contact.friction) == 0.1 and not float(contact.compliance)
    assert len(jm.sofa.load(tmp_path / "scene.scn").parts) == 1
    with pytest.raises(jm.sofa.SceneError, match="linked to what"):
        load(tmp_path, LOOP + FRICTION + ball("a", "0 0 0") + ball("b", "1 0 0", scheme='vdamping="1"'))


def balls(name, place, radii, mass, velocity=""):
    return f"""<Node name="{name}">{SCHEME.format("")}<MechanicalObject name="p" position="{place}" velocity="{velocity}"/>
      <UniformMass vertexMass="{mass}"/><UncoupledConstraintCorrection/><SphereCollisionModel listRadius="{radii}"/>
      </Node>"""


def test_balls_of_different_radii_touch_at_the_sum_of_both(tmp_path):
    """Three of one body, two of another: each pair at both radii and contactDistance."""
    low, high = balls("low", "0 0 0  2 0 0  5 0 0", "0.2 0.5 0.2", 1), balls("high", "0 1 0  2 1 0", "0.1 0.4", 3)
    scene = load(tmp_path, LOOP + FRICTION + low + high)
    x = {name: scene.state.position[name] for name in scene.system.dofs}
    found = np.concatenate([np.asarray(contact.gaps(x)) for contact in scene.integrator.contacts.values()])
    apart = np.linalg.norm(x["low/p"][:, None] - x["high/p"], axis=2) - np.add.outer([0.2, 0.5, 0.2], [0.1, 0.4]) - 0.05
    np.testing.assert_allclose(np.sort(found), np.sort(apart.ravel()), rtol=1e-12)


@pytest.mark.slow
def test_balls_of_different_radii_hit_and_lie(tmp_path):
    """One hits another head on, and goes on with it; of two on balls on a floor each lies as high as its pillar."""
    hit = balls("a", "0 0 0  0 9 0", "0.2 0.3", 1, "2 0 0  0 0 0") + balls("b", "0.8 0 0  0 5 0", "0.5 0.1", 3)
    still = load(tmp_path, LOOP + FRICTION + hit).system
    scene = jm.sofa.load(tmp_path / "scene.scn")
    last = jm.simulate(
        eqx.tree_at(lambda s: s.gravity, still, jnp.zeros(3)), scene.state, scene.integrator, 0.01, steps=9
    ).last
    np.testing.assert_allclose([last.velocity[s][0, 0] for s in ("a/p", "b/p")], 0.5, rtol=1e-9)  # 1 * 2 / (1 + 3)
    np.testing.assert_allclose(last.position["b/p"][0, 0] - last.position["a/p"][0, 0], 0.2 + 0.5 + 0.05, rtol=1e-9)

    pillars = balls("a", "0 0.3 0  4 0.6 0", "0.2 0.5", 1) + balls("b", "0 0.7 0  4 1.6 0", "0.1 0.4", 3)
    last = end(load(tmp_path, LOOP + FRICTION + FLOOR.format(0) + pillars), 30)
    np.testing.assert_allclose(last.position["a/p"][:, 1], [0.25, 0.55], rtol=1e-9)
    np.testing.assert_allclose(last.position["b/p"][:, 1], [0.25 + 0.35, 0.55 + 0.95], rtol=1e-9)


def test_a_floor_that_is_not_flat_is_triangles_that_stand_still(tmp_path):
    scene = load(tmp_path, LOOP + FRICTION + FLOOR.format(1) + ball("ball", "2 1 -2"))
    (contact,) = scene.integrator.contacts.values()
    assert type(contact).__name__ == "SurfaceContact" and "floor/q" in scene.system.dofs
    assert not any(s.state == "floor/q" for mass in scene.system.masses.values() for s in mass.on)
    held = [c for c in scene.system.constraints.values() if c.on[0].state == "floor/q"]
    assert held[0].on[0].nodes.tolist() == [0, 1, 2, 3]


def test_balls_and_meshes_that_stand_still(tmp_path):
    post = """<Node name="post"><MechanicalObject position="0 -1 0  5 0 0"/>
      <SphereCollisionModel radius="0.5" simulated="0" moving="0"/></Node>"""
    scene = load(tmp_path, LOOP + FRICTION + post + ball("ball", "0 1 0"))
    x = {"ball/p": scene.state.position["ball/p"]}
    gaps = sorted(float(c.gaps(x)[0]) for c in scene.integrator.contacts.values())
    np.testing.assert_allclose(gaps, [2 - 0.8, np.sqrt(26) - 0.8])
    tilted = """<Node name="wall"><MeshTopology position="0 0 0  0 0 1  -1 1 0" triangles="0 1 2"/><MechanicalObject/>
      <TriangleCollisionModel/></Node>"""
    scene = load(tmp_path, LOOP + FRICTION + tilted + ball("ball", "1 1 0"))
    (contact,) = scene.integrator.contacts.values()  # a plane at 45 degrees, on the side of the ball
    np.testing.assert_allclose(contact.gaps({"ball/p": scene.state.position["ball/p"]}), [np.sqrt(2) - 0.3])


def test_a_deformable_surface_touches_with_its_points_and_triangles(tmp_path):
    sheet = f"""<Node name="sheet">{SCHEME.format("")}<MeshTopology position="-1 0 -1  1 0 -1  0 0 1" triangles="0 2 1"/>
      <MechanicalObject name="p"/><UniformMass/><TriangleCollisionModel proximity="0.01"/><PointCollisionModel/></Node>"""
    scene = load(tmp_path, LOOP + FRICTION + sheet + ball("ball", "0 1 0"))
    kinds = sorted(type(c).__name__ for c in scene.integrator.contacts.values())
    assert kinds == ["PointContact", "SurfaceContact"]  # its nodes against the ball, the ball against its triangle
    (skin,) = [c for c in scene.integrator.contacts.values() if type(c).__name__ == "SurfaceContact"]
    np.testing.assert_allclose(skin.gaps({s: scene.state.position[s] for s in scene.system.dofs}), [1 - 0.31])


def test_penalties_are_compliant_contacts(tmp_path):
    """SOFA's stiffness is the product of both by the distance: 10 x 10 / 0.05 N/m."""
    penalty = "<DefaultAnimationLoop/>" + PIPELINE.format("PenalityContactForceField")
    scene = load(tmp_path, penalty + FLOOR.format(0) + ball("ball", "0 1 0"))
    (contact,) = scene.integrator.contacts.values()
    np.testing.assert_allclose([contact.compliance, contact.friction], [0.05 / 100, 0])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (FRICTION + FLOOR.format(0) + ball("b", "0 1 0"), "FreeMotionAnimationLoop"),
        (LOOP + PIPELINE.format("StickContactConstraint") + FLOOR.format(0) + ball("b", "0 1 0"), "StickContact"),
        (LOOP + FRICTION + ball("b", "0 1 0", '<Node name="c"><CapsuleCollisionModel/></Node>'), "no collision model"),
        (LOOP + FRICTION + ball("b", "0 1 0", '<PointCollisionModel selfCollision="1"/>') + FLOOR.format(0), "itself"),
        (
            LOOP
            + FRICTION
            + FLOOR.format(0)
            + '<Node name="b"><RungeKutta4Solver/><MechanicalObject position="0 1 0"/><SphereCollisionModel/></Node>',
            "EulerImplicitSolver alone",
        ),
        (
            LOOP
            + FRICTION
            + ball("b", "0 1 0").replace("SphereCollisionModel radius", "PointCollisionModel proximity")
            + '<Node name="s"><MechanicalObject/><PointCollisionModel/></Node>',
            "points alone",
        ),
        (ball("b", "0 1 0", "<FixedLagrangianConstraint/>"), "FreeMotionAnimationLoop"),
        (LOOP + FRICTION.replace("mu=0.1", "mu=-1") + FLOOR.format(0) + ball("b", "0 1 0"), "friction must be"),
        (LOOP + FRICTION.replace("mu=0.1", "mu=nan") + FLOOR.format(0) + ball("b", "0 1 0"), "finite number"),
        (LOOP + FRICTION + FLOOR.format(0).replace("0 1 2  0 2 3", "0 0 0") + ball("b", "0 1 0"), "no area"),
        (
            LOOP
            + FRICTION
            + FLOOR.format(0).replace("-9 0 -9  9 0 -9  9 0 9  -9 0 9", "0 0 0  1 0 0  2 0 0  3 0 0")
            + ball("b", "0 1 0"),
            "no area",
        ),
        (LOOP + FRICTION + "".join(ball(f"b{i}", f"{i} 1 0") for i in range(22)), "more than 200 pairs"),
        (LOOP + ball("b", "0 1 0", '<BilateralLagrangianConstraint first_point="4"/>'), "nodes \\[4\\]"),
        (LOOP + ball("b", "0 1 0", "<BilateralLagrangianConstraint/>"), "with itself"),
    ],
)
def test_what_contact_refuses(tmp_path, body, reason):
    with pytest.raises(jm.sofa.SceneError, match=reason):
        load(tmp_path, body)


@pytest.mark.slow
def test_points_that_are_one(tmp_path):
    """A body hangs on one that is fixed, a metre beside it, and another on a point that nothing moves."""
    body = f"""{LOOP}{ball("a", "0 0 0", "<FixedProjectiveConstraint/>")}{ball("b", "1 0 0")}
      <BilateralLagrangianConstraint object1="@a/p" object2="@b/p" rest_vector="1 0 0"/>
      <Node name="hook"><MechanicalObject name="h" position="0 0 3"/></Node>{ball("c", "0 0 3")}
      <BilateralInteractionConstraint name="held" object1="@hook/h" object2="@c/p" first_point="0" second_point="0"/>"""
    scene = load(tmp_path, body)
    last = end(scene, 3)
    np.testing.assert_allclose(last.position["b/p"], [[1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(last.position["c/p"], [[0, 0, 3]], atol=1e-12)
    np.testing.assert_allclose(last.position["held"] / last.position["held"][0, 1], [[0, 1, 0]], atol=1e-12)


@pytest.mark.parametrize("keeps", [False, True])
def test_frames_that_are_one(tmp_path, keeps):
    """A frame that is held to another: violations are nil where it shall be, turned from it or not."""
    turn = Rotation.from_rotvec([0.3, 0.2, -0.1]).as_quat()
    start = " ".join(map(str, [1, 2, 3, *(turn if keeps else [0, 0, 0, 1])]))
    frames = (
        f'template="Rigid3" name="p" position="1 2 3 0 0 0 1"/><Node name="b"><MechanicalObject {{}} position="{start}"/>'
    )
    joint = f'<BilateralLagrangianConstraint name="j" {{}} keepOrientationDifference="{int(keeps)}"/>'
    two = f"""{LOOP}<Node name="a">{SCHEME.format("")}<MechanicalObject {frames.format('template="Rigid3" name="q"')}
      </Node></Node>{joint.format('object1="@a/p" object2="@a/b/q"')}"""
    scene = load(tmp_path, two)
    assert np.abs(jm.constraint.violations(scene.system, scene.state)["j"]).max() < 1e-12
    one = f"""{LOOP}<Node name="a"><MechanicalObject template="Rigid3" name="p" position="1 2 3 0 0 0 1"/></Node>
      <Node name="b">{SCHEME.format("")}<MechanicalObject template="Rigid3" name="q" position="{start}"/></Node>"""
    for ends in ('object1="@a/p" object2="@b/q"', 'object1="@b/q" object2="@a/p"'):
        scene = load(tmp_path, one + joint.format(ends))
        assert np.abs(jm.constraint.violations(scene.system, scene.state)["j"]).max() < 1e-12


def test_a_bead_on_a_line(tmp_path):
    points = '<MechanicalObject name="p" position="0.5 0 0.1  0 0 0  1 0 0"/><UniformMass/>'
    rail = '<SlidingLagrangianConstraint name="s" sliding_point="0" axis_1="1" axis_2="2"/>'
    scene = load(tmp_path, f'{LOOP}<Node name="a">{SCHEME.format("")}{points}{rail}</Node>')
    np.testing.assert_allclose(np.linalg.norm(jm.constraint.violations(scene.system, scene.state)["a/s"]), 0.1)


CABLE = f"""{LOOP}<Node name="a">{SCHEME.format("")}<MechanicalObject name="p" position="1 0 0  2 0 0"/><UniformMass/>
  <CableConstraint name="c" indices="0 1" pullPoint="0 0 0" value="{{}}" valueType="{{}}"/></Node>"""


def test_cables(tmp_path):
    pulled = load(tmp_path, CABLE.format(7, "force"))
    force = np.asarray(jm.total_force(pulled.system, pulled.state)["a/p"])
    np.testing.assert_allclose(force[:, 0], [0, -7])  # between equal pulls, and at the end
    assert float(pulled.where("@/a/c.value")(pulled.system)) == 7
    wound = load(tmp_path, CABLE.format("9 0.5", "displacement").replace('value="', 'valueIndex="1" value="'))
    assert float(wound.system.constraints["a/c"].length) == 1.5
    with pytest.raises(jm.sofa.SceneError, match="valueIndex"):
        load(tmp_path, CABLE.format("1", "force").replace('value="', 'valueIndex="1" value="'))


CAVITY = f"""{LOOP}<Node name="a">{SCHEME.format("")}<MeshTopology position="0 0 0  1 0 0  0 1 0  0 0 1"
  triangles="0 2 1  0 1 3  0 3 2  1 2 3"/><MechanicalObject name="p"/><UniformMass/>
  <SurfacePressureConstraint name="c" {{}}/></Node>"""


def test_cavities(tmp_path):
    grown = load(tmp_path, CAVITY.format('value="0.1" valueType="volumeGrowth"'))
    np.testing.assert_allclose(grown.system.constraints["a/c"].volume, 1 / 6 + 0.1)
    np.testing.assert_allclose(jm.constraint.violations(grown.system, grown.state)["a/c"], [[0.1]])
    blown = load(tmp_path, CAVITY.format('value="3"'))
    weight = np.array([0, -10 / 4, 0])
    force = np.asarray(jm.total_force(blown.system, blown.state)["a/p"]) - weight
    np.testing.assert_allclose(force, [[-0.5] * 3, [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5]], atol=1e-12)  # along the normals


@pytest.mark.slow
def test_the_command_line_runs_contact_and_constraints(tmp_path, capsys):
    body = ball("a", "0 0.3 0") + ball("b", "1 0.3 0").replace("<SphereCollisionModel", '<SphereCollisionModel group="1"')
    link = '<BilateralLagrangianConstraint object1="@a/p" object2="@b/p" rest_vector="1 0 0"/>'
    load(tmp_path, LOOP + FRICTION + FLOOR.format(0) + body + link)
    path, record = str(tmp_path / "scene.scn"), tmp_path / "out.npz"
    assert main(["run", path, "-n", "2", "--record", str(record), "--energy"]) == 0
    assert "2 steps" in capsys.readouterr().out
    with np.load(record) as found:
        assert any(array.shape[-2:] == (1, 3) for array in found.values())
