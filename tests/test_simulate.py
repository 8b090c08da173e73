"""Trajectories: the same numbers as a loop of steps, memory of reverse mode, progress."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from jax.custom_derivatives import SymbolicZero
from nested_loops import nested_loops
from tolerances import FINITE_DIFFERENCE

import jaxmech as jm
from jaxmech._integrator.trajectory import checkpointed_scan
from jaxmech._runtime.joined_arrays import JoinedArrays
from jaxmech._runtime.loops import differentiated_with
from jaxmech._runtime.reverse_mode import anew, kept

ROUNDING = 1e-12  # float64 sums of a few hundred terms, in another order
DT = 0.01


def chain(nodes: int = 3) -> tuple[jm.System, jm.State, jm.ImplicitEuler]:
    """A hanging chain of point masses, released from the horizontal."""
    numbers = np.arange(nodes)
    system = jm.System(
        {"chain": jm.Vec2()},
        forces={"links": jm.force.Springs((("chain", numbers[:-1]), ("chain", numbers[1:])), 100.0, 0.1)},
        masses={"beads": jm.mass.UniformMass(("chain", numbers), 0.1)},
        constraints={"nail": jm.constraint.Fixed(("chain", [0]))},
        gravity=[0.0, -9.81],
    )
    state = system.at_rest({"chain": np.stack([0.1 * numbers, 0.0 * numbers], axis=1)})
    return system, state, jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), jm.solver.Dense())


@pytest.mark.slow_cases("6-3-2")
@pytest.mark.parametrize(("steps", "save_every", "checkpoint_every"), [(6, 3, 2), (7, 1, 3)])
def test_trajectory_is_the_loop_of_steps(steps, save_every, checkpoint_every):
    system, state, integrator = chain()
    found = jm.simulate(system, state, integrator, DT, steps, save_every=save_every, checkpoint_every=checkpoint_every)
    frames = [state]
    for number in range(steps):
        state, _, _ = integrator.step(system, state, None, DT)
        if (number + 1) % save_every == 0:
            frames.append(state)
    for frame, expected in enumerate(frames):
        np.testing.assert_allclose(found.position["chain"][frame], expected.position["chain"], atol=ROUNDING)
        np.testing.assert_allclose(found.velocity["chain"][frame], expected.velocity["chain"], atol=ROUNDING)
        np.testing.assert_allclose(found.time[frame], expected.time, atol=ROUNDING)
    assert found.position["chain"].shape[0] == len(frames)
    assert found.info.iterations.shape == (steps,)
    np.testing.assert_array_equal(found.last.position["chain"], found.position["chain"][-1])


@pytest.mark.parametrize(("steps", "save_every"), [(40, 1), (40, 40), (41, 1)])
def test_a_step_of_a_small_scene_writes_to_small_arrays(steps, save_every):
    """Where there is a part that divides all steps: XLA's CPU backend takes several times as long where there are others."""
    system, state, integrator = chain()

    def run(state):
        return jm.simulate(system, state, integrator, DT, steps, save_every=save_every, throw=False)

    with jm.runtime.element_compiler("xla"):  # else a step of so few numbers is one kernel
        loops = [*nested_loops(jax.make_jaxpr(run)(state).jaxpr, "scan")]
    depth, loop = max((of for of in loops if of[1].params["length"] in (8, steps)), key=lambda loop: loop[0])
    largest = max(v.aval.size * v.aval.dtype.itemsize for v in loop.outvars)
    parted = steps == 40
    assert (depth, loop.params["length"]) == ((2, 8) if parted else (1, steps)) and (largest <= 512) == parted
    found = run(state)
    assert found.info.iterations.shape == (steps,) and float(found.last.time) == pytest.approx(steps * DT)
    if save_every == 1:
        every, alone = found.position["chain"], state
        for number in range(12):
            np.testing.assert_allclose(every[number], alone.position["chain"], atol=ROUNDING)
            alone = integrator.step(system, alone, None, DT)[0]
        np.testing.assert_array_equal(found.last.position["chain"], every[-1])


@pytest.mark.slow
def test_gradient_does_not_depend_on_checkpoints():
    system, state, integrator = chain()

    def height(stiffness, every, save_every):
        trial = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, stiffness)
        run = jm.simulate(trial, state, integrator, DT, 6, save_every=save_every, checkpoint_every=every)
        return run.last.position["chain"][-1, 1]

    counts = (6, 1), (4, 1), (1, 1), (2, 3)
    gradients = jax.jit(lambda stiffness: [jax.grad(height)(stiffness, *each) for each in counts])(100.0)
    np.testing.assert_allclose(gradients, gradients[0], rtol=1e-11)
    assert gradients[0] != 0


@pytest.mark.slow
def test_reverse_mode_memory_grows_like_the_square_root():
    """16 times the steps: 4 times the checkpoints, 4 times the steps of a chunk; without checkpoints, 16 times."""
    system, state, integrator = chain(40)

    def scratch(steps, every):
        def height(stiffness):
            trial = eqx.tree_at(lambda s: s.forces["links"].stiffness, system, stiffness)
            end = jm.simulate(trial, state, integrator, DT, steps, save_every=steps, checkpoint_every=every, throw=False)
            return end.last.position["chain"][-1, 1]

        return jax.jit(jax.grad(height)).lower(100.0).compile().memory_analysis().temp_size_in_bytes

    few, many, all_kept = scratch(64, 8), scratch(1024, 32), scratch(1024, 1024)
    assert many < 6 * few
    assert many < all_kept / 4
    assert scratch(1024, 1) < all_kept / 4  # states, and no matrices


@pytest.mark.slow
@pytest.mark.parametrize("newton", [False, True])
def test_reverse_mode_computes_no_solve_anew_where_states_fit(monkeypatch, newton):
    system, state, integrator = chain()
    integrator = jm.ImplicitEuler(integrator.linear_system, jm.solver.Dense(), newton=newton)

    def solves(steps=9, **options):
        def end(v):
            start = eqx.tree_at(lambda s: s.velocity["chain"], state, v)
            run = jm.simulate(system, start, integrator, DT, steps, save_every=steps, throw=False, **options)
            return run.last.position["chain"].sum()

        with jm.runtime.element_compiler("xla"):  # else a step of so few numbers is one kernel
            text = str(jax.make_jaxpr(jax.grad(end))(state.velocity["chain"]))
        return len(re.findall(r"\bwhile\[" if newton else r"\blinear_solve\[", text))

    once = solves(steps=1)
    assert solves() == solves(checkpoint_every=1) == solves(checkpoint_every=9) == once < solves(checkpoint_every=3)
    monkeypatch.setattr(checkpointed_scan, "MOST_KEPT", 0)
    assert solves(steps=10**4) == solves(checkpoint_every=3)
    assert checkpointed_scan.chosen_every(9, state, np.zeros(10**4)) == 1  # nine states are less than three such steps
    monkeypatch.setattr(checkpointed_scan, "MOST_KEPT", 9 * 5 * state.velocity["chain"].nbytes)
    schemes = integrator, jm.integrator.Tsitouras()  # of the latter seven accelerations beside a state
    assert [checkpointed_scan.chosen_every(9, state, (), scheme.solves) for scheme in schemes] == [1, 3]


def test_progress_reaches_the_end(capsys):
    pytest.importorskip("tqdm")
    system, state, integrator = chain()
    jm.simulate(system, state, integrator, DT, 4, progress=True)
    jax.effects_barrier()
    assert "4/4" in capsys.readouterr().err


@pytest.mark.slow
def test_counts_of_numpy_are_counts(tmp_path):
    """They were refused, though they are whole."""
    system, state, integrator = chain(2)
    steps, every, one = np.array([4, 2, 1])
    options, file = {"save_every": every, "checkpoint_every": one, "restart_every": every}, tmp_path / "run.npz"
    run = jm.simulate(system, state, integrator, DT, steps, restart_file=file, **options)
    assert run.position["chain"].shape[0] == 3
    options = {name: int(count) for name, count in options.items()}
    assert eqx.tree_equal(run, jm.simulate(system, state, integrator, DT, 4, restart_file=file, **options))
    jm.static_solve(system, state, load_steps=one, max_steps=steps, throw=False)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 2.0}, "steps"),
        ({"steps": 6, "save_every": 4}, "save_every"),
        ({"steps": 6, "checkpoint_every": 0}, "checkpoint_every"),
    ],
)
def test_bad_counts_are_named(arguments, culprit):
    system, state, integrator = chain()
    with pytest.raises(ValueError, match=culprit):
        jm.simulate(system, state, integrator, DT, **arguments)


@pytest.mark.parametrize("dt", [0.0, -0.1, np.nan, [0.1, 0.2]])
def test_bad_time_steps_are_named(dt):
    system, state, integrator = chain()
    with pytest.raises(ValueError, match="dt"):
        jm.simulate(system, state, integrator, dt, 2)


def late(begin):
    """A ball in single precision, that is led along, from a time on."""
    led = jm.constraint.PrescribedVelocity(("x", [0]), [[0.0]], [[0.0], [1.0]], [begin, begin + 1.0])
    system = jm.System({"x": jm.Vec1()}, masses={"m": jm.mass.UniformMass(("x", [0]), 1.0)}, constraints={"led": led})
    state = system.at_rest({"x": [[0.0]]}, time=begin)
    return jax.tree.map(lambda a: a.astype(np.float32) if eqx.is_inexact_array(a) else a, (system, state))


@pytest.mark.parametrize("begin", [0.0, 1e4])
def test_times_do_not_gather_rounding(begin):
    """After a second the sum of a thousand steps was 0.99999 s, after 10,000 s 0.977 s, and so were motions."""
    run = jm.simulate(*late(begin), jm.integrator.SymplecticEuler(), 1e-3, 1000, save_every=1000)
    assert run.time.dtype == np.float32 and run.time.tolist() == [begin, begin + 1]
    np.testing.assert_allclose(run.last.position["x"], 0.5, rtol=1e-6)


def test_a_time_that_stands_still_is_a_failure():
    scheme = jm.integrator.SymplecticEuler()
    with pytest.raises(jm.FailedComputation, match="step 0: the time step is not positive, or so small beside the time"):
        jm.simulate(*late(1e4), scheme, 1e-4, 2)

    @jax.jit
    def results(dt):
        return jax.vmap(lambda dt: jm.simulate(*late(0.0), scheme, dt, 2, throw=False).info.result)(dt)

    found = results(jnp.array([0.1, 0.0, -0.1])) == jm.RESULTS.time_stands_still
    assert found.tolist() == [[False, False], [True, True], [True, True]]


def ball() -> tuple[jm.System, jm.State, jm.integrator.FreeMotion]:
    """A ball above its floor."""
    mass = {"mass": jm.mass.UniformMass(("ball", [0]), 1.0)}
    system = jm.System({"ball": jm.Vec3()}, masses=mass, gravity=[0.0, 0.0, -9.81])
    state = system.at_rest({"ball": [[0.0, 0.0, 1.0]]})
    floor = jm.contact.PointContact(("ball", [0]), jm.contact.Plane())
    euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))
    return system, state, jm.integrator.FreeMotion(euler, {"floor": floor})


def of_chain(scheme):
    system, state, euler = chain()
    return system, state, scheme(euler.linear_system)


@pytest.mark.parametrize(
    "scene",
    [
        chain,
        lambda: of_chain(lambda _: jm.integrator.VelocityVerlet()),
        pytest.param(lambda: of_chain(lambda built: jm.ImplicitEuler(built, newton=True)), marks=pytest.mark.slow),
        pytest.param(lambda: of_chain(jm.integrator.TRBDF2), marks=pytest.mark.slow),
        pytest.param(ball, marks=pytest.mark.slow),
    ],
)
def test_a_traced_step_that_is_not_positive_fails_by_itself(scene):
    """It was a success of `step`, which led nowhere, or back in time."""
    system, state, integrator = scene()
    carry = integrator.init(system, state)
    stepped = jax.jit(lambda dt: integrator.step(system, state, carry, dt, throw=False)[2].result)
    found = [stepped(dt) == jm.RESULTS.time_stands_still for dt in (1e-4, 0.0, -1e-4)]
    assert [bool(a) for a in found] == [False, True, True]


def test_plain_numbers_are_observed_and_words_are_refused():
    """Of a single frame, they had no axis of frames to be put on."""
    scene, scheme = late(0.0), jm.integrator.SymplecticEuler()
    seen = {"two": 2, "none": None, "t": True}
    run = jm.simulate(*scene, scheme, 0.1, 2, save_every=2, observe=lambda system, state: seen)
    assert run.observed["two"].tolist() == [2, 2] and run.observed["t"].dtype == bool and run.observed["none"] is None
    for simulated in (
        lambda see: jm.simulate(*scene, scheme, 0.1, 2, observe=see),
        lambda see: jm.simulate_adaptive(*scene, scheme, [0.1], rtol=1e-3, atol=1e-3, observe=see),
    ):
        with pytest.raises(TypeError, match="observe must return a pytree of numbers, got 'x' in it"):
            simulated(lambda system, state: "x")


@pytest.mark.slow
def test_batch_of_time_steps_is_a_loop():
    system, state, integrator = chain()

    def end(dt):
        return jm.simulate(system, state, integrator, dt, 3).last.position["chain"]

    steps = jnp.array([0.005, 0.01, 0.02])
    np.testing.assert_allclose(jax.vmap(end)(steps), np.stack([end(dt) for dt in steps]), atol=ROUNDING)


@pytest.mark.slow
def test_what_is_computed_anew_may_hold_solves_of_a_batch():
    """Under `vmap` a linear solve is another primitive, with a parameter that JAX's own policies stumble over."""

    def end(x):
        def step(x, _):
            return kept(lx.linear_solve(lx.MatrixLinearOperator(jnp.diag(2.0 + x) + 0.1), x**2).value), None

        return jnp.sum(jax.lax.scan(anew(step), x, length=3)[0])

    batch = jnp.array([[1.0, 2.0], [0.5, 3.0]])
    alone = jnp.stack([jax.grad(end)(x) for x in batch])
    np.testing.assert_allclose(jax.grad(lambda b: jnp.sum(jax.vmap(end)(b)))(batch), alone, rtol=ROUNDING)


@pytest.mark.slow_cases("True")
@pytest.mark.parametrize("forward", [False, True])
def test_the_derivative_of_a_step_is_traced_once(forward):
    """Not once more for a state that has tangents after the first step, and had none before."""
    without = []

    @jax.custom_jvp
    def stiffness(k, x):
        return k * (1 + x[0, 0])

    @functools.partial(stiffness.defjvp, symbolic_zeros=True)
    def _(primals, tangents):
        (k, x), (dk, dx) = primals, tangents
        without.append(isinstance(dx, SymbolicZero))
        return stiffness(k, x), (1 + x[0, 0]) * dk + (0 if without[-1] else k * dx[0, 0])

    spring = jm.force.AnchoredSprings(("p", [0]), 10.0, [[0.0] * 3])
    mass = jm.mass.UniformMass(("p", [0]), 1.0)
    system = jm.System({"p": jm.Vec3()}, forces={"spring": spring}, masses={"mass": mass})
    state = system.at_rest({"p": [[1.0, 0.0, 0.0]]})
    scheme = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state))

    def end(k):
        def control(t, s, k):
            return {"spring": {"stiffness": stiffness(k, s.position["p"])}}

        return jm.simulate(system, state, scheme, 0.1, 3, control=control, parameters=k).last.position["p"][0, 0]

    slope = jax.jit((lambda k: jax.jvp(end, (k,), (1.0,))[1]) if forward else jax.grad(end))(10.0)
    assert without == [True, False]  # at the start, where the integrator looks at the scene, and in the loop
    difference = (end(10.0 + 1e-5) - end(10.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, difference, rtol=FINITE_DIFFERENCE)


def test_what_is_given_tangents_is_batched_too():
    def end(k):
        start = differentiated_with(jnp.ones((1, 3)), k)
        return jnp.sum(jax.lax.scan(lambda x, _: (0.5 * x + k, None), start, None, 2)[0])

    slopes = jax.jit(jax.grad(lambda k: jnp.sum(jax.vmap(jax.jit(end))(k) ** 2)))(jnp.array([1.0, 2.0]))
    np.testing.assert_allclose(slopes, [2 * (0.75 + 4.5 * k) * 4.5 for k in (1.0, 2.0)])


def test_what_steps_report_is_joined_and_parted():
    tree = {"a": np.int32(3), "b": (np.arange(4, dtype=np.int32), np.True_), "large": np.ones((17, 17)), "c": np.eye(2)}
    rows = jax.vmap(lambda i: JoinedArrays.of(jax.tree.map(lambda a: jnp.asarray(a) * i, tree)))(
        jnp.arange(3, dtype=np.int32)
    )
    assert {name: a.shape for name, a in rows.arrays.items()} == {"int32": (3, 6), "float64": (3, 4), "4": (3, 289)}
    for i in range(3):
        for a, b in zip(jax.tree.leaves(rows.tree()), jax.tree.leaves(tree), strict=True):
            assert a.shape[1:] == b.shape and np.array_equal(a[i], b * i)
