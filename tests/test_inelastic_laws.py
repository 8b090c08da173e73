"""Hardening, damage and locking against closed forms, at a point and in a solid."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmech as jm
from jaxmech._scene.internal import with_time_step, with_values

jax.config.update("jax_enable_x64", True)
M = jm.material


def history(law, strains, make, dt=0.0):
    """The stress along a history of deformations `make(strain)`, each accepted; and the energy density of each step."""

    @jax.jit
    def run(law, strains):
        def step(internal, strain):
            now = with_time_step(with_values(law, internal), dt)
            F = make(strain)
            psi, P = jax.value_and_grad(now.energy_density)(F)
            new = now.point_update(F)
            after = with_values(now, internal | new)
            return internal | new, (P, psi, after.energy_density(F))

        names = {f.name: getattr(law, f.name) for f in dataclasses.fields(law) if f.name in NAMES}
        return jax.lax.scan(step, names, strains)[1]

    law = jax.tree.map(lambda a: jnp.asarray(np.asarray(a, np.float64)), law)
    return [np.asarray(a) for a in run(law, jnp.asarray(strains))]


NAMES = ("plastic_strain", "plastic_gradient", "accumulated", "worst")


def sheared(gamma):
    return jnp.eye(3).at[0, 1].set(gamma)


def test_hardening_in_shear_and_back():
    """Isotropic hardening widens the elastic range of shear, kinematic hardening moves it; both have the same slope."""
    mu, s, h = 400.0, 6.0, 90.0
    gamma = np.concatenate([np.linspace(0, 0.08, 41), np.linspace(0.08, -0.08, 161)[1:]])
    tau_yield = s / np.sqrt(3)
    slope = mu * h / (3 * mu + h)
    for kinematic in (0.0, 60.0, 90.0):
        law = M.J2Plasticity(1000.0, 0.25, s, h - kinematic, kinematic)
        tau = history(law, gamma, sheared)[0][:, 0, 1]
        loaded = tau_yield + slope * (0.08 - tau_yield / mu)
        np.testing.assert_allclose(tau[40], loaded, rtol=1e-12)
        # Unloading: elastic over twice what the isotropic part has made of the yield stress, then with the same slope.
        accumulated = (0.08 - loaded / mu) / np.sqrt(3)
        width = 2 * (s + (h - kinematic) * accumulated) / np.sqrt(3)
        back = width / mu
        np.testing.assert_allclose(tau[-1], loaded - width - slope * (0.16 - back), rtol=1e-12)
        elastic = np.searchsorted(-gamma[40:], -(0.08 - back)) + 40
        np.testing.assert_allclose(tau[41:elastic], loaded - mu * (0.08 - gamma[41:elastic]), rtol=1e-11)


def stretched(strain):
    return jnp.eye(3).at[0, 0].add(strain)


@pytest.mark.slow
def test_large_plastic_strains_of_a_bar_that_turns():
    """Drawn to twice its length: the Kirchhoff stress is `s + H a`, in 1 step or 20, and pushed back; turned meanwhile."""
    E, nu, s, h = 2e3, 0.3, 6.0, 9.0

    def bar(at):  # of `(Kirchhoff stress, plastic strain, turn)`
        tau, plastic, angle = at
        along, across = tau / E + plastic, -nu * tau / E - plastic / 2
        c, z = jnp.cos(angle), jnp.sin(angle)
        return jnp.array([[c, -z, 0.0], [z, c, 0.0], [0.0, 0.0, 1.0]]) @ jnp.diag(
            jnp.exp(jnp.stack([along, across, across]))
        )

    a = np.linspace(0.035, 0.7, 20)
    drawn = np.stack([s + h * a, a, 0.1 * np.arange(20)], 1)
    back = np.linspace(0.1, 0.6, 6)
    pushed = np.stack([-(s + h * (0.7 + back)), 0.7 - back, np.linspace(2.0, 3.0, 6)], 1)
    for states in (drawn[-1:], np.concatenate([drawn, pushed])):
        P = history(M.HenckyPlasticity(E, nu, s, h), states, bar)[0]
        F = np.asarray(jax.vmap(bar)(jnp.asarray(states)))
        turn = np.stack([F[:, :, k] / np.linalg.norm(F[:, :, k], axis=1)[:, None] for k in range(3)], 2)
        tau = np.einsum("nji,njk,nlk,nlm->nim", turn, P, F, turn)
        expected = np.zeros_like(tau)
        expected[:, 0, 0] = states[:, 0]
        np.testing.assert_allclose(tau, expected, atol=1e-9)


@pytest.mark.slow
def test_small_strains_of_both_plasticities_agree():
    gamma = np.linspace(0, 2e-4, 11)
    small, large = (
        history(law(1000.0, 0.25, 0.05, 90.0), gamma, sheared)[0] for law in (M.J2Plasticity, M.HenckyPlasticity)
    )
    np.testing.assert_allclose(large[:, 0, 1], small[:, 0, 1], rtol=1e-3)


def test_damage_follows_the_worst_and_dissipates_what_it_says():
    """`(1 - D) E e` on loading, a straight line back; the work of tearing is `k0 + w` where all stiffness may go."""
    E, k0, w, d = 1000.0, 2.0, 8.0, 0.9999
    law = M.Damage(M.LinearElastic(E, 0.0), k0, w, d)
    up, down = np.linspace(0, 0.5, 20001), np.linspace(0.5, 0.0, 11)
    P, step, after = history(law, np.concatenate([up, down]), stretched)
    psi = 0.5 * E * up**2
    D = d * -np.expm1(-np.maximum(psi - k0, 0) / w)
    np.testing.assert_allclose(P[: len(up), 0, 0], (1 - D) * E * up, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(P[len(up) :, 0, 0], (1 - D[-1]) * E * down, rtol=1e-9, atol=1e-9)
    work = np.sum(0.5 * (P[1 : len(up), 0, 0] + P[: len(up) - 1, 0, 0]) * np.diff(up))
    np.testing.assert_allclose(work, k0 + w + (1 - d) * psi[-1], rtol=1e-3)
    # What a step is the energy of: what it stores, and what it dissipates, never less than nothing.
    assert np.all(step - after >= -1e-12)
    np.testing.assert_allclose(np.sum((step - after)[: len(up)]) + (1 - D[-1]) * psi[-1], work, rtol=1e-3)


def test_viscous_damage_takes_its_time():
    """Held at a strain, `k` closes on `psi_0` by `1/(1 + dt/viscosity)` a step (implicit Euler); at once, nothing."""
    E, tau, dt, strain = 1000.0, 0.5, 0.05, 0.1
    law = M.Damage(M.LinearElastic(E, 0.0), 1.0, 8.0, 0.9, tau)
    P = history(law, np.full(30, strain), stretched, dt)[0][:, 0, 0]
    k = 5.0 - 4.0 * (1 + dt / tau) ** -np.arange(1, 31)
    np.testing.assert_allclose(P, (1 - 0.9 * -np.expm1(-(k - 1.0) / 8.0)) * E * strain, rtol=1e-12)
    np.testing.assert_allclose(history(law, [strain], stretched)[0][0, 0, 0], E * strain, rtol=1e-12)


def test_damage_refuses_what_remembers():
    plastic = M.J2Plasticity(1.0, 0.3, 1.0)
    with pytest.raises(TypeError, match="Damage: elastic must be a material without memory, got J2Plasticity"):
        M.Damage(plastic, 1.0, 1.0)


def gent():
    mesh = jm.mesh.box_mesh(cells=(1, 1, 1), size=(1.0, 1.0, 1.0), kind="hexahedron")
    law = M.Gent(mu=100.0, bulk=1e3, limit=2.0)
    end = mesh.faces_where(lambda x: x[:, 0] == 1.0)
    return mesh, jm.System(
        {"b": jm.Vec3()},
        forces={
            "rubber": jm.force.HexahedronFEM.from_mesh("b", mesh, law),
            "load": jm.force.Traction.from_mesh("b", end, [600.0, 0.0, 0.0]),
        },
        constraints={"wall": jm.constraint.Fixed(("b", mesh.nodes_where(lambda x: x[:, 0] == 0.0)))},
    )


@pytest.mark.slow
def test_locked_chains_are_named():
    """A state beyond the limit is refused by name, and never NaN."""
    mesh, system = gent()
    beyond = system.at_rest({"b": mesh.points * jnp.array([4.0, 1.0, 1.0])})
    for function in (jm.energy, jm.total_force):
        with pytest.raises(jm.FailedComputation, match="of 'rubber' .*stretched beyond the limit of Gent's law") as failure:
            function(system, beyond)
        assert failure.value.result == jm.RESULTS.inverted_element


@pytest.mark.slow
def test_a_load_is_carried_close_to_the_limit():
    """And a solve that begins beyond it fails by name."""
    mesh, system = gent()
    rest, beyond = (system.at_rest({"b": mesh.points * jnp.array([a, 1.0, 1.0])}) for a in (1.0, 4.0))
    fields = jm.output.gauss_fields(system, jm.static_solve(system, rest, load_steps=5).state, "rubber")
    first = fields.volume_ratio ** (-2 / 3) * jnp.sum(fields.gradient**2, axis=(2, 3)) - 3
    assert 1.2 < first.max() < 2.0
    with pytest.raises(
        jm.FailedComputation, match="'rubber': element 0 is inverted or stretched beyond the limit of Gent's"
    ):
        jm.static_solve(system, beyond)
