"""Dynamics with known answers: recursions, exact discrete solutions, conservation laws, closed forms as dt -> 0."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm


def moving(state, name, velocity):
    """`state` with the velocities of one state set."""
    return eqx.tree_at(lambda s: s.velocity[name], state, jnp.asarray(velocity, float))


def test_a8_hanging_chain_and_its_derivative():
    """Ten masses on springs swing down for a second; the tip, its velocity, and its derivative by the stiffness."""
    x = np.stack([0.1 * np.arange(11), np.zeros(11)], axis=1)
    system = jm.System(
        {"chain": jm.Vec2()},
        forces={"springs": jm.force.Springs((("chain", np.arange(10)), ("chain", np.arange(1, 11))), 1000.0, 0.1)},
        masses={"mass": jm.mass.UniformMass(("chain", np.arange(11)), 0.1)},
        constraints={"hook": jm.constraint.Fixed(("chain", [0]))},
        gravity=[0.0, -9.81],
    )
    rest = system.at_rest({"chain": x})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest), newton=True, rtol=1e-12)

    def tip(stiffness):
        trial = eqx.tree_at(lambda s: s.forces["springs"].stiffness, system, stiffness)
        last = jm.simulate(trial, rest, integrator, 0.01, 100, save_every=100).last
        return last.position["chain"][-1], last.velocity["chain"][-1]

    k = jnp.asarray(1000.0)
    (position, velocity), (slope, _) = jax.jit(lambda k: jax.jvp(tip, (k,), (jnp.ones_like(k),)))(k)
    np.testing.assert_allclose(position, [-0.976212865117, -0.306855642235], rtol=0, atol=1e-8)
    np.testing.assert_allclose(velocity, [0.0925251586, 1.3858700708], rtol=0, atol=1e-8)
    np.testing.assert_allclose(slope, [5.90644609e-05, 1.95040499e-04], rtol=1e-5)


@pytest.mark.parametrize("of_components", [False, True], ids=["integrator", "components"])
def test_s3_linearised_step_with_rayleigh_damping(of_components):
    """SOFA's recursion for one degree of freedom, for 2 s."""
    K, m, h, rm, rk, g = 100.0, 10.0, 0.1, 0.1, 0.1, 10.0
    system = jm.System(
        {"z": jm.Vec1()},
        forces={"spring": jm.force.AnchoredSprings(("z", [0]), K, [[1.0]])},
        masses={"mass": jm.mass.UniformMass(("z", [0]), m)},
        gravity=[-g],
        rayleigh={"spring": rk, "mass": rm} if of_components else None,
    )
    rest = system.at_rest({"z": [[1.0]]})
    coefficients = {} if of_components else {"rayleigh_stiffness": rk, "rayleigh_mass": rm}
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest), **coefficients)
    trajectory = jm.simulate(system, rest, integrator, h, 20)
    z, v, expected = 1.0, 0.0, [1.0]
    for _ in range(20):
        v += h * (-K * (z - 1) - m * g + v * (-(rk + h) * K - rm * m)) / (h * (h + rk) * K + m * (1 + h * rm))
        z += h * v
        expected.append(z)
    np.testing.assert_allclose(trajectory.position["z"][:, 0, 0], expected, rtol=0, atol=1e-14)


def test_d1_period_of_a_pendulum():
    """`T/T0 = 2 K(sin(a/2)) / pi`, from the quarter period, extrapolated to dt = 0 from three time steps."""
    system = jm.System(
        {"hinge": jm.Rigid2(), "bob": jm.Vec2()},
        mappings={"rod": jm.mapping.RigidMapping(("hinge", [0]), "bob", [[0.0, -1.0]])},
        masses={"mass": jm.mass.UniformMass(("bob", [0]), 0.3)},
        constraints={"pin": jm.constraint.FixedComponents(("hinge", [0]), (True, True, False))},
        gravity=[0.0, -9.81],
    )
    start = system.at_rest({"hinge": [[0.0, 0.0, 1.0]]})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start), newton=True)
    small = 2 * np.pi / np.sqrt(9.81)
    steps = 260

    @jax.jit
    def swing(amplitude, dt):
        released = eqx.tree_at(lambda s: s.position["hinge"], start, jnp.array([[0.0, 0.0, 1.0]]) * amplitude)
        return jm.simulate(system, released, integrator, dt, steps).position["hinge"][:, 0, 2]

    def period(degrees, dt):
        angle = np.asarray(swing(np.deg2rad(degrees), dt))
        last = int(np.argmax(angle < 0)) - 1
        return 4 * dt * (last + angle[last] / (angle[last] - angle[last + 1]))

    for degrees, expected in [(30, 1.01740880), (90, 1.18034060)]:
        coarse, middle, fine = (period(degrees, small / n) for n in (200, 400, 800))
        first, second = 2 * middle - coarse, 2 * fine - middle
        np.testing.assert_allclose((4 * second - first) / 3 / small, expected, rtol=5e-4)


@pytest.fixture(scope="module")
def oscillator():
    """A mass of 2 kg on a spring of 50 N/m in space: omega = 5 rad/s."""
    system = jm.System(
        {"x": jm.Vec3()},
        forces={"spring": jm.force.AnchoredSprings(("x", [0]), 50.0, [[0.0, 0.0, 0.0]])},
        masses={"mass": jm.mass.UniformMass(("x", [0]), 2.0)},
    )
    start = system.at_rest({"x": [[1.0, 0.0, 0.0]]})
    return system, start, jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start))


def test_backward_euler_follows_its_exact_discrete_solution(oscillator):
    """`z_n = z_0 (1 - i omega h)^-n` with `z = x - i v / omega`: amplitude and phase, to rounding."""
    system, start, integrator = oscillator
    h = 0.02
    trajectory = jm.simulate(system, start, integrator, h, 100)
    z = (1 - 5j * h) ** -np.arange(101.0)
    np.testing.assert_allclose(trajectory.position["x"][:, 0, 0], z.real, rtol=0, atol=1e-12)
    np.testing.assert_allclose(trajectory.velocity["x"][:, 0, 0], -5 * z.imag, rtol=0, atol=1e-11)


def test_backward_euler_is_of_first_order_and_keeps_the_natural_period(oscillator):
    system, start, integrator = oscillator
    period = 2 * np.pi / 5
    errors = []
    for steps in (400, 800):
        last = jm.simulate(system, start, integrator, period / steps, steps, save_every=steps).last
        errors.append(np.array([1 - last.position["x"][0, 0], last.velocity["x"][0, 0]]))
    rate = np.log2(np.linalg.norm(errors[0]) / np.linalg.norm(errors[1]))
    assert abs(rate - 1) < 0.1
    # After one period T the oscillator is back: what is left is of second order in omega^2 h T / 2, the decay
    assert np.abs(2 * errors[1] - errors[0]).max() < (25 * period**2 / 400 / 2) ** 2


@pytest.fixture(scope="module")
def free_tetrahedron():
    """Four unequal masses joined by six springs, free in space, spinning and stretched."""
    a, b = np.triu_indices(4, 1)
    points = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    system = jm.System(
        {"body": jm.Vec3()},
        forces={"springs": jm.force.Springs((("body", a), ("body", b)), 20.0, 1.0)},
        masses={"mass": jm.mass.DiagonalMass(("body", range(4)), [1.0, 2.0, 0.5, 1.5])},
    )
    velocity = np.cross([0.5, -1.0, 2.0], points) + [0.3, -0.2, 0.1]
    start = moving(system.at_rest({"body": points}), "body", velocity)
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start), newton=True, rtol=1e-12)
    return system, start, integrator


def total_energy(system, state):
    return jm.energy(system, state) + jm.mass.kinetic_energy(system, state)


def test_implicit_euler_dissipates_and_keeps_momentum(free_tetrahedron):
    system, start, integrator = free_tetrahedron
    masses = np.array([1.0, 2.0, 0.5, 1.5])[:, None]
    spin_loss = []
    for dt in (0.005, 0.0025):
        trajectory = jm.simulate(system, start, integrator, dt, 40)
        energies = jax.jit(jax.vmap(lambda s: total_energy(system, s)))(trajectory.state)
        assert np.all(np.diff(energies) < 0)
        x, v = np.asarray(trajectory.position["body"]), np.asarray(trajectory.velocity["body"])
        linear = (masses * v).sum(axis=1)
        np.testing.assert_allclose(linear, np.broadcast_to(linear[0], linear.shape), rtol=0, atol=1e-10)
        spin = (masses * np.cross(x, v)).sum(axis=1)
        spin_loss.append(np.linalg.norm(spin[round(0.1 / dt)] - spin[0]) / np.linalg.norm(spin[0]))
    # The known defect of backward Euler on points: of first order in dt, no more
    assert abs(np.log2(spin_loss[0] / spin_loss[1]) - 1) < 0.15


def test_terminal_velocity():
    """`v_n = (m g / c) (1 - (1 + h c/m)^-n)`: the exact discrete fall, and its limit."""
    m, c, g, h = 0.5, 2.0, 9.81, 0.05
    system = jm.System(
        {"drop": jm.Vec3()},
        forces={"drag": jm.force.VelocityDamping(("drop", [0]), c)},
        masses={"mass": jm.mass.UniformMass(("drop", [0]), m)},
        gravity=[0.0, 0.0, -g],
    )
    start = system.at_rest({"drop": [[0.0, 0.0, 0.0]]})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, start))
    v = np.asarray(jm.simulate(system, start, integrator, h, 200).velocity["drop"][:, 0])
    np.testing.assert_allclose(v[:, 2], -m * g / c * (1 - (1 + h * c / m) ** -np.arange(201.0)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(v[-1], [0, 0, -m * g / c], rtol=1e-12)
