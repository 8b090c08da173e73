"""Sums over all elements are those of NumPy, differentiate, and are of each scene of a batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

from jaxmech._codegen import TotalSums, map_elements

COUNTS = [0, 1, 63, 64, 65, 300]


def element(k, x):
    """A row to be added up, and what each element has for itself."""
    return jnp.stack([k * jnp.sum(x**2), jnp.sin(x[0]) * x[1]])[None], k * x


def summed(k, x):
    total, rest = map_elements(element, (None, 0), k, x, sums=TotalSums.of(x.shape[0]))
    return jnp.sum(total, axis=0), rest


@pytest.mark.parametrize("count", COUNTS)
def test_sums_are_those_of_numpy(rng, count):
    x = rng.standard_normal((count, 3))
    total, rest = jax.jit(summed)(2.0, jnp.asarray(x))
    np.testing.assert_allclose(total, [2 * np.sum(x**2), np.sum(np.sin(x[:, 0]) * x[:, 1])], rtol=ROUND_OFF, atol=ROUND_OFF)
    np.testing.assert_array_equal(rest, 2 * x)


def test_many_terms_are_not_added_up_one_after_the_other(rng):
    """A sum from the first of half a million to the last would be off by a thousand rounding units."""
    x = rng.random((500_000, 3)).astype(np.float32)
    terms, unit = np.sum(x**2, axis=1), np.finfo(np.float32).eps
    total, exact = float(jax.jit(summed)(np.float32(1), x)[0][0]), np.sum(terms.astype(float))
    assert abs(total / exact - 1) < 4 * unit < 40 * unit < abs(np.cumsum(terms)[-1] / exact - 1)


def test_derivatives_in_both_modes_and_batches(rng):
    x, dx = rng.standard_normal((2, 100, 3))

    def value(k, x):
        total, rest = summed(k, x)
        return total[0] + 3 * total[1] + jnp.sum(rest**2)

    def plain(k, x):
        return k * jnp.sum(x**2) + 3 * jnp.sum(jnp.sin(x[:, 0]) * x[:, 1]) + jnp.sum((k * x) ** 2)

    found, expected = (
        jax.jit(lambda k, x, f=f: (jax.grad(f, (0, 1))(k, x), jax.jvp(f, (k, x), (1.0, dx))[1])) for f in (value, plain)
    )
    for a, b in zip(jax.tree.leaves(found(2.0, x)), jax.tree.leaves(expected(2.0, x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=ROUND_OFF, atol=ROUND_OFF * 100)
    both = jnp.stack([x, 2 * x])
    for f in (summed, jax.grad(value, 1)):
        batch = jax.jit(jax.vmap(f, (None, 0)))(2.0, both)
        for i in range(2):
            for a, b in zip(jax.tree.leaves(batch), jax.tree.leaves(jax.jit(f)(2.0, both[i])), strict=True):
                np.testing.assert_allclose(a[i], b, rtol=ROUND_OFF, atol=ROUND_OFF)
