"""Motions given by velocities or accelerations: exact in time, and at the order of the scheme in what they shake."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scheme_scenes import EXPLICIT, IMPLICIT, made

import jaxmech as jm

K, M, A, V = 40.0, 3.0, 3.0, 0.5  # [N/m], [kg], [m/s^2], [m/s]
TIMES = np.array([0.0, 0.1, 0.35])
TABLE = np.array([[0.0, 1.0], [2.0, 0.5], [-1.0, 0.0]])
EXACT = 1e-12
ORDER = 0.15  # of steps that are not very small


def shaken(values=((A,),), times=(0.0,)):
    """A rod with its mass, on a foot that is accelerated; a state that moves with it."""
    base = jm.constraint.PrescribedAcceleration(("x", [0]), [[0.0]], values, times, start_velocity=[V])
    system = jm.System(
        {"x": jm.Vec1()},
        forces={"spring": jm.force.Springs((("x", [0]), ("x", [1])), K, 1.0)},
        masses={"mass": jm.mass.ConsistentMass(("x", [[0, 1]]), [[0.0], [1.0]], M, "edge")},
        constraints={"base": base},
    )
    state = system.at_rest({"x": [[0.0], [1.0]]})
    return system, jm.State(state.position, {"x": jnp.full((2, 1), V)}, state.time)


def exact(t):
    """Positions and velocities of both ends, of `M/3 (w'' + A) + M/6 A + K w = 0`."""
    omega, most = np.sqrt(3 * K / M), -(M / 2) * A / K
    foot, speed = V * t + A * t**2 / 2, V + A * t
    w, rate = most * (1 - np.cos(omega * t)), most * omega * np.sin(omega * t)
    return np.array([foot, 1 + foot + w, speed, speed + rate])


def last(system, state, integrator, steps, span=0.3):
    end = jm.simulate(system, state, integrator, span / steps, steps, save_every=steps).last
    return np.concatenate([np.ravel(end.position["x"]), np.ravel(end.velocity["x"])])


def check_shaken(name, newton):
    system, state = shaken()
    integrator = made(name, system, state, newton)
    first = {"BDF2": 32, "BDF3": 48}.get(name, 16)
    ends = [last(system, state, integrator, n) for n in (first, 2 * first)]
    led = [0] if name == "ImplicitEuler" else [0, 2]  # whose velocities are differences
    np.testing.assert_allclose(np.stack(ends)[:, led], np.tile(exact(0.3)[led], (2, 1)), atol=EXACT)
    errors = [np.linalg.norm(e - exact(0.3)) for e in ends]
    assert errors[1] < 0.1 and np.log2(errors[0] / errors[1]) > integrator.order - ORDER


@pytest.mark.slow
@pytest.mark.parametrize(("name", "newton"), [("Newmark", False)])
def test_a_mass_on_an_accelerated_base(name, newton):
    check_shaken(name, newton)


OTHERS = [name for name in [*IMPLICIT, *EXPLICIT] if name != "Newmark"]
SLOW = ("GeneralizedAlpha", "RK4", "Tsitouras", "Midpoint")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.slow if n in SLOW else pytest.mark.exhaustive) for n in OTHERS]
)
def test_all_schemes_on_an_accelerated_base(name):
    check_shaken(name, False)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GeneralizedAlpha", pytest.param("HHT", marks=pytest.mark.slow)])
def test_a_base_whose_acceleration_changes(name):
    """Of schemes whose accelerations are of another instant than the end of a step: they were of first order."""
    change = 20.0  # [m/s^3]
    system, state = shaken([[A], [A + change]], [0.0, 1.0])
    integrator = made(name, system, state, False)
    errors = [np.abs(last(system, state, integrator, n)[[1, 3]] - swung(0.3, change)).max() for n in (16, 32)]
    assert errors[1] < 1e-3 and np.log2(errors[0] / errors[1]) > 2 - ORDER


def swung(t, change):
    """Position and velocity of the free end, of `M/3 (w'' + a) + M/6 a + K w = 0`, `a = A + change t`."""
    omega = np.sqrt(3 * K / M)
    foot, speed = V * t + A * t**2 / 2 + change * t**3 / 6, V + A * t + change * t**2 / 2
    w = A * (np.cos(omega * t) - 1) + change * (np.sin(omega * t) / omega - t)
    rate = -A * omega * np.sin(omega * t) + change * (np.cos(omega * t) - 1)
    return np.array([1 + foot + 1.5 * w / omega**2, speed + 1.5 * rate / omega**2])


@pytest.mark.parametrize(
    ("name", "newton"),
    [
        pytest.param("Newmark", True, marks=pytest.mark.slow),
        pytest.param("GeneralizedAlpha", False, marks=pytest.mark.exhaustive),
        pytest.param("Midpoint", True, marks=pytest.mark.exhaustive),
    ],
)
def test_gradients_by_the_table(name, newton):
    start = jnp.asarray(TABLE[:, :1])
    integrator = made(name, *shaken(start, TIMES), newton)

    @jax.jit
    def both(values):
        def end(values):
            system, state = shaken(values, TIMES)
            reached = jm.simulate(system, state, integrator, 0.05, 6, throw=False).last
            return reached.velocity["x"][1, 0] + 2.0 * reached.position["x"][1, 0]

        return jax.value_and_grad(end)(values)

    _, slopes = both(start)
    for i in range(3):
        ends = [both(start.at[i, 0].add(sign * 1e-4))[0] for sign in (1, -1)]
        np.testing.assert_allclose(slopes[i, 0], (ends[0] - ends[1]) / 2e-4, rtol=1e-7)
    assert np.abs(slopes).min() > 1e-4


def closed(kind, t):
    """`u` by the integral of NumPy's interpolation, which is a polynomial between key frames."""
    ends = np.sort(np.unique(np.concatenate([[0.0, t], [s for s in TIMES if s < t]])))
    x, w = np.polynomial.legendre.leggauss(3)
    total = 0.0
    for a, b in zip(ends[:-1], ends[1:], strict=True):
        s = (a + b) / 2 + (b - a) / 2 * x
        value = np.stack([np.interp(s, TIMES, column) for column in TABLE.T], axis=1)
        weight = w * (b - a) / 2 * (1.0 if kind == "velocity" else t - s)
        total = total + weight @ value
    return total


@pytest.mark.slow
def test_positions_are_the_integrals():
    """Of two nodes, one moved by each; in statics at the time of the state, with the forces that hold them there."""
    system = jm.System(
        {"p": jm.Vec2(), "frame": jm.Rigid3()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), K, 0.5)},
        masses={"body": jm.mass.RigidMass(("frame", [0]), 1.0, np.eye(3))},
        constraints={
            "v": jm.constraint.PrescribedVelocity(("p", [0]), [[0.0, 0.0]], TABLE, TIMES, start=[0.1, 0.2]),
            "a": jm.constraint.PrescribedAcceleration(
                ("p", [1]), [[1.0, 0.0]], TABLE, TIMES, start=[0.0, 0.3], start_velocity=[0.4, 0.0]
            ),
            "held": jm.constraint.Fixed(("frame", [0])),
        },
    )
    rest = system.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]], "frame": [[0.0] * 6 + [1.0]]})

    times = [0.05, 0.1, 0.2, 0.5]

    def target(name, t):
        field = system.constraints[name]
        return field.element_target(jm.Vec2(), field.reference[0], t)[0]

    @jax.jit
    def motion(t):
        """Displacements, rates and accelerations of both."""
        u, one = (lambda t: jnp.stack([target("v", t), target("a", t)])), jnp.ones(())

        def rate(t):
            return jax.jvp(u, (t,), (one,))[1]

        return u(t), *jax.jvp(rate, (t,), (one,))

    for t in times:
        u, rate, second = motion(jnp.asarray(t))
        value = np.stack([np.interp(t, TIMES, column) for column in TABLE.T])
        np.testing.assert_allclose(u[0], [0.1, 0.2] + closed("velocity", t), atol=EXACT)
        np.testing.assert_allclose(u[1], [0.4 * t, 0.3] + closed("acceleration", t), atol=EXACT)
        np.testing.assert_allclose(rate[0], value, atol=EXACT)
        np.testing.assert_allclose(rate[1], [0.4, 0.0] + closed("velocity", t), atol=EXACT)
        np.testing.assert_allclose(second[1], value, atol=EXACT)
    before = motion(jnp.asarray(-1.0))
    np.testing.assert_allclose(before[0][0], [0.1, 0.2 - 1.0], atol=EXACT)  # the first velocity, backwards
    solved = jm.static_solve(system, jm.State(rest.position, rest.velocity, jnp.asarray(0.2)))
    ends = np.asarray(solved.position["p"])
    np.testing.assert_allclose(ends, motion(jnp.asarray(0.2))[0] + np.array([[0.0, 0.0], [1.0, 0.0]]), atol=EXACT)
    length = np.linalg.norm(ends[1] - ends[0])
    force = K * (length - 0.5) * (ends[1] - ends[0]) / length
    np.testing.assert_allclose(jm.reactions(system, solved.state)["p"], np.stack([-force, force]), atol=1e-10)


@pytest.mark.slow
def test_frames_are_moved_but_not_turned():
    frame = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    moved = (True, True, True, False, False, False)
    mass = {"body": jm.mass.RigidMass(("frame", [0]), 2.0, np.diag([1.0, 2.0, 3.0]))}
    lift = [[0.0, 0.0, 2.0, 0.0, 0.0, 0.0]]

    def scene(**options):
        base = jm.constraint.PrescribedAcceleration(("frame", [0]), frame, lift, [0.0], **options)
        return jm.System({"frame": jm.Rigid3()}, masses=mass, constraints={"base": base})

    system = scene(components=moved)
    state = system.at_rest({"frame": frame})
    state = jm.State(state.position, {"frame": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])}, state.time)
    end = jm.simulate(system, state, made("Midpoint", system, state, True), 0.05, 4, save_every=4).last
    turned = [0.0, 0.0, np.sin(0.1), np.cos(0.1)]  # it turns freely about its axis
    np.testing.assert_allclose(end.position["frame"][0], [0.0, 0.0, 0.04, *turned], atol=1e-9)
    np.testing.assert_allclose(end.velocity["frame"][0], [0.0, 0.0, 0.4, 0.0, 0.0, 1.0], atol=1e-9)
    with pytest.raises(ValueError, match="moves translations"):
        scene().at_rest({"frame": frame})


RISEN, AT = ((0.0,), (1.0,), (0.5,)), (0.0, 1.0, 2.0)


def drive():
    pull = jm.constraint.LinearRelation(("x", [[1]]), ("force", [0]), [1.0], [0.0])
    return jm.constraint.Follow(pull, values=RISEN, times=AT)


@pytest.mark.parametrize(
    "moved",
    [
        lambda: jm.constraint.PrescribedMotion(("x", [1]), [[0.0]], RISEN, AT),
        pytest.param(drive, marks=pytest.mark.slow),
    ],
)
def test_traced_key_frames_that_do_not_increase_are_a_failure(moved):
    """A search among them found something, and the solve was a success."""
    spring = {"spring": jm.force.AnchoredSprings(("x", [0, 1]), 1.0, [[0.0], [0.0]])}
    constraint, places = moved(), {"x": [[0.0], [0.0]]}
    if isinstance(constraint, jm.constraint.Follow):
        places["force"] = [[0.0]]
    system = jm.System({s: jm.Vec1() for s in places}, forces=spring, constraints={"moved": constraint})
    state = system.at_rest(places, time=0.5)
    linear_system = jm.MatrixLinearSystem.build(system, state, jm.Terms(mass=False, damping=False))

    @jax.jit
    def solved(times):
        scene = eqx.tree_at(lambda s: s.constraints["moved"].times, system, times)
        found = jm.static_solve(scene, state, linear_system, throw=False)
        return found.info.result, found.position["x"][1, 0], jm.integrator.Table(times, RISEN)(0.5)

    result, x, table = solved(jnp.array(AT))
    assert result == jm.RESULTS.successful
    np.testing.assert_allclose([x, table[0]], 0.5, rtol=1e-9)
    for times in ([0.0, 2.0, 1.0], [0.0, 0.0, 2.0]):
        result, _, table = solved(jnp.array(times))
        assert result == jm.RESULTS.not_finite and jnp.isnan(table).all()


ALONG, LEAD = (True, True, False), np.array([3.0, 1.0])  # [m/s^2]


def led_pendulum(kind):
    """A pendulum whose pivot is led with a constant acceleration: seen from there, gravity is less by that. The mass at its
    tip couples the angle to the pivot."""
    on, times = ("frame", [0]), np.linspace(0.0, 1.0, 401)
    if kind == "fixed":
        pivot = jm.constraint.FixedComponents(on, ALONG)
    elif kind == "control":
        pivot = jm.constraint.PrescribedMotion(on, [[0.0] * 3], [[0.0] * 3], components=ALONG)
    else:
        keys = 0.5 * times[:, None] ** 2 * np.array([*LEAD, 0.0])
        pivot = jm.constraint.PrescribedMotion(on, [[0.0] * 3], keys, times, components=ALONG)
    system = jm.System(
        {"frame": jm.Rigid2(), "tip": jm.Vec2()},
        masses={"tip": jm.mass.UniformMass(("tip", [0]), 1.0), "body": jm.mass.PlanarRigidMass(("frame", [0]), 0.5, 0.1)},
        mappings={"arm": jm.mapping.RigidMapping(("frame", [0]), "tip", [[0.6, -0.8]])},
        constraints={"pivot": pivot},
        gravity=np.array([0.0, -9.81]) - (LEAD if kind == "fixed" else 0.0),
    )
    return system, system.at_rest({"frame": [[0.0, 0.0, 0.0]]})


def led_by(time, state, parameters):
    return {"pivot": {"displacements": 0.5 * time**2 * jnp.array([[*LEAD, 0.0]])}}


LED = ["RK4", "VelocityVerlet", "CentralDifference", "SymplecticEuler", "Tsitouras", "Newmark", "HHT", "GeneralizedAlpha"]
ALONE = ["Midpoint", "Trapezoid", "BDF2", "TRBDF2", "EnergyMomentum"]  # which have the impulses of key frames within a step


def off_the_pendulum(kind, name, steps):
    """How far angle and spin are off after 0.8 s."""
    system, start = led_pendulum(kind)
    control, scheme = (led_by if kind == "control" else None), made(name, system, start, newton=True)
    run = jm.simulate(system, start, scheme, 0.8 / steps, steps, control=control, save_every=steps)
    exact = jm.simulate(*led_pendulum("fixed"), jm.integrator.RK4(), 1e-3, 800, save_every=800)
    assert abs(exact.last.position["frame"][0, 2]) > 1.5
    return np.abs(turned(run.last) - turned(exact.last))


def turned(state):
    return np.array([state.position["frame"][0, 2], state.velocity["frame"][0, 2]])


@pytest.mark.slow_cases(
    *(f"{kind}-{name}" for name in LED for kind in ("control", "keys") if (kind, name) != ("control", "RK4"))
)
@pytest.mark.slow_cases(*(f"control-{name}" for name in ALONE))
@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in ("control", "keys") for name in LED] + [("control", name) for name in ALONE]
)
def test_what_masses_couple_to_a_motion_is_jerked_along(kind, name):
    """Between key frames a motion has no acceleration: explicit schemes knew none at all, and the pendulum swung as if its
    pivot stood still; Newmark's method and its kin took on what a jump had left to the free directions, and had it twice.
    Under control the rate at the end of a step was that of its middle, and all implicit schemes of first order."""
    coarse, fine = (off_the_pendulum(kind, name, steps) for steps in (100, 200))
    assert fine[0] < 6e-3
    if kind == "control":
        order = 1 if name == "SymplecticEuler" else 2
        assert np.all((np.log2(coarse / fine) > order - ORDER) | (coarse < 1e-11))  # of Tsitouras's method rounding is left


@pytest.mark.slow
def test_adaptive_steps_of_what_is_led_under_control_are_as_long_as_its_motion_asks():
    """They were 1341, for the velocity at the end of each was half a step late. The first was that of a constant rate, and
    taken eight times until it was 0.2 ms long."""
    exact = jm.simulate(*led_pendulum("fixed"), jm.integrator.RK4(), 1e-3, 800, save_every=800).last
    system, start = led_pendulum("control")
    watched = jm.integrator.Event(lambda system, state: state.position["frame"][0, 2] + 0.7)
    options = {"control": led_by, "events": [watched], "rtol": 1e-4, "atol": 1e-4, "max_steps": 100}
    run = jm.simulate_adaptive(system, start, made("Midpoint", system, start, newton=True), [0.3, 0.8], **options)
    assert int(run.info.accepted) < 40 and run.info.outcome[0] == 1
    np.testing.assert_allclose(run.event_time[0], 0.44211, atol=3e-4)  # [s], of 3200 steps of RK4
    np.testing.assert_allclose(turned(run.last), turned(exact), atol=3e-3)


def led_late(time, state, parameters):
    return {"pivot": {"displacements": 0.5 * jnp.maximum(time - 0.37, 0.0) * jnp.array([[*LEAD, 0.0]])}}


@pytest.mark.slow
def test_adaptive_steps_go_on_where_the_velocity_of_a_motion_has_jumped_between_two_runs():
    system, start = led_pendulum("control")
    fixed = jm.simulate(system, start, jm.integrator.RK4(), 5e-4, 1600, save_every=1600, control=led_late).last
    options = {"control": led_late, "rtol": 1e-6, "atol": 1e-6, "max_steps": 300}
    with pytest.raises(jm.FailedComputation, match="no time step that is allowed is accurate enough"):
        jm.simulate_adaptive(system, start, jm.integrator.Tsitouras(), [0.8], **options)
    before = jm.simulate_adaptive(system, start, jm.integrator.Tsitouras(), [0.37], **options).last
    after = jm.simulate_adaptive(system, before, jm.integrator.Tsitouras(), [0.8], **options)
    assert int(after.info.rejected) < 4
    np.testing.assert_allclose(turned(after.last), turned(fixed), atol=1e-5)
