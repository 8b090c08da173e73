"""Direct solves on the host, with the analyses and the factors of the last few matrices kept.

Factors are recognised by exact comparison of their values: a comparison costs a thousandth of a
factorisation, the program that calls carries no handle, and there is nothing for it to free. The backward
pass of a differentiated solve presents the matrix of the forward pass again, and finds its factor here.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import scipy.sparse as sp

from .band import Band, BandFirst
from .host_backend import AbstractHostBackend, SingularMatrixError
from .host_choice import host_backend
from .singularity import (
    BACKWARD_ERROR_LIMIT,
    CONDITION_LIMIT,
    ScaledMatrix,
    condition_estimate,
    is_asymmetric,
    null_vector,
    refined_solve,
    relative_residual,
    with_values,
)
from .superlu import SuperLUBackend
from .worker_thread import WorkerThread

_T = TypeVar("_T")
_PATTERNS = 8
_FEWEST, _MOST = 2, 32  # factors kept of a pattern
_KEPT = 1_000_000  # entries of the matrices whose factors are kept of a pattern: those of a body of 425 nodes took 60 MB
_SAMPLE = 64  # entries that are compared before all are


@dataclass(frozen=True)
class HostSolution:
    """`x` solves `A x = b`; NaN where nothing could be computed, and always when the matrix is `singular`."""

    x: np.ndarray  # (n, m)
    relative_residual: float  # |b - A x| / |b|, 2-norm, worst column; about condition * 1e-16 at best
    backward_error: float  # |b - A x| / (|b| + |A| |x|), scaled, max-norm, worst column; about 1e-16
    residual: np.ndarray  # (m,) |b - A x| of each column
    singular: bool  # to working precision
    unsymmetric: bool  # declared symmetric, and is not: not solved
    null_vector: np.ndarray | None  # (n,), unit: what A does not resist; when singular, if found


@dataclass
class FactorCounts:
    """What the cache has done since the process began."""

    analyses: int = 0
    factorisations: int = 0
    cache_hits: int = 0


@dataclass
class _Factor:
    """One native solver and the matrix it has factored. Of a singular matrix only the verdict counts."""

    backend: AbstractHostBackend
    values: np.ndarray | None = None
    sample: bytes = b""  # of the values
    matrix: ScaledMatrix | None = None
    singular: bool = False
    unsymmetric: bool = False
    null_vector: np.ndarray | None = None


@dataclass
class _Pattern:
    """An analysed pattern and its factors, the last used first."""

    backend: type[AbstractHostBackend]
    symmetric: bool
    ordering: str
    indptr: np.ndarray
    indices: np.ndarray
    any_backend: bool = False  # the caller names none, nor an ordering
    band: Band | None = None
    factors: list[_Factor] = field(default_factory=list)

    def matches(self, other: "_Pattern") -> bool:
        return (
            (self.backend, self.symmetric, self.ordering, self.any_backend)
            == (other.backend, other.symmetric, other.ordering, other.any_backend)
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def new_backend(self) -> AbstractHostBackend:
        """One that has analysed the pattern."""
        backend = self.backend() if self.band is None else BandFirst(self.band, self.backend)
        backend.analyze(self.indptr, self.indices, self.symmetric, self.ordering)
        return backend

    def release(self) -> None:
        for factor in self.factors:
            factor.backend.release()
        self.factors.clear()

    @functools.cached_property
    def ones(self) -> sp.csr_array:
        """The matrix of this pattern whose entries are all one."""
        size = self.indptr.size - 1
        return sp.csr_array((np.ones(self.indices.size), self.indices, self.indptr), shape=(size, size))

    @functools.cached_property
    def diagonal(self) -> np.ndarray:
        """The positions of the diagonal entries among the values."""
        size = self.indptr.size - 1
        return np.flatnonzero(self.indices == np.repeat(np.arange(size), np.diff(self.indptr)))


class _FactorCache:
    """Lives on the worker thread, whole: no method may be called from anywhere else."""

    def __init__(self):
        self.counts = FactorCounts()
        self._patterns: list[_Pattern] = []  # the last used first

    def solve(
        self, wanted: _Pattern, values: np.ndarray, rhs: np.ndarray, *, transposed: bool, rounding: float
    ) -> HostSolution:
        pattern = self._pattern(wanted)
        factor = self._factor(pattern, values, rounding)
        if factor.singular:
            return _failed(factor, rhs)
        assert factor.matrix is not None
        x, residual, error = refined_solve(factor.backend, factor.matrix, rhs, transposed=transposed)
        if not (np.isfinite(x).all() and error < BACKWARD_ERROR_LIMIT):
            _declare_singular(factor, pattern)
            return _failed(factor, rhs)
        lengths = np.linalg.norm(residual, axis=0)
        return HostSolution(x, relative_residual(residual, rhs), error, lengths, False, False, None)

    def forget(self) -> None:
        """Keep analyses, and know no matrix."""
        for pattern in self._patterns:
            for factor in pattern.factors:
                factor.values = None

    def clear(self) -> None:
        while self._patterns:
            self._patterns.pop().release()

    def _pattern(self, wanted: _Pattern) -> _Pattern:
        for place, known in enumerate(self._patterns):
            if known.matches(wanted):
                self._patterns.insert(0, self._patterns.pop(place))
                return known
        while len(self._patterns) >= _PATTERNS:
            self._patterns.pop().release()
        # The arrays given may be views of buffers that XLA will use again.
        owned = replace(wanted, indptr=wanted.indptr.copy(), indices=wanted.indices.copy())
        if wanted.any_backend and wanted.symmetric:
            owned.band = Band.of(owned.indptr, owned.indices, owned.backend.most_fill)
        self._patterns.insert(0, owned)
        return owned

    def _factor(self, pattern: _Pattern, values: np.ndarray, rounding: float) -> _Factor:
        sample = values[:: max(1, values.size // _SAMPLE)].tobytes()
        for place, known in enumerate(pattern.factors):
            if known.values is not None and known.sample == sample and np.array_equal(known.values, values):
                self.counts.cache_hits += 1
                pattern.factors.insert(0, pattern.factors.pop(place))
                return known
        # Backwards through a trajectory, the last square root of its steps come again, the last of them first.
        if len(pattern.factors) < max(_FEWEST, min(_MOST, _KEPT // values.size)):
            pattern.factors.insert(0, _Factor(pattern.new_backend()))
            self.counts.analyses += 1
        else:
            pattern.factors.insert(0, pattern.factors.pop())
        factor = pattern.factors[0]
        self.counts.factorisations += 1
        _fill(factor, pattern, values.copy(), rounding)
        factor.sample = sample
        return factor


def _fill(factor: _Factor, pattern: _Pattern, values: np.ndarray, rounding: float) -> None:
    """Factor these values, and judge whether the factor can be trusted.

    Of a matrix that is declared symmetric and is not, backends read a half, or the transposed system gets its factor.
    """
    factor.values = None  # until all of this has succeeded
    factor.singular, factor.unsymmetric, factor.null_vector = False, False, None
    backend = factor.backend
    try:
        backend.factor(values)
        is_factored = True
    except SingularMatrixError:
        is_factored = False
    matrix = with_values(pattern.ones, values)
    definite = is_factored and backend.has_cholesky()
    factor.matrix = ScaledMatrix.of_definite(matrix, pattern.diagonal) if definite else ScaledMatrix.of(matrix)
    if pattern.symmetric and is_asymmetric(factor.matrix, rounding):
        factor.singular, factor.unsymmetric, factor.values = True, True, values
        return
    if not (is_factored and condition_estimate(backend, factor.matrix) < min(CONDITION_LIMIT, backend.condition_limit())):
        _declare_singular(factor, pattern)
    factor.values = values


def _declare_singular(factor: _Factor, pattern: _Pattern) -> None:
    """Record the verdict with what floats free, found by the fast backend or else by the sure one."""
    assert factor.matrix is not None
    factor.singular = True
    for kind in (pattern.backend, SuperLUBackend):
        search = kind()
        search.analyze(pattern.indptr, pattern.indices, pattern.symmetric, "auto")
        factor.null_vector = null_vector(search, factor.matrix, pattern.diagonal)
        search.release()
        if factor.null_vector is not None:
            return


def _failed(factor: _Factor, rhs: np.ndarray) -> HostSolution:
    return _unsolved(rhs, singular=not factor.unsymmetric, unsymmetric=factor.unsymmetric, vector=factor.null_vector)


def _unsolved(
    rhs: np.ndarray, *, singular: bool, unsymmetric: bool = False, vector: np.ndarray | None = None
) -> HostSolution:
    unknown = np.full(rhs.shape[1], np.inf)
    return HostSolution(np.full_like(rhs, np.nan), np.inf, np.inf, unknown, singular, unsymmetric, vector)


_CACHE = _FactorCache()
_WORKER = WorkerThread("jaxmech-host-direct", at_exit=_CACHE.clear)


def solve(
    indptr: np.ndarray,
    indices: np.ndarray,
    values: np.ndarray,
    rhs: np.ndarray,
    *,
    symmetric: bool,
    transposed: bool = False,
    backend: str = "auto",
    ordering: str = "auto",
    rounding: float = 2.0**-52,
) -> HostSolution:
    """Solve `A x = b`, or `A^T x = b` when `transposed`, for a CSR matrix and a block `(n, m)` of right-hand
    sides.

    The pattern holds both triangles and the whole diagonal, columns sorted; `symmetric` declares symmetric
    values, to ten thousand units of `rounding`, that of the numbers they come from. Any thread may call; the
    work is done on one. `backend` is "auto", "pardiso", "feral" or "superlu".

    A singular matrix is an answer, not an error. Values or right-hand sides that are not finite give a NaN
    `x` that is not called singular. Raises `ValueError` for an unknown backend, `ImportError` for one that is
    not installed.
    """
    wanted = _Pattern(
        host_backend(backend, symmetric=symmetric, ordering=ordering),
        symmetric,
        ordering,
        np.asarray(indptr, dtype=np.int32),
        np.asarray(indices, dtype=np.int32),
        any_backend=(backend, ordering) == ("auto", "auto"),
    )
    values = np.asarray(values, dtype=np.float64)
    rhs = np.asarray(rhs, dtype=np.float64)
    assert rhs.ndim == 2 and rhs.shape[0] == wanted.indptr.size - 1
    if rhs.size == 0:
        return HostSolution(rhs.copy(), 0.0, 0.0, np.zeros(rhs.shape[1]), False, False, None)
    if not (np.isfinite(values).all() and np.isfinite(rhs).all()):
        return _unsolved(rhs, singular=False)
    return _WORKER.run(lambda: _CACHE.solve(wanted, values, rhs, transposed=transposed, rounding=rounding))


def on_worker(job: Callable[[], _T]) -> _T:
    """Run `job` on the thread to which all native solvers belong."""
    return _WORKER.run(job)


def forget_matrices() -> None:
    """Every matrix will be factored once more, as if it were new: for benchmarks, whose runs are repeated."""
    _WORKER.run(_CACHE.forget)


def factor_counts() -> FactorCounts:
    """A copy of the counters, for tests and benchmarks."""
    return replace(_CACHE.counts)
