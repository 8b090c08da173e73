"""Cholesky within a band, which stands before the other direct solvers."""

import numpy as np
import pytest
import scipy.sparse as sp
from tolerances import ROUND_OFF

from jaxmech._linear_solver.sparse.band import Band, BandFirst
from jaxmech._linear_solver.sparse.superlu import SuperLUBackend


def chain(count, width=2):
    """A definite matrix whose rows stand at random, so that Cuthill and McKee must find the chain again."""
    rng = np.random.default_rng(0)
    dense = np.zeros((count, count))
    for k in range(1, width + 1):
        dense += np.diag(rng.uniform(-1, 1, count - k), k)
    dense += dense.T + np.diag(np.full(count, 2.0 * width + 1))
    shuffled = rng.permutation(count)
    matrix = sp.csr_array(dense[shuffled][:, shuffled])
    matrix.sort_indices()
    return matrix


def test_a_chain_whose_rows_stand_at_random():
    matrix = chain(60)
    band = Band.of(matrix.indptr, matrix.indices, SuperLUBackend.most_fill)
    assert band is not None and band.width <= 4
    backend = BandFirst(band, SuperLUBackend)
    backend.factor(matrix.data)
    b = np.random.default_rng(1).normal(size=(60, 2))
    np.testing.assert_allclose(matrix @ backend.solve(b, transposed=False), b, rtol=0, atol=100 * ROUND_OFF)


def test_wide_bands_are_not_taken():
    star = np.eye(300)
    star[0] = star[:, 0] = 1.0  # every node touches the first: no order makes it narrow
    matrix = sp.csr_array(star)
    assert Band.of(matrix.indptr, matrix.indices, SuperLUBackend.most_fill) is None


@pytest.mark.parametrize("is_shuffled", [False, True])
@pytest.mark.parametrize("bars", [1, 2])
def test_the_band_of_a_bar_is_as_wide_as_its_section(bars, is_shuffled):
    """Of 20 sections of 16 nodes, each of which touches its neighbours in the next ones: the 21st is the last."""
    node = np.arange(320).reshape(4, 4, 20)
    corners = [node[i : i + 3, j : j + 3, k : k + 19] for i in (0, 1) for j in (0, 1) for k in (0, 1)]
    cells = np.stack([c.ravel() for c in corners], axis=1)
    cells = np.concatenate([cells + 320 * bar for bar in range(bars)])
    if is_shuffled:
        cells = np.random.default_rng(0).permutation(320 * bars)[cells]
    pairs = np.repeat(cells, 8, axis=1).ravel(), np.tile(cells, (1, 8)).ravel()
    graph = sp.csr_array(sp.coo_array((np.ones(pairs[0].size), pairs), shape=(320 * bars, 320 * bars)))
    graph.sort_indices()
    band = Band.of(graph.indptr, graph.indices, SuperLUBackend.most_fill)
    assert band is not None and band.width <= (21 if not is_shuffled else 26)


@pytest.mark.parametrize("width", [47, 52, 70])
def test_narrow_bands_are_filled_up_with_zeros(width):
    """Where LAPACK is quicker so: the factor is that of the matrix."""
    matrix = chain(200, width)
    band = Band.of(matrix.indptr, matrix.indices, np.inf)
    assert band is not None and band.width == {47: 47, 52: 65, 70: 70}[width]
    backend = BandFirst(band, SuperLUBackend)
    backend.factor(matrix.data)
    b = np.random.default_rng(1).normal(size=(200, 2))
    np.testing.assert_allclose(matrix @ backend.solve(b, transposed=False), b, rtol=0, atol=1e3 * ROUND_OFF)


@pytest.mark.parametrize("spoilt", ["diagonal", "indefinite"])
def test_what_is_not_definite_goes_to_lu(spoilt):
    """And a definite one that comes after it is factored in the band again: no answer depends on what came before."""
    matrix = chain(40)
    band = Band.of(matrix.indptr, matrix.indices, SuperLUBackend.most_fill)
    assert band is not None
    backend = BandFirst(band, SuperLUBackend)
    backend.analyze(matrix.indptr, matrix.indices, True, "auto")
    b = np.random.default_rng(1).normal(size=(40, 1))
    backend.factor(matrix.data)
    first = backend.solve(b, transposed=False)
    assert backend.negative_pivots() == 0 and backend._other is None
    other = matrix.copy()
    other.setdiag(0.0 if spoilt == "diagonal" else 0.5)
    backend.factor(other.data)
    assert backend._other is not None
    np.testing.assert_allclose(other @ backend.solve(b, transposed=True), b, atol=1e4 * ROUND_OFF)
    assert backend.negative_pivots() == np.sum(np.linalg.eigvalsh(other.toarray()) < 0) > 0
    backend.factor(matrix.data)
    np.testing.assert_array_equal(backend.solve(b, transposed=False), first)
