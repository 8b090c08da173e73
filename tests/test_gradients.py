"""Derivatives of solutions by everything they depend on: two modes, differences, second derivatives, batches.

Every floating-point leaf of the scene, of the start and of the integrator is a direction of its own: material, rest
shape, stiffness, damping, mass, load, boundary values, weights, gravity, Rayleigh coefficients, initial state, dt.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
from covering import in_turn
from tolerances import CONVERGED, FINITE_DIFFERENCE, RECOMPILED, TWO_MODES

import jaxmech as jm
from jaxmech._integrator.implicit.implicit_euler import _imbalance

STIFFNESS_ONLY = jm.Terms(mass=False, damping=False)
STEPS = 3


def weighted(position):
    """A number that depends on every coordinate, by no symmetry."""
    x = jnp.concatenate([a.reshape(-1) for a in position.values()])
    return jnp.sum(jnp.sin(1.0 + jnp.arange(x.size)) * x + 0.1 * x**2)


def scene_of(name):
    """A scene all of whose numbers may change: two planes that hold one node must stay at right angles, or go."""
    scene = scenes.build(name)
    kept = {n: c for n, c in scene.system.constraints.items() if n != "second plane"}
    return eqx.tree_at(lambda s: s.constraints, scene.system, kept), scene.state


def static(name):
    """`theta -> number` for an equilibrium, and its `theta`."""
    start = scene_of(name)
    linear_system = jm.MatrixLinearSystem.build(*start, STIFFNESS_ONLY)

    def value(theta):
        system, state = theta
        solution = jm.static_solve(system, state, linear_system, jm.solver.Dense(), rtol=CONVERGED, throw=False)
        return weighted(solution.position), solution.info.result._value

    return value, start


def dynamic(name, newton):
    """The same for some time steps."""
    start = scene_of(name)
    linear_system = jm.MatrixLinearSystem.build(*start)
    rtol = CONVERGED if newton else None

    def value(theta):
        system, state, rayleigh_stiffness, rayleigh_mass, dt = theta
        integrator = jm.ImplicitEuler(
            linear_system,
            jm.solver.Dense(),
            newton=newton,
            rayleigh_stiffness=rayleigh_stiffness,
            rayleigh_mass=rayleigh_mass,
            rtol=rtol,
        )

        def step(state, _):
            state, _, info = integrator.step(system, state, None, dt, throw=False)
            return state, info.result._value

        state, results = jax.lax.scan(step, state, None, STEPS)
        return weighted(state.position) + 0.1 * weighted(state.velocity), jnp.max(results)

    return value, (*start, *map(jnp.asarray, (0.01, 0.05, 0.02)))


CASES = {
    "static, follower pressure": (static, "pressed_triangles"),
    "static, turned body": (static, "hanging_body"),
    "static, boundary values": (static, "every_constraint"),
    "linear steps, springs": (dynamic, "springs", False),
    "linear steps, boundary values": (dynamic, "every_constraint", False),
    "newton steps": (dynamic, "anchored_springs", True),
    "newton steps, mapped": (dynamic, "linkage_of_the_plane", True),
}
# By default one static case, one of time steps, one second derivative: between them a follower load, a motion that is
# prescribed, and both factors of Rayleigh. The others take long to trace; those of two things at once take longest.
# Of the default stage: linear steps; statics, of which second derivatives hold the first.
SLOW = {
    "static, turned body",
    "static, boundary values",
    "static, follower pressure",
    "linear steps, springs",
    "newton steps",
}
EXHAUSTIVE = {"newton steps, mapped", "newton steps, second", "static, turned body, second"}
SECOND = {
    "static": (static, "anchored_springs", lambda s: (s.forces["pairs"].stiffness, s.forces["push"].force)),
    "static, turned body, second": (static, "hanging_body", lambda s: (s.forces["anchored"].stiffness, s.gravity)),
    "newton steps, second": (
        dynamic,
        "linkage_of_the_plane",
        lambda s: (s.forces["joints"].stiffness, s.gravity),
        True,
    ),
}


def pick(theta):
    """The numbers, and how to put them back among what is not to be differentiated by."""
    numbers, rest = eqx.partition(theta, eqx.is_inexact_array)
    leaves, tree = jax.tree.flatten(numbers)
    return leaves, lambda leaves: eqx.combine(jax.tree.unflatten(tree, leaves), rest)


def labels(theta):
    numbers, _ = eqx.partition(theta, eqx.is_inexact_array)
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(numbers)[0]]


def directions(leaves, rng):
    """One for each leaf, of its own magnitude: `[leaf number][leaf]`."""
    made = []
    for i, leaf in enumerate(leaves):
        scale = float(jnp.max(jnp.abs(leaf))) or 0.1
        d = [jnp.zeros_like(a) for a in leaves]
        d[i] = jnp.asarray(scale * rng.uniform(0.3, 1, leaf.shape) * rng.choice([-1.0, 1.0], leaf.shape))
        made.append(d)
    return made


def difference(function, leaves, d, step=1e-3):
    """Richardson's extrapolation of central differences: an error of fourth order."""

    def central(h):
        up, down = ([np.asarray(a) + s * h * np.asarray(b) for a, b in zip(leaves, d, strict=True)] for s in (1, -1))
        return (function(up) - function(down)) / (2 * h)

    return (4 * central(step / 2) - central(step)) / 3


def each(cases):
    def stage(case):
        return [pytest.mark.slow] * (case in SLOW) + [pytest.mark.exhaustive] * (case in EXHAUSTIVE)

    return pytest.mark.parametrize("case", [pytest.param(c, marks=stage(c)) for c in cases])


@pytest.mark.slow
@each(CASES)
def test_first_derivatives(case, rng):
    kind, *arguments = CASES[case]
    value, theta = kind(*arguments)
    leaves, put = pick(theta)
    function = jax.jit(lambda leaves: value(put(leaves)))
    assert function(leaves)[1] == 0  # successful: a difference of failures proves nothing
    gradient = jax.jit(jax.grad(lambda leaves: value(put(leaves))[0]))(leaves)
    along = directions(leaves, rng)
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *along)
    pushed = jax.jit(jax.vmap(lambda d: jax.jvp(lambda t: value(put(t))[0], (leaves,), (d,))[1]))(stacked)
    for label, d, forward in zip(labels(theta), along, np.asarray(pushed), strict=True):
        reverse = sum(float(jnp.vdot(a, b)) for a, b in zip(gradient, d, strict=True))
        scale = max(1.0, abs(forward))
        assert abs(forward - reverse) <= TWO_MODES * scale, (label, forward, reverse)
        central = float(difference(lambda t: function(t)[0], leaves, d))
        assert abs(forward - central) <= FINITE_DIFFERENCE * scale, (label, forward, central)
    assert np.sum(np.abs(pushed) > 1e-6) > len(leaves) / 3


@each(SECOND)
def test_second_derivatives(case, rng):
    """The Hessian by two parameters, forward over reverse, against differences of the gradient."""
    kind, name, where, *more = SECOND[case]
    value, theta = kind(name, *more)

    def gradient(numbers):
        return jax.grad(lambda p: value((eqx.tree_at(where, theta[0], tuple(p)), *theta[1:]))[0])(numbers)

    numbers = [jnp.asarray(a) for a in where(theta[0])]
    first = jax.jit(gradient)
    along = directions(numbers, rng)
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *along)
    hessian = jax.jit(jax.vmap(lambda d: jax.jvp(gradient, (numbers,), (d,))[1]))(stacked)
    rows = []
    for i, d in enumerate(along):
        for number in range(2):
            exact = np.asarray(hessian[number][i])
            central = np.asarray(difference(lambda t, number=number: first(t)[number], numbers, d))
            scale = max(1.0, np.abs(exact).max())
            assert np.abs(exact - central).max() <= FINITE_DIFFERENCE * scale, (i, number, exact, central)
        rows.append([sum(float(jnp.vdot(hessian[j][i], e[j])) for j in range(2)) for e in along])
    assert abs(rows[0][1] - rows[1][0]) <= TWO_MODES * max(1.0, abs(rows[0][1]))
    assert abs(rows[0][1]) > 1e-9  # the two parameters do meet


@pytest.mark.slow
def test_second_derivatives_of_many_steps_under_torques():
    """Of loops JAX differentiates iterations, too: those that turn torques with frames raised of two bodies."""
    rest = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    system = jm.System(
        {"b": jm.Rigid3()},
        forces={
            "springs": jm.force.AnchoredFrames(("b", [0, 1]), 10.0, 5.0, rest),
            "torque": jm.force.ConstantTorque(("b", [0, 1]), [[1.0, 2.0, 0.5], [0.0, 1.0, 2.0]]),
        },
        masses={"mass": jm.mass.RigidMass(("b", [0, 1]), 1.0, np.diag([0.1, 0.2, 0.3]))},
    )
    state = system.at_rest({"b": rest})
    scheme = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, state), newton=True)

    def end(factor):
        own = eqx.tree_at(lambda s: s.forces["torque"].torque, system, factor * system.forces["torque"].torque)
        return weighted(jm.simulate(own, state, scheme, 0.1, STEPS, save_every=STEPS).last.position)

    gradient, at = jax.jit(jax.grad(end)), jnp.array(1.3)
    exact, central = jax.jit(jax.hessian(end))(at), difference(lambda x: gradient(x[0]), [at], [1.0])
    assert abs(exact - central) <= FINITE_DIFFERENCE * max(1.0, abs(exact)) and abs(exact) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["anchored_springs", pytest.param("hanging_body", marks=pytest.mark.slow)])
def test_a_batch_of_solves_equals_a_loop(name):
    scene = scenes.build(name)
    linear_system = jm.MatrixLinearSystem.build(scene.system, scene.state, STIFFNESS_ONLY)

    def solve(gravity):
        system = eqx.tree_at(lambda s: s.gravity, scene.system, gravity)
        return jm.static_solve(system, scene.state, linear_system, rtol=CONVERGED, throw=False).position

    many = jnp.stack([f * scene.system.gravity for f in (0.2, 1.0, 3.0)])
    one, together = jax.jit(solve), jax.jit(jax.vmap(solve))(many)
    for i, gravity in enumerate(many):
        for state, x in one(gravity).items():
            assert np.abs(x - together[state][i]).max() <= 1e3 * RECOMPILED * np.abs(x).max()


RESIDUALS = ["points_on_frames", "frames_in_space", "springs", "chain_of_mappings", "tetrahedra", "articulated_arm"]
DEFAULT = in_turn(RESIDUALS[:-1], [0.0, 0.03])
LONG = ("chain_of_mappings", "articulated_arm")  # to trace: the arm, a recursion, as long as all the others


def stage_of(name, rayleigh):
    """What takes long is slow, where it is damped; what repeats two that were met is exhaustive."""
    if name in LONG and rayleigh:
        return pytest.mark.slow
    return () if (name, rayleigh) in DEFAULT else pytest.mark.exhaustive


@pytest.mark.slow_cases("points_on_frames-0.0", "frames_in_space-0.03")
@pytest.mark.parametrize(
    ("name", "rayleigh"), [pytest.param(n, r, marks=stage_of(n, r)) for n in RESIDUALS for r in (0.0, 0.03)]
)
def test_what_is_differentiated_is_the_residual_of_the_step(name, rayleigh):
    """`b - A dv`, whether of products or of one pass over the elements, for a `dv` that solves nothing."""
    scene = scenes.build(name)
    system, state = eqx.tree_at(lambda s: s.rayleigh, scene.system, {}), scene.state
    linear_system = jm.MatrixLinearSystem.build(system, state)
    integrator = jm.ImplicitEuler(linear_system, rayleigh_stiffness=rayleigh, rayleigh_mass=rayleigh)
    rng = np.random.default_rng(3)
    dv = {s: jnp.asarray(rng.normal(size=v.shape)) for s, v in state.velocity.items()}
    h = jnp.asarray(0.01)

    @jax.jit
    def both(dv):
        problem = integrator.problem(system, state, h)
        product = problem.A.mv(dv)
        return {s: b - product[s] for s, b in problem.b.items()}, _imbalance(integrator, system, state, h, dv)

    expected, found = both(dv)
    scale = max(float(jnp.abs(a).max()) for a in expected.values())
    for s, a in expected.items():
        np.testing.assert_allclose(found[s], a, rtol=0, atol=1e3 * np.finfo(float).eps * scale)
