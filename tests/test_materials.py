"""Materials against theory: rest, frame indifference, Hooke's limit, exact derivatives, closed forms."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxmech._codegen.map_elements import map_elements
from jaxmech._material.corotational import Corotational
from jaxmech._material.lame import engineering_constants, lame_parameters
from jaxmech._material.linear import LinearElastic
from jaxmech._material.mooney_rivlin import MooneyRivlin
from jaxmech._material.neo_hookean import NeoHookean
from jaxmech._material.ogden import Ogden
from jaxmech._material.polar import rotation, rotation_distances
from jaxmech._material.st_venant_kirchhoff import StVenantKirchhoff
from jaxmech._material.stable_neo_hookean import StableNeoHookean
from jaxmech._material.stretches import exponential_traces, logarithm_invariants
from jaxmech._material.viscoelastic import Viscoelastic
from jaxmech._scene.parameter import over_elements

jax.config.update("jax_enable_x64", True)

YOUNG, POISSON = 1000.0, 0.3
MU, LAM = lame_parameters(YOUNG, POISSON)
BULK = LAM + 2 * MU / 3
EYE = np.eye(3)

MATERIALS = {
    "linear": LinearElastic(YOUNG, POISSON),
    "st venant": StVenantKirchhoff(YOUNG, POISSON),
    "corotational": Corotational(YOUNG, POISSON),
    "neo-hookean": NeoHookean(YOUNG, POISSON),
    "stable": StableNeoHookean(YOUNG, POISSON),
    "mooney": MooneyRivlin(0.3 * MU, 0.2 * MU, BULK),
    # sum of mu_i alpha_i / 2 is MU: 0.5 + 0.3 + 0.2
    "ogden": Ogden([MU / 1.3, -0.2 * MU, 0.04 * MU], [1.3, -3.0, 10.0], BULK),
}
ENGINEERING = [LinearElastic, StVenantKirchhoff, Corotational, NeoHookean, StableNeoHookean]
every = pytest.mark.parametrize("name", MATERIALS)


def turn(axis, degrees):
    """The rotation by an angle about an axis (Rodrigues)."""
    n = np.asarray(axis, float) / np.linalg.norm(axis)
    hat = np.array([[0, -n[2], n[1]], [n[2], 0, -n[0]], [-n[1], n[0], 0]])
    angle = np.deg2rad(degrees)
    return EYE + np.sin(angle) * hat + (1 - np.cos(angle)) * hat @ hat


RANDOM = np.random.default_rng(7)
SHAPES = {
    "rest": EYE,
    "equal lateral stretches": np.diag([1.0, 1.0, 2.0]),
    "stretched 8 times": np.diag([8.0, 8.0**-0.5, 8.0**-0.5]),
    "compressed": np.diag([0.3, 1.1, 1.1]),
    "random": EYE + 0.3 * RANDOM.standard_normal((3, 3)),
    "turned by 179.9 degrees": turn([1, 2, -1], 179.9) @ (EYE + 0.1 * RANDOM.standard_normal((3, 3))),
    "turned by 180 degrees": turn([1, 2, -1], 180.0) @ np.diag([1.0, 1.0, 1.2]),
}
INVERTED = {
    "inverted": np.diag([1.0, 1.3, -0.5]),
    "inverted and turned": turn([3, 1, -1], 130.0) @ np.diag([1.2, -0.4, 1.0]) @ turn([1, 1, 0], 20.0),
    "flat": np.diag([1.0, 1.0, 0.0]),
}
SINGULAR = {"nil": np.zeros((3, 3)), "reflection": np.diag([1.0, 1.0, -1.0]), "central": -EYE}
DIRECTIONS = np.random.default_rng(3).standard_normal((2, 3, 3))


def shapes_of(material):
    chosen = SHAPES if material.needs_positive_volume else SHAPES | INVERTED
    return jnp.asarray(np.stack(list(chosen.values())))


@functools.cache
def towers(name):
    """`F -> (psi, P, d P, d d P)` along the fixed directions, compiled once per material."""

    def tower(F):
        psi = MATERIALS[name].energy_density
        first, second = jnp.asarray(DIRECTIONS)

        def tangent(F):
            return jax.jvp(jax.grad(psi), (F,), (first,))[1]

        return psi(F), jax.grad(psi)(F), tangent(F), jax.jvp(tangent, (F,), (second,))[1]

    return jax.jit(jax.vmap(tower))


def richardson(function, F, direction, step=2e-3):
    """A central difference of sixth order."""

    def slope(h):
        return (function(F + h * direction) - function(F - h * direction)) / (2 * h)

    a, b, c = slope(step), slope(step / 2), slope(step / 4)
    return (16 * (4 * c - b) / 3 - (4 * b - a) / 3) / 15


def hooke(mu, lam):
    return (
        mu * (np.einsum("ik,jl->ijkl", EYE, EYE) + np.einsum("il,jk->ijkl", EYE, EYE))
        + lam * np.einsum("ij,kl->ijkl", EYE, EYE)
    )  # fmt: skip


@pytest.mark.slow_cases("ogden")
@every
def test_rest_has_no_energy_and_no_stress(name):
    psi, stress, *_ = towers(name)(shapes_of(MATERIALS[name]))  # the first shape is rest
    assert abs(psi[0]) <= 1e-14 * YOUNG
    assert np.abs(stress[0]).max() <= 1e-14 * YOUNG


@pytest.mark.slow_cases("ogden")
@every
def test_tangent_at_rest_is_hooke_and_symmetric_everywhere(name):
    F = shapes_of(MATERIALS[name])
    hessian = np.asarray(jax.jit(jax.vmap(jax.hessian(MATERIALS[name].energy_density)))(F))
    np.testing.assert_allclose(hessian[0], hooke(MU, LAM), atol=1e-12 * YOUNG)
    matrix = hessian.reshape(-1, 9, 9)
    scale = np.abs(matrix).max(axis=(1, 2), keepdims=True)
    assert np.all(np.abs(matrix - matrix.swapaxes(1, 2)) <= 1e-11 * scale)


@pytest.mark.slow_cases("ogden")
@pytest.mark.parametrize("name", [n for n in MATERIALS if n != "linear"])
def test_frame_indifference(name):
    F = shapes_of(MATERIALS[name])
    Q = jnp.asarray(turn([1, -2, 0.5], 123.0))
    psi, stress, *_ = towers(name)(F)
    turned_psi, turned_stress, *_ = towers(name)(Q @ F)
    np.testing.assert_allclose(turned_psi, psi, rtol=1e-12, atol=1e-13 * YOUNG)
    scale = np.abs(stress).max(axis=(1, 2), keepdims=True) + YOUNG
    assert np.all(np.abs(turned_stress - Q @ stress) <= 1e-11 * scale)


@pytest.mark.slow_cases("ogden")
@every
def test_derivatives_of_three_orders_are_exact(name):
    # Each order against a sixth-order difference of the one before: 1e-9 is the rounding of the difference
    F = shapes_of(MATERIALS[name])
    values = towers(name)(F)
    first, second = DIRECTIONS
    for order, direction in enumerate([first, first, second]):
        difference = richardson(lambda F, order=order: towers(name)(F)[order], F, direction)
        exact = values[order + 1] if order else np.sum(values[1] * direction, axis=(1, 2))
        scale = np.abs(exact).reshape(len(F), -1).max(axis=1) + YOUNG
        error = np.abs(difference - exact).reshape(len(F), -1).max(axis=1)
        assert np.all(error <= 1e-9 * scale), (order, error / scale)


@every
def test_parameters_per_element(name):
    material, F = MATERIALS[name], shapes_of(MATERIALS[name])[:3]
    grown = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf, 2 * leaf]) if leaf.ndim == 0 else leaf, material)
    if name != "ogden":
        grown = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf, leaf * 1.1]), material)
    energies = jax.jit(lambda m: over_elements(m, (), lambda one, F: one.energy_density(F), F))(grown)
    for i in range(3):
        alone = jax.tree.map(lambda a, b, i=i: a[i] if a.ndim > b.ndim else a, grown, material)
        np.testing.assert_allclose(energies[i], alone.energy_density(F[i]), rtol=1e-12, atol=1e-12)


@pytest.mark.slow_cases("ogden")
@every
def test_derivative_by_every_parameter(name):
    material, F = MATERIALS[name], jnp.asarray(SHAPES["random"])
    gradient = jax.jit(jax.grad(lambda m: m.energy_density(F)))(material)
    leaves, tree = jax.tree.flatten(material)
    energy = jax.jit(lambda m: m.energy_density(F))
    for k, leaf in enumerate(leaves):
        direction = jnp.ones_like(leaf)

        def moved(value, k=k):
            return energy(tree.unflatten([*leaves[:k], value, *leaves[k + 1 :]]))

        expected = richardson(moved, leaf, direction * jnp.abs(leaf).max())
        np.testing.assert_allclose(
            jnp.sum(jax.tree.leaves(gradient)[k]) * jnp.abs(leaf).max(), expected, rtol=1e-7, atol=1e-9
        )


@pytest.mark.slow_cases("ogden")
@every
def test_single_precision_stays_single_and_keeps_small_strains(name):
    # A strain of 1e-4: textbook formulas lose four of the seven digits of the stress, these lose none
    H = 1e-4 * np.random.default_rng(1).standard_normal((3, 3))
    H = 0.5 * (H + H.T) if name == "corotational" else H  # its R has a rounding error of its own
    F = (EYE + H).astype(np.float32)
    psi, stress = jax.jit(jax.value_and_grad(MATERIALS[name].energy_density))(jnp.asarray(F))
    assert psi.dtype == stress.dtype == jnp.float32
    exact_psi, exact = jax.jit(jax.value_and_grad(MATERIALS[name].energy_density))(jnp.asarray(F, float))
    tolerance = 2e-3 if name == "corotational" else 1e-5 if name == "ogden" else 2e-6
    np.testing.assert_allclose(stress, exact, atol=tolerance * np.abs(exact).max(), rtol=0)
    np.testing.assert_allclose(psi, exact_psi, rtol=tolerance)


@pytest.mark.slow
def test_textbook_neo_hookean_is_worse_in_single_precision():
    F = (EYE + 1e-4 * np.random.default_rng(1).standard_normal((3, 3))).astype(np.float32)

    def textbook(F):
        log_j = jnp.log(jnp.linalg.det(F))
        return 0.5 * MU * (jnp.sum(F * F) - 3) - MU * log_j + 0.5 * LAM * log_j**2

    exact = jax.grad(textbook)(jnp.asarray(F, float))
    errors = [
        np.abs(jax.grad(psi)(jnp.asarray(F)) - exact).max() for psi in (textbook, MATERIALS["neo-hookean"].energy_density)
    ]
    assert errors[0] > 100 * errors[1]


@pytest.mark.parametrize("name", [n for n, m in MATERIALS.items() if m.needs_positive_volume])
def test_inverted_is_nan_and_pollutes_nothing(name):
    F = jnp.asarray(np.stack([SHAPES["random"], np.diag([1.0, 1.0, -0.5])]))
    stress = jax.jit(jax.grad(lambda F: jnp.sum(jax.vmap(MATERIALS[name].energy_density)(F))))(F)
    assert np.all(np.isfinite(stress[0])) and np.all(np.isnan(stress[1]))


def test_the_polar_decomposition_is_traced_once_for_all_derivatives():
    """Its program is long, and forces, stiffness and their derivatives each ask for it again."""

    def programs(jaxpr):
        for eqn in jaxpr.eqns:
            if eqn.params.get("name") == "rotation":
                yield eqn.params["jaxpr"]
            inner = [eqn.params.get(key) for key in ("jaxpr", "call_jaxpr")]
            yield from (p for closed in inner if closed is not None for p in programs(getattr(closed, "jaxpr", closed)))

    def energy(F):
        first, second = rotation_distances(F)
        return first + second**2

    found = list(programs(jax.make_jaxpr(jax.hessian(energy))(jnp.eye(3)).jaxpr))
    assert len(found) > 2 and len({id(p) for p in found}) == 1


def test_rotation_of_the_polar_decomposition():
    F = np.stack([*SHAPES.values(), *INVERTED.values(), *(EYE + RANDOM.standard_normal((200, 3, 3)))])
    R = np.asarray(jax.jit(jax.vmap(rotation))(jnp.asarray(F)))
    U, _, Vt = np.linalg.svd(F)
    U[:, :, 2] *= np.linalg.det(U @ Vt)[:, None]
    np.testing.assert_allclose(np.linalg.det(R), 1, atol=1e-14)
    np.testing.assert_allclose(R, U @ Vt, atol=1e-10)  # a random F may be close to a singular one


@pytest.mark.parametrize("ratio", [4.9, 5.3, 30.0, 1e3])
def test_the_safe_rotation_and_the_careful_one_agree(ratio):
    """On both sides of the distortion beyond which more care is taken, in one list of elements and each alone."""
    turns = np.linalg.qr(RANDOM.standard_normal((20, 3, 3)))[0]
    turns *= np.linalg.det(turns)[:, None, None]
    F = np.concatenate([turns @ np.diag([ratio, 1.0, 1.0]) @ turns[::-1], turns])
    expected = np.concatenate([turns @ turns[::-1], turns])
    R = jax.jit(lambda F: map_elements(rotation, (0,), F))(jnp.tile(jnp.asarray(F), (10, 1, 1)))
    np.testing.assert_allclose(R[:40], expected, atol=1e-13 * ratio)
    np.testing.assert_array_equal(R, np.tile(R[:40], (10, 1, 1)))
    np.testing.assert_allclose(jax.vmap(rotation)(F), R[:40], atol=1e-13 * ratio)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_corotational_is_finite_where_the_rotation_is_not_unique(dtype):
    material = MATERIALS["corotational"]
    F = jnp.asarray(np.stack([*SINGULAR.values(), np.diag([1.0, 0.0, 0.0]), 1e-8 * EYE, 1e8 * EYE]), dtype)

    def stress(F):
        P = jax.grad(material.energy_density)(F)
        return P, (P, rotation(F))

    tangent, (P, R) = jax.jit(jax.vmap(jax.jacfwd(stress, has_aux=True)))(F)
    R = np.asarray(R)
    np.testing.assert_allclose(R @ R.swapaxes(1, 2), np.broadcast_to(EYE, R.shape), atol=20 * jnp.finfo(dtype).eps)
    assert np.isfinite(P).all() and np.isfinite(tangent).all()


@jax.jit
def of_stretches(along, across):
    """What pulls at neo-Hookean rubber, by a stretch and by both that are equal, and how it changes with the latter."""

    def energy(along, across):
        return MATERIALS["neo-hookean"].energy_density(jnp.diag(jnp.stack([along, across, across])))

    return jax.jvp(lambda l: jax.grad(energy, (0, 1))(along, l), (across,), (1.0,))


@pytest.mark.parametrize(
    "stretch, stress, lateral",  # case B8 of the validation table
    [
        (0.7, -405.23042431, 1.1079347328),
        (1.2, 174.92914740, 0.9456326243),
        (2.0, 646.74466017, 0.7980775445),
    ],
)
def test_uniaxial_stretch_with_free_faces(stretch, stress, lateral):
    l = 1.0
    for _ in range(20):
        (_, force), (_, stiffness) = of_stretches(stretch, l)
        l = l - force / stiffness
    (pull, _), _ = of_stretches(stretch, l)
    np.testing.assert_allclose(l, lateral, rtol=1e-8 / lateral, atol=1e-10)
    np.testing.assert_allclose(pull, stress, rtol=0, atol=1e-8)


def uniaxial_stress(material, stretch):
    """Nominal stress of an isochoric uniaxial stretch, its pressure such that the lateral faces are free."""
    lateral = stretch**-0.5
    P = jax.vmap(jax.grad(material.energy_density))(jax.vmap(jnp.diag)(jnp.stack([stretch, lateral, lateral], axis=1)))
    return P[:, 0, 0] - P[:, 1, 1] * lateral / stretch


STRETCH = np.array([0.3, 0.7, 1.0, 1.01, 1.5, 3.0, 8.0])


@pytest.mark.parametrize("bulk", [1.0, 1e4])
def test_mooney_rivlin_incompressible_uniaxial(bulk):
    expected = 2 * (0.12 + 0.07 / STRETCH) * (STRETCH - STRETCH**-2)
    stress = jax.jit(lambda l: uniaxial_stress(MooneyRivlin(0.12, 0.07, bulk), l))(jnp.asarray(STRETCH))
    np.testing.assert_allclose(stress, expected, rtol=1e-11, atol=1e-11 * bulk)


@functools.cache
def ogden_uniaxial():
    """Stress of a one-term Ogden solid (shear modulus 1), and its slope: one compilation for every power."""

    def stress(alpha, l):
        return uniaxial_stress(Ogden((2.0 / alpha)[None], alpha[None], 1.0), l)

    return jax.jit(lambda alpha, l: jax.jvp(functools.partial(stress, alpha), (l,), (jnp.ones_like(l),)))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [-5.0, -2.0, 0.1, 1.3, 2.0, 5.0, 11.0])
def test_ogden_incompressible_uniaxial_of_two_orders(alpha):
    def closed(l):
        return 2.0 / alpha * (l ** (alpha - 1) - l ** (-1 - alpha / 2))

    value, slope = ogden_uniaxial()(jnp.asarray(alpha), jnp.asarray(STRETCH))
    slope_closed = jax.vmap(jax.grad(closed))(jnp.asarray(STRETCH))
    # Where the stress is nil or tiny its error is that of its parts, rounding of the bulk term included
    assert np.all(np.abs(value - closed(STRETCH)) <= 1e-10 * (np.abs(closed(STRETCH)) + 1e-4))
    np.testing.assert_allclose(slope, slope_closed, rtol=1e-10)


def test_ogden_of_powers_two_is_mooney_rivlin():
    F = shapes_of(MATERIALS["ogden"])
    ogden, mooney = Ogden([2 * 0.3, -2 * 0.2], [2.0, -2.0], 5.0), MooneyRivlin(0.3, 0.2, 5.0)
    psi, stress = (jax.jit(jax.vmap(f(ogden.energy_density)))(F) for f in (lambda f: f, jax.grad))
    np.testing.assert_allclose(psi, jax.vmap(mooney.energy_density)(F), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(stress, jax.jit(jax.vmap(jax.grad(mooney.energy_density)))(F), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("logs", [[0, 0], [1e-9, 2e-9], [1, -2], [1, 1], [-4, 2], [4, -8], [3, -3], [1e-4, 1e-4]])
def test_power_sums_and_their_inverse(logs):
    a = np.array([*logs, -sum(logs)], float)
    j2, j3 = jnp.asarray(0.5 * np.sum(a * a)), jnp.asarray(np.prod(a))
    plus, minus = exponential_traces(j2, j3)
    np.testing.assert_allclose(plus, np.sum(np.expm1(a)), rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(minus, np.sum(np.expm1(-a)), rtol=1e-12, atol=1e-16)
    back = logarithm_invariants(plus, minus)
    # Near rest j3 is a difference of the traces: its error is relative to j2, harmless in a sum of powers
    np.testing.assert_allclose(back[0], j2, rtol=1e-12, atol=1e-25)
    np.testing.assert_allclose(back[1], j3, rtol=1e-11, atol=1e-13 * float(j2))


def test_moduli_convert_back_and_forth():
    np.testing.assert_allclose(engineering_constants(*lame_parameters(YOUNG, POISSON)), (YOUNG, POISSON), rtol=1e-14)
    material = NeoHookean.from_lame(1500.0, 0.0)
    np.testing.assert_allclose((material.young, material.poisson), (3000.0, 0.0))


@pytest.mark.parametrize("kind", ENGINEERING)
@pytest.mark.parametrize(
    "young, poisson, error, field",
    [
        (0.0, 0.3, ValueError, "young"),
        (-1.0, 0.3, ValueError, "young"),
        ([1.0, -1.0], 0.3, ValueError, "young"),
        (float("nan"), 0.3, ValueError, "young"),
        (1.0, 0.5, ValueError, "poisson"),
        (1.0, -1.0, ValueError, "poisson"),
        (1.0, float("inf"), ValueError, "poisson"),
        ("steel", 0.3, TypeError, "young"),
        (1.0, None, TypeError, "poisson"),
        (1.0, 1j, TypeError, "poisson"),
        (np.ones((2, 2, 2)), 0.3, ValueError, "young"),
    ],
)
def test_bad_moduli_are_refused(kind, young, poisson, error, field):
    with pytest.raises(error, match=f"{kind.__name__}: {field}"):
        kind(young, poisson)


@pytest.mark.parametrize(
    "build, error, message",
    [
        (lambda: MooneyRivlin(1.0, 1.0, 0.0), ValueError, "MooneyRivlin: bulk"),
        (lambda: MooneyRivlin(1.0, -1.0, 1.0), ValueError, "MooneyRivlin: c10"),
        (lambda: MooneyRivlin("a", 1.0, 1.0), TypeError, "MooneyRivlin: c10"),
        (lambda: MooneyRivlin(1.0, np.nan, 1.0), ValueError, "MooneyRivlin: c01"),
        (lambda: Ogden([1.0], [0.0], 1.0), ValueError, "Ogden: alpha"),
        (lambda: Ogden([1.0], [-2.0], 1.0), ValueError, "Ogden: mu"),
        (lambda: Ogden([1.0, 2.0], [2.0], 1.0), ValueError, "Ogden: mu"),
        (lambda: Ogden([], [], 1.0), ValueError, "Ogden: mu"),
        (lambda: Ogden(1.0, [2.0], 1.0), ValueError, r"Ogden: mu has .*an array of 1 axis, such as \[1.0\], shared"),
        (lambda: Viscoelastic(NeoHookean(1.0, 0.3), 500.0, [1.0]), ValueError, r"elastic: modulus has .*such as \[500.0\],"),
        (lambda: Viscoelastic(NeoHookean(1.0, 0.3), [1.0], 0.5), ValueError, r"relaxation_time has .*such as \[0.5\],"),
        (lambda: Viscoelastic(NeoHookean(1.0, 0.3), [], []), ValueError, "as many branches, at least one"),
        (lambda: Ogden([1.0], [2.0], -1.0), ValueError, "Ogden: bulk"),
        (lambda: Ogden([1.0], None, 1.0), TypeError, "Ogden: alpha"),
    ],
)
def test_bad_coefficients_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


@every
def test_traced_parameters_pass_the_checks(name):
    material, F = MATERIALS[name], jnp.asarray(SHAPES["random"])
    rebuilt = jax.jit(lambda *leaves: type(material)(*leaves).energy_density(F))
    np.testing.assert_allclose(rebuilt(*jax.tree.leaves(material)), material.energy_density(F), rtol=1e-12)
