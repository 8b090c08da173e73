"""The positive part of a symmetric matrix: its values, and derivatives of every order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import expm
from jax.test_util import check_grads
from tolerances import ROUND_OFF

from jaxmech._math.psd_part import positive_part

SPECTRA = {
    "distinct": [2.0, 0.7, -0.4, -1.5],
    "repeated": [2.0, 2.0, -1.0, -1.0],
    "rank_deficient": [2.0, 0.0, 0.0, -1.0],
    "positive": [1.0, 1.0, 1.0, 2.0],
    "zero": [0.0, 0.0, 0.0, 0.0],
}


def symmetric(rng, n=4):
    A = rng.normal(size=(n, n))
    return jnp.asarray(A + A.T)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=ROUND_OFF * max(1.0, np.abs(b).max()))


def test_negative_eigenvalues_become_zero(rng):
    A = symmetric(rng)
    P = positive_part(A)
    close(P, P.T)
    close(np.linalg.eigvalsh(P), np.maximum(np.linalg.eigvalsh(A), 0))
    close(P @ (A - P), np.zeros((4, 4)))  # the two parts are orthogonal: none is nearer


@pytest.mark.slow
@pytest.mark.parametrize("modes", ["fwd", "rev"])
def test_derivatives_agree_with_differences(modes, rng):
    weights = jnp.asarray(rng.normal(size=(4, 4)))
    check_grads(
        jax.jit(lambda A: positive_part(A) * weights), (symmetric(rng),), order=3, modes=[modes], rtol=1e-4, atol=1e-4
    )


@jax.jit
def series(W, values, t):
    """The positive part along a rotation, and what it is: both with three derivatives. One program for all spectra."""

    def turned(t, d):
        Q = expm(t * W)
        return (Q * d) @ Q.T

    found, expected = lambda t: positive_part(turned(t, values)), lambda t: turned(t, jnp.maximum(values, 0))
    rates = []
    for _ in range(4):
        rates.append((found(t), expected(t)))
        found, expected = jax.jacfwd(found), jax.jacfwd(expected)
    return rates


@pytest.mark.slow
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_derivatives_along_a_rotation_are_exact_whatever_the_spectrum(spectrum, rng):
    """`Q(t) D Q(t)^T` has the positive part `Q(t) max(D, 0) Q(t)^T`, whose Taylor series needs no eigenvalue."""
    W = rng.normal(size=(4, 4))
    for found, expected in series(W - W.T, np.array(SPECTRA[spectrum]), 0.3):
        close(found, expected)


def test_modes_and_batches_agree(rng):
    A, weights = jnp.stack([symmetric(rng), symmetric(rng), jnp.diag(jnp.array([2.0, 2.0, 0.0, -1.0]))]), symmetric(rng)

    def loss(a):
        return jnp.sum(jnp.sin(positive_part(a) * weights))

    twice, alone = jax.jit(jax.vmap(jax.jacrev(jax.jacrev(loss))))(A), jax.jit(jax.jacfwd(jax.jacrev(loss)))
    close(twice, np.stack([alone(a) for a in A]))
    close(twice, jax.jit(jax.vmap(jax.jacrev(jax.jacfwd(loss))))(A))
