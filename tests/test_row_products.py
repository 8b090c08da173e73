"""Products of block-sparse matrices, and the sums that they are made of, against dense ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from covering import in_turn
from tolerances import ROUND_OFF

import jaxmech as jm
from jaxmech._sparse.pattern import BlockPattern, unique_pairs
from jaxmech._sparse.segment_sum import sum_lanes


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


@pytest.fixture(autouse=True, scope="module", params=["kernel", "arrays"])
def form(request):
    """As on one CPU, and as elsewhere."""
    with jm.runtime.element_compiler({"kernel": "llvm", "arrays": "xla"}[request.param]):
        yield request.param


def test_a_pattern_may_be_given_in_numbers_of_64_bits(rng):
    pattern = BlockPattern.build(np.arange(3, dtype=np.int64), np.array([2, 0, 1], np.int64), (3, 3))
    values, x = rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2))
    close(jm.matrix.BlockSparse(jnp.asarray(values), pattern).mv(x), np.einsum("nij,nj->ni", values, x[[2, 0, 1]]))


ROWS = {
    "like a mesh": np.tile([7, 8, 11, 11, 27, 15], 60),
    "some empty, one long": np.array([0, 3, 3, 0, 200, 1, 0]),
    "all of one length": np.full(9, 4),
    "none at all": np.zeros(5, int),
}


SHAPES = [(1, 1), (3, 3), (1, 3), (6, 3), (6, 6), (7, 8)]
DEFAULT = in_turn(SHAPES, list(ROWS))  # rows are numbers that a program is given, blocks are the program


@pytest.mark.slow_cases(
    "arrays-(6, 6)-like a mesh",
    "arrays-(1, 1)-like a mesh",
    "arrays-(7, 8)-some empty, one long",
    "kernel-(6, 6)-like a mesh",
)
@pytest.mark.parametrize(
    "shape, name",
    [
        pytest.param(s, n, id=f"{s}-{n}", marks=() if (s, n) in DEFAULT else pytest.mark.exhaustive)
        for s in SHAPES
        for n in ROWS
    ],
)
def test_products_are_those_of_the_dense_matrix(name, shape, rng):
    pattern = pattern_of(ROWS[name], 300, rng)
    values = jnp.asarray(rng.normal(size=(pattern.blocks, *shape)))
    x, w = jnp.asarray(rng.normal(size=(300, shape[1]))), jnp.asarray(rng.normal(size=(len(ROWS[name]), shape[0])))
    A = jm.matrix.BlockSparse(values, pattern)
    dense = np.asarray(A.to_dense())

    def multiplied(values, x):
        return jm.matrix.BlockSparse(values, pattern).mv(x)

    @jax.jit
    def everything(values, x, w):
        product, pulled = jax.vjp(multiplied, values, x)
        several = jnp.stack([x, 2 * x])
        return {
            "product": product,
            "transposed": jm.matrix.BlockSparse(values, pattern).T.mv(w),
            "pulled": pulled(w),
            "by x": jax.linear_transpose(lambda x: multiplied(values, x), x)(w)[0],
            "by values": jax.linear_transpose(lambda values: multiplied(values, x), values)(w)[0],
            "of two": jax.grad(lambda x: jnp.sum(jax.vmap(multiplied, (None, 0))(values, jnp.stack([x, x])) * w))(x),
            "rate": jax.jvp(multiplied, (values, x), (0.5 * values, 2 * x))[1],
            "vectors": jax.vmap(multiplied, (None, 0))(values, several),
            "both": jax.vmap(multiplied)(jnp.stack([values, -values]), several),
        }

    found = everything(values, x, w)
    product, by_x = (dense @ np.ravel(x)).reshape(w.shape), (dense.T @ np.ravel(w)).reshape(x.shape)
    rows, columns = np.asarray(pattern.rows), np.asarray(pattern.columns)
    by_values = np.einsum("zr,zc->zrc", np.asarray(w)[rows], np.asarray(x)[columns])
    close(found["product"], product)
    close(found["transposed"], by_x)
    close(found["pulled"][0], by_values)
    close(found["pulled"][1], by_x)
    close(found["by x"], by_x)
    close(found["by values"], by_values)
    close(found["of two"], 2 * by_x)
    close(found["rate"], 2.5 * product, 10 * ROUND_OFF)
    close(found["vectors"], np.stack([product, 2 * product]))
    close(found["both"], np.stack([product, -2 * product]))
    close(multiplied(values, x), product)
    assert jax.tree.all(jax.tree.map(np.array_equal, found, everything(values, x, w)))


@pytest.mark.parametrize(
    "shape", [(5, 3), (5, 0), (5, 3, 1), (4, 9, 3, 3), (0, 3, 3, 3), (2, 40, 6, 6), (3, 2, 50, 2, 3), (2, 3, 0)]
)
def test_sums_over_lanes(shape, rng):
    """Of scalars and blocks, of more entries than are summed together, of nothing."""
    rows = rng.normal(size=shape)
    close(sum_lanes(jnp.asarray(rows)), rows.sum(axis=1))


def test_products_keep_the_precision_they_have(rng):
    pattern = pattern_of(np.array([2, 3, 1]), 4, rng)
    A = jm.matrix.BlockSparse(jnp.asarray(rng.normal(size=(6, 3, 3)), jnp.float32), pattern)
    x = jnp.asarray(rng.normal(size=(4, 3)))
    exact = (np.asarray(A.to_dense(), float) @ np.ravel(x)).reshape(3, 3)
    half = jm.matrix.BlockSparse(A.values.astype(jnp.float16), pattern)
    for matrix, dtype, result, tolerance in (
        (A, np.float32, np.float32, 1e-6),
        (A, float, float, ROUND_OFF),
        (half, np.float16, np.float16, 1e-2),
    ):
        found = matrix.mv(x.astype(dtype))
        assert found.dtype == result
        close(found, exact, tolerance)


def test_large_blocks_are_left_to_xla(rng):
    pattern = pattern_of(np.array([2, 3, 1]), 4, rng)
    A = jm.matrix.BlockSparse(jnp.asarray(rng.normal(size=(6, 37, 3))), pattern)
    x = jnp.asarray(rng.normal(size=(4, 3)))
    multiplied = jax.jit(lambda A, x: A.mv(x))
    close(multiplied(A, x), (np.asarray(A.to_dense()) @ np.ravel(x)).reshape(3, 37))
    assert "jaxmech_" not in multiplied.lower(A, x).as_text()


@pytest.mark.cpu
def test_a_kernel_is_made_where_there_is_one_cpu(form, rng):
    A = jm.matrix.BlockSparse(jnp.asarray(rng.normal(size=(6, 3, 3))), pattern_of(np.array([2, 3, 1]), 4, rng))
    text = jax.jit(lambda A, x: A.mv(x)).lower(A, jnp.ones((4, 3))).as_text()
    assert ("jaxmech_" in text) == (form == "kernel")


@pytest.mark.parametrize("most", [2**31 - 1, 1], ids=["as one matrix", "too many to be numbered"])
def test_products_of_batches(most, rng, monkeypatch):
    """Of matrices, of vectors, of both, one batch in another; and their derivatives."""
    monkeypatch.setattr("jaxmech._sparse.spmv._MOST", most)
    pattern = pattern_of(ROWS["some empty, one long"], 300, rng)
    values, x = rng.normal(size=(2, 3, pattern.blocks, 2, 3)), rng.normal(size=(2, 4, 300, 3))
    w = rng.normal(size=(2, 3, 4, 7, 2))

    def multiplied(values, x):
        return jm.matrix.BlockSparse(values, pattern).mv(x)

    def nested(product):
        return jax.vmap(jax.vmap(jax.vmap(product, (None, 0)), (0, None)))

    dense = np.zeros((2, 3, 7, 2, 300, 3))
    rows, columns = np.asarray(pattern.rows), np.asarray(pattern.columns)
    dense[:, :, rows, :, columns] = np.moveaxis(values, 2, 0)
    expected = np.einsum("abirjc,akjc->abkir", dense, x)

    @jax.jit
    def everything(values, x, w):
        product, pulled = jax.vjp(nested(multiplied), values, x)
        by_x = nested(lambda values, x: jax.vjp(multiplied, values, x)[1](jnp.ones((7, 2)))[1])
        return {
            "nested": product,
            "vectors": jax.vmap(multiplied, (None, 0))(values[0, 0], x[0]),
            "matrices": jax.vmap(multiplied, (0, None))(values[0], x[0, 0]),
            "both": jax.vmap(jax.vmap(multiplied), (0, None))(values[None, 0], x[0, :3]),
            "pulled": pulled(w),
            "pulled within": by_x(values, x),
            "rates": jax.jvp(nested(multiplied), (values, x), (2 * values, 0.5 * x))[1],
        }

    found = everything(values, x, w)
    close(found["nested"], expected)
    close(found["vectors"], expected[0, 0])
    close(found["matrices"], expected[0, :, 0])
    close(found["both"], expected[0, range(3), range(3)][None])
    close(found["pulled"][0], np.einsum("abkzr,akzc->abzrc", w[..., rows, :], x[..., columns, :]), 10 * ROUND_OFF)
    close(found["pulled"][1], np.einsum("abirjc,abkir->akjc", dense, w), 10 * ROUND_OFF)
    within = np.einsum("abirjc->abjc", dense)[:, :, None]
    close(found["pulled within"], np.broadcast_to(within, found["pulled within"].shape))
    close(found["rates"], 2.5 * expected, 10 * ROUND_OFF)
