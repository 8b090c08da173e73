"""Methods of Runge and Kutta: their coefficients, what they remember, and the errors that a pair tells of itself."""

import itertools
from fractions import Fraction
from math import prod

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
from nested_loops import largest_array, nested_loops
from own_components import Slider
from scheme_scenes import SCENES, numbers

import jaxmech as jm
from jaxmech._integrator.explicit.runge_kutta import AbstractRungeKutta, Tableau

I = jm.integrator
PAIR = I.Tsitouras()
ROUNDING = 1e-13
DIGITS = 1e-17  # of the coefficients of Tsitouras, of 21 digits, but 18 of what is compared (others, of RK4, are fractions)
DIFFERENCES = 1e-6  # central differences of 1e-5 of a run whose steps are the same


EMBEDDED = tuple(b - e for b, e in zip(PAIR.tableau.weights, PAIR.tableau.apart, strict=True))


class Fourth(AbstractRungeKutta):
    """The other result of the pair, as a scheme."""

    order = 4
    stability = 0.1
    tableau = Tableau(PAIR.tableau.rows, EMBEDDED)


@pytest.mark.parametrize("kind", [I.RK4, I.Tsitouras])
def test_what_is_damped_is_stable_as_far_as_is_said(kind):
    """`|R(z)| <= 1` in every direction of the left half plane, and straight to the left."""
    t, free, damped = kind.tableau, kind.stability, kind.damped_stability
    stages = len(t.rows)
    rows = np.array([[float(a) for a in row] + [0.0] * (stages - len(row)) for row in t.rows])
    weights = np.array([float(b) for b in t.weights] + [0.0] * (stages - len(t.weights)))
    moments = [1.0, *(weights @ np.linalg.matrix_power(rows, k) @ np.ones(stages) for k in range(stages))]

    def growth(z):
        return np.abs(np.polyval(moments[::-1], z)).max()

    lengths, angles = np.linspace(0, min(free, damped), 400), np.linspace(np.pi / 2, np.pi, 400)
    assert growth(lengths[:, None] * np.exp(1j * angles)) <= 1 + ROUNDING
    assert growth(-np.linspace(0, damped, 400)) <= 1 + ROUNDING


def trees(order):
    """All rooted trees with so many vertices, a tree being the tuple of those at its root, sorted."""
    if order == 1:
        return [()]
    found = set()
    for parts in partitions(order - 1, order - 1):
        for branches in itertools.product(*(trees(n) for n in parts)):
            found.add(tuple(sorted(branches)))
    return sorted(found)


def partitions(total, most):
    if total == 0:
        yield ()
    for first in range(min(total, most), 0, -1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


def size(tree):
    return 1 + sum(map(size, tree))


def density(tree):
    return size(tree) * prod(map(density, tree))


def stage_values(tableau, tree):
    """For each stage, the product over the branches of the sums over the stages before."""
    values = [Fraction(1)] * len(tableau.rows)
    for branch in tree:
        inner = stage_values(tableau, branch)
        sums = [sum((a * b for a, b in zip(row, inner, strict=False)), Fraction(0)) for row in tableau.rows]
        values = [v * total for v, total in zip(values, sums, strict=True)]
    return values


def amiss(tableau, weights, order):
    """Of each tree of an order, by how much its condition is missed."""
    values = (stage_values(tableau, t) for t in trees(order))
    sums = [sum((b * v for b, v in zip(weights, of, strict=True)), Fraction(0)) for of in values]
    return [float(abs(total - Fraction(1, density(t)))) for total, t in zip(sums, trees(order), strict=True)]


@pytest.mark.parametrize(
    ("tableau", "weights", "order", "conditions", "allowed"),
    [
        (I.RK4.tableau, I.RK4.tableau.weights, 4, 8, 0.0),
        (PAIR.tableau, PAIR.tableau.weights, 5, 17, DIGITS),
        (PAIR.tableau, EMBEDDED, 4, 8, DIGITS),
    ],
    ids=["RK4", "Tsitouras", "embedded"],
)
def test_coefficients_fulfil_the_conditions_of_their_order(tableau, weights, order, conditions, allowed):
    """Of all rooted trees, in fractions; and not those of the next order (J. C. Butcher)."""
    missed = [by for k in range(1, order + 1) for by in amiss(tableau, weights, k)]
    assert len(missed) == conditions and max(missed) <= allowed
    assert max(amiss(tableau, weights, order + 1)) > 1e-4


def test_a_tableau_says_whether_its_last_stage_is_the_result():
    assert PAIR.tableau.ends_in_a_stage and not I.RK4.tableau.ends_in_a_stage and not Fourth.tableau.ends_in_a_stage
    np.testing.assert_allclose([float(c) for c in PAIR.tableau.places], [0, 0.161, 0.327, 0.9, 0.980025540904509686, 1, 1])
    assert I.RK4.tableau.places == (0, Fraction(1, 2), Fraction(1, 2), 1)


@pytest.mark.parametrize("scheme", [I.RK4, I.Tsitouras], ids=lambda scheme: scheme.__name__)
def test_the_largest_step_is_that_of_undamped_vibrations(scheme):
    """Where the amplitude of an oscillator begins to grow, by the matrices of steps; `stability` is within 1 % of it."""
    spring = jm.force.AnchoredSprings(("p", [0]), 1.0, [[0.0]])
    system = jm.System({"p": jm.Vec1()}, forces={"spring": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
    state = system.at_rest({"p": [[1.0]]})
    flat, whole = jax.flatten_util.ravel_pytree((state.position, state.velocity))

    @jax.jit
    @jax.vmap
    def matrix(h):
        def end(flat):
            last = scheme(check_step=False).step(system, jm.State(*whole(flat), state.time), None, h, throw=False)[0]
            return jax.flatten_util.ravel_pytree((last.position, last.velocity))[0]

        return jax.jacfwd(end)(flat)

    steps = scheme.stability * np.linspace(0.02, 1.01, 200)
    radius = np.abs(np.linalg.eigvals(matrix(jnp.asarray(steps)))).max(axis=1)
    assert np.all(radius[steps <= scheme.stability] <= 1 + ROUNDING) and radius[-1] > 1 + 1e-10


def driven():
    """A frame that turns with a mapped mass on a spring, a mass that a motion draws, and a dragged one behind a slider."""
    system = jm.System(
        {"frame": jm.Rigid3(), "tip": jm.Vec3(), "p": jm.Vec2()},
        forces={
            "spring": jm.force.AnchoredSprings(("tip", [0]), 30.0, [[0.5, -1.0, 0.2]]),
            "rod": jm.force.Springs((("p", [0]), ("p", [1])), 40.0, 0.3),
            "slider": Slider((("p", [1]), ("p", [2])), 20.0, 0.5),
            "drag": jm.force.VelocityDamping(("p", [1, 2]), 0.8),
        },
        masses={
            "body": jm.mass.RigidMass(("frame", [0]), 1.0, np.diag([1.0, 2.0, 3.0])),
            "tip": jm.mass.UniformMass(("tip", [0]), 0.5),
            "beads": jm.mass.UniformMass(("p", [0, 1, 2]), 1.0),
        },
        mappings={"arm": jm.mapping.RigidMapping(("frame", [0]), "tip", [[0.3, 0.1, 0.0]])},
        constraints={
            "hand": jm.constraint.PrescribedAcceleration(
                ("p", [0]), [[0.0, 0.0]], [[3.0, 1.0], [-2.0, 0.0]], [0.0, 0.3], start_velocity=[0.2, 0.0]
            )
        },
    )
    state = system.at_rest({"frame": [[0.0] * 6 + [1.0]], "p": [[0.0, 0.0], [0.4, 0.0], [0.4, 0.1]]})
    spin = jnp.array([[0.1, 0.2, 0.3, 1.0, 2.0, -1.5]])
    return system, eqx.tree_at(lambda s: s.velocity["frame"], state, spin)


@pytest.mark.slow
@pytest.mark.parametrize("told", [False, True], ids=["step", "step_with_error"])
def test_what_is_remembered_is_what_would_be_asked_for(told):
    """Steps that hand on the acceleration at their end, and steps that ask for it: the same motion, to rounding."""
    system, state = driven()
    step = PAIR.step_with_error if told else PAIR.step

    @jax.jit
    def both(state):
        def one(at, _):
            (a, carry), b = at
            end, carry, info, *_ = step(system, a, carry, 0.02, throw=False)
            alone, none, *_ = step(system, b, None, 0.02, throw=False)
            assert none is None
            return ((end, carry), alone), info.result

        return jax.lax.scan(one, ((state, PAIR.init(system, state)), state), length=10)

    ((end, _), alone), results = both(state)
    assert (results == jm.RESULTS.successful).all()
    assert np.abs(end.internal["slider"]["slip"]).max() > 1e-3  # it has given way
    np.testing.assert_allclose(numbers(end), numbers(alone), rtol=0, atol=ROUNDING * np.abs(numbers(end)).max())
    np.testing.assert_allclose(end.internal["slider"]["slip"], alone.internal["slider"]["slip"], atol=ROUNDING)


@pytest.mark.parametrize(("scheme", "evaluations"), [(PAIR, 6), (I.RK4(), 4)], ids=["Tsitouras", "RK4"])
def test_stages_are_turns_of_one_loop(scheme, evaluations):
    """As many as there are evaluations of forces; an estimate asks for none."""
    system, state = SCENES["spring"]()
    carry = scheme.init(system, state)
    steps = [scheme.step, PAIR.step_with_error] if scheme is PAIR else [scheme.step]
    for step in steps:
        traced = jax.make_jaxpr(lambda state, carry, step=step: step(system, state, carry, 0.01, throw=False)[0])
        loops = list(nested_loops(traced(state, carry).jaxpr, "scan"))
        assert [loop.params["length"] for _, loop in loops] == [evaluations]


def test_what_a_stage_of_a_frame_reads_and_writes_is_small():
    """XLA's CPU backend takes several times as long where an array of a loop has over 512 bytes: a frame's mass has 288, and
    was inverted beside the identity in 576."""
    system, state = SCENES["rigid"]()
    carry = PAIR.init(system, state)
    traced = jax.make_jaxpr(lambda state, carry: PAIR.step_with_error(system, state, carry, 0.01, throw=False)[:2])
    stages = max(
        (loop for depth, loop in nested_loops(traced(state, carry).jaxpr, "scan") if depth == 1),
        key=lambda e: e.params["length"],
    )
    assert stages.params["length"] == 6 and largest_array(stages.params["jaxpr"].jaxpr) <= 512


@pytest.mark.slow
@pytest.mark.parametrize("scene", [pytest.param("pendulum", marks=pytest.mark.slow), "rigid"])
def test_the_estimate_is_the_error_of_the_other_result(scene):
    """A tangent at the end of the step, which is itself more accurate by an order."""
    system, state = SCENES[scene]()
    (name,) = (s for s in state.velocity if s in ("frame", "body"))
    h, fine = 0.05, 40

    @jax.jit
    def program(state):
        end, _, info, error = PAIR.step_with_error(system, state, None, h, throw=False)
        other = Fourth(check_step=False).step(system, state, None, h, throw=False)[0]

        def one(at, _):
            return PAIR.step(system, at, None, h / fine, throw=False)[0], None

        return end, info.result, error, other, jax.lax.scan(one, state, None, length=fine)[0]

    end, result, (dx, dv), other, exact = program(state)
    assert result == jm.RESULTS.successful

    def missing(of):
        local = jax.vmap(system.dofs[name].local)(of.position[name], exact.position[name])
        return np.concatenate([local, exact.velocity[name] - of.velocity[name]])

    estimate = np.concatenate([dx[name], dv[name]])
    most = np.abs(missing(other)).max()
    assert most > 1e-8 and np.abs(missing(end)).max() < 0.2 * most
    apart = missing(other) - missing(end)  # to the order of the estimate
    np.testing.assert_allclose(estimate, apart, rtol=0, atol=1e-3 * most)


def oscillator():
    spring = jm.force.AnchoredSprings(("p", [0]), 2.0, [[0.0]])
    system = jm.System({"p": jm.Vec1()}, forces={"spring": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 2.0)})
    return system, system.at_rest({"p": [[1.0]]})


def test_adaptive_steps_follow_the_order_of_the_estimate():
    """Their errors fall with the tolerance; the next size is by the fifth root of the error of a step, of the elementary
    controller; they need no extrapolation, and no step is too large for them but by its error."""
    system, state = oscillator()
    options = {"max_steps": 400, "controller": I.PIDController(p=0.0, i=1.0), "throw": False}

    @jax.jit
    def run(rtol):
        return jm.simulate_adaptive(system, state, PAIR, [10.0], rtol=rtol, atol=rtol, **options)

    errors = []
    for rtol in (1e-2, 1e-5, 1e-8):
        found = run(rtol)
        assert found.result == jm.RESULTS.successful and int(found.info.failed) == 0
        errors.append(abs(float(found.last.position["p"][0, 0]) - np.cos(10.0)))
        assert errors[-1] < 10 * rtol
        before_last = slice(0, int(found.info.turns) - 3)  # the last ones share what is left
        h, e = np.asarray(found.info.dt)[before_last], np.asarray(found.info.error)[before_last]
        np.testing.assert_allclose(h[1:] / h[:-1], np.clip(0.9 * np.maximum(e, 1e-10) ** -0.2, 0.2, 5.0)[:-1], rtol=1e-9)
    assert errors[0] > 100 * errors[1] > 1e4 * errors[2]
    coarse = run(1e-2).info
    assert float(jnp.max(coarse.dt)) > PAIR.stability  # 1/omega = 1 s
    with pytest.raises(ValueError, match="extrapolate=True would make the steps of Tsitouras less accurate"):
        jm.simulate_adaptive(system, state, PAIR, [1.0], rtol=1e-2, atol=1e-2, extrapolate=True)
    with pytest.raises(ValueError, match="Tsitouras"):
        control = {"control": lambda time, state, parameters: {"spring": {"stiffness": 2.0}}}
        jm.simulate_adaptive(system, state, PAIR, [1.0], rtol=1e-2, atol=1e-2, extrapolate=True, **control)


def test_what_is_remembered_is_asked_for_anew_where_an_event_moves_the_state():
    """A mass on a spring that is put back to where it started whenever it passes the middle: `cos t` again and again."""
    system, state = oscillator()
    again = I.Event(
        lambda system, state: state.position["p"][0, 0],
        direction=-1,
        apply=lambda s: eqx.tree_at(lambda s: (s.position["p"], s.velocity["p"]), s, (jnp.ones((1, 1)), jnp.zeros((1, 1)))),
    )
    run = jm.simulate_adaptive(system, state, PAIR, [0.7, np.pi + 0.5], rtol=1e-9, atol=1e-9, events=[again], max_steps=400)
    np.testing.assert_allclose(run.event_time[:2], [np.pi / 2, np.pi], atol=1e-7)
    np.testing.assert_allclose(run.state.position["p"][:, 0, 0], np.cos([0.7, 0.5]), atol=1e-7)


@pytest.mark.slow
def test_control_is_of_the_whole_step_and_differentiates():
    """A stiffness that changes from step to step, in adaptive steps: derivatives in both modes are those of the steps that
    were taken; of equal steps, as many steps by themselves of the scenes with these numbers."""
    system, state = oscillator()

    def stiffness(time, state, parameters):
        return {"spring": {"stiffness": parameters * (1.0 + jnp.sin(5 * time))}}

    @jax.jit
    def run(k):
        options = {"rtol": 1e6, "atol": 1e6, "dt0": 0.05, "controller": I.PIDController(largest=1.3), "max_steps": 16}
        found = jm.simulate_adaptive(system, state, PAIR, [1.0], control=stiffness, parameters=k, throw=False, **options)
        return found.last.position["p"][0, 0], found.info.dt

    @jax.jit
    def slopes(k):
        return jax.jvp(lambda k: run(k)[0], (k,), (jnp.ones(()),))[1], jax.grad(lambda k: run(k)[0])(k)

    at, change = jnp.asarray(2.0), 1e-5
    forward, backward = slopes(at)
    (one, same), (other, dt) = run(at + change), run(at - change)
    np.testing.assert_array_equal(same, dt)
    np.testing.assert_allclose(forward, backward, rtol=1e-10)
    np.testing.assert_allclose(forward, (one - other) / (2 * change), rtol=DIFFERENCES)

    h = 0.1
    end = jm.simulate(system, state, PAIR, h, 5, control=stiffness, parameters=2.0, save_every=5).last
    by_hand = state
    for _ in range(5):
        k = stiffness(by_hand.time + PAIR.control_at * h, by_hand, 2.0)["spring"]["stiffness"]
        by_hand = PAIR.step(eqx.tree_at(lambda s: s.forces["spring"].stiffness, system, k), by_hand, None, h)[0]
    np.testing.assert_allclose(numbers(end), numbers(by_hand), rtol=1e-12)


@pytest.mark.slow
def test_a_run_goes_on_from_its_file_to_the_last_bit(tmp_path):
    """With what is remembered: a run that ended early, and was gone on with, is one that was not interrupted."""
    system, state = SCENES["pendulum"]()
    file = tmp_path / "run.npz"

    def run(path, steps):
        options = {"rtol": 1e-6, "atol": 1e-6, "max_steps": 60, "restart_file": path, "restart_every": steps}
        return jm.simulate_adaptive(system, state, PAIR, [0.2, 1.0], **options)

    whole = run(tmp_path / "other.npz", 60)
    assert eqx.tree_equal(run(file, 7), whole) and eqx.tree_equal(run(file, 7), whole)  # at last from its end


@pytest.mark.slow
def test_single_precision_and_batches():
    """Of eight oscillators side by side, each as by itself."""

    def single(tree):
        return jax.tree.map(lambda a: a.astype(np.float32) if eqx.is_inexact_array(a) else a, tree)

    system, state = map(single, SCENES["rigid"]())

    def run(scale):
        begun = eqx.tree_at(lambda s: s.velocity["body"], state, scale * state.velocity["body"])
        options = {"rtol": np.float32(1e-4), "atol": np.float32(1e-4), "max_steps": 60, "throw": False}
        found = jm.simulate_adaptive(system, begun, PAIR, np.array([1.0], np.float32), **options)
        return found.last.position["body"][0], found.result == jm.RESULTS.successful, found.info.accepted

    scales = np.linspace(0.5, 2.0, 8, dtype=np.float32)
    x, ok, accepted = jax.jit(jax.vmap(run))(scales)
    alone = [jax.jit(run)(scale) for scale in scales[[0, 7]]]
    assert x.dtype == np.float32 and ok.all() and len(set(accepted.tolist())) > 1
    np.testing.assert_allclose(x[jnp.array([0, 7])], np.stack([a[0] for a in alone]), atol=1e-5)
