"""Control in the loop: what it changes, when, what must not go stale, tables, observations, and a policy that learns."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scheme_scenes import made

import jaxmech as jm

ROUNDING = 1e-12
FINITE = 1e-7  # central differences of 1e-5 of smooth numbers of order one
H, STEPS = 0.05, 12


def oscillator():
    """A mass of 2 kg on a spring: all of its matrix is kept from step to step."""
    system = jm.System(
        {"p": jm.Vec1()},
        forces={
            "spring": jm.force.AnchoredSprings(("p", [0]), 8.0, [[0.0]]),
            "load": jm.force.ConstantForce(("p", [0]), [0.0]),
        },
        masses={"mass": jm.mass.UniformMass(("p", [0]), 2.0)},
    )
    state = system.at_rest({"p": [[1.0]]})
    return system, state, jm.MatrixLinearSystem.build(system, state)


def modulated(time, state, parameters):
    stiffness, gain = parameters
    force = jnp.reshape(jnp.cos(time) - gain * state.velocity["p"][0, 0], (1,))
    return {"spring": {"stiffness": stiffness * (1 + 0.5 * jnp.sin(3 * time))}, "load": {"force": force}}


def by_hand(stiffness, gain):
    """Implicit Euler with the stiffness and the load at the end of each step, and the feedback of its start."""
    x, v, xs = 1.0, 0.0, [1.0]
    for n in range(1, STEPS + 1):
        t = n * H
        k, f = stiffness * (1 + 0.5 * np.sin(3 * t)), np.cos(t) - gain * v
        v = (2.0 * v + H * (f - k * x)) / (2.0 + H**2 * k)
        x = x + H * v
        xs.append(x)
    return np.array(xs)


@pytest.mark.slow_cases("True", "False")
@pytest.mark.parametrize("newton", [False, True])
def test_numbers_that_are_controlled_are_those_of_the_end_of_the_step_and_nothing_kept_is_stale(newton):
    system, state, linear_system = oscillator()
    assert linear_system.init(system, state) is not None  # the stiffness, too, which control changes
    integrator = jm.ImplicitEuler(linear_system, jm.solver.Dense(), newton=newton, rtol=1e-12)

    @jax.jit
    def run(stiffness, gain):
        def end(stiffness, gain):
            run = jm.simulate(
                system, state, integrator, H, STEPS, control=modulated, parameters=(stiffness, gain), throw=False
            )
            return run.last.position["p"][0, 0], run.position["p"][:, 0, 0]

        return jax.value_and_grad(end, (0, 1), has_aux=True)(stiffness, gain)

    (_, xs), slopes = run(8.0, 0.3)
    np.testing.assert_allclose(xs, by_hand(8.0, 0.3), rtol=0, atol=1e-10)
    for number, slope in enumerate(slopes):
        ends = [by_hand(8.0 + s * 1e-5 * (number == 0), 0.3 + s * 1e-5 * (number == 1))[-1] for s in (1, -1)]
        assert abs(slope) > 1e-3
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=FINITE)


class Integral(jm.integrator.AbstractControl):
    """The sum of what is missing; `gain` is a number to differentiate by."""

    gain: jax.Array
    widens: bool = eqx.field(static=True, default=False)

    def init(self, system, state):
        return {"sum": jnp.zeros((1, 1)), "time": state.time}

    def __call__(self, time, state, parameters, memory):
        total = memory["sum"] + (time - memory["time"]) * (parameters - state.position["x"])
        force = self.gain * total[0] - 2.0 * state.velocity["x"][0]
        return {"push": {"force": force}}, {"sum": total[0] if self.widens else total, "time": time}


@pytest.mark.slow
def test_a_control_remembers():
    """Each step by hand: `v += h f / m`, `x += h v`; steps of an error estimate, restarts and derivatives remember too."""
    system = jm.System(
        {"x": jm.Vec1()},
        forces={"push": jm.force.ConstantForce(("x", [0]), [0.0])},
        masses={"m": jm.mass.UniformMass(("x", [0]), 2.0)},
    )
    state = system.at_rest({"x": [[0.0]]})
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    h, n, goal, rows = 0.1, 12, 1.0, []
    x = v = total = 0.0
    for _ in range(n):
        total += h * (goal - x)
        v += h * (3.0 * total - 2.0 * v) / 2.0
        x += h * v
        rows.append(x)

    def run(gain, steps, **options):
        return jm.simulate(system, state, euler, h, steps, control=Integral(gain), parameters=goal, **options)

    def last(gain):
        return run(gain, n).position["x"][:, 0, 0]

    found, rate = jax.jit(lambda gain: jax.jvp(last, (gain,), (jnp.ones(()),)))(jnp.asarray(3.0))
    np.testing.assert_allclose(found[1:], rows, rtol=1e-12)
    again = jax.jit(last)
    np.testing.assert_allclose(rate, (again(3.0 + 1e-5) - again(3.0 - 1e-5)) / 2e-5, atol=1e-9)
    with pytest.raises(TypeError, match="memory of the form"):
        jm.simulate(system, state, euler, h, 2, control=Integral(jnp.asarray(3.0), widens=True), parameters=goal)


def test_what_control_leaves_alone_is_kept_out_of_the_loop():
    """A load has no part in what the linear system keeps: the controlled step hands that on as it came."""
    from jaxmech._integrator.carried import varies
    from jaxmech._integrator.trajectory.control import ControlledIntegrator

    system, state, linear_system = oscillator()

    def changing(control):
        integrator = ControlledIntegrator(jm.ImplicitEuler(linear_system), control, None)
        carry = integrator.init(system, state)
        return jax.tree.leaves(varies(lambda s, c: integrator.advanced(system, s, c, jnp.asarray(H)), state, carry))

    assert changing(lambda t, s, p: {"load": {"force": t[None]}}) == [False]
    assert changing(lambda t, s, p: {"spring": {"stiffness": 8.0 + t}}) == [True]


@pytest.mark.parametrize(
    ("values", "culprit"),
    [
        ({"nowhere": {"force": [1.0]}}, "'nowhere'.*'load'"),
        ({"load": {"strength": [1.0]}}, "'load'.*'strength'.*force"),
        ({"load": {"force": [1.0, 2.0]}}, r"'load': force.*\(2,\).*\(1,\)"),
        ({"load": {"force": "much"}}, "'load': force"),
        ({"load": [1.0]}, "'load'"),
        ({"spring": {"on": [1.0]}}, "'on'"),
        ({"gravity": [1.0]}, "'gravity'"),
        (3.0, "dictionary"),
    ],
)
def test_control_of_what_is_not_there_is_refused(values, culprit):
    system, state, linear_system = oscillator()
    with pytest.raises((ValueError, TypeError), match=culprit):
        jm.simulate(system, state, jm.ImplicitEuler(linear_system), H, 2, control=lambda t, s, p: values)


def forgetful(system, state):
    return 0.0


@pytest.mark.parametrize(
    ("asked", "culprit"),
    [
        ({"control": lambda t, s: {}}, r"control is called as control\(time, state, parameters\).*too many"),
        ({"control": lambda t, s, p, memory: {}}, "control is called as.*missing a required argument: 'memory'"),
        ({"observe": lambda state: 0.0}, r"observe is called as observe\(system, state\)"),
    ],
)
def test_functions_of_other_arguments_are_refused_by_what_they_are_called_with(asked, culprit):
    """Python's own words named a function of the user's, and none of the arguments that it gets."""
    system, state, linear_system = oscillator()
    with pytest.raises(TypeError, match="simulate: " + culprit):
        jm.simulate(system, state, jm.ImplicitEuler(linear_system), H, 2, **asked)


@pytest.mark.parametrize(
    ("functions", "culprit"),
    [
        ({"function": lambda state: 0.0}, r"function is called as function\(system, state\)"),
        ({"function": forgetful, "apply": forgetful}, r"apply is called as apply\(state\)"),
    ],
)
def test_functions_of_other_arguments_are_no_events(functions, culprit):
    with pytest.raises(TypeError, match="Event: " + culprit):
        jm.integrator.Event(**functions)


@pytest.mark.slow
def test_a_motor_turns_a_mapped_joint_and_deep_fields_are_found():
    """Prescribed motions and materials by control: `grip` moves at a metre a second, `material.young` is doubled."""
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0))
    left, right = (mesh.nodes_where(lambda x, at=at: x[:, 0] == at) for at in (0.0, 1.0))
    system = jm.System(
        {"box": jm.Vec3()},
        forces={"solid": jm.force.TetrahedronFEM.from_mesh("box", mesh, jm.material.LinearElastic(1e3, 0.3))},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("box", mesh, 1.0)},
        constraints={
            "wall": jm.constraint.Fixed(("box", left)),
            "grip": jm.constraint.PrescribedMotion(("box", right), mesh.points[right], [[0.0, 0.0, 0.0]]),
        },
    )
    state = system.at_rest({"box": mesh.points})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), jm.solver.Dense())

    def control(time, state, parameters):
        return {"grip": {"displacements": jnp.stack([time, 0 * time, 0 * time])[None]}, "solid": {"material.young": 2e3}}

    def pull(scene, at):  # [N] of the wall, by the law that is in the loop
        return jm.reactions(eqx.tree_at(lambda s: s.forces["solid"].material.young, scene, jnp.asarray(2e3)), at)["box"]

    run = jm.simulate(system, state, integrator, 0.01, 5, control=control, observe=pull)
    np.testing.assert_allclose(run.last.position["box"][right, 0], 1.05, rtol=ROUNDING)
    np.testing.assert_allclose(run.last.position["box"][left, 0], 0.0, atol=ROUNDING)
    assert run.observed.shape == (6, 8, 3) and run.observed[-1, left, 0].sum() < -50
    with pytest.raises(ValueError, match="observed"):
        _ = run.position


def test_what_is_no_time_is_refused_by_a_table():
    table = jm.integrator.Table([0.0, 1.0], [3.0, 5.0])
    for time in (None, "noon", {}):
        with pytest.raises(TypeError, match="Table: time must be numbers"):
            table(time)
    np.testing.assert_allclose([table(0), table(np.float64(0.5)), table(jnp.asarray(1.0))], [3.0, 4.0, 5.0])


def test_tables_are_what_they_say():
    t = np.array([0.0, 0.4, 1.0, 1.5, 3.0])
    parabola = 2.0 - 3.0 * t + 0.7 * t**2
    at = np.linspace(-0.5, 3.5, 41)
    inside = np.clip(at, 0.0, 3.0)
    values = np.stack([parabola, np.sin(t)], axis=1)
    linear, hold, cubic = (jax.vmap(jm.integrator.Table(t, values, kind=k))(at) for k in ("linear", "hold", "cubic"))
    np.testing.assert_allclose(linear[:, 1], np.interp(at, t, np.sin(t)), atol=ROUNDING)
    np.testing.assert_array_equal(hold[:, 1], np.sin(t)[np.clip(np.searchsorted(t, at, "right") - 1, 0, 4)])
    np.testing.assert_allclose(cubic[:, 0], 2.0 - 3.0 * inside + 0.7 * inside**2, atol=ROUNDING)
    assert np.abs(cubic[:, 1] - np.sin(inside)).max() < 0.1 < np.abs(linear[:, 1] - np.sin(inside)).max()
    # Smooth at the places where pieces meet, and differentiable by its values.
    table = jm.integrator.Table(t, np.sin(t), kind="cubic")
    rates = [jax.grad(table)(jnp.asarray(1.0 + s * 1e-9)) for s in (1, -1)]
    np.testing.assert_allclose(*rates, rtol=1e-6)
    parts = jax.grad(lambda v: jm.integrator.Table(t, v, kind="cubic")(0.7))(jnp.sin(t))
    np.testing.assert_allclose(parts.sum(), 1.0, rtol=ROUNDING)
    for kind in ("linear", "hold", "cubic"):
        assert float(jm.integrator.Table([1.0], [3.0], kind=kind)(7.0)) == 3.0
        assert float(jm.integrator.Table([0.0, 2.0], [3.0, 5.0], kind=kind)(1.0)) == (3.0 if kind == "hold" else 4.0)


@pytest.mark.parametrize(
    ("times", "values", "kind", "culprit"),
    [
        ([0.0, 0.0], [1.0, 2.0], "linear", "times"),
        ([0.0, 1.0], [1.0], "linear", "values"),
        ([], [], "linear", "values"),
        ([[0.0]], [1.0], "linear", "times"),
        ([0.0], [np.nan], "linear", "values"),
        ([0.0], [1.0], "spline", "kind"),
    ],
)
def test_bad_tables_are_refused(times, values, kind, culprit):
    with pytest.raises((ValueError, TypeError), match=culprit):
        jm.integrator.Table(times, values, kind=kind)


class Policy(eqx.Module):
    """A small network from the position and the velocity to a force, beside a table in time."""

    network: eqx.nn.MLP
    open_loop: jm.integrator.Table

    def __call__(self, time, state, parameters):
        seen = jnp.concatenate([state.position["p"][0], state.velocity["p"][0]])
        return {"load": {"force": parameters * self.network(seen) + self.open_loop(time)[None]}}


@pytest.mark.slow
def test_a_policy_learns_through_the_loop():
    """The gradient of a rollout by the weights of a network, the table and a gain, against differences along a direction."""
    system, state, linear_system = oscillator()
    integrator = jm.ImplicitEuler(linear_system, jm.solver.Dense())
    policy = Policy(
        eqx.nn.MLP(2, 1, 4, 1, activation=jax.nn.tanh, key=jax.random.key(0)),
        jm.integrator.Table([0.0, 0.32, 0.71], [0.0, 1.0, -1.0]),
    )
    weights, rest = eqx.partition(policy, eqx.is_inexact_array)

    def cost(at):
        weights, gain = at
        run = jm.simulate(
            system,
            state,
            integrator,
            H,
            STEPS,
            control=eqx.combine(weights, rest),
            parameters=gain,
            observe=lambda system, state: state.position["p"][0, 0] ** 2 + 0.1 * state.velocity["p"][0, 0] ** 2,
            throw=False,
        )
        return jnp.sum(run.observed)

    at = (weights, jnp.asarray(2.0))
    program = jax.jit(jax.value_and_grad(cost))
    slope = program(at)[1]
    leaves, tree = jax.tree.flatten(at)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    way = tree.unflatten([jax.random.normal(k, a.shape) for k, a in zip(keys, leaves, strict=True)])
    ends = [program(jax.tree.map(lambda a, d, s=s: a + s * 1e-5 * d, at, way))[0] for s in (1, -1)]
    along = sum(jnp.vdot(g, d) for g, d in zip(jax.tree.leaves(slope), jax.tree.leaves(way), strict=True))
    assert abs(along) > 1e-2 and all(np.abs(g).max() > 0 for g in jax.tree.leaves(slope))
    np.testing.assert_allclose(along, (ends[0] - ends[1]) / 2e-5, rtol=1e-6)


@pytest.mark.slow
def test_adaptive_steps_are_controlled_and_observed():
    """A load that grows with time: `x = a t^3 / 6`, and its derivative by the rate."""
    scene = jm.System(
        {"p": jm.Vec1()},
        forces={"load": jm.force.ConstantForce(("p", [0]), [0.0])},
        masses={"mass": jm.mass.UniformMass(("p", [0]), 2.0)},
    )
    state = scene.at_rest({"p": [[0.0]]})
    euler = jm.ImplicitEuler(jm.solver.MatrixFreeSystem(), jm.solver.Dense())

    @jax.jit
    def run(rate):
        run = jm.simulate_adaptive(
            scene,
            state,
            euler,
            jnp.array([0.5, 1.0]),
            rtol=1e-3,
            atol=1e-3,
            extrapolate=True,
            max_steps=100,
            control=lambda t, s, rate: {"load": {"force": rate * t[None]}},
            parameters=rate,
            observe=lambda system, state: state.position["p"][0, 0],
            throw=False,
        )
        return run.observed, run.info.accepted

    (x, accepted), (slope, _) = jax.jvp(run, (jnp.asarray(12.0),), (jnp.asarray(1.0),))
    assert 10 < accepted < 100
    np.testing.assert_allclose(x, [12.0 / 2 / 6 / 8, 12.0 / 2 / 6], rtol=0, atol=1e-3)
    np.testing.assert_allclose(slope, x / 12.0, rtol=1e-9)  # steps are the same, and linear in the rate


@pytest.mark.slow
def test_derivatives_of_adaptive_steps_under_control_are_those_of_the_steps_that_were_taken():
    """Of extrapolated TR-BDF2, by differences of runs of the same steps: where none is too long, each is 1.3 of the last."""
    system, state, _ = oscillator()
    scheme = jm.integrator.TRBDF2(jm.solver.MatrixFreeSystem(), jm.solver.Dense())

    @jax.jit
    def run(at):
        def end(at):
            run = jm.simulate_adaptive(
                system,
                state,
                scheme,
                [0.4, 1.0],
                rtol=1e6,
                atol=1e6,
                dt0=0.05,
                controller=jm.integrator.PIDController(largest=1.3),
                extrapolate=True,
                control=modulated,
                parameters=(at[0], at[1]),
                max_steps=16,
                throw=False,
            )
            return run.last.position["p"][0, 0] + run.state.velocity["p"][0, 0, 0], (run.info.accepted, run.info.dt)

        return jax.value_and_grad(end, has_aux=True)(at)

    at, change = jnp.array([8.0, 0.3]), 1e-5
    (_, (accepted, dt)), slope = run(at)
    assert accepted > 5 and len(np.unique(np.round(dt[:accepted], 6))) > 4
    for way in np.eye(2):
        (one, (_, same)), _ = run(at + change * way)
        (other, _), _ = run(at - change * way)
        np.testing.assert_array_equal(same, dt)
        assert abs(slope @ way) > 1e-3
        np.testing.assert_allclose(slope @ way, (one - other) / (2 * change), rtol=FINITE)


@pytest.mark.parametrize("name", ["GeneralizedAlpha", pytest.param("HHT", marks=pytest.mark.slow)])
def test_schemes_that_dissipate_stay_of_second_order_under_control(name):
    """A load in the loop made them of first order: the acceleration of the state was taken for theirs in every step."""
    system, state, linear_system = oscillator()
    scheme = getattr(jm.integrator, name)(linear_system)

    @partial(jax.jit, static_argnums=0)
    def error(steps):
        run = jm.simulate(
            system,
            state,
            scheme,
            2.0 / steps,
            steps,
            control=lambda time, state, parameters: {"load": {"force": jnp.sin(3 * time)[None]}},
            save_every=steps,
            throw=False,
        )
        # 2 x'' + 8 x = sin 3 t from x = 1: cos 2t + 0.15 sin 2t - 0.1 sin 3t
        return run.last.position["p"][0, 0] - (np.cos(4.0) + 0.15 * np.sin(4.0) - 0.1 * np.sin(6.0))

    assert 3.6 < error(50) / error(100) < 4.4 and abs(error(100)) < 1e-3


@pytest.mark.slow
def test_schemes_of_second_order_stay_so_under_control_and_begin_anew_after_events():
    """Newmark's method: the carry is an acceleration, which a load in the loop, and an impact, make stale."""
    from test_carry import newmark

    class Newmark(newmark.Newmark):
        order = 2

    system, state, linear_system = oscillator()

    def error(steps):
        run = jm.simulate(
            system,
            state,
            Newmark(linear_system),
            2.0 / steps,
            steps,
            control=lambda time, state, parameters: {"load": {"force": jnp.sin(3 * time)[None]}},
            save_every=steps,
        )
        # 2 x'' + 8 x = sin 3 t from x = 1: cos 2t + 0.15 sin 2t - 0.1 sin 3t
        return float(run.last.position["p"][0, 0]) - (np.cos(4.0) + 0.15 * np.sin(4.0) - 0.1 * np.sin(6.0))

    assert 3.8 < error(50) / error(100) < 4.2 and abs(error(50)) > 1e-5

    ball = jm.System({"p": jm.Vec1()}, masses=system.masses, gravity=[-9.81])
    floor = jm.integrator.Event(
        lambda system, state: state.position["p"][0, 0],
        direction=-1,
        apply=lambda state: eqx.tree_at(lambda s: s.velocity["p"], state, -0.8 * state.velocity["p"]),
    )
    scheme = Newmark(jm.MatrixLinearSystem.build(ball, state))
    run = jm.simulate_adaptive(ball, state, scheme, [1.0], rtol=1e-4, atol=1e-4, events=[floor], max_steps=60)
    fall = np.sqrt(2 / 9.81)
    np.testing.assert_allclose(run.event_time[0], fall, rtol=ROUNDING)
    rest = 1.0 - fall
    np.testing.assert_allclose(run.last.position["p"], 0.8 * 9.81 * fall * rest - 9.81 / 2 * rest**2, rtol=1e-10)


@pytest.mark.parametrize("name", ["Tsitouras", "TRBDF2", pytest.param("RK4", marks=pytest.mark.slow)])
def test_adaptive_steps_know_what_a_control_does_within_them(name):
    """Schemes with an estimate of their own held what is controlled: `x'' = sin 10 t` took four steps, and a success."""
    scene = jm.System(
        {"p": jm.Vec1()},
        forces={"load": jm.force.ConstantForce(("p", [0]), [0.0])},
        masses={"mass": jm.mass.UniformMass(("p", [0]), 1.0)},
    )
    state = scene.at_rest({"p": [[0.0]]})
    free = (jm.solver.MatrixFreeSystem(), jm.solver.Dense()) if name == "TRBDF2" else ()
    scheme = getattr(jm.integrator, name)(*free)
    options = {"rtol": 1e-5, "atol": 1e-5, "control": lambda t, s, p: {"load": {"force": jnp.sin(10 * t)[None]}}}
    run = jm.simulate_adaptive(scene, state, scheme, [2.0], **options)
    assert 50 < int(run.info.accepted) < 200
    np.testing.assert_allclose(run.last.position["p"][0, 0], 0.2 - np.sin(20.0) / 100, atol=2e-4)


RATE = 0.5  # [m/s]


def pulled_damper():
    """A mass of 1 kg behind a damper of 3 N s/m, whose other end control moves: `v = RATE (1 - exp(-3 t))`."""
    damper = jm.force.Springs((("p", [0]), ("p", [1])), 0.0, 1.0, damping=3.0)
    hand = jm.constraint.PrescribedMotion(("p", [0]), [[0.0]], [[0.0]])
    masses = {"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)}
    system = jm.System({"p": jm.Vec1()}, forces={"damper": damper}, masses=masses, constraints={"hand": hand})
    return (
        system,
        system.at_rest({"p": [[0.0], [1.0]]}),
        lambda t, s, p: {"hand": {"displacements": p * t * jnp.ones((1, 1))}},
    )


def reeled_out():
    """A mass of 1 kg that circles on a rod, whose length control changes: it keeps its angular momentum, 2 kg m^2/s."""
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), None, 1.0)
    system = jm.System(
        {"p": jm.Vec2()},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={"rod": rod, "nail": jm.constraint.Fixed(("p", [0]))},
    )
    state = system.at_rest({"p": [[0.0, 0.0], [1.0, 0.0]]})
    state = eqx.tree_at(lambda s: s.velocity["p"], state, jnp.array([[0.0, 0.0], [RATE, 2.0]]))
    return system, state, lambda t, s, p: {"rod": {"length": 1.0 + p * t}}


MOVING = ["Midpoint", "Newmark", "GeneralizedAlpha", "BDF2", "TRBDF2", "VelocityVerlet", "RK4"]


@pytest.mark.slow_cases(*MOVING[1:])
@pytest.mark.parametrize("name", MOVING)
def test_what_control_moves_takes_velocities_along(name):
    """Numbers held for a step have no rate: the damper saw a hand at rest, the mass on the rod lost its radial velocity,
    however short the steps. Constraints move through a step to where control has them at its end."""
    system, state, control = pulled_damper()
    scheme = made(name, system, state, newton=False)

    def ends(rate, steps):
        begin = eqx.tree_at(lambda s: s.velocity["p"], state, rate * jnp.array([[1.0], [0.0]]))
        run = jm.simulate(system, begin, scheme, 0.6 / steps, steps, control=control, parameters=rate, save_every=steps)
        return run.last.velocity["p"][:, 0]

    hand, mass = ends(RATE, 24)
    np.testing.assert_allclose(hand, RATE, rtol=1e-12)
    exact = RATE * (1 - np.exp(-1.8))
    assert abs(ends(RATE, 48)[1] - exact) < 0.3 * abs(mass - exact) < 1e-3  # of second order
    rates = jax.jacfwd(ends)(RATE, 24), jax.jacrev(ends)(RATE, 24)
    np.testing.assert_allclose(rates, np.broadcast_to([hand / RATE, mass / RATE], (2, 2)), rtol=1e-10)  # linear in it


@pytest.mark.slow_cases("CentralDifference-accelerations", "GeneralizedAlpha", "BDF2")
@pytest.mark.parametrize("rates", ["velocities", "accelerations"])
@pytest.mark.parametrize("name", ["CentralDifference", "GeneralizedAlpha", "BDF2"])
def test_a_motion_that_control_gives_by_rates_is_of_second_order(name, rates):
    """They were those of the time at which a scheme takes forces: a hand at `cos 3t` came where the end of each step, or
    its start, would have taken it."""
    kind = jm.constraint.PrescribedVelocity if rates == "velocities" else jm.constraint.PrescribedAcceleration
    system = jm.System(
        {"p": jm.Vec1()},
        forces={"spring": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("p", [0, 1]), 1.0)},
        constraints={"hand": kind(("p", [0]), [[0.0]], [[0.0]], [0.0])},
    )
    begin = system.at_rest({"p": [[0.0], [1.0]]})
    end = (1 - np.cos(3.0)) / 9
    if rates == "velocities":
        begin, end = eqx.tree_at(lambda s: s.velocity["p"], begin, jnp.array([[1.0], [0.0]])), np.sin(3.0) / 3
    scheme = made(name, system, begin, newton=False)

    def control(time, state, parameters):
        given = {rates: jnp.cos(3 * time)[None, None], "start": state.position["p"][0], "times": state.time[None]}
        return {"hand": given | ({} if rates == "velocities" else {"start_velocity": state.velocity["p"][0]})}

    @partial(jax.jit, static_argnums=0)
    def off(steps):
        return jm.simulate(system, begin, scheme, 1 / steps, steps, control=control).last.position["p"][0, 0] - end

    assert abs(off(40)) < 1e-4 and 3.9 < off(20) / off(40) < 4.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Midpoint", "VelocityVerlet"])
def test_adaptive_steps_take_along_what_control_moves(name):
    system, state, control = pulled_damper()
    options = {"rtol": 1e-5, "atol": 1e-6, "control": control, "parameters": RATE}
    run = jm.simulate_adaptive(system, state, made(name, system, state, newton=False), [0.25, 0.6], **options)
    np.testing.assert_allclose(run.last.velocity["p"][:, 0], [RATE, RATE * (1 - np.exp(-1.8))], rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Midpoint", "Newmark", "BDF2", "EnergyMomentum"])
def test_a_rod_whose_length_is_controlled_takes_its_mass_along(name):
    system, state, control = reeled_out()
    scheme, off = made(name, system, state, newton=True, rtol=1e-8), []
    for steps in (20, 40):
        run = jm.simulate(system, state, scheme, 0.6 / steps, steps, control=control, parameters=RATE, save_every=steps)
        x, v = run.last.position["p"][1], run.last.velocity["p"][1]
        off.append([np.hypot(*x) - 1.3, x @ v / np.hypot(*x) - RATE, x[0] * v[1] - x[1] * v[0] - 2.0])
    assert np.all(np.abs(off[1]) < 1e-3) and np.all(np.abs(off[1]) <= 0.3 * np.abs(off[0]) + 1e-8)


def test_masses_that_are_made_negative_are_refused():
    """They went past the constructors, and the ball flew up: a success."""
    system = jm.System(
        {"p": jm.Vec1(), "frame": jm.Rigid3()},
        masses={"ball": jm.mass.UniformMass(("p", [0]), 1.0), "body": jm.mass.RigidMass(("frame", [0]), 1.0, np.eye(3))},
        gravity=[0.0, 0.0, -9.81],
    )
    state = system.at_rest({"p": [[0.0]], "frame": [[0.0] * 6 + [1.0]]})
    verlet = jm.integrator.VelocityVerlet()
    for where, value, named in (
        (lambda s: s.masses["ball"].mass, -1.0, "'ball': mass of UniformMass must not be negative, got"),
        (lambda s: s.masses["body"].inertia, np.diag([1.0, -2.0, 3.0]), "'body': inertia of RigidMass must.*2"),
    ):
        with pytest.raises(ValueError, match=named):
            jm.simulate(eqx.tree_at(where, system, jnp.asarray(value)), state, verlet, 0.1, 3)


@pytest.mark.parametrize("adaptive", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_control_that_makes_a_mass_negative_is_a_failure(adaptive):
    system = jm.System({"p": jm.Vec1()}, masses={"ball": jm.mass.UniformMass(("p", [0]), 1.0)}, gravity=[-9.81])
    state, euler = system.at_rest({"p": [[0.0]]}), jm.integrator.SymplecticEuler()
    run, times = (jm.simulate_adaptive, [[0.1, 0.4]]) if adaptive else (jm.simulate, [0.1, 4])
    allowed = {"rtol": 1e-3, "atol": 1e-3} if adaptive else {}

    def ends(rate):
        control = eqx.Partial(lambda rate, t, s, p: {"ball": {"mass": 0.25 - rate * t}}, rate)
        return run(system, state, euler, *times, **allowed, control=control).last.time

    assert ends(jnp.asarray(0.1)) == 0.4
    with pytest.raises(jm.FailedComputation, match=f"{run.__name__}, step .*: control has made a mass negative"):
        ends(jnp.asarray(1.0))


def dragged_behind():
    """A mass that `ConsistentMass` couples to a foot, which control moves."""
    foot = jm.constraint.PrescribedMotion(("x", [0]), [[0.0]], [[1e3]])
    system = jm.System(
        {"x": jm.Vec1()},
        masses={"mass": jm.mass.ConsistentMass(("x", [[0, 1]]), [[0.0], [1.0]], 3.0, "edge")},
        constraints={"foot": foot},
    )
    return system, system.at_rest({"x": [[1e3], [1.0]]})


@pytest.mark.slow
def test_rates_under_control_are_those_of_the_end_of_steps_of_any_length():
    """They were the mean of each step, half a step late. That of a step to an event, as short as time can tell, is rounding:
    `u = 1000 m + 2 t^2` moved at -10 m/s after one."""
    from jaxmech._integrator.trajectory.control import ControlledIntegrator

    system, state = dragged_behind()
    scheme = ControlledIntegrator(jm.integrator.SymplecticEuler(), lambda t, s, p: foot_at(t), None)
    step = jax.jit(lambda state, carry, h: scheme.advanced(system, state, carry, h)[:2])
    carry = scheme.init(system, state)
    for h in (0.01, 0.02, 1e-14, 0.005, 0.03):
        state, carry = step(state, carry, jnp.asarray(h))
        if h > 1e-6:
            np.testing.assert_allclose(state.velocity["x"][0], 4 * state.time, rtol=1e-9)
            np.testing.assert_allclose(state.velocity["x"][1], -2 * state.time, rtol=1e-9)  # 3/6 v + 3/3 w = 0


@pytest.mark.parametrize("held", [lambda t: jnp.floor(t / 0.01 + 0.25), lambda t: jnp.ceil(t / 0.01 - 0.25)])
def test_numbers_that_are_held_from_sample_to_sample_have_the_mean_rate_of_the_first_step(held):
    """Its middle tells nothing: a parabola through it is three times as fast at the end, or goes backwards there."""
    system, state = dragged_behind()
    run = jm.simulate(
        system,
        state,
        jm.integrator.SymplecticEuler(),
        0.01,
        1,
        control=lambda t, s, p: {"foot": {"displacements": (1e3 + 0.02 * held(t))[None, None]}},
    )
    np.testing.assert_allclose(run.last.velocity["x"][:, 0], [2.0, -1.0], rtol=1e-9)


def foot_at(t):
    return {"foot": {"displacements": (1e3 + 2 * t**2)[None, None]}}
