"""Laws of rubbers, tissue, muscle and damaged solids: one table, one program for each, all that is promised of it."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_materials import DIRECTIONS, EYE, hooke, richardson, turn

import jaxmech as jm
from jaxmech._scene.internal import with_time_step

jax.config.update("jax_enable_x64", True)

BULK = 900.0
ROUNDING = 1e-11  # of derivatives, in the largest of their numbers
DIFFERENCED = 1e-8  # of differences of sixth order
FIBRES = np.array([[1.0, 1.0, 0.0], [1.0, -2.0, 0.5]])
FLOW = np.diag([1.2, 1.0, 1 / 1.2])


@dataclasses.dataclass(frozen=True)
class Law:
    """A material, and what is promised of it: shear modulus at rest [Pa] (bulk modulus `BULK`), `psi_1`, `psi_2` by hand."""

    make: Callable[[], jm.material.AbstractMaterial]
    shear: float | None = None
    slopes: Callable | None = None  # of I1, I2: (psi_1, psi_2)
    objective: bool = True
    isotropic: bool = True
    rests: bool = True


def chains(n, mu):
    """`(psi_1, psi_2)` of eight chains of `n` segments."""
    c = np.array([1 / 2, 1 / 20, 11 / 1050, 19 / 7000, 519 / 673750])
    i = np.arange(1, 6)
    return lambda I1, I2: (mu * np.sum(c * i * I1 ** (i - 1) / n ** (i - 1.0)), 0.0)


M = jm.material
LAWS = {
    "arruda-boyce": Law(
        lambda: M.ArrudaBoyce(200.0, BULK, 8.0),
        200 * (1 + 3 / 40 + 99 / (175 * 64) + 513 / (875 * 512) + 42039 / (67375 * 4096)),
        chains(8.0, 200.0),
    ),
    "gent": Law(lambda: M.Gent(300.0, BULK, 40.0), 300.0, lambda I1, I2: (150.0 * 40.0 / (43.0 - I1), 0.0)),
    "yeoh": Law(
        lambda: M.Yeoh([150.0, -5.0, 0.4], BULK),
        300.0,
        lambda I1, I2: (150.0 - 10.0 * (I1 - 3) + 1.2 * (I1 - 3) ** 2, 0.0),
    ),
    "veronda": Law(
        lambda: M.VerondaWestmann(400.0, 0.5, BULK), 200.0, lambda I1, I2: (200.0 * np.exp(0.5 * (I1 - 3)), -100.0)
    ),
    "costa": Law(lambda: M.Costa(200.0, BULK, 3.0, 1.5, 1.0, 1.2, 0.8, 0.5), isotropic=False),
    "fibres": Law(lambda: M.HolzapfelGasserOgden(250.0, 80.0, 0.5, BULK, FIBRES, 0.1), 250.0, isotropic=False),
    "dispersed": Law(lambda: M.HolzapfelGasserOgden(250.0, 60.0, 0.5, BULK, FIBRES[:1], 1 / 3), 250.0),
    "muscle": Law(lambda: M.ActiveStress(M.NeoHookean(700.0, 0.3), 50.0, FIBRES[0]), isotropic=False, rests=False),
    "warm": Law(lambda: M.ThermalExpansion(M.NeoHookean(700.0, 0.3), 1e-3, 50.0), rests=False),
    "damaged": Law(lambda: dataclasses.replace(M.Damage(M.NeoHookean(700.0, 0.3), 2.0, 90.0, 0.9, 0.4), dt=0.2, worst=5.0)),
    "viscous": Law(
        lambda: with_time_step(M.Viscoelastic(M.Gent(300.0, BULK, 40.0), [200.0], [0.4], flow=FLOW[None]), jnp.asarray(0.2)),
        isotropic=False,  # flowed along its axes
        rests=False,
    ),
    "plastic": Law(
        lambda: M.J2Plasticity(700.0, 0.3, 30.0, 20.0, 40.0, plastic_strain=0.1 * (FLOW - np.trace(FLOW) / 3 * EYE)),
        objective=False,
        isotropic=False,
        rests=False,
    ),
    "flowed far": Law(
        lambda: M.HenckyPlasticity(700.0, 0.3, 30.0, 20.0, plastic_gradient=FLOW @ turn([1, 0, 2], 20.0), accumulated=0.1),
        isotropic=False,
        rests=False,
    ),
}
SLOW = ("flowed far", "dispersed", "viscous")  # which others nearly are
every = pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in LAWS])
RNG = np.random.default_rng(11)
POINTS = np.stack(
    [
        turn([1, 2, -1], 50.0) @ (EYE + 0.15 * RNG.standard_normal((3, 3))),
        EYE + 0.2 * RNG.standard_normal((3, 3)),
        np.diag([1.6, 0.9, 0.8]),
    ]
)
Q = turn([1, -2, 0.5], 123.0)
STRETCH, SHEAR = 1.7, 0.8
COUNT = 12


@functools.cache
def program():
    """`psi`, `P`, `d2 psi/dF2` of `COUNT` gradients, and the derivative of the sum of `psi` by all numbers of the law."""

    @jax.jit
    def run(law, F, counts):
        def of(F):
            return *jax.value_and_grad(law.energy_density)(F), jax.hessian(law.energy_density)(F)

        return jax.vmap(of)(F), jax.grad(lambda law: jnp.sum(counts * jax.vmap(law.energy_density)(F)))(law)

    def padded(law, F):
        law = jax.tree.map(lambda a: np.asarray(a, np.float64), law)  # of one type, however it was made: one program
        F, rest = np.asarray(F), np.tile(EYE, (COUNT - len(F), 1, 1))
        out, slopes = run(law, np.concatenate([F, rest]), np.arange(COUNT) < len(F))
        return *(np.asarray(a)[: len(F)] for a in out), slopes

    return padded


@pytest.mark.slow_cases("arruda-boyce", "costa", "fibres", "gent", "veronda", "warm", "damaged")
@every
def test_everything_promised_of_a_law(name):
    law, material = LAWS[name], LAWS[name].make()
    uniaxial, shear = np.diag([STRETCH, STRETCH**-0.5, STRETCH**-0.5]), EYE + SHEAR * np.outer(EYE[0], EYE[1])
    psi, P, H, _ = program()(material, [EYE, *POINTS, *(Q @ POINTS), *(POINTS @ Q), uniaxial, shear])
    turned, before = slice(4, 7), slice(7, 10)

    matrix = H.reshape(-1, 9, 9)
    assert np.abs(matrix - matrix.swapaxes(1, 2)).max() <= ROUNDING * np.abs(matrix).max()
    if law.rests:
        assert psi[0] == 0 and np.abs(P[0]).max() <= 1e-14 * BULK
    if law.shear is not None:
        np.testing.assert_allclose(H[0], hooke(law.shear, BULK - 2 / 3 * law.shear), atol=ROUNDING * BULK)
    assert np.all(np.abs(psi[turned] - psi[1:4]) <= ROUNDING * BULK) == law.objective
    assert np.all(np.abs(P[turned] - Q @ P[1:4]) <= ROUNDING * np.abs(P).max()) == law.objective
    assert np.all(np.abs(psi[before] - psi[1:4]) <= ROUNDING * BULK) == law.isotropic
    if law.slopes is not None:  # of constant volume, the pressure such that the sides are free
        first = STRETCH**2 + 2 / STRETCH, 2 * STRETCH + STRETCH**-2
        one, two = law.slopes(*first)
        expected = 2 * (STRETCH - STRETCH**-2) * (one + two / STRETCH)
        np.testing.assert_allclose(P[10, 0, 0] - P[10, 1, 1] * STRETCH**-1.5, expected, rtol=ROUNDING)
        one, two = law.slopes(3 + SHEAR**2, 3 + SHEAR**2)
        np.testing.assert_allclose((P[11] @ shear.T)[0, 1], 2 * (one + two) * SHEAR, rtol=ROUNDING)

    first, second = DIRECTIONS
    difference = richardson(lambda F: program()(material, F)[0], POINTS, first)
    np.testing.assert_allclose(difference, np.sum(P[1:4] * first, axis=(1, 2)), atol=DIFFERENCED * np.abs(P).max())
    difference = richardson(lambda F: program()(material, F)[1], POINTS, second)
    exact = np.einsum("nijkl,kl->nij", H[1:4], second)
    np.testing.assert_allclose(difference, exact, atol=DIFFERENCED * np.abs(H).max())


@pytest.mark.slow_cases("costa", "arruda-boyce", "fibres", "gent", "veronda", "warm")
@every
def test_derivatives_by_every_number_of_a_law(name):
    material = LAWS[name].make()
    leaves, tree = jax.tree.flatten(material)
    slopes = jax.tree.leaves(program()(material, POINTS)[3])
    assert len(slopes) == len(leaves)
    for k, leaf in enumerate(leaves):
        direction = jnp.asarray(RNG.uniform(0.5, 1, leaf.shape)) * (jnp.abs(leaf).max() or 1.0)

        def moved(value, k=k):
            return np.sum(program()(tree.unflatten([*leaves[:k], value, *leaves[k + 1 :]]), POINTS)[0])

        expected = richardson(moved, leaf, direction)
        np.testing.assert_allclose(np.sum(slopes[k] * direction), expected, rtol=1e-7, atol=1e-7)
