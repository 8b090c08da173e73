"""Steps of the size that accuracy asks for: how accurate, where they end, what happens meanwhile, their derivatives."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nested_loops import nested_loops
from scheme_scenes import rigid

import jaxmech as jm
from jaxmech._integrator.trajectory.error_norm import error_norm, tolerances
from jaxmech._integrator.trajectory.event import Bracket

G = 9.81  # [m/s^2]
EXACT = 1e-10  # a parabola, which one extrapolation of Euler's method has to rounding
ROUNDING = 1e-12
FINITE = 1e-6  # central differences of 1e-3 of 400, of a run whose steps are the same
EULER = jm.ImplicitEuler(jm.solver.MatrixFreeSystem(), jm.solver.Dense())


def ball(height=1.0):
    scene = jm.System({"ball": jm.Vec1()}, masses={"m": jm.mass.UniformMass(("ball", [0]), 2.0)}, gravity=[-G])
    state = scene.at_rest({"ball": [[1.0]]})
    return scene, eqx.tree_at(lambda s: s.position["ball"], state, jnp.reshape(height, (1, 1)))


@pytest.mark.slow
def test_what_functions_close_over_is_differentiated():
    """The speed at which a ball that is pulled by `g` passes a level: `sqrt(2 g d)`, by both."""
    scene, state = ball()

    def speed(g, level):
        passed = jm.integrator.Event(lambda system, state: state.position["ball"][0, 0] - level, terminal=True)
        run = jm.simulate_adaptive(
            scene,
            state,
            EULER,
            [1.0],
            rtol=1e-2,
            atol=1e-2,
            extrapolate=True,
            events=[passed],
            control=lambda time, state, parameters: {"gravity": -g[None]},
            observe=lambda system, state: state.velocity["ball"][0, 0] / level,
            max_steps=60,
        )
        return level * run.observed[-1]

    slopes = jax.jit(jax.grad(speed, (0, 1)))(jnp.asarray(8.0), jnp.asarray(0.75))
    np.testing.assert_allclose(slopes, [-0.5 * np.sqrt(2 * 0.25 / 8.0), np.sqrt(8.0 / 0.5)], rtol=1e-9)


class Bounce(eqx.Module):
    restitution: jax.Array

    def __call__(self, state):
        return eqx.tree_at(lambda s: s.velocity["ball"], state, -self.restitution * state.velocity["ball"])


def height(system, state):
    return state.position["ball"][0, 0]


def bounced(restitution, start, end=1.2, max_steps=150):
    scene, state = ball(start)
    floor = jm.integrator.Event(height, direction=-1, apply=Bounce(restitution))
    allowed = {"rtol": 1e-3, "atol": 1e-3, "extrapolate": True, "max_steps": max_steps, "max_events": 4, "throw": False}
    return jm.simulate_adaptive(scene, state, EULER, jnp.stack([jnp.asarray(0.2), end]), events=[floor], **allowed)


def told(restitution, start, end=1.2):
    run = bounced(restitution, start, end)
    return jnp.concatenate([run.event_time[:2], run.state.position["ball"][:, 0, 0]]), run


def closed_form(e, h, end=1.2):
    first, v = jnp.sqrt(2 * h / G), jnp.sqrt(2 * G * h)
    second = first + 2 * e * v / G
    now = jnp.where(end > second, second, first)
    up = jnp.where(end > second, e**2 * v, e * v)
    return jnp.stack([first, second, h - G / 2 * 0.2**2, up * (end - now) - G / 2 * (end - now) ** 2])


def test_a_bouncing_ball_is_its_closed_form():
    """Of a ball that falls once and of two that fall twice, in one batch: they take other numbers of steps."""
    e, h = jnp.array([0.8, 0.9, 0.7]), jnp.array([1.0, 1.5, 0.8])
    found, run = jax.jit(jax.vmap(told))(e, h)
    assert np.all(run.info.result == jm.RESULTS.successful) and np.all(run.reached)
    assert len(set(np.asarray(run.info.turns).tolist())) > 1  # which of them take as many is for rounding to say
    searched = np.asarray(run.info.outcome) == 4
    assert np.all(searched.sum(axis=1) <= 12 * np.asarray(run.event >= 0).sum(axis=1))  # bisection takes some 45 for each
    np.testing.assert_array_equal(np.asarray(run.state.time), np.broadcast_to([0.2, 1.2], (3, 2)))  # to the bit
    assert np.asarray(run.event).tolist() == [[0, 0, -1, -1], [0, -1, -1, -1], [0, 0, -1, -1]]
    want = jax.vmap(closed_form)(e, h)
    np.testing.assert_allclose(found[:, [0, 2, 3]], want[:, [0, 2, 3]], rtol=0, atol=EXACT)
    np.testing.assert_allclose(found[[0, 2], 1], want[[0, 2], 1], rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["CentralDifference", "BDF", pytest.param("GeneralizedAlpha", marks=pytest.mark.slow)])
def test_what_a_scheme_remembers_begins_anew_after_an_impact(name):
    """A velocity between steps, former states, accelerations: the ball fell on, or its steps became small for a while.

    All of these schemes have a parabola to rounding."""
    kind = getattr(jm.integrator, name)
    scheme = kind() if name == "CentralDifference" else kind(jm.solver.MatrixFreeSystem(), jm.solver.Dense())
    floor = jm.integrator.Event(height, direction=-1, apply=Bounce(jnp.asarray(0.8)))

    @jax.jit
    def run(scene, state):
        options = {"rtol": 1e-3, "atol": 1e-3, "events": [floor], "max_steps": 80, "max_events": 4, "throw": False}
        return jm.simulate_adaptive(scene, state, scheme, [0.9], **options)

    found = run(*ball())
    first, second, *_ = closed_form(0.8, 1.0)
    np.testing.assert_allclose(found.event_time[:2], [first, -1.0 if second > 0.9 else second], atol=EXACT)
    up, later = 0.8 * np.sqrt(2 * G), 0.9 - first
    np.testing.assert_allclose(found.last.position["ball"][0, 0], up * later - G / 2 * later**2, atol=EXACT)
    np.testing.assert_allclose(found.last.velocity["ball"][0, 0], up - G * later, atol=EXACT)
    assert found.info.accepted < 25


class Latch(jm.integrator.AbstractControl):
    """A spring that is another one from when the mass has passed its middle."""

    def init(self, system, state):
        return jnp.zeros(())

    def __call__(self, time, state, parameters, memory):
        latched = jnp.maximum(memory, jnp.where(state.position["x"][0, 0] >= 0, 1.0, 0.0))
        return {"spring": {"stiffness": parameters[0] + latched * (parameters[1] - parameters[0])}}, latched


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CentralDifference", "VelocityVerlet"])
def test_numbers_that_jump_at_an_event_leave_derivatives_right(name):
    """`CentralDifference` had half a step of the new force for the old one, as much as the instant moves in derivatives."""
    system = jm.System(
        {"x": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("x", [0]), 1.0, [[-0.3]])},
        masses={"mass": jm.mass.UniformMass(("x", [0]), 1.0)},
    )
    state = system.at_rest({"x": [[-1.3]]})
    middle = jm.integrator.Event(lambda system, state: state.position["x"][0, 0], direction=1)
    scheme = getattr(jm.integrator, name)()

    def end(parameters):
        options = {"rtol": 1e-4, "atol": 1e-4, "events": [middle], "control": Latch(), "parameters": parameters}
        last = jm.simulate_adaptive(system, state, scheme, [1.1], **options).last
        return jnp.stack([last.position["x"][0, 0], last.velocity["x"][0, 0]])

    def exact(parameters):
        w, W = jnp.sqrt(parameters)
        first = jnp.arccos(-0.3) / w
        v, t = w * jnp.sin(w * first), 1.1 - first
        x = 0.3 * jnp.cos(W * t) + v / W * jnp.sin(W * t)
        return jnp.stack([x - 0.3, v * jnp.cos(W * t) - 0.3 * W * jnp.sin(W * t)])

    parameters = jnp.array([40.0, 160.0])
    np.testing.assert_allclose(end(parameters), exact(parameters), atol=4e-2)  # a hundred steps, each off by 1e-4 of 8 m/s
    found, want = (np.asarray(jax.jacfwd(f)(parameters)) for f in (end, exact))
    np.testing.assert_allclose(found, want, atol=0.02 * np.abs(want).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GeneralizedAlpha", pytest.param("HHT", marks=pytest.mark.slow)])
def test_errors_of_schemes_that_dissipate_are_of_their_order(name):
    """Taking them away makes a motion more accurate, where it made it 40 times less; half of the steps do."""
    scene = jm.System(
        {"p": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("p", [0]), 8.0, [[0.0]])},
        masses={"m": jm.mass.UniformMass(("p", [0]), 2.0)},
    )
    scheme = getattr(jm.integrator, name)(jm.solver.MatrixFreeSystem(), jm.solver.Dense())
    run = jax.jit(
        lambda extrapolate: jm.simulate_adaptive(
            scene,
            scene.at_rest({"p": [[1.0]]}),
            scheme,
            [2.0],
            rtol=1e-6,
            atol=0.0,
            extrapolate=extrapolate,
            max_steps=500,
            throw=False,
        ),
        static_argnums=0,
    )
    plain, better = (run(extrapolate) for extrapolate in (False, True))
    errors = [abs(r.last.position["p"][0, 0] - np.cos(4.0)) for r in (plain, better)]
    assert errors[0] < 2e-4 and errors[1] < 0.1 * errors[0] and plain.info.accepted < 260


@pytest.mark.slow
def test_bounces_that_come_to_rest_end_the_run():
    """They follow each other until times cannot tell them apart: the ball is on the floor then, where it fell through it."""
    e = jnp.array([0.1, 0.05, 0.9])
    run = jax.jit(jax.vmap(lambda e: bounced(e, 0.5, max_steps=1500)))(e)
    rest = jnp.sqrt(2 * 0.5 / G) * (1 + e) / (1 - e)  # the sum of a geometric series
    assert (run.info.result == jm.RESULTS.events_accumulate).tolist() == [True, True, False]
    assert (run.info.result == jm.RESULTS.successful).tolist() == [False, False, True]
    np.testing.assert_allclose(run.last.time[:2], rest[:2], rtol=0, atol=1e-6)
    np.testing.assert_allclose(run.last.position["ball"][:2, 0, 0], 0.0, atol=EXACT)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacrev, jax.jacfwd])
def test_the_instants_of_impacts_and_all_that_follows_them_are_differentiated(mode):
    """By restitution, height and the last output time."""
    at = (jnp.asarray(0.8), jnp.asarray(1.0), jnp.asarray(1.2))
    exact = jax.jacfwd(closed_form, (0, 1, 2))(*at)
    found = jax.jit(mode(lambda *a: told(*a)[0], (0, 1, 2)))(*at)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-9)


def pendulum(metre=1.0):
    """A bob on a stiff rod, let go from the horizontal; `metre`: how many units of length there are in one."""
    scene = jm.System(
        {"bob": jm.Vec2()},
        forces={"rod": jm.force.Springs((("bob", [0]), ("bob", [1])), 400.0, metre)},
        masses={"bob": jm.mass.UniformMass(("bob", [0, 1]), 1.0)},
        constraints={"nail": jm.constraint.Fixed(("bob", [0]))},
        gravity=[0.0, -G * metre],
    )
    return scene, scene.at_rest({"bob": [[0.0, 0.0], [metre, 0.0]]})


def swing(scene, state, times=(0.3, 0.5), integrator=EULER, **options):
    allowed = {"rtol": 1e-3, "atol": 0.0, "dt0": 0.01, "max_steps": 400, "extrapolate": True} | options
    return jm.simulate_adaptive(scene, state, integrator, jnp.asarray(times), **allowed)


@pytest.fixture(scope="module")
def swings():
    """The same pendulum in metres and in millimetres, and to a tolerance a tenth as large."""
    allowed = [(1.0, 1e-3, 1e-3), (1e3, 1e-3, 1.0), (1.0, 1e-4, 1e-4)]
    return [swing(*pendulum(metre), rtol=rtol, atol=atol) for metre, rtol, atol in allowed]


@pytest.mark.slow
def test_steps_are_the_same_in_other_units(swings):
    metres, millimetres, _ = swings
    assert int(metres.info.accepted) > 20
    np.testing.assert_array_equal(metres.info.outcome, millimetres.info.outcome)
    np.testing.assert_allclose(metres.info.dt, millimetres.info.dt, rtol=1e-9)


def test_the_error_follows_the_tolerance(swings):
    scene, state = pendulum()
    times = np.asarray(swings[0].state.time)
    exact = reference(times)
    coarse, fine = (np.abs(np.asarray(s.state.position["bob"])[:, 1] - exact).max() for s in (swings[0], swings[2]))
    assert fine < coarse / 3 and coarse < 1e-2
    # Each accepted step was accurate enough, those that were not were repeated, and all together they end at the last time.
    info = swings[0].info
    taken = np.asarray(info.outcome) == 1
    assert np.all(np.asarray(info.error)[taken] <= 1) and taken.sum() == info.accepted
    np.testing.assert_allclose(np.asarray(info.dt)[taken].sum(), 0.5, rtol=ROUNDING)
    assert np.all(np.asarray(info.error)[np.asarray(info.outcome) == 2] > 1)
    assert int(info.turns) == info.accepted + info.rejected + info.failed
    assert scene.main_states == ("bob",) and times.tolist() == [0.3, 0.5]


def reference(times):
    """The bob by an independent code (DOP853)."""
    from scipy.integrate import solve_ivp

    def rate(_, y):
        x = y[:2]
        length = np.linalg.norm(x)
        return np.concatenate([y[2:], -400.0 * (length - 1) * x / length - [0.0, G]])

    return solve_ivp(rate, (0, times[-1]), [1.0, 0, 0, 0], "DOP853", times, rtol=1e-11, atol=1e-12).y[:2].T


def test_a_failed_step_is_repeated_with_a_smaller_one():
    """Newton may take three iterations: too few for large steps."""
    newton = jm.ImplicitEuler(jm.solver.MatrixFreeSystem(), jm.solver.Dense(), newton=True, max_steps=3, rtol=1e-9)
    run = swing(*pendulum(), integrator=newton, rtol=1.0, atol=1.0, dt0=0.5, times=(0.5,))
    failed = np.asarray(run.info.outcome) == 3
    assert failed.sum() == run.info.failed >= 1 and run.info.result == jm.RESULTS.successful
    first = int(np.argmax(failed))
    np.testing.assert_allclose(run.info.dt[first + 1], 0.25 * run.info.dt[first], rtol=ROUNDING)
    # Where no size will do, the reason is that of the step.
    with pytest.raises(jm.FailedComputation, match="Newton did not converge") as failure:
        swing(*pendulum(), integrator=newton, rtol=1.0, atol=1.0, dt0=0.5, dt_min=0.2, times=(0.5,))
    assert failure.value.result == jm.RESULTS.not_converged


@pytest.mark.slow
def test_a_step_that_is_solved_to_rounding_has_not_failed():
    """The first residual of a short step is so small that what the tolerance leaves of it is less than rounding makes."""
    scene, state = rigid()
    strict, usual = (
        jm.integrator.Midpoint(jm.MatrixLinearSystem.build(scene, state), newton=True, rtol=rtol) for rtol in (1e-12, None)
    )
    run = jm.simulate_adaptive(scene, state, strict, [0.1], rtol=1e-2, atol=1e-2, dt0=1e-6, max_steps=30, throw=False)
    assert run.info.result == jm.RESULTS.successful and int(run.info.failed) == 0

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def turn(h, newton):
        return newton.step(scene, state, newton.init(scene, state), h, throw=False)[0].position["body"][0, 3]

    for (there, slope), (expected, rate) in ((turn(h, strict), turn(h, usual)) for h in jnp.array([1e-6, 1e-5, 1e-4])):
        np.testing.assert_allclose([there, slope], [expected, rate], rtol=1e-6)


def test_tolerances_that_are_traced_and_not_positive_allow_nothing():
    """Of a negative one every step was accurate enough; of nil, a force was said not to be finite."""
    system, state = ball()
    spring = jm.System(
        system.dofs,
        forces={"spring": jm.force.AnchoredSprings(("ball", [0]), 40.0, [[0.0]])},
        masses=system.masses,
    )

    @jax.jit
    def result(rtol):
        scheme, options = jm.integrator.Tsitouras(), {"atol": 0.0, "max_steps": 60, "throw": False}
        return jm.simulate_adaptive(spring, state, scheme, [0.5], rtol=rtol, **options).info.result

    for rtol in (0.0, -1.0):
        assert result(rtol) == jm.RESULTS.time_step_too_small
    assert result(1e-3) == jm.RESULTS.successful


def test_what_single_precision_cannot_tell_is_said():
    """A tolerance below its rounding ended with the advice to look for a force that jumps."""
    single = partial(jax.tree.map, lambda a: a.astype(np.float32) if a.dtype == np.float64 else a)
    scene = jm.System(
        {"ball": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("ball", [0]), 40.0, [[0.0]])},
        masses={"mass": jm.mass.UniformMass(("ball", [0]), 1.0)},
    )
    start = single(scene.at_rest({"ball": [[1.0]]}))
    with pytest.raises(jm.FailedComputation, match="what float32 rounds is an error too") as failure:
        jm.simulate_adaptive(single(scene), start, jm.integrator.VelocityVerlet(), [0.5], rtol=1e-12, atol=1e-12)
    assert failure.value.result == jm.RESULTS.time_step_too_small


def test_output_times_that_are_traced_and_out_of_order_are_a_failure():
    """Those before the start counted as reached: a run to half of its times was a success."""
    system, state = ball()
    state = eqx.tree_at(lambda s: s.time, state, jnp.asarray(1.0))

    @jax.jit
    def ended(times):
        scheme, options = jm.integrator.VelocityVerlet(), {"atol": 1e-3, "max_steps": 60, "throw": False}
        run = jm.simulate_adaptive(system, state, scheme, times, rtol=1e-3, **options)
        return run.result, run.reached

    for times in ([0.5, 1.2], [0.2, 0.5], [1.2, 1.1], [1.2, 1.2], [1.2, np.nan]):
        result, reached = ended(jnp.array(times))
        assert result == jm.RESULTS.times_out_of_order and not reached.any()
    result, reached = ended(jnp.array([1.0, 1.2]))
    assert result == jm.RESULTS.successful and reached.all()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, pytest.param({"extrapolate": True}, marks=pytest.mark.slow)])
def test_central_differences_take_the_steps_of_verlet(options):
    """They are one motion. Velocities of half a step before were taken for errors: it took ten times the steps here."""
    system = jm.System(
        {"p": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("p", [0]), 4.0, [[0.0]])},
        masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)},
    )
    state = system.at_rest({"p": [[1.0]]})

    def run(scheme):
        return jm.simulate_adaptive(system, state, scheme, [1.5], rtol=1e-6, atol=1e-6, max_steps=300, **options)

    verlet, ours = run(jm.integrator.VelocityVerlet()), run(jm.integrator.CentralDifference())
    assert abs(int(ours.info.accepted) - int(verlet.info.accepted)) <= 2
    for found, theirs, exact in (
        (ours.last.position["p"], verlet.last.position["p"], np.cos(3.0)),
        (ours.last.velocity["p"], verlet.last.velocity["p"], -2 * np.sin(3.0)),
    ):
        assert abs(found[0, 0] - exact) < max(1.5 * abs(theirs[0, 0] - exact), 1e-6)  # [m, m/s]


@pytest.mark.slow
def test_few_steps_are_rejected():
    """Of a pendulum, which gets faster on its way: a fourth of those that the elementary controller has to repeat."""

    def rejected(**options):
        integrator = jm.integrator.VelocityVerlet(check_step=False)
        runs = jax.jit(
            lambda allowed: swing(
                *pendulum(), [2.0], integrator, rtol=allowed, atol=allowed, extrapolate=False, throw=False, **options
            )
        )
        return sum(int(runs(allowed).info.rejected) for allowed in (1e-2, 1e-3, 1e-4, 1e-5))

    assert rejected() < 0.4 * rejected(controller=jm.integrator.PIDController(p=0.0, i=1.0))


def test_a_run_that_does_not_end_says_why():
    with pytest.raises(jm.FailedComputation, match=r"step 9: .*max_steps=") as failure:
        swing(*pendulum(), max_steps=10)
    assert failure.value.result == jm.RESULTS.too_many_time_steps
    with pytest.raises(jm.FailedComputation, match="dt_min="):
        swing(*pendulum(), dt_min=0.1, rtol=1e-6, max_steps=10)
    run = swing(*pendulum(), max_steps=10, throw=False)
    assert run.result == jm.RESULTS.too_many_time_steps and not run.reached[-1]
    np.testing.assert_array_equal(run.state.position["bob"][-1], run.last.position["bob"])


@pytest.mark.parametrize("kind", ["too few steps", "no number"])
def test_derivatives_of_a_run_that_failed_raise(kind):
    """Nothing reads the result of a compiled run in reverse mode: its gradient was that of the steps before, nil."""
    system, state = ball()
    scheme = jm.integrator.VelocityVerlet()
    bad, steps = (9.81, 2) if kind == "too few steps" else (jnp.nan, 50)

    def end(g, throw=True):
        scene = eqx.tree_at(lambda s: s.gravity, system, -g[None])
        options = {"rtol": 1e-6, "atol": 1e-6, "max_steps": steps, "throw": throw}
        return jm.simulate_adaptive(scene, state, scheme, [1.0], **options).last.position["ball"][0, 0]

    for slope in (jax.grad(end), jax.vmap(jax.grad(end), axis_size=2, in_axes=None)):
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="the derivative of simulate_adaptive"):
            jax.block_until_ready(jax.jit(slope)(jnp.asarray(bad)))
    assert np.isnan(jax.jit(jax.grad(lambda g: end(g, throw=False)))(jnp.asarray(bad)))


def test_rates_of_a_run_that_failed_raise_as_it_does():
    """Outside of `jit`: the error was one of JAX's, of the derivative."""
    system, state = ball()

    def end(g):
        scene = eqx.tree_at(lambda s: s.gravity, system, -g[None])
        run = jm.simulate_adaptive(scene, state, jm.integrator.VelocityVerlet(), [1.0], rtol=1e-6, atol=1e-6, max_steps=2)
        return run.last.position["ball"][0, 0]

    with pytest.raises(jm.FailedComputation, match="simulate_adaptive, step 1: "):
        jax.jvp(end, (jnp.asarray(G),), (jnp.ones(()),))


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "reached"), [(1, [False, False]), (40, [True, False])])
def test_what_a_run_that_failed_did_not_come_to_has_no_derivatives(steps, reached):
    """With `throw=False`, in both modes: they were those of the last state, nil where there was none but the first."""
    system, state = ball()

    def shown(g):
        scene = eqx.tree_at(lambda s: s.gravity, system, -g[None])
        options = {"rtol": 1e-6, "atol": 1e-6, "dt_max": 0.01, "max_steps": steps, "throw": False}
        run = jm.simulate_adaptive(scene, state, jm.integrator.VelocityVerlet(), [0.1, 1.0], **options)
        return (run.position["ball"][:, 0, 0], run.last.velocity["ball"][0, 0]), run.reached

    @jax.jit
    def both(g):
        *found, was = jax.jvp(shown, (g,), (jnp.ones_like(g),), has_aux=True)
        return found, jax.jacrev(shown, has_aux=True)(g)[0], was

    ((positions, velocity), forward), backward, was = both(jnp.asarray(G))
    assert was.tolist() == reached and np.isfinite(positions).all() and np.isfinite(velocity)
    for frames, last in (forward, backward):
        np.testing.assert_allclose(frames, np.where(reached, -(0.1**2) / 2, np.nan), rtol=ROUNDING)
        assert np.isnan(last)


@pytest.mark.parametrize("direction", [-1, 0])
@pytest.mark.parametrize("above", [0.5, 2.0], ids=["on the way", "from the start"])
def test_an_event_that_is_no_number_is_named(direction, above):
    scene, state = ball(1.0)
    root = jm.integrator.Event(lambda system, state: jnp.sqrt(height(system, state) - above), direction=direction)
    run = jm.simulate_adaptive(scene, state, EULER, [1.0], rtol=0.1, atol=0.1, events=[root], throw=False)
    assert run.result == jm.RESULTS.event_not_finite and not run.reached[-1]


def test_events_of_one_instant_both_happen_and_a_terminal_one_ends():
    """Two thresholds passed at once, one on the way up that is never met, and an end before the last output time."""
    scene, state = ball()

    def above(level):
        return lambda system, state: state.position["ball"][0, 0] - level

    events = [
        jm.integrator.Event(above(0.7)),
        jm.integrator.Event(above(0.7), direction=-1),
        jm.integrator.Event(above(0.6), direction=1),
        jm.integrator.Event(above(0.2), terminal=True),
    ]
    run = jm.simulate_adaptive(
        scene, state, EULER, [0.1, 0.9], rtol=1e-2, atol=1e-2, extrapolate=True, events=events, max_events=3, max_steps=99
    )
    assert run.event.tolist() == [0, 1, 3] and run.reached.tolist() == [True, False]
    np.testing.assert_allclose(run.event_time, np.sqrt(2 * np.array([0.3, 0.3, 0.8]) / G), atol=EXACT)
    np.testing.assert_allclose(run.last.position["ball"], 0.2, atol=EXACT)
    np.testing.assert_array_equal(run.state.position["ball"][1], run.last.position["ball"])


@pytest.mark.parametrize(("listed", "happened"), [("bwk", [1, 0, 2]), ("kbw", [2, 0, 1]), ("be", [1])])
def test_events_of_one_instant_all_happen_however_they_are_listed(listed, happened):
    """A ball on its floor: `b` turns its velocity, `k` adds 1 m/s, `w` only watches, `e` ends.

    What turns it leads away from the floor, where the others cross."""
    scene, state = ball()

    def floor(**what):
        return jm.integrator.Event(lambda system, state: state.position["ball"][0, 0], direction=-1, **what)

    events = {
        "b": floor(apply=Bounce(jnp.array(1.0))),
        "k": floor(apply=lambda state: eqx.tree_at(lambda s: s.velocity["ball"], state, state.velocity["ball"] + 1.0)),
        "w": floor(),
        "e": floor(terminal=True),
    }
    options = {"rtol": 1e-2, "atol": 1e-2, "extrapolate": True, "max_steps": 99, "max_events": 3}
    run = jm.simulate_adaptive(scene, state, EULER, [0.6], events=[events[name] for name in listed], **options)
    fall, speed = np.sqrt(2 / G), np.sqrt(2 * G)
    assert run.event.tolist() == happened + [-1] * (3 - len(happened))
    np.testing.assert_allclose(run.event_time[: len(happened)], fall, atol=EXACT)
    after = {"bwk": speed + 1.0, "kbw": speed - 1.0, "be": -speed}[listed]
    np.testing.assert_allclose(run.last.velocity["ball"][0, 0], after - G * (run.last.time - fall), atol=EXACT)
    assert bool(run.reached[-1]) == ("e" not in listed)


def glider(speed=1.0):
    """A point that is at -1 m, and after a second of 1 m/s at zero, to the bit."""
    scene = jm.System({"ball": jm.Vec1()}, masses={"m": jm.mass.UniformMass(("ball", [0]), 1.0)})
    state = scene.at_rest({"ball": [[-1.0]]})
    return scene, eqx.tree_at(lambda s: s.velocity["ball"], state, jnp.reshape(speed, (1, 1)))


def glides(scene, state, times, events, **options):
    allowed = {"rtol": 1e-3, "atol": 1e-3, "dt0": 0.25, "max_steps": 40, "max_events": 4} | options
    return jm.simulate_adaptive(scene, state, jm.integrator.VelocityVerlet(), times, events=events, **allowed)


def at_zero(**what):
    return jm.integrator.Event(height, **what)


def at_one_second(**what):
    return jm.integrator.Event(lambda system, state: state.time - 1.0, **what)


TURN = Bounce(jnp.array(1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("events", "happened"),
    [
        ([at_one_second()], [0]),
        ([at_zero(direction=1, terminal=True)], [0]),
        ([at_zero(direction=-1)], []),
        ([at_zero(apply=TURN), at_zero(), at_one_second(direction=1)], [1, 2, 0]),
    ],
    ids=["by time", "the end", "the other way", "several"],
)
def test_what_is_zero_at_an_output_time_has_crossed_once(events, happened):
    """It was no event, and none for a motion that went on from there: that begins at zero."""
    scene, state = glider()
    first = glides(scene, state, [1.0], events)
    assert first.event.tolist() == happened + [-1] * (4 - len(happened)) and first.reached[-1]
    np.testing.assert_array_equal(first.event_time[: len(happened)], 1.0)
    ball = first.last.position["ball"], first.last.velocity["ball"]
    assert ball == (0.0, -1.0 if events[0].apply else 1.0) and first.state.velocity["ball"] == ball[1]
    second = glides(scene, first.last, [2.0], events)
    assert second.event.tolist() == [-1] * 4
    whole = glides(scene, state, [1.0, 2.0], events)
    assert whole.event.tolist() == first.event.tolist() and bool(whole.reached[-1]) != events[0].terminal
    np.testing.assert_array_equal(whole.position["ball"][0, 0, 0], 0.0)


def test_a_function_that_rests_at_zero_crosses_when_it_comes_there_only():
    """How far there is to go, and nothing then: each step after it began and ended at zero, and so would any other run."""
    scene, state = glider()
    left = jm.integrator.Event(lambda system, state: jnp.maximum(-height(system, state), 0.0))
    run = glides(scene, state, [1.0, 1.5, 3.0], [left], dt_max=0.25)
    assert run.event.tolist() == [0, -1, -1, -1] and run.event_time[0] == 1.0


@pytest.mark.parametrize(("events", "happened"), [("tw", [1, 0]), ("wt", [0, 1]), ("ew", [1, 0])])
def test_what_turns_or_ends_a_motion_is_watched_once(events, happened):
    """A watcher of both directions saw what turned a motion twice, and it turned again, until events accumulated; listed
    after an end it saw nothing."""
    scene, state = glider()
    kinds = {"t": at_zero(apply=TURN), "w": at_zero(), "e": at_zero(terminal=True)}
    run = glides(scene, state, [2.0], [kinds[name] for name in events])
    assert run.event.tolist() == happened + [-1, -1]
    np.testing.assert_allclose(run.event_time[:2], 1.0, atol=ROUNDING)
    np.testing.assert_allclose(run.last.position["ball"], -1.0 if "t" in events else 0.0, atol=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_an_event_at_an_output_time_has_the_derivative_of_its_instant_and_the_state_that_of_the_time(mode):
    """Of `x = -1 + v t`: of `1 / v`, twice, and of what is at 1 s and 1.5 s, the watchers being there or not."""

    @jax.jit
    def told(v):
        run = glides(*glider(v), [1.0, 1.5], [at_zero(), at_zero(direction=1)], throw=False)
        return jnp.concatenate([run.event_time[:2], run.position["ball"][:, 0, 0], run.last.position["ball"][0]])

    np.testing.assert_allclose(told(1.0), [1.0, 1.0, 0.0, 0.5, 0.5], atol=ROUNDING)
    np.testing.assert_allclose(mode(told)(1.0), [-1.0, -1.0, 1.0, 1.5, 1.5], rtol=1e-9)


@pytest.mark.parametrize("function", [lambda x: x**3 - 0.1, lambda x: np.exp(-30 * x) - 0.9, lambda x: 0.3 - x])
def test_a_bracket_finds_the_root_about_as_fast_as_bisection_at_worst(function):
    function = function if function(0.0) > 0 else (lambda x, f=function: -f(x))
    tolerance, bracket = 1e-13, Bracket.of(jnp.asarray(1.0), jnp.asarray(function(0.0)), jnp.asarray(function(1.0)))
    while bracket.b - bracket.a > tolerance and bracket.turns < 60:
        h = bracket.next_length(jnp.asarray(tolerance))
        bracket = bracket.narrowed(h, jnp.asarray(function(float(h))))
    assert function(float(bracket.a)) >= 0 > function(float(bracket.b)) and bracket.turns <= 46


TRBDF2 = jm.integrator.TRBDF2(jm.solver.MatrixFreeSystem(), jm.solver.Dense(), newton=True, rtol=1e-12)


@pytest.mark.parametrize(
    ("scheme", "h"), [(EULER, 0.01), pytest.param(TRBDF2, 0.03, marks=pytest.mark.slow)], ids=["Euler", "TRBDF2"]
)
def test_the_estimate_of_one_step_is_its_error(scheme, h):
    """Of a linear oscillator, and of a rigid body that spins freely: the error of a step, but for the next order."""
    scene = jm.System(
        {"p": jm.Vec1(), "body": jm.Rigid3()},
        forces={"spring": jm.force.AnchoredSprings(("p", [0]), 8.0, [[0.0]])},
        masses={
            "m": jm.mass.UniformMass(("p", [0]), 2.0),
            "inertia": jm.mass.RigidMass(("body", [0]), 1.0, np.diag([1.0, 2.0, 3.0])),
        },
    )
    state = scene.at_rest({"p": [[1.0]], "body": [[0.0] * 6 + [1.0]]})
    spin = jnp.array([[1.0, 0, 0, 0.3, 2.0, 0.1]])
    state = eqx.tree_at(lambda s: (s.velocity["body"], s.velocity["p"]), state, (spin, jnp.array([[1.0]])))

    @jax.jit
    def program(state):
        end, _, info, error = scheme.step_with_error(scene, state, None, h, throw=False)

        def one(at, _):
            return scheme.step(scene, at, None, h / 400, throw=False)[0], None

        return end, info.result, error, jax.lax.scan(one, state, None, length=400)[0]

    end, result, (dx, dv), exact = program(state)
    assert result == jm.RESULTS.successful
    for s in ("p", "body"):
        local = jax.vmap(scene.dofs[s].local)(end.position[s], exact.position[s])
        assert np.abs(local).max() > 1e-6
        rate = exact.velocity[s] - end.velocity[s]
        for estimate, missing in ((dx[s], local), (dv[s], rate)):
            np.testing.assert_allclose(estimate, missing, atol=0.05 * np.abs(missing).max())


def test_what_single_precision_rounds_of_places_is_no_error_of_a_short_step():
    """The middle of a step, told from its ends, had their rounding divided by it: below some step the estimate grew."""
    scene = jm.System(
        {"p": jm.Vec2()},
        forces={"spring": jm.force.AnchoredSprings(("p", [0]), 40.0, [[0.0, 0.0]])},
        masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)},
    )
    state = eqx.tree_at(lambda s: s.velocity["p"], scene.at_rest({"p": [[1.2, 0.1]]}), jnp.array([[0.3, -1.0]]))
    single = jax.tree.map(lambda a: a.astype(np.float32) if eqx.is_inexact_array(a) else a, (TRBDF2, scene, state))
    for h in (2e-3, 1e-4):
        (dx, dv), (x, v) = (
            scheme.step_with_error(at, begun, None, jnp.asarray(h, begun.time.dtype), throw=False)[3]
            for scheme, at, begun in ((TRBDF2, scene, state), single)
        )
        unit = 4 * np.finfo(np.float32).eps  # of a speed of 1 m/s
        np.testing.assert_allclose(v["p"], dv["p"], rtol=0.1, atol=unit)
        np.testing.assert_allclose(x["p"], dx["p"], rtol=0.1, atol=unit * h)


@pytest.mark.slow
def test_what_a_corrected_step_does_not_resolve_does_not_grow():
    """An undamped oscillator in steps of TR-BDF2 from a twentieth of its period to hundreds of periods: no energy is gained
    by adding what the estimates say. Divided once by the matrix of a step, they gained up to 1.6 of the amplitude each."""
    spring = jm.force.AnchoredSprings(("p", [0]), 2.0, [[0.0]])
    scene = jm.System({"p": jm.Vec1()}, forces={"spring": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 2.0)})
    state = eqx.tree_at(lambda s: s.velocity["p"], scene.at_rest({"p": [[1.0]]}), jnp.array([[0.5]]))

    @jax.jit
    @jax.vmap
    def level(h):
        end, _, _, (dx, dv) = TRBDF2.step_with_error(scene, state, None, h, throw=False)
        return (end.position["p"] + dx["p"]) ** 2 + (end.velocity["p"] + dv["p"]) ** 2

    assert np.all(level(jnp.array([0.3, 1.0, 3.0, 10.0, 1000.0])) < 1.25)  # what it was [J]


def test_the_norm_compares_nothing_with_another_unit():
    """Turns with a radian, translations with the largest of their state; the largest ratio counts."""
    system = jm.System({"p": jm.Vec2(), "body": jm.Rigid3()})
    at = system.at_rest({"p": [[3.0, 4.0], [0.0, 0.0]], "body": [[10.0, 0, 0, 0, 0, 0, 1.0]]})
    allowed = tolerances("test", system, {"p": 0.1, "body": 0.01}, {"p": (0.5, 1.0), "body": 1.0}, float)
    zero = {"p": jnp.zeros((2, 2)), "body": jnp.zeros((1, 6))}

    def norm(x=None, v=None):
        return float(error_norm(system.dofs, at, at, (zero | (x or {}), zero | (v or {})), allowed))

    turned = jnp.zeros((1, 6)).at[0, 3].set(1.0)
    assert norm() == 0
    np.testing.assert_allclose(norm({"p": jnp.array([[2.0, 0.0], [0.0, 0.0]])}), np.sqrt(2.0) / (0.5 + 0.1 * 5))
    np.testing.assert_allclose(norm({"body": turned}), 1.0 / (1.0 + 0.01))
    np.testing.assert_allclose(norm({"body": jnp.zeros((1, 6)).at[0, 0].set(1.0)}), 1.0 / (1.0 + 0.01 * 10))
    np.testing.assert_allclose(norm(v={"p": jnp.array([[1.0, 0.0], [1.0, 0.0]])}), 1.0)
    np.testing.assert_allclose(norm({"body": 2 * turned}, {"body": turned}), 2.0 / 1.01)


@pytest.mark.slow
def test_many_turns_and_frames_are_all_kept():
    """More of both than a page and a window hold, and no multiple of that; in a batch, too, whose members differ in both."""
    scene, _ = ball()
    times = np.linspace(0.0, 0.4, 76)[1:]

    def run(height, longest, steps=170):
        options = {"rtol": 1.0, "atol": 1.0, "extrapolate": True, "dt0": 0.003, "max_steps": steps, "throw": False}
        found = jm.simulate_adaptive(scene, ball(height)[1], EULER, times, dt_max=longest, **options)
        return found.state.position["ball"][:, 0, 0], found

    def moved(height, longest):
        return jax.jvp(lambda h: run(h, longest), (height,), (jnp.ones(()),), has_aux=True)

    heights, longest = np.array([1.0, 2.0]), np.array([0.003, 0.01])
    x, slope, found = jax.jit(jax.vmap(moved))(heights, longest)
    np.testing.assert_allclose(x, heights[:, None] - G / 2 * times**2, rtol=EXACT)
    np.testing.assert_allclose(slope, 1.0, rtol=EXACT)  # of each frame by its own turn
    np.testing.assert_array_equal(found.state.time, [times, times])
    for member, turns in enumerate(([0.5] * 150, [0.5, 0.5] + [1.0] * 74)):
        kept, none = np.split(np.asarray(found.info.dt[member]), [len(turns)])
        np.testing.assert_allclose(kept, times[0] * np.array(turns), rtol=EXACT)
        assert np.repeat([1, 0], [len(turns), none.size]).tolist() == found.info.outcome[member].tolist() and not none.any()
    alone = jax.jit(lambda h, d: run(h, d)[1])(heights[0], longest[0])
    np.testing.assert_array_equal(alone.info.dt, found.info.dt[0])
    short = jax.jit(lambda h, d: run(h, d, 45)[1])(heights[0], longest[0])  # its last page overlaps with the one before
    np.testing.assert_array_equal(short.info.dt, alone.info.dt[:45])
    assert short.result == jm.RESULTS.too_many_time_steps and int(short.reached.sum()) == 22


def test_another_run_of_other_numbers_traces_nothing():
    """Not even the functions that it is given, of what they close over: that took longer than the run of a small scene."""
    seen = []

    def observe(system, state):
        seen.append(state)
        return state.position["ball"]

    above = jm.integrator.Event(lambda system, state: seen.append(state) or height(system, state) - 0.5, terminal=True)
    options = {"observe": observe, "events": [above], "extrapolate": True, "max_steps": 40}

    def run(tolerance):
        times = [0.1 * (1 + tolerance), 0.9]
        found = jm.simulate_adaptive(*ball(), EULER, times, rtol=tolerance, atol=tolerance, **options)
        return found.event_time[0], len(seen)

    (first, traced), (second, again) = run(1e-2), run(1e-3)
    assert again == traced > 0
    np.testing.assert_allclose([first, second], np.sqrt(2 * 0.5 / G), atol=EXACT)


def test_what_a_turn_reads_and_writes_is_small():
    """However many turns and frames: XLA's CPU backend takes several times as long where an array has over 512 bytes."""
    scene, state = ball()
    times = np.linspace(0.0, 1.0, 501)[1:]

    def run(state):
        return jm.simulate_adaptive(scene, state, EULER, times, rtol=1e-3, atol=1e-3, max_steps=10_000, throw=False)

    loops = list(nested_loops(jax.make_jaxpr(run)(state).jaxpr, "while"))
    depth, turn = max(loops, key=lambda loop: loop[0])
    assert depth == 3 and max(v.aval.size * v.aval.dtype.itemsize for v in turn.invars) <= 512


def test_a_record_that_nobody_reads_is_not_there():
    """No turn reads it, so that XLA leaves it out: filling it took longer than the steps of a small scene."""
    scene, state = ball()
    integrator = jm.integrator.VelocityVerlet(check_step=False)

    def run(state, read):
        found = jm.simulate_adaptive(
            scene, state, integrator, [1.0], rtol=1e-3, atol=1e-3, extrapolate=True, max_steps=4321, throw=False
        )
        return read(found)

    def program(read):
        return jax.jit(partial(run, read=read)).lower(state).compile().as_text()

    assert "[4321]" in program(lambda found: found.info.dt)
    assert "[4321]" not in program(lambda found: (found.last, found.result, found.info.accepted, found.info.turns))


@pytest.mark.slow
def test_derivatives_are_those_of_the_steps_that_were_taken():
    """By the stiffness and the last time, in reverse mode: differences of runs with the same steps."""
    scene, state = pendulum()

    def end(stiffness, last, **options):
        trial = eqx.tree_at(lambda s: s.forces["rod"].stiffness, scene, stiffness)
        times = jnp.stack([jnp.asarray(0.1), last])
        allowed = {"rtol": 1e-2, "atol": 1e-2, "dt_max": 0.03}  # which they all soon come to
        run = swing(trial, state, times, **allowed, max_steps=60, throw=False, **options)
        return run.state.position["bob"][1, 1], (run.info.dt, run.last.velocity["bob"][1])

    at, step = (jnp.asarray(400.0), jnp.asarray(0.2)), 1e-3
    value = jax.jit(end)
    by_stiffness, by_time = jax.jit(jax.jacrev(end, (0, 1), has_aux=True))(*at)[0]
    steps, velocity = value(*at)[1]
    # The other steps stay: dx/dt at the end is the velocity, to the order of the step.
    np.testing.assert_allclose(by_time, velocity, atol=0.05 * np.linalg.norm(velocity))
    ends = [value(at[0] + change, at[1]) for change in (step, -step)]
    assert all(np.array_equal(e[1][0], steps) for e in ends) and np.abs(by_stiffness).max() > 1e-6
    np.testing.assert_allclose(by_stiffness, (ends[0][0] - ends[1][0]) / (2 * step), rtol=FINITE)


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"times": [0.2, 0.1]}, "times"),
        ({"times": [-1.0]}, "times"),
        ({"rtol": 0.0, "atol": 0.0}, "atol"),
        ({"rtol": {"nowhere": 1.0}}, "nowhere"),
        ({"atol": {}}, "bob"),
        ({"dt_min": 1.0, "dt_max": 0.1}, "dt_min"),
        ({"events": [height]}, "events"),
        ({"restart_every": 3}, "restart_file"),
        ({"parameters": 1.0}, "control"),
    ],
)
def test_bad_arguments_are_named(options, culprit):
    with pytest.raises((ValueError, TypeError), match=culprit):
        swing(*pendulum(), **options)


def test_a_controller_that_only_shortens_steps_is_refused():
    """Without an integral part steps shrank by `safety`, however accurate: the run ended after `max_steps`."""
    for parts in ({"p": 0.5}, {"p": 0.0, "d": 0.3}, {"p": 0.0}):
        with pytest.raises(ValueError, match="PIDController: i must be more than 0"):
            jm.integrator.PIDController(i=0.0, **parts)


def test_frames_are_read_as_those_of_equal_steps():
    """`position`, `velocity`, `time` were of `Trajectory` alone; of what was observed, an error about `None`."""
    scene, state = ball()
    options = {"integrator": jm.integrator.Tsitouras(), "times": [0.1, 0.2], "rtol": 1e-3, "atol": 1e-3}
    run = jm.simulate_adaptive(scene, state, **options)
    np.testing.assert_allclose(run.time, [0.1, 0.2])
    np.testing.assert_allclose(run.velocity["ball"][:, 0, 0], -G * run.time, rtol=1e-12)
    np.testing.assert_allclose(run.position["ball"][:, 0, 0], 1 - G / 2 * run.time**2, rtol=1e-12)
    seen = jm.simulate_adaptive(scene, state, **options, observe=height)
    np.testing.assert_array_equal(seen.observed, run.position["ball"][:, 0, 0])
    for name in ("position", "velocity", "time"):
        with pytest.raises(ValueError, match="this trajectory was observed, and holds no states"):
            getattr(seen, name)


def test_a_scheme_with_impacts_is_refused():
    """A ball that bounces was 0.02 m off, and a success. What slides on is taken."""
    scene = jm.System({"p": jm.Vec3()}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)}, gravity=[0.0, 0.0, -10.0])
    state = scene.at_rest({"p": [[0.0, 0.0, 1.0]]})
    floor = jm.contact.PointContact(("p", [0]), jm.contact.Plane(), restitution=1.0)
    scheme, options = jm.integrator.FreeMotion(EULER, {"floor": floor}), {"rtol": 1e-4, "atol": 1e-4}
    with pytest.raises(ValueError, match=r"simulate_adaptive: steps of FreeMotion have impacts.*`simulate`.*`Event`"):
        jm.simulate_adaptive(scene, state, scheme, [1.0], **options)
    slides = eqx.tree_at(
        lambda s: (s.position["p"], s.velocity["p"]), state, (jnp.zeros((1, 3)), jnp.array([[1.0, 0.0, 0.0]]))
    )
    rough = jm.contact.PointContact(("p", [0]), jm.contact.Plane(), friction=0.2)
    run = jm.simulate_adaptive(scene, slides, jm.integrator.FreeMotion(EULER, {"floor": rough}), [0.25], **options)
    np.testing.assert_allclose(run.last.position["p"][0, 0], 0.25 - 0.25**2, atol=2e-3)  # slowed by 2 m/s^2, in first order


@pytest.mark.slow
def test_adaptive_steps_beat_the_best_equal_ones():
    """A ball that bounces on a stiff floor: as accurate in far fewer of the same extrapolated steps."""
    from benchmarks.adaptive import measured

    for row in measured(1e5, (3e-4, 1e-4)):
        assert row["error m"] < 5e-3 and row["equal steps"] > 4 * row["steps"]


@pytest.mark.slow
def test_single_precision_and_an_observation_of_whole_numbers():
    scene, state = jax.tree.map(lambda a: a.astype(np.float32) if eqx.is_inexact_array(a) else a, ball())
    floor = jm.integrator.Event(height, direction=-1, apply=Bounce(jnp.asarray(0.5, np.float32)))

    def run(level):
        begun = eqx.tree_at(lambda s: s.position["ball"], state, jnp.reshape(level, (1, 1)))
        found = jm.simulate_adaptive(
            scene,
            begun,
            EULER,
            np.array([0.25, 0.5], np.float32),
            rtol=1e-2,
            atol=1e-2,
            extrapolate=True,
            events=[floor],
            observe=lambda system, state: {"sign": jnp.sign(height(system, state)).astype(int), "x": height(system, state)},
            max_steps=60,
        )
        return found.observed["x"][1], found

    (x, found), slope = eqx.filter_value_and_grad(run, has_aux=True)(jnp.asarray(1.0, np.float32))
    assert found.observed["sign"].tolist() == [1, 1] and x.dtype == found.event_time.dtype == np.float32
    np.testing.assert_allclose(found.event_time[0], np.sqrt(2 / G), rtol=1e-5)
    np.testing.assert_allclose(slope, jax.grad(lambda h: closed_form(0.5, h, 0.5)[3])(1.0), rtol=1e-3)
    lost = jm.integrator.Event(lambda system, state: jnp.log(state.position["ball"][0, 0] - 0.5))
    with pytest.raises(jm.FailedComputation, match="not a number"):
        jm.simulate_adaptive(*ball(), EULER, [0.6], rtol=1e-2, atol=1e-2, events=[lost], max_steps=200)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"apply": lambda state: None}, TypeError, "apply must return a State, got NoneType"),
        (
            {"apply": lambda s: eqx.tree_at(lambda s: s.position, s, {"other": s.position["ball"]})},
            ValueError,
            "same degrees",
        ),
        ({"function": lambda system, state: 1j * state.time}, TypeError, "real number"),
        ({"function": lambda system, state: height(system, state) > 0.5}, TypeError, "a truth value"),
        ({"apply": lambda s: eqx.tree_at(lambda s: s.time, s, replace_fn=lambda t: t[None])}, ValueError, "apply made time"),
        (
            {
                "apply": lambda s: eqx.tree_at(
                    lambda s: s.velocity, s, replace_fn=lambda v: {"ball": v["ball"].astype("float32")}
                )
            },
            ValueError,
            r"apply made velocity\['ball'\] float32 .* from float64",
        ),
    ],
)
def test_what_the_functions_of_an_event_return_is_checked(options, error, words):
    scene, state = ball(1.0)
    event = jm.integrator.Event(**{"function": height} | options)
    with pytest.raises(error, match=words):
        jm.simulate_adaptive(scene, state, EULER, [0.1, 0.2], rtol=1e-3, atol=1e-3, events=[event])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["VelocityVerlet", "TRBDF2"])
def test_a_hand_that_control_moves_does_not_cost_steps(name):
    """Its velocity at the end of a step is the mean of that, as of every scheme: as an error it took 18,877 steps."""
    system = jm.System(
        {"p": jm.Vec1()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", [1]), 1.0)},
        constraints={"hand": jm.constraint.PrescribedMotion(("p", [0]), [[0.0]], [[0.0]])},
    )
    start = system.at_rest({"p": [[0.0], [1.1]]})
    scheme = getattr(jm.integrator, name)
    scheme = scheme(jm.MatrixLinearSystem.build(system, start)) if name == "TRBDF2" else scheme()

    def led(time, state, parameters):
        return {"hand": {"displacements": 0.3 * (1 - jnp.cos(3 * time))[None, None]}}

    run = jm.simulate_adaptive(system, start, scheme, [1.5], rtol=1e-5, atol=1e-5, dt0=0.01, control=led)
    driven, free = 0.3 * 40.0 / (40.0 - 9.0), np.sqrt(40.0)  # of the forced vibration; [rad/s]
    exact = 1.3 - driven * np.cos(4.5) + (driven - 0.2) * np.cos(1.5 * free)
    assert run.info.accepted < 150
    np.testing.assert_allclose(run.last.position["p"][1, 0], exact, atol=1e-4)


@pytest.mark.slow
def test_the_gradient_of_a_run_with_events_has_one_step_more_than_that_of_one_without():
    """Where an event is, and where its step leads, were linearised each by itself: shells took twice as long to compile."""
    spring = {"spring": jm.force.AnchoredSprings(("p", [0]), 4.0, [[0.0]])}
    system = jm.System({"p": jm.Vec1()}, forces=spring, masses={"mass": jm.mass.UniformMass(("p", [0]), 1.0)})
    state = system.at_rest({"p": [[1.0]]})
    scheme = jm.integrator.Midpoint(jm.MatrixLinearSystem.build(system, state), newton=True)
    passed = jm.integrator.Event(lambda system, state: state.position["p"][0, 0] - 0.5)

    def end(stiffness, events):
        scene = eqx.tree_at(lambda s: s.forces["spring"].stiffness, system, stiffness)
        options = {"rtol": 1e-4, "atol": 1e-4, "max_steps": 30, "throw": False}
        return jm.simulate_adaptive(scene, state, scheme, [0.5], events=events, **options).last.position["p"][0, 0]

    def length(events):
        with jm.runtime.element_compiler("xla"):
            return jax.jit(jax.grad(partial(end, events=events))).lower(jnp.asarray(4.0)).as_text().count("\n")

    assert length([passed]) < 1.4 * length([])


@pytest.mark.slow
def test_second_derivatives_go_through_events():
    """Of where a ball is that bounced, `c t - g t^2/2` from the instant `sqrt(2 d / g)`."""
    scene, state = ball()

    def height(numbers):
        g, restitution, level = numbers
        fallen = jm.integrator.Event(eqx.Partial(above, level), apply=Bounce(restitution), direction=-1)
        options = {"rtol": 1e-4, "atol": 1e-4, "events": [fallen], "max_steps": 20, "throw": False}
        pulled = eqx.tree_at(lambda s: s.gravity, scene, -g[None])
        return jm.simulate_adaptive(pulled, state, jm.integrator.Tsitouras(), [0.5], **options).last.position["ball"][0, 0]

    def exact(numbers):
        g, restitution, level = numbers
        instant = jnp.sqrt(2 * (1 - level) / g)
        left = 0.5 - instant
        return level + restitution * g * instant * left - g * left**2 / 2

    at = jnp.array([G, 0.8, 0.2])
    for derivative in (jax.grad, lambda f: jax.jacfwd(jax.grad(f))):
        np.testing.assert_allclose(jax.jit(derivative(height))(at), derivative(exact)(at), rtol=1e-9)


def above(level, system, state):
    return state.position["ball"][0, 0] - level
