"""Products of block-sparse matrices, and the sums that they are made of, against dense ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._sparse.lane_sums import sum_lanes
from jaxmech._sparse.pattern import BlockPattern, unique_pairs


def close(a, b, tolerance=ROUND_OFF):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0) <= tolerance * max(1, np.abs(b).max(initial=0))


def pattern_of(lengths, columns, rng):
    """The pattern of rows of these lengths, their blocks in columns at random."""
    places = [rng.permutation(columns)[:length] for length in lengths]
    rows = np.repeat(np.arange(len(lengths)), lengths)
    shape = (len(lengths), columns)
    rows, at, _ = unique_pairs(rows, np.concatenate([*places, np.zeros(0, int)]).astype(int), shape)
    return BlockPattern.build(rows, at, shape)


ROWS = {
    "like a mesh": np.tile([7, 8, 11, 11, 27, 15], 60),
    "some empty, one long": np.array([0, 3, 3, 0, 200, 1, 0]),
    "all of one length": np.full(9, 4),
    "none at all": np.zeros(5, int),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (1, 3), (6, 3), (6, 6), (7, 8)], ids=str)
def test_products_are_those_of_the_dense_matrix(name, shape, rng):
    pattern = pattern_of(ROWS[name], 300, rng)
    values = jnp.asarray(rng.normal(size=(pattern.blocks, *shape)))
    x, w = jnp.asarray(rng.normal(size=(300, shape[1]))), jnp.asarray(rng.normal(size=(len(ROWS[name]), shape[0])))
    A = jm.BlockSparse(values, pattern)
    dense = np.asarray(A.to_dense())

    def multiplied(values, x):
        return jm.BlockSparse(values, pattern).mv(x)

    product, pulled = jax.vjp(multiplied, values, x)
    close(product, (dense @ np.ravel(x)).reshape(w.shape))
    close(A.T.mv(w), (dense.T @ np.ravel(w)).reshape(x.shape))
    by_values, by_x = pulled(w)
    close(by_x, (dense.T @ np.ravel(w)).reshape(x.shape))
    close(by_values, np.einsum("zr,zc->zrc", w[pattern.rows], x[pattern.columns]))
    (back,) = jax.linear_transpose(lambda x: multiplied(values, x), x)(w)
    close(back, by_x)
    (back,) = jax.linear_transpose(lambda values: multiplied(values, x), values)(w)
    close(back, by_values)
    close(jax.grad(lambda x: jnp.sum(jax.vmap(multiplied, in_axes=(None, 0))(values, jnp.stack([x, x])) * w))(x), 2 * by_x)
    close(jax.jvp(multiplied, (values, x), (0.5 * values, 2 * x))[1], 2.5 * product, 10 * ROUND_OFF)
    several = jnp.stack([x, 2 * x])
    close(jax.vmap(multiplied, in_axes=(None, 0))(values, several), jnp.stack([product, 2 * product]))
    close(jax.vmap(multiplied)(jnp.stack([values, -values]), several), jnp.stack([product, -2 * product]))
    assert np.array_equal(multiplied(values, x), product)


@pytest.mark.parametrize(
    "shape", [(5, 3), (5, 0), (5, 3, 1), (4, 9, 3, 3), (0, 3, 3, 3), (2, 40, 6, 6), (3, 2, 50, 2, 3), (2, 3, 0)]
)
def test_sums_over_lanes(shape, rng):
    """Of scalars and blocks, of more entries than are summed together, of nothing."""
    rows = rng.normal(size=shape)
    close(sum_lanes(jnp.asarray(rows)), rows.sum(axis=1))


def test_products_keep_the_precision_they_have(rng):
    pattern = pattern_of(np.array([2, 3, 1]), 4, rng)
    A = jm.BlockSparse(jnp.asarray(rng.normal(size=(6, 3, 3)), jnp.float32), pattern)
    assert A.mv(jnp.ones((4, 3), jnp.float32)).dtype == jnp.float32
    assert A.mv(jnp.ones((4, 3), jnp.float64)).dtype == jnp.float64
