"""Scenes of contact: edges on edges, the smoothness of gradients, what fails by name."""

import contextlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contact import differences
from test_contact_steps import BRIEF, G, X, soft_scene
from tolerances import FINITE_DIFFERENCE

import jaxmech as jm

CORNERS = np.array([[i, j, k] for i in (-1.0, 1.0) for j in (-1.0, 1.0) for k in (-1.0, 1.0)])
FACES = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
TRIANGLES = np.concatenate([FACES[:, [0, 1, 2]], FACES[:, [0, 2, 3]]])


def boxes_with_edges(half, number, **options):
    """Boxes whose corners and edges may touch each other and a floor: dofs, mappings, and contacts by name."""
    owners = np.repeat(np.arange(number), 8)
    local = np.tile(half * CORNERS, (number, 1))
    one = jm.contact.sharp_edges(half * CORNERS, TRIANGLES)
    assert one.shape == (12, 4)
    edges = np.concatenate([one + 8 * k for k in range(number)])
    mappings = {"fixed": jm.mapping.RigidMapping(("box", owners), "corners", local)}
    points = ("corners", np.arange(8 * number))
    thickness = float(np.min(half))
    contacts = {
        "edges": jm.contact.EdgeContact(
            ("corners", edges), owners=np.repeat(np.arange(number), 12), reach=thickness, capacity=12 * number, **options
        ),
        "floor": jm.contact.PointContact(points, jm.contact.Plane(), **options),
        "points": jm.contact.PointContact(
            points, jm.contact.Box(half), frames=("box", np.arange(number)), owners=owners, capacity=8 * number, **options
        ),
    }
    return mappings, contacts


@pytest.mark.slow
def test_a_beam_lies_across_another():
    """Two bars, crosswise: no corner is near the other, their edges hold the upper one."""
    half = np.array([1.0, 0.1, 0.1])
    mappings, contacts = boxes_with_edges(half, 2, friction=0.5, margin=0.02)
    system = jm.System(
        {"box": jm.Rigid3(), "corners": jm.Vec3()},
        mappings=mappings,
        masses={"mass": jm.mass.RigidMass(("box", [0, 1]), 2.0, np.diag([0.02, 0.7, 0.7]))},
        gravity=[0.0, 0.0, -G],
    )
    turned = [0.0, 0.0, np.sin(0.3 * np.pi), np.cos(0.3 * np.pi)]
    state = system.at_rest({"box": [[0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0], [0.05, 0.02, 0.302, *turned]]})
    scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), contacts)
    run = jm.simulate(system, state, scheme, dt=0.01, steps=40)
    end = np.asarray(run.last.position["box"])
    np.testing.assert_allclose(end[:, 2], [0.1, 0.3], atol=1e-3)  # lies on it, to second order in its last motion
    np.testing.assert_allclose(end[1, 3:], turned, atol=1e-3)
    assert np.abs(run.last.velocity["box"]).max() < 1e-6
    info = run.info.contacts
    by_edges = np.asarray(info.impulse)[-1, :24, 0].sum()
    np.testing.assert_allclose(by_edges, 2.0 * G * 0.01, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("newton", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_the_smoothness_of_gradients_is_their_own(newton):
    """Values of Coulomb's law, derivatives of the smoothed one: as differences of it, step by step."""
    system, state, scheme = soft_scene(newton)
    mixed = soft_scene(newton, kappa=0.0, kappa_grad=1e-2)

    def one(scene, x):
        system, state, scheme = scene
        floor = scheme.contacts["floor"]
        scheme = eqx.tree_at(lambda i: i.contacts["floor"].friction, scheme, x[0])
        scheme = eqx.tree_at(lambda i: i.contacts["floor"].at, scheme, floor.at.at[2].set(x[3]))
        system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, 1e3 * x[1])
        state = eqx.tree_at(lambda s: s.velocity, state, {"solid": state.velocity["solid"].at[:, 0].set(x[2])})
        end = scheme.step(system, state, None, 0.02)[0].position["solid"]
        return jnp.sum(end[:, 0]) + 2 * jnp.sum(end[:, 2])  # linear, so that it has one derivative at both ends

    value, slope = jax.jit(jax.value_and_grad(lambda x: one(mixed, x)))(X)
    of_kappa = jax.jit(lambda x, kappa: one((system, state, eqx.tree_at(lambda i: i.kappa, scheme, kappa)), x))
    np.testing.assert_allclose(value, of_kappa(X, 0.0), rtol=1e-11)
    wanted = differences(lambda x: of_kappa(x, 1e-2), X)
    np.testing.assert_allclose(slope, wanted, rtol=0, atol=FINITE_DIFFERENCE * np.abs(wanted).max())
    if not newton:
        forward = jax.jit(jax.jacfwd(lambda x: one(mixed, x)))(X)
        np.testing.assert_allclose(forward, slope, rtol=0, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("point", ["p", pytest.param("q", marks=pytest.mark.slow)])
def test_points_of_the_plane_touch_where_they_are_mapped_to(point):
    """They are refused, which said no more; what it now names is a scene that lands."""
    mass = jm.mass.UniformMass(("p", [0]), 1.0)
    seen = jm.mapping.FunctionMapping(("p", [0]), "q", lambda x: jnp.stack([x[0], jnp.zeros_like(x[0]), x[1]]))
    scene = jm.System({"p": jm.Vec2(), "q": jm.Vec3()}, masses={"m": mass}, mappings={"s": seen}, gravity=[0.0, -10.0])
    state, motion = scene.at_rest({"p": [[0.5, 0.1]]}), jm.ImplicitEuler(jm.solver.MatrixFreeSystem(), jm.solver.Dense())
    scheme = jm.integrator.FreeMotion(motion, {"floor": jm.contact.PointContact((point, [0]), jm.contact.Plane())})
    said = r"'floor' \(PointContact\): state 'p' must be of Vec3 or Rigid3, got Vec2; .* jm.mapping.FunctionMapping"
    with pytest.raises(ValueError, match=said) if point == "p" else contextlib.nullcontext():
        run = jm.simulate(scene, state, scheme, 0.02, 20)
        np.testing.assert_allclose(run.last.position["p"], [[0.5, 0.0]], atol=1e-9)


@pytest.mark.slow
def test_what_fails_says_its_own_name():
    system, state, scheme = soft_scene(newton=True)
    hasty = eqx.tree_at(lambda i: i.contacts, scheme, scheme.contacts)
    hasty = jm.integrator.FreeMotion(scheme.motion, scheme.contacts, contact_iterations=1)
    with pytest.raises(jm.FailedComputation, match="contact_iterations=") as failure:
        hasty.step(system, state, None, 0.02)
    assert failure.value.result == jm.RESULTS.contact_motion_not_converged and "load steps" not in str(failure.value)
    # A ball between two floors that come nearer than it is wide, and nothing gives way.
    ball = jm.System({"ball": jm.Vec3()}, masses={"mass": jm.mass.UniformMass(("ball", [0]), 1.0)})
    rest = ball.at_rest({"ball": [[0.0, 0.0, 0.0]]})
    plane = {"radius": 0.5}
    wedge = {
        "below": jm.contact.PointContact(("ball", [0]), jm.contact.Plane(), at=[0, 0, -0.4, 0, 0, 0, 1.0], **plane),
        "above": jm.contact.PointContact(("ball", [0]), jm.contact.Plane(), at=[0, 0, 0.4, 1.0, 0, 0, 0], **plane),
    }
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(ball, rest))
    closing = "Still closing: '(above|below)', pair 0, at 10 m/s; '(above|below)', pair 0, at 10 m/s"
    with pytest.raises(jm.FailedComputation, match=closing) as failure:
        jm.integrator.FreeMotion(motion, wedge).step(ball, rest, None, 0.01)
    assert failure.value.result == jm.RESULTS.contacts_infeasible


@pytest.mark.slow
def test_the_jaws_of_a_clip_close_on_each_other():
    """A solid that touches itself: two jaws of one mesh, the upper pressed down, stay apart, and push each other."""
    box = jm.mesh.box_mesh(cells=(4, 1, 3), size=(1.0, 0.25, 0.3))
    x, cells = np.asarray(box.points), np.asarray(box.cells)
    middle = x[cells].mean(1)
    slit = (middle[:, 0] > 0.25) & (np.abs(middle[:, 2] - 0.15) < 0.05)
    mesh = jm.mesh.Mesh(x, cells[~slit], box.kind)
    skin, _ = jm.mesh.boundary_faces(mesh)
    z = x[:, 2]
    below = skin[(np.abs(z[skin] - 0.1) < 1e-9).all(1)]
    above = np.flatnonzero((np.abs(z - 0.2) < 1e-9) & (x[:, 0] > 0.3))
    pressed = np.flatnonzero((np.abs(z - 0.3) < 1e-9) & (x[:, 0] > 0.9))
    solid = jm.force.TetrahedronFEM.from_mesh("clip", mesh, jm.material.NeoHookean(young=1e5, poisson=0.3))
    system = jm.System(
        {"clip": jm.Vec3()},
        forces={"solid": solid, "press": jm.force.ConstantForce(("clip", pressed), [[0.0, 0.0, -60.0]] * len(pressed))},
        masses={"mass": jm.mass.DiagonalMass.from_mesh("clip", mesh, 1000.0)},
        constraints={"foot": jm.constraint.Fixed(("clip", np.flatnonzero(z == 0.0)))},
    )
    state = system.at_rest({"clip": mesh.points})
    own = jm.contact.SurfaceContact(("clip", above), ("clip", below), friction=0.3, reach=0.15)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    scheme = jm.integrator.FreeMotion(motion, {"own": own})
    run = jax.jit(lambda: jm.simulate(system, state, scheme, dt=0.01, steps=40))()
    gaps = np.asarray(own.gaps(run.last.position))
    assert gaps.min() > -1e-3 and gaps.min() < 1e-3  # of second order in the last motion; a slit of 0.1 [m]
    assert float(run.info.contacts.impulse[-1, :, 0].sum()) / 0.01 > 10.0  # [N], of 120 that press


@pytest.mark.slow
def test_a_sphere_about_a_frame_touches_triangles_as_it_touches_a_plane():
    """Gap and slips of the same motion, a turn included, over a triangle that lies in the plane."""
    R, held = 0.3, {"ground": np.array([[-2.0, -2.0, 0.0], [2.0, -2.0, 0.0], [0.0, 3.0, 0.0]])}
    turned = [0.0, np.sin(0.2), 0.0, np.cos(0.2)]
    start, end = (
        {"ball": np.array([frame]), **held} for frame in ([0.1, 0.2, 0.29, 0, 0, 0, 1.0], [0.15, 0.1, 0.31, *turned])
    )
    start, end = ({s: jnp.asarray(a) for s, a in x.items()} for x in (start, end))
    plane = jm.contact.PointContact(("ball", [0]), jm.contact.Plane(), radius=R)
    triangles = jm.contact.SurfaceContact(("ball", [0]), ("ground", [[0, 1, 2]]), radius=R)
    ours, known = (np.asarray(c.coordinates(jnp.asarray(0), start, end)) for c in (triangles, plane))
    np.testing.assert_allclose(ours, known, rtol=0, atol=1e-15)
    np.testing.assert_allclose(ours[1], 0.05 - R * np.sin(0.4), rtol=1e-12)  # [m] the arm of 0.3 turns by 0.4
    np.testing.assert_allclose(triangles.gaps(start), [-0.01], rtol=1e-9)


@pytest.mark.slow
def test_a_ball_rolls_down_a_surface():
    """A frame with a sphere about it on triangles that are held, at 30 degrees: `a = 5/7 g sin(30 deg) = 3.503571`."""
    slope, R, steps = np.deg2rad(30.0), 0.1, 12
    n, along = np.array([np.sin(slope), 0.0, np.cos(slope)]), np.array([np.cos(slope), 0.0, -np.sin(slope)])
    corners = np.stack([-along, 3 * along - [0.0, 2.0, 0.0], 3 * along + [0.0, 2.0, 0.0]])
    system = jm.System(
        {"ball": jm.Rigid3(), "ramp": jm.Vec3()},
        masses={
            "ball": jm.mass.RigidMass(("ball", [0]), 2.0, 0.4 * 2.0 * R**2 * np.eye(3)),
            "ramp": jm.mass.UniformMass(("ramp", [0, 1, 2]), 1.0),
        },
        constraints={"held": jm.constraint.Fixed(("ramp", [0, 1, 2]))},
        gravity=[0.0, 0.0, -G],
    )
    state = system.at_rest({"ball": [[*(R * n), 0.0, 0.0, 0.0, 1.0]], "ramp": corners})
    ramp = jm.contact.SurfaceContact(("ball", [0]), ("ramp", [[0, 1, 2]]), radius=R, friction=0.2)  # 0.165 are enough
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    scheme = jm.integrator.FreeMotion(motion, {"ramp": ramp}, **BRIEF)
    run = jax.jit(lambda: jm.simulate(system, state, scheme, 0.01, steps))()
    v, time = np.asarray(run.last.velocity["ball"][0]), 0.01 * steps
    np.testing.assert_allclose(v[:3], 3.503571 * time * along, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(v[3:], [0.0, 3.503571 * time / R, 0.0], rtol=1e-6, atol=1e-9)


def pendulum(**stops):
    """A bar of a kilogram and a metre on a hinge about y, level at first, whose angle has stops."""
    frames = [jm.constraint.frame(at, axis=[0.0, 1.0, 0.0]) for at in ([0.0, 0.0, 0.0], [-0.5, 0.0, 0.0])]
    system = jm.System(
        {"bar": jm.Rigid3()},
        masses={"bar": jm.mass.RigidMass(("bar", [0]), 1.0, np.diag([1e-3, 1 / 12, 1 / 12]))},
        constraints={"hinge": jm.constraint.HingeJoint(("bar", [0]), *frames)},
        gravity=[0.0, 0.0, -G],
    )
    state = system.at_rest({"bar": [[0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    limit = jm.contact.Limit(jm.constraint.JointAngle(("bar", [0]), *frames), **stops)
    return system, state, jm.integrator.FreeMotion(motion, {"stops": limit}, **BRIEF)


@pytest.mark.slow
def test_a_joint_rests_on_its_stop():
    """The bar falls to its stop: the angle is the limit, the impulses hold the moment of its weight; by the limit, too."""
    system, state, scheme = pendulum(lower=-1.0, upper=0.4)

    def run(upper):
        trial = eqx.tree_at(lambda s: s.contacts["stops"].upper, scheme, upper)
        found = jm.simulate(system, state, trial, 0.01, 60)
        return found.last.position["bar"][0, 2], found

    forward = jax.jit(lambda upper: jax.jvp(run, (upper,), (jnp.ones(()),), has_aux=True))
    height, slope, found = forward(jnp.asarray(0.4))
    np.testing.assert_allclose(height, -0.5 * np.sin(0.4), rtol=1e-9)
    np.testing.assert_allclose(slope, -0.5 * np.cos(0.4), rtol=1e-8)
    impulse = np.asarray(found.info.contacts.impulse[-1])
    np.testing.assert_allclose(impulse[:, 0] / 0.01, [0.0, G * 0.5 * np.cos(0.4)], rtol=1e-9, atol=1e-12)  # [N m]
    np.testing.assert_allclose(jm.constraint.violations(system, found.last)["hinge"], 0.0, atol=1e-12)


@pytest.mark.slow
def test_a_rope_only_pulls():
    """A ball that is thrown up falls, and hangs on its rope, which was slack until then; each rope has its length."""
    system = jm.System(
        {"ball": jm.Vec3()},
        masses={"mass": jm.mass.UniformMass(("ball", [0, 1, 2]), 1.0)},
        constraints={"hook": jm.constraint.Fixed(("ball", [0]))},
        gravity=[0.0, 0.0, -G],
    )
    state = system.at_rest({"ball": [[0.0, 0.0, 0.0], [0.0, 0.0, -0.5], [0.0, 0.0, -0.5]]})
    rope = jm.constraint.Distance((("ball", [0, 0]), ("ball", [1, 2])), length=[1.0, 0.8])
    scheme = jm.integrator.FreeMotion(
        jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state)), {"ropes": jm.contact.Limit(rope, upper=0.0)}
    )
    thrown = jm.State(state.position, {"ball": state.velocity["ball"].at[1:, 2].set(1.0)}, state.time)
    found = jax.jit(lambda: jm.simulate(system, thrown, scheme, 0.01, 80))()
    heights, pull = np.asarray(found.position["ball"][:, 1:, 2]), np.asarray(found.info.contacts.impulse[:, :, 0]) / 0.01
    np.testing.assert_allclose(heights[-1], [-1.0, -0.8], atol=1e-9)
    np.testing.assert_allclose(pull[-1], [0.0, G, 0.0, G], atol=1e-8)  # there are no lower stops
    assert np.abs(pull[heights[1:, 0] > -0.999, 1]).max() < 1e-12 * G and heights[:, 0].max() > -0.46


def test_limits_that_cannot_be_are_named():
    angle = jm.constraint.JointAngle(("bar", [0]))
    with pytest.raises(ValueError, match="Limit: upper must be at least the lower limit"):
        jm.contact.Limit(angle, lower=1.0, upper=0.5)
    with pytest.raises(ValueError, match="must not follow time"):
        jm.contact.Limit(jm.constraint.Follow(angle, values=[[0.0], [1.0]], times=[0.0, 1.0]))
    with pytest.raises(ValueError, match="elements of CavityVolume are the terms of one equation"):
        jm.contact.Limit(jm.constraint.CavityVolume(("p", [[0, 1, 2]]), 1.0), lower=0.0)
    with pytest.raises(TypeError, match="constraint"):
        jm.contact.Limit("angle")
    system, state, scheme = pendulum(upper=0.4)
    many = eqx.tree_at(lambda s: s.contacts["stops"].constraint, scheme, jm.constraint.HingeJoint(("bar", [0])))
    with pytest.raises(ValueError, match="contact 'stops' .Limit.: the constraint has 5 rows, expected 1"):
        many.init(system, state)
