"""The lowest eigenpairs on the host: every backend, dense and iterated, shifts, copies, and what is said of bad pencils."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from test_host_direct import lattice

from jaxmech._linear_solver.base.outcome import FINE, INDEFINITE, SINGULAR, UNSYMMETRIC
from jaxmech._linear_solver.eigen import shift_invert as _host_pencil
from jaxmech._linear_solver.eigen.shift_invert import NOT_FINITE, TOO_FEW, UNCONVERGED, lowest
from jaxmech._linear_solver.sparse import host_choice
from jaxmech._linear_solver.sparse import host_choice as _host_choice

SAME_AS_DENSE = 1e-9  # relative to the largest of the eigenvalues compared
BACKENDS = (_host_choice.PardisoBackend, _host_choice.FeralBackend, _host_choice.SuperLUBackend)


@pytest.fixture(params=BACKENDS, ids=lambda b: b.name)
def backend(request, monkeypatch):
    """Each backend in turn as the one to take."""
    if not request.param.available():
        pytest.skip(f"{request.param.name} is not installed")
    monkeypatch.setattr(host_choice, "host_backend", lambda *_, **__: request.param)
    return request.param


def mass(K, seed=1):
    """A diagonal mass in the pattern of a stiffness, uneven."""
    M = K.copy()
    rows = np.repeat(np.arange(K.shape[0]), np.diff(K.indptr))
    M.data = np.where(rows == K.indices, np.random.default_rng(seed).uniform(1, 3, K.nnz), 0.0)
    return M


def matches(found, K, M, count):
    exact = scipy.linalg.eigh(K.toarray(), M.toarray(), eigvals_only=True)
    assert found.flaw == FINE
    np.testing.assert_allclose(found.values, exact[:count], rtol=0, atol=SAME_AS_DENSE * np.abs(exact[: count + 1]).max())
    assert found.following == pytest.approx(exact[count], rel=1e-6)
    assert found.errors.max() < 1e-12
    return exact


@pytest.mark.parametrize("cells", [(2, 1, 1), (7, 3, 3)], ids=["dense", "iterated"])
@pytest.mark.parametrize("clamped", [True, False])
def test_lowest(backend, cells, clamped):
    """Clamped, and free: six eigenvalues are nil, none is missed."""
    K = lattice(*cells, clamped=clamped)
    M = mass(K)
    exact = matches(lowest(K, M, 8, shifted=True), K, M, 8)
    assert clamped or np.abs(exact[:6]).max() < 1e-10 < 1e-6 < exact[6]


def test_an_unstable_stiffness(backend):
    """Negative eigenvalues are the lowest, however many there are."""
    K = lattice(7, 3, 3)
    M = mass(K)
    K = sp.csr_array(K - 0.3 * M)
    found = lowest(K, M, 5, shifted=True)
    exact = matches(found, K, M, 5)
    assert exact[4] < 0
    assert lowest(K, M, 5, shifted=False).flaw == INDEFINITE


def test_copies_are_not_missed(backend):
    """Three equal bodies side by side: every eigenvalue comes three times."""
    K = sp.csr_array(sp.block_diag([lattice(4, 2, 2)] * 3))
    M = K.copy()
    M.data = np.where(np.repeat(np.arange(K.shape[0]), np.diff(K.indptr)) == K.indices, 1.0, 0.0)
    found = lowest(K, M, 7, shifted=True)
    matches(found, K, M, 7)
    assert found.values[2] == pytest.approx(found.values[0], rel=1e-9)
    assert np.linalg.matrix_rank(found.vectors, 1e-6) == 7


def test_copies_that_the_iteration_overlooks_are_found_by_counting(monkeypatch):
    """The first search is made to lose a pair in the middle."""
    K = lattice(7, 3, 3)
    M, calls, search = mass(K), [], _host_pencil._largest

    def careless(*args, **options):
        nu, X = search(*args, **options)
        calls.append(len(nu))
        return (np.delete(nu, 2), np.delete(X, 2, axis=1)) if len(calls) == 1 else (nu, X)

    monkeypatch.setattr(_host_pencil, "_largest", careless)
    matches(lowest(K, M, 5, shifted=True), K, M, 5)
    assert len(calls) == 2
    monkeypatch.setattr(_host_pencil, "_largest", lambda *a, **o: tuple(np.delete(x, 2, -1) for x in search(*a, **o)))
    assert lowest(K, M, 5, shifted=True).flaw == UNCONVERGED


def test_directions_without_mass(backend):
    """They follow the others: as many modes as there are directions with mass."""
    K = lattice(2, 1, 1)
    M, heavy = mass(K), np.arange(9, 15)
    rows = np.repeat(np.arange(K.shape[0]), np.diff(K.indptr))
    M.data = np.where(np.isin(rows, heavy), M.data, 0.0)
    light = np.setdiff1d(np.arange(K.shape[0]), heavy)
    dense = K.toarray()
    inner = dense[np.ix_(heavy, light)] @ np.linalg.solve(dense[np.ix_(light, light)], dense[np.ix_(light, heavy)])
    exact = scipy.linalg.eigh(dense[np.ix_(heavy, heavy)] - inner, M.toarray()[np.ix_(heavy, heavy)], eigvals_only=True)
    found = lowest(K, M, 6, shifted=True)
    np.testing.assert_allclose(found.values, exact, rtol=1e-10)
    assert np.isinf(found.following)
    assert lowest(K, M, 7, shifted=True).flaw == TOO_FEW


def test_units_do_not_matter(backend):
    """Eigenvalues of 1e20, where ARPACK's own tolerance is absolute."""
    K = lattice(7, 3, 3)
    M = mass(K)
    scaled = lowest(1e8 * K, 1e-12 * M, 4, shifted=True)
    np.testing.assert_allclose(scaled.values, 1e20 * lowest(K, M, 4, shifted=True).values, rtol=1e-10)


def test_positive_factors_of_an_indefinite_mass(backend):
    """As in buckling: the lowest positive ones only, and none where there is none."""
    K = lattice(7, 3, 3)
    M = mass(K)
    M.data = M.data * np.sign(np.random.default_rng(7).standard_normal(M.nnz))
    nu = scipy.linalg.eigh(M.toarray(), K.toarray(), eigvals_only=True)
    found = lowest(K, M, 3, shifted=False)
    np.testing.assert_allclose(found.values, 1 / nu[::-1][:3], rtol=1e-9)
    M.data = -np.abs(M.data)
    assert lowest(K, M, 1, shifted=False).flaw == TOO_FEW


def test_bad_pencils_are_named(backend):
    K = lattice(2, 1, 1)
    M = mass(K)
    skew = K.copy()
    skew[0, 1] += 0.5
    assert lowest(skew, M, 2, shifted=True).flaw == UNSYMMETRIC
    rounded = K.copy()
    rounded[0, 1] *= 1 + 1e-6  # what single precision leaves of symmetry
    assert lowest(rounded, M, 2, shifted=True).flaw == UNSYMMETRIC
    matches(lowest(rounded, M, 2, shifted=True, unit=2.0**-23), (rounded + rounded.T) / 2, M, 2)
    broken = K.copy()
    broken.data[3] = np.nan
    assert lowest(broken, M, 2, shifted=True).flaw == NOT_FINITE
    # One direction with neither stiffness nor mass.
    rows = np.repeat(np.arange(K.shape[0]), np.diff(K.indptr))
    touched = (rows == 4) | (K.indices == 4)
    K.data, M.data = np.where(touched, 0.0, K.data), np.where(touched, 0.0, M.data)
    found = lowest(K, M, 2, shifted=True)
    assert found.flaw == SINGULAR and np.isnan(found.values).all()
    assert found.unconstrained is not None and np.argmax(np.abs(found.unconstrained)) == 4
    M.data[:] = 0.0
    assert lowest(K, M, 1, shifted=True).flaw == TOO_FEW


def test_negative_pivots_are_counted(backend):
    for shift in (0.0, 0.53, 2.37):
        K = sp.csr_array(lattice(3, 2, 2) - shift * sp.eye_array(81))
        solver = backend()
        solver.analyze(K.indptr, K.indices, True, "auto")
        solver.factor(K.data)
        assert solver.negative_pivots() == np.sum(np.linalg.eigvalsh(K.toarray()) < 0)
        solver.release()
