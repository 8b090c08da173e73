"""Time steps with contact against closed forms (g = 9.81): sticking, sliding, toppling, rolling, bouncing, stacks."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import FINITE_DIFFERENCE, TWO_MODES, UNDETERMINED

import jaxmech as jm

G = 9.81
CORNERS = np.array([[i, j, k] for i in (-1.0, 1.0) for j in (-1.0, 1.0) for k in (-1.0, 1.0)])
# One way to the impulses, where "auto" compiles several: of whatever does not depend on how they are found.
BRIEF = {"method": "newton"}


def about_y(angle):
    """The quaternion of a turn about y: what a plane that falls along x stands on."""
    nil = 0.0 * angle
    return jnp.stack([nil, jnp.sin(angle / 2), nil, jnp.cos(angle / 2)])


def normal(angle):
    return jnp.stack([jnp.sin(angle), 0.0 * angle, jnp.cos(angle)])


def box_scene(newton=False, **options):
    """A box of 2 kg whose corners may touch a plane."""
    system = jm.System(
        {"box": jm.Rigid3(), "corners": jm.Vec3()},
        mappings={"fixed": jm.mapping.RigidMapping(("box", [0] * 8), "corners", CORNERS)},
        masses={"mass": jm.mass.RigidMass(("box", [0]), 2.0, np.diag([0.2, 0.2, 0.3]))},
        gravity=[0.0, 0.0, -G],
    )
    state = system.at_rest({"box": [[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]]})
    linear_system = jm.MatrixLinearSystem.build(system, state)
    floor = jm.contact.PointContact(("corners", range(8)), jm.contact.Plane(), friction=0.5)
    motion = jm.ImplicitEuler(linear_system, newton=newton)
    return system, state, jm.integrator.FreeMotion(motion, {"floor": floor}, tolerance=1e-11, **options)


def box_run(scene, dt, steps, angle, mu, v0, half):
    """A box that starts flat on the slope, downhill at `v0`."""
    system, state, scheme = scene
    q, n = about_y(angle), normal(angle)
    corners = jnp.asarray(CORNERS, half.dtype) * half
    system = eqx.tree_at(lambda s: s.mappings["fixed"].local, system, corners)
    floor = scheme.contacts["floor"]
    at = jnp.concatenate([jnp.zeros_like(half), q])
    floor = eqx.tree_at(lambda f: (f.friction, f.at), floor, (mu, at))
    scheme = eqx.tree_at(lambda i: i.contacts["floor"], scheme, floor)
    downhill = jnp.stack([jnp.cos(angle), 0.0 * angle, -jnp.sin(angle)])
    position = jnp.concatenate([half[2] * n, q])[None]
    velocity = jnp.concatenate([v0 * downhill, jnp.zeros_like(half)])[None]
    state = jm.State({"box": position}, {"box": velocity}, state.time)
    run = jm.simulate(system, state, scheme, dt=dt, steps=steps, throw=False)
    return run.position["box"][:, 0], run.velocity["box"][:, 0], run.info.result, run.info.contacts


@pytest.fixture(scope="module")
def boxes():
    scene = box_scene()
    run = jax.jit(lambda h, *a: box_run(scene, h, 500, *a))
    return lambda *a, h=0.01: run(*map(np.asarray, (h, *a)))  # one program for any numbers: NumPy's types are never weak


FLAT = jnp.array([0.5, 0.5, 0.25])


def test_a_block_on_a_slope(boxes):
    mu, limit = 0.2, np.arctan(0.2)
    assert np.rad2deg(limit) == pytest.approx(11.310, abs=1e-3)
    x, v, result, contacts = boxes(limit - 1e-3, mu, 0.0, FLAT, h=0.02)
    assert (result == jm.RESULTS.successful).all()
    assert np.abs(x - x[0]).max() < 1e-8  # at rest, without creep, for ten seconds
    weight = 2 * G * np.cos(limit - 1e-3)
    np.testing.assert_allclose(contacts.impulse[:, :, 0].sum(1) / 0.02, weight, rtol=1e-8)
    _, v, _, contacts = boxes(limit + 1e-2, mu, 0.0, FLAT)
    a = G * (np.sin(limit + 1e-2) - 0.2 * np.cos(limit + 1e-2))
    assert np.linalg.norm(v[-1, :3]) / 5.0 == pytest.approx(a, rel=1e-6)
    assert float(contacts.errors.natural.max()) < 1e-8
    _, v, _, _ = boxes(np.pi / 6, mu, 0.0, FLAT)
    assert np.linalg.norm(v[-1, :3]) / 5.0 == pytest.approx(3.20586, rel=1e-5)


@pytest.mark.slow
def test_a_block_slides_until_it_stops_and_a_tall_one_topples(boxes):
    x, v, _, contacts = boxes(0.0, 0.3, 2.0, FLAT)
    # A step of the implicit scheme takes the velocity of its end: v0 h / 2 is missing.
    assert x[-1, 0] - x[0, 0] + 0.5 * 2.0 * 0.01 == pytest.approx(0.679567, abs=1e-3)
    np.testing.assert_allclose(v[-1], 0.0, atol=1e-9)
    # Friction took all the energy, and gave none: the work of each contact's impulse is not positive.
    work = (contacts.impulse[..., 1:] * contacts.velocity[..., 1:]).sum((1, 2))
    assert work.max() < 1e-9 and work.sum() < 0
    tall, critical = jnp.array([0.25, 0.25, 0.5]), np.arctan(0.5)
    assert np.rad2deg(critical) == pytest.approx(26.565, abs=1e-3)
    for angle, topples in ((critical - 5e-3, False), (critical + 5e-3, True)):
        x, *_ = boxes(angle, 1.0, 0.0, tall)
        turned = 2 * np.arccos(np.clip(np.abs(x[:, 3:] @ np.asarray(about_y(jnp.asarray(angle)))), 0, 1)).max()
        assert (turned > 0.1) == topples and (topples or turned < 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, True])
def test_reactions_at_the_edges_of_a_box_that_is_pushed_and_their_derivatives(newton):
    """At rest, as it begins to tip about an edge, and as it slides: by the balance of forces and of moments."""
    system, state, scheme = box_scene(newton, **BRIEF)
    half, mass, h = np.array([0.25, 0.3, 0.5]), 2.0, 1e-4
    x, _, z = half
    system = eqx.tree_at(lambda s: s.mappings["fixed"].local, system, jnp.asarray(CORNERS * half))
    start = system.at_rest({"box": [[0.0, 0.0, z, 0.0, 0.0, 0.0, 1.0]]})

    def edges(push, mu):
        """Of the lower edges, and friction [N]."""
        pushed = eqx.tree_at(lambda s: s.gravity, system, jnp.stack([push / mass, 0 * push, -G + 0 * push]))
        sliding = eqx.tree_at(lambda s: s.contacts["floor"].friction, scheme, mu)
        force = sliding.step(pushed, start, None, h)[2].contacts.impulse / h
        return jnp.stack([force[:4, 0].sum(), force[4:, 0].sum(), -force[:, 1].sum()])

    def resting(push, mu):
        more = push * z / (2 * x)
        return jnp.stack([mass * G / 2 - more, mass * G / 2 + more, push])

    def tipping(push, mu):
        turn = (push * z - mass * G * x) / (0.2 + mass * (x**2 + z**2))  # [rad/s^2]
        return jnp.stack([0 * push, mass * (G + turn * x), push - mass * turn * z])

    def sliding(push, mu):
        return resting(mu * mass * G, mu)

    # Derivatives of the implicit step in reverse mode, the other in forward mode: a program for each.
    found = jax.jit((jax.jacrev if newton else jax.jacfwd)(lambda *a: (edges(*a),) * 2, (0, 1), has_aux=True))
    tips = mass * G * x / z
    for law, push, mu in ((resting, 0.99 * tips, 0.8), (tipping, 1.01 * tips, 0.8), (sliding, 0.9 * tips, 0.1)):
        at = jnp.asarray(push), jnp.asarray(mu)
        slopes, values = found(*at)
        np.testing.assert_allclose(values, law(*at), rtol=0, atol=UNDETERMINED * mass * G)
        wanted = np.stack(jax.jacfwd(law, (0, 1))(*at))
        np.testing.assert_allclose(slopes, wanted, rtol=0, atol=UNDETERMINED * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("speed", [1e-6, 1e-9])  # [m/s]
def test_what_creeps_is_as_exact_as_what_is_fast(speed):
    """A tilted box that four of its corners leave alone, thrown down: the same in seconds that are longer."""
    corners = np.array([[i, j, k] for i in (-0.5, 0.5) for j in (-0.5, 0.5) for k in (-0.25, 0.25)])

    def thrown(speed):
        system = jm.System(
            {"box": jm.Rigid3(), "corners": jm.Vec3()},
            mappings={"fixed": jm.mapping.RigidMapping(("box", [0] * 8), "corners", corners)},
            masses={"mass": jm.mass.RigidMass(("box", [0]), 2.0, np.diag([0.2, 0.2, 0.3]))},
        )
        start = system.at_rest({"box": [[0.0, 0.0, 0.1, 0.1, 0.05, 0.0, np.sqrt(1 - 0.0125)]]})
        start = dataclasses.replace(start, velocity={"box": speed * jnp.array([[1.0, 0.3, -1.0, 0.2, 0.1, 0.0]])})
        floor = jm.contact.PointContact(("corners", range(8)), jm.contact.Plane(), friction=0.3, margin=0.05)
        scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start)), {"floor": floor})
        return jm.simulate(system, start, scheme, dt=0.01 / speed, steps=2).last.velocity["box"] / speed

    np.testing.assert_allclose(thrown(speed), thrown(1.0), atol=1e-9)


@pytest.mark.slow
def test_plain_numbers_take_the_place_of_arrays():
    """As they do in force fields: finite differences, and closures, are often written so."""
    system, state, scheme = box_scene(**BRIEF)

    def numbers(s):
        floor = s.contacts["floor"]
        return floor.friction, floor.radius, floor.compliance, floor.restitution

    plain = (0.3, 0.01, 1e-4, 0.5)
    schemes = [eqx.tree_at(numbers, scheme, given) for given in (plain, tuple(jnp.asarray(a) for a in plain))]
    ends = [jm.simulate(system, state, s, 0.01, 2).last.position["box"] for s in schemes]
    assert jnp.array_equal(*ends)


@pytest.mark.slow
def test_the_implicit_step_slides_as_the_free_motion_does():
    scene = box_scene(newton=True)
    _, v, result, contacts = jax.jit(lambda a: box_run(scene, 0.01, 50, a, jnp.asarray(0.2), 0.0 * a, FLAT))(
        jnp.asarray(np.pi / 6)
    )
    assert (result == jm.RESULTS.successful).all()
    assert np.linalg.norm(v[-1, :3]) / 0.5 == pytest.approx(3.20586, rel=1e-5)
    assert np.abs(contacts.gap).min(1).max() < 1e-9


def ball_scene(radius=0.1):
    """A ball of 1 kg."""
    inertia = 0.4 * radius**2 * np.eye(3)
    masses = {"mass": jm.mass.RigidMass(("ball", [0]), 1.0, inertia)}
    system = jm.System({"ball": jm.Rigid3()}, masses=masses, gravity=[0.0, 0.0, -G])
    state = system.at_rest({"ball": [[0.0, 0.0, radius, 0.0, 0.0, 0.0, 1.0]]})
    floor = jm.contact.PointContact(("ball", [0]), jm.contact.Plane(), radius=radius, friction=0.3, restitution=0.8)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    return system, state, jm.integrator.FreeMotion(motion, {"floor": floor})


@pytest.mark.slow
def test_a_ball_slides_rolls_and_bounces():
    system, state, scheme = ball_scene()
    R = 0.1

    @jax.jit
    def run(angle, mu, e, v0, height, h):
        floor = scheme.contacts["floor"]
        at = jnp.concatenate([jnp.zeros(3), about_y(angle)])
        floor = eqx.tree_at(lambda f: (f.friction, f.restitution, f.at), floor, (mu, e, at))
        position = jnp.concatenate([(R + height) * normal(angle), jnp.array([0.0, 0.0, 0.0, 1.0])])[None]
        velocity = jnp.zeros((1, 6)).at[0, 0].set(v0)
        start = jm.State({"ball": position}, {"ball": velocity}, state.time)
        rolling = eqx.tree_at(lambda i: i.contacts["floor"], scheme, floor)
        seen = jm.simulate(system, start, rolling, dt=h, steps=4300, throw=False)
        return seen.position["ball"][:, 0, :3], seen.velocity["ball"][:, 0]

    def ran(angle=0.0, mu=0.0, e=0.0, v0=0.0, height=0.0):  # one program for any numbers: NumPy's types are never weak
        return (np.asarray(a) for a in run(*map(np.asarray, (angle, mu, e, v0, height, 1e-3))))

    _, v = ran(mu=0.3, v0=2.0)
    slip = v[:, 0] - R * v[:, 4]
    assert np.argmax(np.abs(slip) < 1e-6) * 1e-3 == pytest.approx(0.194165, abs=2e-3)
    assert v[300, 0] == pytest.approx(10 / 7, rel=1e-6) and np.abs(slip[300:]).max() < 1e-6
    for mu, rolls in ((0.175, True), (0.155, False)):  # it takes 0.164957
        _, v = ran(angle=np.pi / 6, mu=mu)
        a = np.linalg.norm(v[1000, :3])
        assert a == pytest.approx(3.503571 if rolls else G * (0.5 - mu * np.sqrt(0.75)), rel=1e-5)
    x, v = ran(e=0.8, height=1.0)
    z = x[:, 2] - R
    apexes = [z[i] for i in range(1, len(z) - 1) if z[i] >= z[i - 1] and z[i] > z[i + 1] and z[i] > 0.1]
    np.testing.assert_allclose(apexes[:3], [0.64, 0.4096, 0.262144], rtol=5e-3)  # of first order in the step
    assert z.min() > -1e-9
    assert np.flatnonzero(np.abs(z) > 1e-6).max() * 1e-3 == pytest.approx(4.06371, abs=0.05)
    np.testing.assert_allclose(v[-1], 0.0, atol=1e-9)


@pytest.mark.slow
def test_equal_balls_exchange_their_velocities_and_derivatives():
    system = jm.System({"balls": jm.Vec3()}, masses={"mass": jm.mass.UniformMass(("balls", [0, 1]), 1.0)})
    state = system.at_rest({"balls": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]})
    options = {"frames": ("balls", [0, 1]), "owners": [0, 1], "half": True, "radius": 0.4, "restitution": 1.0}
    balls = jm.contact.PointContact(("balls", [0, 1]), jm.contact.Sphere(0.4), **options)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    scheme = jm.integrator.FreeMotion(motion, {"balls": balls}, **BRIEF)

    def after(v):
        start = jm.State(state.position, {"balls": jnp.zeros((2, 3)).at[:, 0].set(v)}, state.time)
        end = jm.simulate(system, start, scheme, dt=0.01, steps=30).last.velocity["balls"][:, 0]
        return end, end

    v = jnp.array([1.0, -0.5])
    slopes, end = jax.jit(jax.jacrev(after, has_aux=True))(v)
    np.testing.assert_allclose(end, v[::-1], atol=1e-9)
    np.testing.assert_allclose(slopes, [[0.0, 1.0], [1.0, 0.0]], atol=1e-6)


@pytest.mark.slow
def test_a_stack_of_ten_boxes_stands():
    n, half = 10, np.array([0.1, 0.1, 0.05])
    system = jm.System(
        {"box": jm.Rigid3(), "corners": jm.Vec3()},
        mappings={
            "fixed": jm.mapping.RigidMapping(("box", np.repeat(np.arange(n), 8)), "corners", np.tile(half * CORNERS, (n, 1)))
        },
        masses={"mass": jm.mass.RigidMass(("box", np.arange(n)), 1.0, 0.01 * np.eye(3))},
        gravity=[0.0, 0.0, -G],
    )
    frames = np.zeros((n, 7))
    frames[:, 2], frames[:, 6] = 0.05 + 0.1 * np.arange(n), 1.0
    state = system.at_rest({"box": frames})
    near = {"friction": 0.5, "margin": 0.02}
    corners, owners = ("corners", np.arange(8 * n)), np.repeat(np.arange(n), 8)
    contacts = {
        "boxes": jm.contact.PointContact(
            corners, jm.contact.Box(half), frames=("box", np.arange(n)), owners=owners, capacity=72, **near
        ),
        "floor": jm.contact.PointContact(corners, jm.contact.Plane(), capacity=8, **near),
    }
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    scheme = jm.integrator.FreeMotion(motion, contacts, tolerance=1e-11)
    run = jax.jit(lambda: jm.simulate(system, state, scheme, dt=0.05, steps=200))()
    assert np.abs(run.position["box"] - frames).max() < 1e-6  # for ten seconds
    pushes = np.asarray(run.info.contacts.impulse[-1, :, 0]) / 0.05
    assert pushes[-8:].sum() == pytest.approx(n * G, rel=1e-8)
    # By box below: corners of the box above on it, and its own corners under that one.
    pair = np.asarray(run.info.contacts.pair[-1, :-8])
    point, frame = owners[pair // n], pair % n
    for below in range(n - 1):
        between = np.minimum(point, frame) == below
        assert pushes[:-8][between].sum() == pytest.approx((n - 1 - below) * G, rel=1e-8)


@pytest.mark.slow
def test_a_conveyor_carries_until_the_spring_is_stronger():
    """A block of 1 kg on a belt, held by a spring of 100 N/m: first slip at `mu m g / k`."""
    system = jm.System(
        {"block": jm.Vec3(), "belt": jm.Vec3()},
        forces={"spring": jm.force.AnchoredSprings(("block", [0]), 100.0, [[0.0, 0.0, 0.0]])},
        masses={"m": jm.mass.UniformMass(("block", [0]), 1.0), "belt": jm.mass.UniformMass(("belt", [0]), 1.0)},
        constraints={
            "moved": jm.constraint.PrescribedVelocity(("belt", [0]), [[0.0] * 3], [[0.01, 0.0, 0.0]] * 2, [0.0, 1.0])
        },
        gravity=[0.0, 0.0, -G],
    )
    state = system.at_rest({"block": [[0.0, 0.0, 0.0]], "belt": [[0.0, 0.0, 0.0]]})
    along = jnp.array([[0.01, 0.0, 0.0]])
    state = jm.State(state.position, {"block": along, "belt": along}, state.time)
    belt = jm.contact.PointContact(("block", [0]), jm.contact.Plane(), frames=("belt", [0]), friction=0.3)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    run = jm.simulate(system, state, jm.integrator.FreeMotion(motion, {"belt": belt}, **BRIEF), dt=2e-3, steps=2000)
    slip = np.abs(run.info.contacts.velocity[:, 0, 1]) > 1e-6
    assert run.position["block"][1:, 0, 0][slip][0] == pytest.approx(0.02943, rel=2e-3)
    assert not slip[: np.argmax(slip)].any()


def soft_scene(newton=False, **options):
    """A soft block on a floor, pushed along it by its weight."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 0.5))
    solid = jm.force.TetrahedronFEM.from_mesh("solid", mesh, jm.material.NeoHookean(young=1e3, poisson=0.3))
    masses = {"mass": jm.mass.DiagonalMass.from_mesh("solid", mesh, 1.0)}
    system = jm.System({"solid": jm.Vec3()}, forces={"elastic": solid}, masses=masses, gravity=[1.0, 0.3, -G])
    state = system.at_rest({"solid": mesh.points})
    foot = mesh.nodes_where(lambda x: x[:, 2] == 0.0)
    floor = jm.contact.PointContact(("solid", foot), jm.contact.Plane(), friction=0.3)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=newton, rtol=1e-12)
    return system, state, jm.integrator.FreeMotion(motion, {"floor": floor}, tolerance=1e-12, **options)


def soft_run(scene, x):
    """Of friction, Young's modulus, velocity along the floor and its height."""
    system, state, scheme = scene
    system = eqx.tree_at(lambda s: s.forces["elastic"].material.young, system, 1e3 * x[1])
    floor = scheme.contacts["floor"]
    floor = eqx.tree_at(lambda f: (f.friction, f.at), floor, (x[0], floor.at.at[2].set(x[3])))
    scheme = eqx.tree_at(lambda i: i.contacts["floor"], scheme, floor)
    state = eqx.tree_at(lambda s: s.velocity, state, {"solid": state.velocity["solid"].at[:, 0].set(x[2])})
    end = jm.simulate(system, state, scheme, dt=0.02, steps=3).last.position["solid"]
    return jnp.sum(end[:, 0]) + jnp.sum(end[:, 2] ** 2)


X = jnp.array([0.3, 1.0, 0.5, 1e-3])


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_gradients_of_a_sliding_deformable(newton):
    """Those of the implicit step are in `test_contact_scenes`, of one step, where their smoothness is their own."""
    scene = soft_scene(newton, kappa=1e-2)
    both = jax.jit(jax.value_and_grad(lambda x: soft_run(scene, x)))  # which all differences are of, too
    shifts = 1e-4 * jnp.concatenate([k * jnp.eye(4) for k in (1, -1, 2, -2)])
    ends = np.array([both(X + shift)[0] for shift in shifts]).reshape(4, 4)
    _, gradient = both(X)
    scale = np.abs(gradient).max()
    expected = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / 12e-4
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=FINITE_DIFFERENCE * scale)
    if not newton:  # forward, of the same laws, solved in one way
        along, brief = jnp.array([1.0, -0.5, 0.3, 2.0]), soft_scene(kappa=1e-2, **BRIEF)
        _, forward = jax.jit(lambda x: jax.jvp(lambda x: soft_run(brief, x), (x,), (along,)))(X)
        np.testing.assert_allclose(forward, gradient @ along, rtol=TWO_MODES, atol=TWO_MODES * scale)


@pytest.mark.slow
def test_what_stands_for_the_inverse():
    """All corrections keep the block out of the floor; with the matrix of this very state, precomputed is full."""
    system, state, scheme = soft_scene(**BRIEF)
    ends = {}
    for name in ("full", "uncoupled", "precomputed"):
        one = eqx.tree_at(lambda i: i.contacts, scheme, scheme.contacts)
        if name == "uncoupled":
            one = jm.integrator.FreeMotion(scheme.motion, scheme.contacts, correction="uncoupled", **BRIEF)
        if name == "precomputed":
            one = scheme.precompute(system, state, 0.02)
        end, _, info = one.step(system, state, None, 0.02)
        ends[name] = np.asarray(end.position["solid"])
        assert ends[name][:, 2].min() > -1e-9 and float(info.contacts.errors.natural) < 1e-8
    np.testing.assert_allclose(ends["precomputed"], ends["full"], atol=1e-9)
    assert np.abs(ends["uncoupled"] - ends["full"]).max() > 1e-6


@pytest.mark.slow
def test_capacity_and_depth_are_reported():
    system, state, scheme = box_scene(**BRIEF)
    low = eqx.tree_at(lambda s: s.position, state, {"box": state.position["box"].at[0, 2].set(0.7)})
    floor = jm.contact.PointContact(("corners", range(8)), jm.contact.Plane(), capacity=2, margin=0.5)
    full = jm.integrator.FreeMotion(scheme.motion, {"floor": floor}, **BRIEF)
    with pytest.raises(jm.FailedComputation, match="'floor' has room for 2 pairs, and at least 4 are near"):
        full.step(system, low, None, 0.01)
    floor = jm.contact.PointContact(("corners", range(8)), jm.contact.Plane(), depth=0.1)
    deep = jm.integrator.FreeMotion(scheme.motion, {"floor": floor}, **BRIEF)
    _, _, info = deep.step(system, low, None, 0.01, throw=False)
    assert info.result == jm.RESULTS.interpenetration
    with pytest.raises(jm.FailedComputation, match="'floor', pair 0: bodies are deeper"):
        deep.step(system, low, None, 0.01)
    with pytest.raises(ValueError, match="no state 'corner'"):
        wrong = jm.contact.PointContact(("corner", [0]), jm.contact.Plane())
        jm.integrator.FreeMotion(scheme.motion, {"floor": wrong}).step(system, low, None, 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("nearest", [pytest.param(None, marks=pytest.mark.exhaustive), 4])
def test_a_ball_of_points_lies_on_a_soft_sheet(nearest):
    """Deformable on deformable: nothing passes, forces are opposite, and the host finds what JAX finds, which the jaws of
    a clip (`test_contact_scenes`) are found by."""
    below = jm.mesh.box_mesh(cells=(2, 2, 1), size=(1.0, 1.0, 0.3))
    skin, _ = jm.mesh.boundary_faces(below)
    top = skin[(np.asarray(below.points)[skin][:, :, 2] > 0.29).all(1)]
    solid = jm.force.TetrahedronFEM.from_mesh("below", below, jm.material.NeoHookean(young=2e3, poisson=0.3))
    masses = {
        "below": jm.mass.DiagonalMass.from_mesh("below", below, 1.0),
        "above": jm.mass.UniformMass(("above", [0, 1, 2]), 0.1),
    }
    system = jm.System(
        {"below": jm.Vec3(), "above": jm.Vec3()},
        forces={"solid": solid},
        masses=masses,
        constraints={"foot": jm.constraint.Fixed(("below", below.nodes_where(lambda x: x[:, 2] == 0.0)))},
        gravity=[0.0, 0.0, -G],
    )
    above = np.array([[0.3, 0.3, 0.35], [0.7, 0.4, 0.34], [0.5, 0.8, 0.36]])
    state = system.at_rest({"below": below.points, "above": above})
    contact = jm.contact.SurfaceContact(("above", [0, 1, 2]), ("below", top), friction=0.4, radius=0.02, nearest=nearest)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    scheme = jm.integrator.FreeMotion(motion, {"skin": contact})
    run = jm.simulate(system, state, scheme, dt=0.01, steps=60)
    x = jm.kinematics(system, run.last)
    assert np.abs(contact.gaps(x)).max() < 1e-3  # they lie on it, to second order in the last motion
    np.testing.assert_allclose(run.info.contacts.impulse[-1, :, 0].sum() / 0.01, 0.3 * G, rtol=0.05)


@pytest.mark.slow
def test_a_rope_around_a_bollard_holds():
    """The capstan: half a turn with `mu = 0.3` holds `exp(0.3 pi) = 2.56633` times the force at its end, and no more."""
    n, mu = 25, 0.3
    angle = np.linspace(0.0, np.pi, n)
    points = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], axis=1)
    chord = 2 * np.sin(0.5 * np.pi / (n - 1))
    system = jm.System(
        {"rope": jm.Vec3()},
        forces={
            "rope": jm.force.Springs((("rope", np.arange(n - 1)), ("rope", np.arange(1, n))), 2e4, chord),
            "ends": jm.force.ConstantForce(("rope", [0, n - 1]), [[0.0, -1.0, 0.0], [0.0, -1.0, 0.0]]),
        },
        masses={"mass": jm.mass.UniformMass(("rope", np.arange(n)), 0.01)},
    )
    state = system.at_rest({"rope": points})
    bollard = jm.contact.PointContact(("rope", np.arange(n)), jm.contact.Capsule(1.0, 1.0), friction=mu)
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    scheme = jm.integrator.FreeMotion(motion, {"bollard": bollard})

    @jax.jit
    def speed(ratio):
        pulled = jnp.array([[0.0, -1.0, 0.0], [0.0, -1.0, 0.0]]).at[1].multiply(ratio)
        loaded = eqx.tree_at(lambda s: s.forces["ends"].force, system, pulled)
        return -jm.simulate(loaded, state, scheme, dt=0.01, steps=60).last.velocity["rope"][-1, 1]

    # Of a polygon, each of the n - 2 turns and two halves at the ends: (1 + mu tan(d / 2)) / (1 - mu tan(d / 2)).
    limit = np.exp(mu * np.pi)
    assert limit == pytest.approx(2.56633, rel=1e-5)
    assert abs(float(speed(0.97 * limit))) < 1e-6 < 1e-2 < float(speed(1.03 * limit))


@pytest.mark.slow
def test_a_hinged_bar_falls_and_rests():
    """A joint and a contact in one system; what rests converges too. Half the weight is the floor's, half the hinge's."""
    frames = [jm.constraint.frame(at, axis=[0.0, 1.0, 0.0]) for at in ([0.0, 0.0, 0.3], [-0.5, 0.0, 0.0])]
    system = jm.System(
        {"bar": jm.Rigid3(), "tip": jm.Vec3()},
        masses={"bar": jm.mass.RigidMass(("bar", [0]), 1.0, np.diag([1e-3, 1 / 12, 1 / 12]))},
        mappings={"end": jm.mapping.RigidMapping(("bar", [0]), "tip", [[0.5, 0.0, 0.0]])},
        constraints={"hinge": jm.constraint.HingeJoint(("bar", [0]), *frames)},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"bar": [[0.5, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0]]})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)
    floor = jm.contact.PointContact(("tip", [0]), jm.contact.Plane(), friction=0.0)
    run = jm.simulate(system, state, jm.integrator.FreeMotion(motion, {"floor": floor}), 0.01, 40)
    np.testing.assert_allclose(run.info.contacts.impulse[-1, 0, 0] / 0.01, 9.81 / 2, rtol=1e-9)
    np.testing.assert_allclose(jm.constraint.violations(system, run.last)["hinge"], 0.0, atol=1e-12)


@pytest.mark.slow
def test_derivatives_end_where_the_rounding_of_impulses_does():
    """What comes to rest does so however it was pushed: right-hand sides are rounding, and so is what solves leave."""
    system, state, scheme = box_scene()
    scheme = jm.integrator.FreeMotion(scheme.motion, scheme.contacts)

    def single(tree):
        return jax.tree.map(lambda a: jnp.asarray(a, jnp.float32) if eqx.is_inexact_array_like(a) else a, tree)

    scene, (angle, mu, v0) = single((system, state, scheme)), single((0.135, 0.54, -0.135))

    def run(v0):
        _, v, result, _ = box_run(scene, jnp.float32(0.01), 5, angle, mu, v0, single(FLAT))
        return v[-1], result

    v, rate, result = jax.jit(lambda v0: jax.jvp(run, (v0,), (jnp.ones_like(v0),), has_aux=True))(v0)
    assert (result == jm.RESULTS.successful).all()
    np.testing.assert_allclose((v, rate), 0.0, atol=1e-5)


def test_states_of_single_precision_stay_so_beside_contacts_of_double():
    system, state, scheme = box_scene(**BRIEF)
    state = jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, state)
    carry = scheme.init(system, state)
    end, after, _ = eqx.filter_eval_shape(scheme.step, system, state, carry, jnp.float32(1e-3))
    assert {a.dtype for a in jax.tree.leaves((end.position, end.velocity))} == {jnp.dtype("float32")}
    assert jax.tree.map(lambda a: a.dtype, after[1]) == jax.tree.map(lambda a: a.dtype, carry[1])


@pytest.mark.slow
def test_contact_and_deformation_converge_as_far_as_single_precision_goes():
    """Two springs stand on their feet and slide: positions of a metre over a hundredth of a second are known to 1e-5 m/s."""
    with jax.enable_x64(False):
        feet, heads = range(2), range(2, 4)
        system = jm.System(
            {"p": jm.Vec3()},
            forces={"springs": jm.force.Springs((("p", feet), ("p", heads)), 1e4, 1.0)},
            masses={"mass": jm.mass.UniformMass(("p", range(4)), 0.1)},
            gravity=[2.0, 0.0, -G],
        )
        state = system.at_rest({"p": [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0]]})
        floor = jm.contact.PointContact(("p", feet), jm.contact.Plane(), friction=0.05)
        motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)
        run = jm.simulate(system, state, jm.integrator.FreeMotion(motion, {"floor": floor}), 0.01, 3)
    assert run.last.velocity["p"].dtype == np.float32
    pushed = 0.03 * (2.0 - 0.05 * G)  # of all four together; a spring turns about its foot, in three steps hardly
    assert float(run.last.velocity["p"][:, 0].mean()) == pytest.approx(pushed, rel=1e-3)


@pytest.mark.slow
def test_multipliers_of_a_stiff_chain_are_no_measure_of_whether_a_step_converged():
    """Far from the floor, full steps are those without contacts: forces of the bars are rounded with the stiff springs."""
    points = np.array([[i, 0.0, 5.0] for i in range(6)], float)
    springs, bars = ((("p", at), ("p", at + 1)) for at in (np.arange(2, 5), np.arange(2)))
    system = jm.System(
        {"p": jm.Vec3()},
        forces={"springs": jm.force.Springs(springs, 1e6, 1.0, 0.1)},
        masses={"mass": jm.mass.UniformMass(("p", range(6)), 1.0)},
        constraints={"nail": jm.constraint.Fixed(("p", [0])), "bars": jm.constraint.Distance(bars, length=1.0)},
        gravity=(0.0, 0.0, -9.81),
    )
    state = system.at_rest({"p": points})
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)
    floor = jm.contact.PointContact(("p", range(6)), jm.contact.Plane())
    ends = [
        jm.simulate(system, state, scheme, dt=1e-3, steps=20).last
        for scheme in (jm.integrator.FreeMotion(motion, {"floor": floor}), motion)
    ]
    for found, expected in zip(*(jax.tree.leaves(end.position) for end in ends), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_a_point_slides_over_the_edge_of_a_triangle_within_a_step():
    """On two triangles that are held, as on a plane: past the edge the gap was the way to it, and Newton found no end.

    Friction takes `mu g h` of the speed, along it."""
    corners = np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    system = jm.System(
        {"p": jm.Vec3(), "ground": jm.Vec3()},
        masses={"m": jm.mass.UniformMass(("p", [0]), 1.0), "held": jm.mass.UniformMass(("ground", range(4)), 1.0)},
        constraints={"still": jm.constraint.Fixed(("ground", range(4)))},
        gravity=[0.0, 0.0, -9.81],
    )
    start = system.at_rest({"p": [[-0.004, 0.0, 0.0]], "ground": corners})
    start = eqx.tree_at(lambda s: s.velocity["p"], start, jnp.array([[1.0, 0.2, 0.0]]))
    motion = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start), newton=True)
    square = jm.contact.SurfaceContact(("p", [0]), ("ground", [[0, 1, 2], [1, 3, 2]]), friction=0.3)
    end, _, _ = jm.integrator.FreeMotion(motion, {"ground": square}, **BRIEF).step(system, start, None, 0.01)
    before = np.asarray(start.velocity["p"])
    after = before * (1 - 0.3 * 9.81 * 0.01 / np.linalg.norm(before))
    np.testing.assert_allclose(end.velocity["p"], after, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(end.position["p"], [[-0.004, 0.0, 0.0]] + 0.01 * after, rtol=1e-12, atol=1e-12)
    assert end.position["p"][0, 0] > 0.004
