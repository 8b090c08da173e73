"""A rigid body without forces: conservation in every step, Euler's equations as dt -> 0."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import jaxmech as jm
from jaxmech._math.rotation import quaternion_conjugate, rotate

INERTIA = np.array([1.0, 2.0, 3.0])
TURNED = np.array([0.5, -0.1, 0.7, 0.5]) / np.linalg.norm([0.5, -0.1, 0.7, 0.5])


@pytest.fixture(scope="module")
def body():
    """`spins(spin, dt, steps)`: momenta and body-axes spins along a free motion from the body-axes spin given."""
    system = jm.System({"body": jm.Rigid3()}, masses={"mass": jm.mass.RigidMass(("body", [0]), 2.0, np.diag(INERTIA))})
    rest = system.at_rest({"body": [[1.0, 2.0, 3.0, *TURNED]]})
    integrator = jm.ImplicitEuler(jm.MatrixLinearSystem.build(system, rest), newton=True, rtol=1e-10, atol=1e-12)

    @eqx.filter_jit
    def motion(spin, dt):
        world = rotate(rest.position["body"][0, 3:], spin)
        start = eqx.tree_at(lambda s: s.velocity["body"], rest, jnp.array([[0.1, -0.2, 0.3, 0, 0, 0]]).at[0, 3:].set(world))
        states = jm.simulate(system, start, integrator, dt, 400).state
        momenta = jax.vmap(lambda s: jm.mass.momentum(system, s)["body"][0])(states)
        turned = jax.vmap(lambda x, v: rotate(quaternion_conjugate(x[0, 3:]), v[0, 3:]))
        return momenta, turned(states.position["body"], states.velocity["body"])

    return lambda spin, dt: tuple(np.asarray(a) for a in motion(jnp.asarray(spin), dt))


def euler_equations(spin, times):
    """`I w' = I w x w` in body axes."""
    rate = lambda _, w: np.cross(INERTIA * w, w) / INERTIA  # noqa: E731
    return solve_ivp(rate, (0, times[-1]), spin, "DOP853", times, rtol=1e-12, atol=1e-12).y.T


def test_every_step_keeps_both_momenta(body):
    momenta, _ = body([0.3, 1.5, -0.8], 0.02)
    np.testing.assert_allclose(momenta, np.broadcast_to(momenta[0], momenta.shape), rtol=0, atol=1e-9)


@pytest.mark.slow
def test_euler_equations_as_the_step_goes_to_zero(body):
    spin = [0.3, 1.5, -0.8]
    coarse, fine = body(spin, 0.01)[1][:201], body(spin, 0.005)[1][::2]
    exact = euler_equations(spin, 0.01 * np.arange(201))
    errors = [np.abs(w - exact).max() for w in (coarse, fine)]
    assert abs(np.log2(errors[0] / errors[1]) - 1) < 0.1
    assert np.abs(2 * fine - coarse - exact).max() < 0.05 * errors[1]


@pytest.mark.parametrize("axis", [0, 2])
def test_spin_about_the_extreme_axes_is_stable(body, axis):
    """A nudge of 1 % wobbles at the rate `Omega sqrt((Ia - Ib)(Ia - Ic) / (Ib Ic))` and does not grow."""
    spin = np.full(3, 0.02)
    spin[axis] = 2.0
    w = body(spin, 0.01)[1]
    others = np.delete(w, axis, axis=1)
    assert np.abs(others).max() < 0.05
    assert np.abs(w[:, axis] - 2.0).max() < 0.02


def test_spin_about_the_middle_axis_flips(body):
    """The same nudge grows: `exp(Omega t sqrt((I3 - I2)(I2 - I1) / (I1 I3)))`, until the body turns over."""
    spin = [1e-4, 2.0, -1e-4 / np.sqrt(3)]  # along the growing solution
    w = body(spin, 0.005)[1]
    exact = euler_equations(spin, 0.005 * np.arange(401))
    growth = 2.0 * np.sqrt(1 / 3)
    measured = np.log(np.abs(w[400, 0] / w[200, 0]))
    np.testing.assert_allclose(measured, np.log(np.abs(exact[400, 0] / exact[200, 0])), rtol=0.03)
    np.testing.assert_allclose(measured, growth, rtol=0.05)
    assert body([0.02, 2.0, 0.02], 0.02)[1][:, 1].min() < -1.5
