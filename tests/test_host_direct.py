"""The sparse direct solvers of the host, their cache, and what they say of singular matrices."""

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from jaxmech._linear_solver.sparse import host_choice as _host_choice
from jaxmech._linear_solver.sparse.factor_cache import _KEPT, _MOST, factor_counts, forget_matrices, solve
from jaxmech._linear_solver.sparse.singularity import ScaledMatrix

SAME_AS_DENSE = 1e-9  # relative; the condition numbers here are below 1e5, and dense LU rounds as well
NULL = 1e-9  # |A v| / |A|: the shift of the inverse iteration is 1e-11
SYMMETRIC_PROBLEMS = ("definite", "indefinite", "constrained")


@pytest.fixture(params=["pardiso", "feral", "superlu"])
def backend(request):
    """Each backend in turn; those that are not installed are skipped by name."""
    try:
        _host_choice.host_backend(request.param, symmetric=True)
    except ImportError as error:
        pytest.skip(str(error))
    return request.param


def lattice(*cells: int, clamped: bool = True, stiffness: float = 1.0) -> sp.csr_array:
    """Stiffness [N/m] of a block of nodes joined by springs along edges and face diagonals, turned at random.

    Free, it has six zero modes and no other. Clamped, its first layer of nodes is removed.
    """
    nodes = np.argwhere(np.ones(np.add(cells, 1), dtype=bool))
    gap = nodes[:, None, :] - nodes[None, :, :]
    a, b = np.nonzero(np.triu(np.isin((gap**2).sum(-1), (1, 2)), 1))
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    along = (nodes[b] - nodes[a]) @ turn
    blocks = stiffness * np.einsum("ni,nj->nij", along, along) / (along**2).sum(-1)[:, None, None]
    dense = np.zeros((len(nodes), 3, len(nodes), 3))
    for rows, cols, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
        np.add.at(dense, (rows, slice(None), cols), sign * blocks)
    kept = np.flatnonzero(nodes[:, 0] > 0) if clamped else np.arange(len(nodes))
    dense = dense[np.ix_(kept, range(3), kept, range(3))].reshape(3 * len(kept), -1)
    return sp.csr_array((dense + dense.T) / 2)


def constrained(stiffness: sp.csr_array, ties: int) -> sp.csr_array:
    """`[[K, C^T], [C, 0]]` with the zeros of the diagonal stored."""
    n = stiffness.shape[0]
    ones = np.random.default_rng(2).standard_normal((ties, n))
    matrix = sp.block_array([[1e4 * stiffness, ones.T], [ones, sp.eye_array(ties)]], format="csr")
    matrix.sort_indices()
    rows = np.repeat(np.arange(n + ties), np.diff(matrix.indptr))
    matrix.data[(rows == matrix.indices) & (rows >= n)] = 0.0
    return matrix


def problem(kind: str) -> sp.csr_array:
    definite = lattice(3, 2, 2)
    if kind == "definite":
        return definite
    if kind == "indefinite":
        return sp.csr_array(definite - 0.7 * sp.eye_array(definite.shape[0]))
    if kind == "constrained":
        return constrained(definite, 4)
    skewed = definite.copy()
    skewed.data = skewed.data * (1 + 0.3 * np.random.default_rng(3).standard_normal(skewed.nnz))
    return skewed


def host_solve(matrix: sp.csr_array, rhs: np.ndarray, backend: str, *, symmetric: bool = True, **options):
    return solve(matrix.indptr, matrix.indices, matrix.data, rhs, symmetric=symmetric, backend=backend, **options)


def right_hand_sides(matrix: sp.csr_array, columns: int = 1) -> np.ndarray:
    return np.random.default_rng(4).standard_normal((matrix.shape[0], columns))


def distance(x: np.ndarray, reference: np.ndarray) -> float:
    return float(np.linalg.norm(x - reference) / np.linalg.norm(reference))


@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", [*SYMMETRIC_PROBLEMS, "unsymmetric"])
def test_same_as_dense(backend, kind, transposed, columns):
    matrix = problem(kind)
    rhs = right_hand_sides(matrix, columns)
    found = host_solve(matrix, rhs, backend, symmetric=kind in SYMMETRIC_PROBLEMS, transposed=transposed)
    dense = matrix.toarray().T if transposed else matrix.toarray()
    assert not found.singular and found.null_vector is None
    assert distance(found.x, np.linalg.solve(dense, rhs)) < SAME_AS_DENSE
    assert found.relative_residual < SAME_AS_DENSE
    assert found.backward_error < 1e-14  # a few roundings


def test_no_right_hand_side_and_a_zero_one(backend):
    matrix = problem("definite")
    assert host_solve(matrix, np.zeros((matrix.shape[0], 0)), backend).x.shape == (matrix.shape[0], 0)
    still = host_solve(matrix, np.zeros((matrix.shape[0], 1)), backend)
    assert np.all(still.x == 0) and still.relative_residual == 0 and not still.singular


def test_the_second_solve_finds_the_factor(backend):
    matrix = problem("unsymmetric")
    matrix.data = matrix.data * 1.25  # values no other test has used
    rhs = right_hand_sides(matrix)
    host_solve(matrix, rhs, backend, symmetric=False)
    before = factor_counts()
    host_solve(matrix, 2 * rhs, backend, symmetric=False, transposed=True)
    after = factor_counts()
    assert after.cache_hits == before.cache_hits + 1
    assert (after.analyses, after.factorisations) == (before.analyses, before.factorisations)


def test_the_last_matrices_are_found_backwards_and_forgotten_when_asked(backend):
    """As many as there is room for: the second half of what a trajectory factored comes again, the last first."""
    matrix = lattice(2, 2, 1)
    rhs, room = right_hand_sides(matrix), min(_MOST, _KEPT // matrix.nnz)
    assert room > 10
    scales = 200.0 + np.arange(room + 5)
    for scale in scales:
        host_solve(scale * matrix, rhs, backend)
    before = factor_counts()
    for scale in scales[: -1 - room : -1]:
        found = host_solve(scale * matrix, rhs, backend)
        assert distance(found.x, np.linalg.solve(scale * matrix.toarray(), rhs)) < SAME_AS_DENSE
    after = factor_counts()
    assert after.cache_hits == before.cache_hits + room and after.factorisations == before.factorisations
    host_solve(scales[0] * matrix, rhs, backend)
    assert factor_counts().factorisations == after.factorisations + 1
    forget_matrices()
    host_solve(scales[-1] * matrix, rhs, backend)
    assert factor_counts().factorisations == after.factorisations + 2
    assert factor_counts().analyses == after.analyses


def test_new_values_are_factored_but_not_analysed_again(backend, monkeypatch):
    """Some factors are kept, each with its analysis: from then on there is nothing to analyse."""
    monkeypatch.setattr("jaxmech._linear_solver.sparse.factor_cache._MOST", 2)
    matrix = lattice(2, 2, 1)
    rhs = right_hand_sides(matrix)
    for scale in (3.0, 4.0):
        host_solve(scale * matrix, rhs, backend)
    before = factor_counts()
    for step in range(50):
        scale = 5.0 + step
        found = host_solve(scale * matrix, rhs, backend)
        assert distance(found.x, np.linalg.solve(scale * matrix.toarray(), rhs)) < SAME_AS_DENSE
    after = factor_counts()
    assert after.factorisations == before.factorisations + 50
    assert after.analyses == before.analyses


def test_definite_and_indefinite_values_in_turn(backend):
    """A structure that buckles and comes back: the same pattern changes its signature."""
    matrix = lattice(2, 1, 1)
    for shift in (0.0, 0.7, 0.1, 0.6, 0.0, 0.8):
        shifted = sp.csr_array(matrix - shift * sp.eye_array(matrix.shape[0]))
        rhs = right_hand_sides(shifted)
        assert distance(host_solve(shifted, rhs, backend).x, np.linalg.solve(shifted.toarray(), rhs)) < 1e-9


def assert_floats(matrix: sp.csr_array, found) -> None:
    assert found.singular and np.isnan(found.x).all()
    assert np.linalg.norm(found.null_vector) == pytest.approx(1.0)
    assert np.linalg.norm(matrix @ found.null_vector) < NULL * abs(matrix).max()


def test_a_free_body_is_singular(backend):
    matrix = lattice(3, 2, 2, clamped=False, stiffness=1e5)
    assert_floats(matrix, host_solve(matrix, right_hand_sides(matrix), backend))


def test_a_free_body_is_singular_even_when_its_load_is_balanced(backend):
    matrix = lattice(2, 2, 2, clamped=False)
    assert_floats(matrix, host_solve(matrix, matrix @ right_hand_sides(matrix), backend))


def test_the_null_vector_names_the_body_that_floats(backend):
    """A soft clamped body beside a free one a million times stiffer, and the other way round."""
    held, free = lattice(2, 1, 1), lattice(2, 1, 1, clamped=False)
    for held_scale, free_scale in ((1.0, 1e6), (1e6, 1.0)):
        matrix = sp.block_diag([held_scale * held, free_scale * free], format="csr")
        found = host_solve(matrix, right_hand_sides(matrix), backend)
        assert_floats(matrix, found)
        assert np.linalg.norm(found.null_vector[: held.shape[0]]) < 1e-6


def test_a_zero_row_is_singular(backend):
    matrix = lattice(2, 2, 2)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    matrix.data[(rows == 7) | (matrix.indices == 7)] = 0.0
    found = host_solve(matrix, right_hand_sides(matrix), backend)
    assert_floats(matrix, found)
    assert abs(found.null_vector[7]) == pytest.approx(1.0)


def test_too_few_ties_leave_a_body_singular(backend):
    free = lattice(2, 2, 1, clamped=False)
    few, enough = constrained(free, 3), constrained(free, 6)
    assert_floats(few, host_solve(few, right_hand_sides(few), backend))
    assert not host_solve(enough, right_hand_sides(enough), backend).singular


def test_an_unsymmetric_singular_matrix(backend):
    turned = lattice(2, 1, 1, clamped=False)
    rows = np.repeat(np.arange(turned.shape[0]), np.diff(turned.indptr))
    turned.data = turned.data * (1.0 + rows)  # each row by its own factor: unsymmetric, same null space
    assert_floats(turned, host_solve(turned, right_hand_sides(turned), backend, symmetric=False))


def test_ill_conditioned_is_not_singular(backend):
    """A slender beam that carries a part a million times stiffer: condition 1e11, and nothing floats."""
    soft, stiff = lattice(12, 1, 1, clamped=False), lattice(12, 1, 1, clamped=False, stiffness=1e6)
    overlap = soft.shape[0] - 12
    matrix = sp.block_diag([soft, sp.csr_array((overlap, overlap))]) + sp.block_diag(
        [sp.csr_array((overlap, overlap)), stiff]
    )
    matrix = sp.csr_array(matrix.tocsr()[12:, 12:])
    assert np.linalg.cond(matrix.toarray()) > 1e11
    found = host_solve(matrix, right_hand_sides(matrix), backend)
    assert not found.singular and found.backward_error < 1e-14


def test_not_finite_is_not_singular(backend):
    matrix = problem("definite")
    rhs = right_hand_sides(matrix)
    rhs[3] = np.nan
    found = host_solve(matrix, rhs, backend)
    assert np.isnan(found.x).all() and not found.singular


def test_calls_from_several_threads(backend):
    matrix = lattice(2, 2, 1)
    rhs = right_hand_sides(matrix)
    errors = np.full(12, np.inf)

    def one_thread(first: int) -> None:
        for i in range(first, errors.size, 4):
            scaled = (1.5 + i) * matrix
            reference = np.linalg.solve(scaled.toarray(), rhs)
            errors[i] = distance(host_solve(scaled, rhs, backend).x, reference)

    threads = [threading.Thread(target=one_thread, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors.max() < SAME_AS_DENSE


def test_more_patterns_than_the_cache_holds(backend):
    for _ in range(2):
        for length in range(1, 11):
            matrix = lattice(length, 1, 1)
            rhs = right_hand_sides(matrix)
            reference = np.linalg.solve(matrix.toarray(), rhs)
            assert distance(host_solve(matrix, rhs, backend).x, reference) < SAME_AS_DENSE


def test_auto_solves_both_kinds():
    for kind, symmetric in (("definite", True), ("unsymmetric", False)):
        matrix = problem(kind)
        rhs = right_hand_sides(matrix)
        found = host_solve(matrix, rhs, "auto", symmetric=symmetric)
        assert distance(found.x, np.linalg.solve(matrix.toarray(), rhs)) < SAME_AS_DENSE


def test_an_unknown_backend_is_named():
    matrix = problem("definite")
    with pytest.raises(ValueError, match="'mumps' is not one of"):
        host_solve(matrix, right_hand_sides(matrix), "mumps")


def test_a_missing_backend_names_its_extra(monkeypatch):
    monkeypatch.setattr(_host_choice.PardisoBackend, "available", classmethod(lambda cls: False))
    matrix = problem("definite")
    with pytest.raises(ImportError, match=r"jaxmech\[mkl\]"):
        host_solve(matrix, right_hand_sides(matrix), "pardiso")


def test_the_roots_of_a_diagonal_scale_a_definite_matrix():
    """Soft and stiff side by side: the largest entry of each scaled row is one, and the norm that of the scaled matrix."""
    matrix = sp.block_diag([lattice(2, 1, 1), lattice(2, 1, 1, stiffness=1e8)], format="csr")
    matrix = sp.csr_array(matrix + sp.csr_array(([1e-3, 1e-3], ([0, 40], [40, 0])), shape=matrix.shape))
    matrix.sort_indices()
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    found = ScaledMatrix.of_definite(matrix, np.flatnonzero(rows == matrix.indices))
    scaled = np.abs(matrix.toarray()) / np.outer(found.scale, found.scale)
    np.testing.assert_allclose(scaled.max(axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(found.norm, scaled.sum(axis=1).max(), rtol=1e-14)
    searched = ScaledMatrix.of(matrix)
    assert 0.5 < found.norm / searched.norm < 2.0
