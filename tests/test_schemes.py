"""Every time scheme: its order, what it conserves, its derivatives, and what it refuses."""

import dataclasses
import itertools

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest
import scenes
import scipy.optimize
from multiplier_scenes import rod
from scheme_scenes import EXPLICIT, IMPLICIT, KINDS, SCENES, made, numbers, spring
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._integrator.implicit.bdf import bdf_coefficients, extrapolation

ORDER = 0.1  # how far from theory a measured order may be
CONSERVED = 1e-10  # what a scheme promises to conserve, relative, over the steps below
DIFFERENCES = 1e-6  # central differences of a step of 1e-5
RELAXED = ("Newmark", "HHT", "GeneralizedAlpha", "BDF2", "Midpoint", "EnergyMomentum")
WRUNG = ("Midpoint", "Newmark", "BDF2")
DEFAULT = {("Midpoint", True, "rigid"), ("Newmark", False, "pendulum"), ("BDF3", False, "spring"), ("RK4", False, "rigid")}
DEFAULT |= {("Tsitouras", False, "pendulum"), ("Tsitouras", False, "rigid")}


def run(name, scene, newton, span, *, what=numbers, **options):
    """A compiled function of a number of steps: what is seen at the end of `span` [s], and whether all steps succeeded."""
    system, state = scene
    integrator = made(name, system, state, newton, **options)

    @jax.jit
    def end(steps):
        def one(_, at):
            state, carry, ok = at
            state, carry, info = integrator.step(system, state, carry, span / steps, throw=False)
            return state, carry, ok & (info.result == jm.RESULTS.successful)

        last, _, ok = jax.lax.fori_loop(0, steps, one, (state, integrator.init(system, state), jnp.array(True)))
        return what(last), ok

    return end


def cases():
    for name, newton in KINDS:
        for scene in SCENES:
            marks = [] if (name, newton, scene) in DEFAULT else [pytest.mark.exhaustive]
            yield pytest.param(name, newton, scene, marks=marks)


def check_order(name, newton, scene):
    # Of the shortest steps' first residual, 1e-12 is less than rounding.
    end = run(name, SCENES[scene](), newton, 0.4, rtol=1e-11)
    first = {"BDF3": 256, "RK4": 16, "Tsitouras": {"body": 48, "rigid": 12}.get(scene, 24)}.get(name, 64)
    found = [end(jnp.asarray(first * 2**i)) for i in range(4 if name == "Tsitouras" else 3)]
    assert all(ok for _, ok in found)
    x = [np.asarray(a) for a, _ in found]
    apart = [a - b for a, b in itertools.pairwise(x)]
    if name == "Tsitouras":
        # Errors of the fifth order are so small in the pair that those of the sixth, taken off, are seen until rounding is.
        apart = [b - a / 64 for a, b in itertools.pairwise(apart)]
    measured = np.log2(np.linalg.norm(apart[0]) / np.linalg.norm(apart[1]))
    system, state = SCENES[scene]()
    above = measured - made(name, system, state, newton).order
    # That it is of the fifth, its coefficients say (`test_runge_kutta`).
    assert -ORDER < above < (0.3 if name == "Tsitouras" else ORDER)


@pytest.mark.slow_cases("Tsitouras-False-pendulum", "Newmark-False-pendulum", "Tsitouras-False-rigid")
@pytest.mark.parametrize(("name", "newton", "scene"), list(cases()))
def test_every_scheme_is_of_its_order(name, newton, scene):
    check_order(name, newton, scene)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "newton", "scene"),
    [
        ("HHT", True, "body"),
        ("GeneralizedAlpha", False, "rigid"),
        ("TRBDF2", False, "rigid"),
        ("EnergyMomentum", False, "pendulum"),
        ("CentralDifference", False, "pendulum"),
        ("Tsitouras", False, "body"),
        ("Tsitouras", False, "spring"),
    ],
)
def test_some_more_schemes_are_of_their_order(name, newton, scene):
    check_order(name, newton, scene)


@pytest.mark.slow
def test_third_order_from_multipliers_that_nobody_knows():
    """A mass that turns on a rod, whose tension a motion begins with as nil: what that lacks is of second order."""
    system, state = rod()
    turning = np.asarray(state.position["p"]) @ np.array([[0.0, 3.0], [-3.0, 0.0]])
    end = run("BDF3", (system, eqx.tree_at(lambda s: s.velocity["p"], state, jnp.asarray(turning))), False, 0.4)
    found = [end(jnp.asarray(n)) for n in (64, 128, 256)]
    first, second = (np.asarray(a - b) for (a, _), (b, _) in itertools.pairwise(found))
    assert all(ok for _, ok in found)
    assert abs(np.log2(np.linalg.norm(first) / np.linalg.norm(second)) - 3) < ORDER


@pytest.mark.slow_cases("Newmark", "GeneralizedAlpha")
@pytest.mark.parametrize(
    ("scheme", "options", "radius"),
    [
        (jm.integrator.Newmark, {}, 1.0),
        (jm.integrator.HHT, {"alpha": 0.2}, 0.8 / 1.2),  # (1 - alpha) / (1 + alpha)
        (jm.integrator.GeneralizedAlpha, {"spectral_radius": 0.6}, 0.6),
    ],
    ids=["Newmark", "HHT", "GeneralizedAlpha"],
)
def test_high_frequencies_are_damped_as_asked(scheme, options, radius):
    """The spectral radius of a step that is long against the period, on position, velocity and acceleration."""
    system = jm.System(
        {"p": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("p", [0]), 1.0, [[0.0]])},
        masses={"mass": jm.mass.UniformMass(("p", [0]), 1.0)},
    )
    state = system.at_rest({"p": [[1.0]]})
    integrator = scheme(jm.MatrixLinearSystem.build(system, state), newton=False, **options)
    kept, acceleration = integrator.init(system, state)
    if scheme is not jm.integrator.Newmark:  # as after a step of the same length
        acceleration = eqx.tree_at(lambda memory: memory.length, acceleration, jnp.asarray(1e5))
    numbers, whole = jax.flatten_util.ravel_pytree((state.position, state.velocity, acceleration))

    @jax.jit
    @jax.jacfwd
    def step(numbers):
        position, velocity, acceleration = whole(numbers)
        start = jm.State(position, velocity, state.time)
        end, (_, acceleration), _ = integrator.step(system, start, (kept, acceleration), 1e5)
        return jax.flatten_util.ravel_pytree((end.position, end.velocity, acceleration))[0]

    np.testing.assert_allclose(np.abs(np.linalg.eigvals(step(numbers))).max(), radius, rtol=1e-3)


def momenta(system):
    """A function of a state: its energy, and its momentum and angular momentum in space."""

    def of(state):
        (name,) = state.position
        p, x = jm.mass.momentum(system, state)[name], state.position[name]
        if x.shape[1] == 7:
            turn = jnp.cross(x[:, :3], p[:, :3]).sum(0) + p[:, 3:].sum(0)
            parts = [p[:, :3].sum(0), turn]
        else:
            parts = [p.sum(0), (x[:, 0] * p[:, 1] - x[:, 1] * p[:, 0]).sum()[None]]
        return jnp.concatenate([(jm.energy(system, state) + jm.mass.kinetic_energy(system, state))[None], *parts])

    return of


def sheet():
    """A free triangle of a shell that tumbles and bends: its mass couples the turns of its corners."""
    mesh = jm.mesh.Mesh([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.2, 0.8, 0.1]], [[0, 1, 2]], "triangle")
    shell = jm.force.Shell.from_mesh("f", mesh, 100.0, 0.3, 0.3)
    system = jm.System(
        {"f": jm.Rigid3()},
        forces={"shell": shell},
        masses={"mass": jm.mass.ShellMass.from_mesh("f", mesh, 10.0, 0.3)},
    )
    spins = np.array([[1.0, 2.0, -1.5], [2.0, 1.0, -1.5], [1.0, 2.0, 0.0]])
    velocity = np.hstack([np.cross(spins[0], np.asarray(mesh.points)) + [0.3, -0.2, 1.0], spins])
    state = system.at_rest({"f": shell.rest})
    return system, eqx.tree_at(lambda s: s.velocity["f"], state, jnp.asarray(velocity))


@pytest.mark.slow_cases("EnergyMomentum-body-True-True", "EnergyMomentum-sheet-True-True")
@pytest.mark.parametrize(
    ("name", "scene", "newton", "energy"),
    [
        ("Midpoint", "rigid", True, True),
        ("EnergyMomentum", "body", True, True),
        ("EnergyMomentum", "sheet", True, True),
        ("VelocityVerlet", "body", False, False),
    ],
)
def test_what_a_free_body_keeps(name, scene, newton, energy):
    system, state = (SCENES | {"sheet": sheet})[scene]()
    start = np.asarray(momenta(system)(state))
    end, ok = run(name, (system, state), newton, 5.0, what=momenta(system))(jnp.asarray(200))
    assert ok and np.abs(start).max() > 1.0
    np.testing.assert_allclose(end[1:], start[1:], atol=CONSERVED * np.abs(start).max())
    if energy:
        np.testing.assert_allclose(end[0], start[0], rtol=CONSERVED)
    else:
        assert 1e-8 < abs(end[0] / start[0] - 1) < 5e-2  # swings with the square of a step that is not small, and stays


@pytest.mark.slow
def test_a_sheet_that_falls_keeps_its_energy():
    """Weights join what masses do in a step, and are no part of their kinetic energy."""
    system, state = sheet()
    scene = dataclasses.replace(system, gravity=jnp.array([1.0, 0.0, -9.81])), state
    energies, ok = run("EnergyMomentum", scene, True, 0.5, what=momenta(scene[0]))(jnp.asarray(20))
    assert ok
    np.testing.assert_allclose(energies[0], momenta(scene[0])(state)[0], rtol=CONSERVED)


@pytest.mark.slow
def test_one_solve_of_energy_and_momentum_swings_and_does_not_drift():
    """A correction at the prediction made the energy grow, from step to step."""
    system, state = spring()
    integrator = made("EnergyMomentum", system, state, False)
    states = jm.simulate(system, state, integrator, 0.04, 50_000, save_every=10).state
    levels = np.asarray(jax.jit(jax.vmap(lambda s: jm.integrator.energies(system, s).total))(states))
    tenths = levels[1:].reshape(10, -1).mean(axis=1)
    assert np.ptp(tenths) < 0.1 * np.ptp(levels)


def stiffer(system, state, number):
    return eqx.tree_at(lambda s: s.forces["spring"].stiffness, system, 40.0 * number), state


def check_derivatives(name, newton, steps=4, scene=spring, changed=stiffer):
    """In both modes, by a number of the scene (1, by which `changed` makes another of it) and by the time step."""
    built = scene()
    integrator = made(name, *built, newton)

    @eqx.filter_jit
    def both(at, along):
        """The value, its derivative along a direction, and its gradient."""

        def last(at):
            end = jm.simulate(*changed(*built, at[0]), integrator, 0.03 * at[1], steps, throw=False).last
            (main,) = (s for s in end.velocity if s not in built[0].multiplier_states)
            return jnp.sum(end.position[main][-1]) + end.velocity[main][-1, 0]

        return jax.jvp(last, (at,), (along,)), jax.grad(last)(at)

    at, step = jnp.ones(2), 1e-5
    for i, along in enumerate(jnp.eye(2)):
        (_, ahead), slopes = both(at, along)
        ends = [both(at + sign * step * along, along)[0][0] for sign in (1, -1)]
        assert abs(ahead) > 1e-4
        np.testing.assert_allclose(ahead, slopes[i], rtol=1e-9)
        np.testing.assert_allclose(ahead, (ends[0] - ends[1]) / (2 * step), rtol=DIFFERENCES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "newton"),
    [pytest.param(n, k, marks=[] if (n, k) == ("Newmark", False) else [pytest.mark.exhaustive]) for n, k in KINDS],
)
def test_derivatives_in_both_modes(name, newton):
    check_derivatives(name, newton)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "newton"),
    [("BDF2", False), ("TRBDF2", True), ("EnergyMomentum", True), ("VelocityVerlet", False), ("Tsitouras", False)],
)
def test_some_more_derivatives_in_both_modes(name, newton):
    check_derivatives(name, newton)


def violated(relaxation=None, compliance=0.0):
    """A pendulum on a rod that is longer than its constraint lets it be."""
    rod = jm.constraint.Distance((("p", [0]), ("p", [1])), length=1.0, compliance=compliance, relaxation=relaxation)
    nail, mass = jm.constraint.Fixed(("p", [0])), jm.mass.UniformMass(("p", [1]), 1.0)
    system = jm.System({"p": jm.Vec2()}, masses={"m": mass}, constraints={"nail": nail, "rod": rod}, gravity=[0.0, -9.81])
    state = system.at_rest({"p": [[0.0, 0.0], [1.3, 0.1]]})
    return system, eqx.tree_at(lambda s: s.velocity["p"], state, jnp.array([[0.0, 0.0], [0.5, 3.0]]))


def relaxed():
    return violated(0.05, 0.02)


def wrung():
    """A rigid body that tumbles under a torque without energy."""
    system, state = SCENES["rigid"]()
    torque = jm.force.ConstantTorque(("body", [0]), [3.0, 1.0, -6.0])
    return jm.System(system.dofs, forces={"torque": torque}, masses=system.masses), state


def longer(system, state, number):
    return eqx.tree_at(lambda s: s.constraints["rod"].length, system, number), state


def stronger(system, state, number):
    return eqx.tree_at(lambda s: s.forces["torque"].torque, system, number * system.forces["torque"].torque), state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scene", "changed"),
    [
        ("EnergyMomentum", violated, longer),
        *(pytest.param(n, relaxed, longer, marks=pytest.mark.exhaustive) for n in RELAXED),
        *(pytest.param(n, wrung, stronger, marks=pytest.mark.exhaustive) for n in WRUNG),
    ],
)
def test_derivatives_where_rows_give_and_torques_turn(name, scene, changed):
    check_derivatives(name, True, 2, scene, changed)


RATES = ("SymplecticEuler", "CentralDifference")  # the explicit schemes that take laws which know the time step


def check_steps(name, scene):
    made_scene = scenes.build(scene)
    both = made_scene.system, made_scene.state
    untaken = name in EXPLICIT and name not in RATES or name == "EnergyMomentum"
    if (scene == "multipliers" and name in EXPLICIT) or (scene == "memory" and untaken):
        with pytest.raises(ValueError, match=f"{name} takes no .*: take an implicit scheme"):
            made(name, *both, False).init(*both)
        return
    end, ok = run(name, both, False, 0.002)(jnp.asarray(2))
    assert ok and np.isfinite(end).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "scene"),
    [
        ("RK4", "memory"),
        ("Midpoint", "multipliers"),
        ("VelocityVerlet", "pressed_hexahedron"),  # whose tangent is not symmetric
        ("TRBDF2", "frames_in_the_plane"),
        ("BDF2", "anchored_springs"),
    ],
)
def test_steps_of_some_scenes(name, scene):
    check_steps(name, scene)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scene", scenes.names(scenes.STEPS))
@pytest.mark.parametrize("name", [*IMPLICIT, *EXPLICIT])
def test_steps_of_the_catalogue(name, scene):
    check_steps(name, scene)


def damped_oscillator(omega, gamma, kind):
    """A mass on a spring, or on none, damped by a dashpot or in proportion to the spring."""
    forces = {"spring": jm.force.AnchoredSprings(("p", [0]), omega**2, [[0.0]])} if omega else {}
    if kind == "dashpot":
        forces["dashpot"] = jm.force.VelocityDamping(("p", [0]), gamma)
    rayleigh = {"spring": gamma / omega**2} if kind == "rayleigh" else {}
    masses = {"mass": jm.mass.UniformMass(("p", [0]), 1.0)}
    system = jm.System({"p": jm.Vec1()}, forces=forces, masses=masses, rayleigh=rayleigh)
    return system, eqx.tree_at(lambda s: s.velocity["p"], system.at_rest({"p": [[1.0]]}), jnp.array([[3.0]]))


@pytest.mark.parametrize(
    ("omega", "gamma", "kind"),
    [
        (20.0, 40.0, "rayleigh"),
        *(pytest.param(omega, gamma, "dashpot", marks=pytest.mark.slow) for omega, gamma in ((20, 4), (20, 400), (0, 30))),
    ],
)
@pytest.mark.parametrize("name", EXPLICIT)
def test_damping_shortens_the_largest_explicit_step(name, omega, gamma, kind):
    """Just below it what is damped decays, and a longer step is refused; where the condition is exact, it would grow."""
    system, state = damped_oscillator(omega, gamma, kind)
    scheme = getattr(jm.integrator, name)
    limit = float(scheme().init(system, state).limit)
    stays = jm.simulate(system, state, scheme(), 0.98 * limit, 1500, save_every=1500).last
    assert abs(stays.velocity["p"][0, 0]) < 0.1
    refused = jm.simulate(system, state, scheme(), 1.02 * limit, 2, throw=False)
    assert (refused.info.result == jm.RESULTS.unstable_step).all()
    if name in ("VelocityVerlet", "CentralDifference", "SymplecticEuler"):
        grows = jm.simulate(system, state, scheme(check_step=False), 1.02 * limit, 1500, save_every=1500, throw=False).last
        assert not abs(grows.velocity["p"][0, 0]) < 1e6


def test_the_largest_step_of_a_chain_that_is_damped_here_and_there(rng):
    """Where the highest frequency and the highest damping are not of one mode: the largest `h` with `h^2/4 K + h C < M`."""
    ends = np.stack([np.arange(11), np.arange(1, 12)], axis=1)
    pairs = ("p", ends[:, 0]), ("p", ends[:, 1])
    system = jm.System(
        {"p": jm.Vec1()},
        forces={
            "springs": jm.force.Springs(pairs, rng.uniform(1.0, 4e3, 11), 1.0),
            "drag": jm.force.VelocityDamping(("p", range(12)), 10.0 ** rng.uniform(-1, 2, 12)),
        },
        masses={"mass": jm.mass.DiagonalMass(("p", range(12)), rng.uniform(0.5, 2.0, 12))},
        constraints={"nail": jm.constraint.Fixed(("p", [0]))},
        rayleigh={"springs": 2e-3, "mass": 0.3},
    )
    state = system.at_rest({"p": np.arange(12.0)[:, None]})
    whole = jm.MatrixLinearSystem.build(system, state)
    M, C, K = (
        np.asarray(whole.assemble(system, state, jm.Factors.only(*parts)).to_dense())[1:, 1:]
        for parts in (["mass"], ["damping", "rayleigh"], ["stiffness", "geometric"])
    )
    root = np.diag(1 / np.sqrt(np.diag(M)))

    def largest(h):
        return np.linalg.eigvalsh(root @ (h**2 / 4 * K + h * C) @ root)[-1]

    exact = scipy.optimize.brentq(lambda h: largest(h) - 1, 1e-6, 1.0)
    assert exact < 0.7 * 2 / np.sqrt(np.linalg.eigvalsh(root @ K @ root)[-1])
    found = float(jm.integrator.critical_time_step(system, state))
    assert 0.98 * exact < found < 1.0001 * exact


def test_coefficients_of_backward_differentiation():
    """Case S4."""
    for order, a, b in ((1, [1], 1), (2, [4 / 3, -1 / 3], 2 / 3), (3, [18 / 11, -9 / 11, 2 / 11], 6 / 11)):
        found = bdf_coefficients(-jnp.arange(order + 1.0))
        np.testing.assert_allclose(found[0], a, atol=4e-15)
        np.testing.assert_allclose(found[1], b, atol=1e-15)
    # Of unequal steps: exact for the polynomials of its degree.
    t = jnp.array([1.0, 0.6, 0.5, -0.3])
    a, b = bdf_coefficients(t)
    for k in range(4):
        np.testing.assert_allclose(t[0] ** k, a @ t[1:] ** k + b * k * t[0] ** max(k - 1, 0), atol=1e-12)
    # What is predicted from the past: exact for those of a degree less.
    for k in range(3):
        np.testing.assert_allclose(extrapolation(t) @ t[1:] ** k, t[0] ** k, atol=1e-12)


def test_a_step_above_the_critical_one_is_refused():
    """A chain of equal masses between walls: `omega = 2 sqrt(k / m) sin(n pi / (2 n + 2))`."""
    n, k, m = 6, 50.0, 2.0
    system = jm.System(
        {"x": jm.Vec1()},
        forces={"links": jm.force.Springs((("x", np.arange(n + 1)), ("x", np.arange(1, n + 2))), k, 0.0)},
        masses={"beads": jm.mass.UniformMass(("x", range(n + 2)), m)},
        constraints={"walls": jm.constraint.Fixed(("x", [0, n + 1]))},
    )
    state = system.at_rest({"x": np.arange(n + 2.0)[:, None] ** 1.1})
    omega = 2 * np.sqrt(k / m) * np.sin(n * np.pi / (2 * n + 2))
    limit = float(jm.integrator.critical_time_step(system, state))
    np.testing.assert_allclose(limit, 2 / omega, rtol=1e-9)
    verlet = jm.integrator.VelocityVerlet()
    assert np.isfinite(jm.simulate(system, state, verlet, 0.99 * limit, 300, save_every=300).last.position["x"]).all()
    with pytest.raises(jm.FailedComputation, match="critical"):
        jm.simulate(system, state, verlet, 1.01 * limit, 300, save_every=300)
    blown = jm.simulate(system, state, jm.integrator.VelocityVerlet(check_step=False), 1.05 * limit, 300, throw=False)
    assert np.abs(np.asarray(blown.last.position["x"])).max() > 1e6


def test_what_is_held_has_no_critical_step_and_what_has_no_mass_is_named():
    """The limit was NaN, of no nodes an IndexError, and a node without mass a force that is not finite."""
    none = jm.System({"x": jm.Vec1()})
    nowhere = none.at_rest({"x": np.zeros((0, 1))})
    verlet = jm.integrator.VelocityVerlet()
    assert jm.simulate(none, nowhere, verlet, 0.1, 1).last.position["x"].shape == (0, 1)
    spring = {"spring": jm.force.Springs((("x", [0]), ("x", [1])), 40.0, 1.0)}
    mass = {"mass": jm.mass.UniformMass(("x", [0, 1]), 1.0)}
    both = {"held": jm.constraint.Fixed(("x", [0, 1]))}
    held = jm.System({"x": jm.Vec1()}, forces=spring, masses=mass, constraints=both)
    state = held.at_rest({"x": [[0.0], [1.2]]})
    assert jm.integrator.critical_time_step(held, state) == np.inf
    light = jm.System({"x": jm.Vec1()}, forces=spring, constraints={"nail": jm.constraint.Fixed(("x", [0]))})
    with pytest.raises(jm.FailedComputation, match=r"singular: state 'x' can move freely .* Give it mass"):
        jm.simulate(light, state, verlet, 0.1, 1)
    with pytest.raises(jm.FailedComputation, match=r"critical_time_step: .* state 'x' can move .* Give it mass"):
        jm.integrator.critical_time_step(light, state)


def rod_of_edges(nodes, edges, dtype=np.float64, held=()):
    """Points on springs, with the consistent mass of some of the edges between them."""
    at = np.stack([np.arange(nodes), 0.1 * np.sin(np.arange(nodes))], axis=1).astype(dtype)
    pairs = ("p", np.arange(nodes - 1)), ("p", np.arange(1, nodes))
    mass = jm.mass.ConsistentMass(("p", edges), at, dtype(2.0), "edge")
    system = jm.System(
        {"p": jm.Vec2()},
        forces={"k": jm.force.Springs(pairs, dtype(30.0), dtype(1.0))},
        masses={"m": mass},
        constraints={"held": jm.constraint.Fixed(("p", list(held)))} if held else {},
        gravity=np.array([0.0, -1.0], dtype),
    )
    return system, system.at_rest({"p": at})


@pytest.mark.slow
def test_a_node_without_mass_is_named_by_the_critical_step_and_by_steps_that_solve_for_masses():
    """`critical_time_step` was NaN; beside consistent masses it was 0.011 s, and steps went on with what conjugate gradients
    had when they failed."""
    system, state = rod_of_edges(3, [[0, 1]])
    named = r"singular: state 'p' can move freely .* Its mass does not reach all"
    with pytest.raises(jm.FailedComputation, match="critical_time_step: the matrix is " + named):
        jm.integrator.critical_time_step(system, state)
    assert np.isnan(jm.integrator.critical_time_step(system, state, throw=False))
    for check in (True, False):
        with pytest.raises(jm.FailedComputation, match=named):
            jm.simulate(system, state, jm.integrator.VelocityVerlet(check_step=check), 1e-3, 2)
    system, state = rod_of_edges(3, [[0, 1]], held=[2])
    assert 0.1 < jm.integrator.critical_time_step(system, state) < 0.2
    lumped = {"m": jm.mass.UniformMass(("p", [0, 1]), 1.0)}
    light = jm.System(system.dofs, forces=system.forces, masses=lumped, gravity=(0.0, -1.0))
    with pytest.raises(Exception, match="critical_time_step: the matrix is " + named):
        jax.block_until_ready(jax.jit(lambda s: jm.integrator.critical_time_step(light, s))(state))


@pytest.mark.slow
def test_a_solver_of_masses_that_fails_is_a_failure_of_the_step():
    """Two iterations for twelve nodes: accelerations were what they gave."""
    system, state = rod_of_edges(12, [[i, i + 1] for i in range(11)], held=[0])
    few = jm.integrator.VelocityVerlet(jm.solver.PCG(max_steps=2))
    with pytest.raises(jm.FailedComputation, match="a linear solver could not go on"):
        jm.simulate(system, state, few, 1e-2, 2)


@pytest.mark.slow
def test_gradients_of_steps_that_solve_for_masses_in_single_precision():
    """They raised that an iteration stagnates: at rounding, where the steps had ended as well."""

    def end(dtype):
        system, state = rod_of_edges(12, [[i, i + 1] for i in range(11)], dtype, held=[0])

        def of(k):
            stretched = eqx.tree_at(lambda s: s.position["p"], state, k * state.position["p"])
            return jm.simulate(system, stretched, jm.integrator.VelocityVerlet(), dtype(1e-2), 10).last.position["p"][-1, 1]

        return jax.grad(of)(dtype(1.01))

    np.testing.assert_allclose(end(np.float32), end(np.float64), rtol=1e-4)


@pytest.mark.slow
def test_a_contact_that_is_still_open_counts_in_the_critical_step():
    """A mass on a spring above a floor: `omega^2 = (k + K) / m` before it lands; it bounces, and keeps its energy."""
    k, K, m = 10.0, 4000.0, 2.0
    system = jm.System(
        {"x": jm.Vec1()},
        forces={
            "spring": jm.force.AnchoredSprings(("x", [0]), k, [[1.0]]),
            "floor": jm.force.PenaltyPlane(("x", [0]), [0.0], [2.0], K),
        },
        masses={"m": jm.mass.UniformMass(("x", [0]), m)},
        gravity=[-9.81],
    )
    state = system.at_rest({"x": [[0.5]]})
    limit = float(jm.integrator.critical_time_step(system, state))
    np.testing.assert_allclose(limit, 2 / np.sqrt((k + K) / m), rtol=1e-9)
    verlet = jm.integrator.VelocityVerlet()
    with pytest.raises(jm.FailedComputation, match="critical"):
        jm.simulate(system, state, verlet, 2 * limit, 1)
    run = jm.simulate(system, state, verlet, 0.1 * limit, 300).state
    levels = jax.vmap(lambda s: jm.integrator.energies(system, s).total)(run)
    assert float(run.position["x"].min()) < 0
    np.testing.assert_allclose(levels, levels[0], atol=0.02 * m * 9.81 * 0.5)


@pytest.mark.slow
def test_the_damping_of_a_contact_that_is_still_open_counts_in_the_critical_step():
    """A mass above a floor that damps: `h^2 K / 4 + h c < m`, though nothing is damped before it lands."""
    K, c, m = 100.0, 60.0, 1.0
    floor = jm.force.PenaltyPlane(("x", [0]), [0.0], [2.0], K, damping=c)
    mass = jm.mass.UniformMass(("x", [0]), m)
    system = jm.System({"x": jm.Vec1()}, forces={"floor": floor}, masses={"m": mass}, gravity=[-9.81])
    state = system.at_rest({"x": [[0.01]]})
    limit = float(jm.integrator.critical_time_step(system, state))
    np.testing.assert_allclose(limit, 2 * (np.sqrt(c**2 + m * K) - c) / K, rtol=1e-9)
    verlet = jm.integrator.VelocityVerlet()
    with pytest.raises(jm.FailedComputation, match="critical"):
        jm.simulate(system, state, verlet, 1.1 * limit, 1)
    end = jm.simulate(system, state, verlet, 0.9 * limit, 1000).last.position["x"]
    np.testing.assert_allclose(end, [[-m * 9.81 / K]], rtol=1e-3)


@pytest.mark.parametrize(("name", "newton"), [("ImplicitEuler", True), ("VelocityVerlet", False)])
def test_no_step_succeeds_from_a_state_that_is_not_finite(name, newton):
    """As a step that failed may leave one, within a compiled loop that goes on with it."""
    spring = jm.force.AnchoredSprings(("x", [0]), 4.0, [[0.0]])
    system = jm.System({"x": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("x", [0]), 1.0)})
    state = system.at_rest({"x": [[1.0]]})
    integrator = made(name, system, state, newton)

    @jax.jit
    def results(x):
        start = eqx.tree_at(lambda s: s.position["x"], state, x)
        return jm.simulate(system, start, integrator, 0.1, 3, throw=False).info.result

    assert (results(jnp.ones((1, 1))) == jm.RESULTS.successful).all()
    for x in (jnp.nan, jnp.inf):
        assert (results(jnp.full((1, 1), x)) == jm.RESULTS.nonfinite_input).all()


@pytest.mark.slow
def test_prescribed_motion_leads_to_where_it_says_without_swinging():
    """A node that is drawn at a constant speed, from rest: no scheme may leave its velocity to alternate."""
    system = jm.System(
        {"x": jm.Vec1()},
        forces={"spring": jm.force.Springs((("x", [0]), ("x", [1])), 30.0, 1.0)},
        masses={"mass": jm.mass.UniformMass(("x", [0, 1]), 1.0)},
        constraints={"hand": jm.constraint.PrescribedMotion(("x", [0]), [[0.0]], [[0.0], [2.0]], [0.0, 1.0])},
    )
    state = system.at_rest({"x": [[0.0], [1.0]]})
    for name in ("Newmark", "VelocityVerlet"):
        path = jm.simulate(system, state, made(name, system, state, False), 0.01, 20)
        np.testing.assert_allclose(path.position["x"][:, 0, 0], 2.0 * path.time, atol=1e-12)
        np.testing.assert_allclose(path.velocity["x"][1:, 0, 0], 2.0, atol=1e-12)
        omega = np.sqrt(30.0)
        exact = 1.0 + 2.0 * path.time - 2.0 / omega * np.sin(omega * np.asarray(path.time))
        np.testing.assert_allclose(path.position["x"][:, 1, 0], exact, atol=2e-4)


def test_options_out_of_range():
    system, state = spring()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    for kind, options, word in (
        ("BDF", {"order": 4}, "order"),
        ("HHT", {"alpha": 0.5}, "alpha"),
        ("GeneralizedAlpha", {"spectral_radius": 1.5}, "spectral_radius"),
        ("Newmark", {"gamma": 0.2}, "gamma"),
        ("Midpoint", {"rayleigh_mass": -1.0}, "rayleigh_mass"),
    ):
        with pytest.raises(ValueError, match=word):
            getattr(jm.integrator, kind)(linear_system, **options)
    with pytest.raises(TypeError, match="carry"):
        jm.integrator.RK4().step(system, state, {"x": 1.0}, 0.1)


@pytest.mark.parametrize("kind", (jm.ImplicitEuler, jm.integrator.Newmark))
def test_damping_that_is_not_there_is_known_in_compiled_programs(kind):
    """Otherwise the matrix of `C` is assembled, and differentiated, to be multiplied by nothing."""
    system, state = spring()
    linear_system = jm.MatrixLinearSystem.build(system, state)
    acts = eqx.filter_jit(lambda integrator: integrator.rayleigh.acts_on(system))
    for given, there in ((0.0, False), (0.1, True)):
        integrator = kind(linear_system, rayleigh_stiffness=given)
        assert acts(integrator) is there


@pytest.mark.parametrize("parameters", ["single", "double"])
@pytest.mark.parametrize("name", ["EnergyMomentum", "VelocityVerlet", "Tsitouras"])
def test_states_of_single_precision_stay_so(name, parameters):
    """Beside others of double precision: nothing within a scheme makes numbers of its own type of them."""

    def single(tree):
        return jax.tree.map(lambda a: a.astype(jnp.float32) if eqx.is_inexact_array(a) else a, tree)

    system, state = SCENES["body"]()
    system, state = single(system) if parameters == "single" else system, single(state)
    integrator = made(name, system, state, False)
    carry = integrator.init(system, state)
    end = eqx.filter_eval_shape(integrator.step, system, state, carry, jnp.float32(1e-3))[0]
    assert all(a.dtype == jnp.float32 for a in jax.tree.leaves(end) if jnp.issubdtype(a.dtype, jnp.floating))


def lasting(system, state, integrator, span, steps):
    """The last state of so many steps over `span` [s]."""
    return jm.simulate(system, state, integrator, span / steps, steps, save_every=steps).last


@pytest.mark.slow
def test_a_stiff_chain_takes_a_tenth_of_eulers_steps():
    """Case A8, beside a solution by RK4: 1e-4 with 800 steps, which implicit Euler misses with 8000."""
    on = (("c", np.arange(10)), ("c", np.arange(1, 11)))
    system = jm.System(
        {"c": jm.Vec2()},
        forces={"links": jm.force.Springs(on, 1000.0, 0.1)},
        masses={"beads": jm.mass.UniformMass(("c", range(11)), 0.1)},
        constraints={"nail": jm.constraint.Fixed(("c", [0]))},
        gravity=[0.0, -9.81],
    )
    state = system.at_rest({"c": np.stack([0.1 * np.arange(11), np.zeros(11)], axis=1)})
    exact = lasting(system, state, jm.integrator.RK4(), 1.0, 10000).position["c"][-1]
    errors = {}
    for name, steps in (("Midpoint", 800), ("Newmark", 800), ("ImplicitEuler", 8000)):
        tip = lasting(system, state, made(name, system, state, True), 1.0, steps).position["c"][-1]
        errors[name] = np.linalg.norm(tip - exact) / np.linalg.norm(exact)
    assert errors["Midpoint"] < 1e-4 and errors["Newmark"] < 1e-4 and errors["ImplicitEuler"] > 1e-3


@pytest.mark.slow
def test_the_double_pendulum():
    """Case D3, with angles as coordinates and masses on what they carry."""

    def first(a):
        return jnp.stack([jnp.sin(a[0]), -jnp.cos(a[0])])

    system = jm.System(
        {"q": jm.Vec1(), "upper": jm.Vec2(), "lower": jm.Vec2()},
        masses={"upper": jm.mass.UniformMass(("upper", [0]), 1.0), "lower": jm.mass.UniformMass(("lower", [0]), 1.0)},
        mappings={
            "upper": jm.mapping.FunctionMapping(("q", [0]), "upper", first),
            "lower": jm.mapping.FunctionMapping((("q", [0]), ("q", [1])), "lower", lambda a, b: first(a) + first(b)),
        },
        gravity=[0.0, -9.81],
    )
    state = system.at_rest({"q": [[np.pi / 2], [np.pi / 2]]})
    exact = [-0.6250877, -1.03458509, -3.92227957, -1.30309925]
    end = lasting(system, state, jm.integrator.RK4(check_step=False), 1.0, 1000)
    np.testing.assert_allclose(numbers(end), exact, atol=1e-7)
    end = lasting(system, state, made("Midpoint", system, state, False), 1.0, 4000)
    np.testing.assert_allclose(numbers(end), exact, atol=1e-5)


def compiled_beam():
    """Of a clamped beam the end of two steps as a function of its positions, by scheme; and where it starts."""
    mesh = jm.mesh.box_mesh(cells=(8, 2, 2), size=(4.0, 1.0, 1.0))
    law = jm.material.Corotational(1000.0, 0.3)
    system = jm.System(
        {"beam": jm.Vec3()},
        forces={"solid": jm.force.TetrahedronFEM.from_mesh("beam", mesh, law)},
        masses={"mass": jm.mass.ConsistentMass.from_mesh("beam", mesh, 1.0)},
        constraints={"clamp": jm.constraint.Fixed(("beam", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
        gravity=(0.0, 0.0, -10.0),
    )
    state = system.at_rest({"beam": mesh.points})
    linear_system = jm.MatrixLinearSystem.build(system, state)

    def of(kind):
        scheme = kind(linear_system, solver=jm.solver.PCG(1e-8))

        def end(x):
            start = eqx.tree_at(lambda s: s.position["beam"], state, x)
            return jnp.sum(jm.simulate(system, start, scheme, 0.01, 2, throw=False).last.position["beam"] ** 2)

        return end

    return of, state.position["beam"]


@pytest.mark.slow
def test_gradients_of_steps_are_programs_of_one_length():
    # Momenta are differentiated by elements: the transpose of a product with a matrix would make it 1.08 times as long.
    of, x = compiled_beam()

    def length(kind):
        return jax.jit(jax.grad(of(kind))).lower(x).as_text().count("\n")

    assert length(jm.integrator.Midpoint) < 1.06 * length(jm.ImplicitEuler)


MOST_LOOPS = {  # more than implicit Euler, of two steps and of their gradient
    "Midpoint": (2, 2),
    "Newmark": (9, 19),
    "BDF": (12, 25),
    "TRBDF2": (10, 27),
    "EnergyMomentum": (2, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST_LOOPS)
def test_first_calls_have_few_loops_more_than_implicit_eulers(name):
    """XLA takes as long for each, whatever is in it, and that is most of a first call. Of Euler's some 49 and 128."""
    of, x = compiled_beam()

    def loops(kind):
        ends = of(kind), jax.grad(of(kind))
        return [(jax.jit(end).lower(x).compile().as_text() or "").count(" fusion(") for end in ends]

    more = np.subtract(loops(getattr(jm.integrator, name)), loops(jm.ImplicitEuler))
    assert (more <= MOST_LOOPS[name]).all(), more


@pytest.mark.slow
def test_second_derivatives_of_energy_and_momentum():
    """The energies of its corrections have a derivative of their own."""
    links = jm.force.Springs(on=(("p", [0, 1]), ("p", [1, 2])), stiffness=40.0, rest_length=1.0)
    masses = {"mass": jm.mass.UniformMass(on=("p", [0, 1, 2]), mass=1.0)}
    system = jm.System({"p": jm.Vec2()}, forces={"links": links}, masses=masses, gravity=[0.0, -9.81])
    velocity = jnp.array([[0.0, 0.3], [0.5, -0.2], [0.1, 1.0]])
    state = eqx.tree_at(lambda s: s.velocity["p"], system.at_rest({"p": [[0.0, 0.0], [1.2, 0.1], [2.0, 0.7]]}), velocity)
    scheme = jm.integrator.EnergyMomentum(jm.MatrixLinearSystem.build(system, state), newton=True, rtol=1e-12)

    def gradient(numbers):
        def value(numbers):
            moved = eqx.tree_at(lambda s: (s.position["p"], s.velocity["p"]), state, tuple(numbers.reshape(2, 3, 2)))
            end = scheme.step(system, moved, None, 0.1, throw=False)[0]
            return jnp.sum(jnp.sin(end.position["p"])) + jnp.sum(end.velocity["p"] ** 2)

        return jax.grad(value)(numbers)

    x = jnp.concatenate([state.position["p"].reshape(-1), velocity.reshape(-1)])
    h, unit = 1e-5, np.eye(12)
    exact, first = jax.jit(jax.jacfwd(gradient))(x), jax.jit(gradient)
    central = np.stack([(first(x + h * e) - first(x - h * e)) / (2 * h) for e in unit])
    assert np.abs(exact - central).max() <= DIFFERENCES * np.abs(exact).max()
    assert np.abs(exact - exact.T).max() <= ROUND_OFF * np.abs(exact).max()
