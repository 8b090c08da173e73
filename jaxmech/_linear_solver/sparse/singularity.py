"""Is this matrix singular to working precision, and if so, what is free to move?

None of SuperLU, PARDISO (LDL^T) and feral raises on a floating body: its six zero pivots are rounding errors,
and the answer is garbage. One solve with a fixed random right-hand side tells: the random vector has a
component along every null vector, so the solution explodes or misses the equation.

All judgements are made on the scaled matrix `D^-1 A D^-1` whose largest entry in each row is about one. A
soft and a stiff body side by side are ill-conditioned only in appearance, and the scaling sees through it (D.
Ruiz, *A scaling algorithm to equilibrate both rows and columns norms in matrices*, RAL-TR-2001-034).
"""

import copy
import functools
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..base.symmetry_probe import ASYMMETRY
from .host_backend import AbstractHostBackend, SingularMatrixError

# Measured: free lattices (135 to 39 000 unknowns, three backends) 1e16 to 1e18; a clamped beam 3000 times
# longer than thick 2e14. The plain residual |b - A x| / |b| tells nothing here: 1e-4 for that beam, whose
# solution is as good as double precision allows, and 1e-15 for a body that floats unloaded.
CONDITION_LIMIT = 1e15
BACKWARD_ERROR_LIMIT = 1e-9
_SUSPICIOUS_CONDITION = 1e9
_SCALING_PASSES = 3
_EVEN = 0.7  # the root of the largest entry of a row that is about one
_REFINED_ENOUGH = 1e-15
_REFINEMENTS = 2
_SHIFT = 1e-11
_INVERSE_ITERATIONS = 3


def with_values(matrix: sp.csr_array, values: np.ndarray) -> sp.csr_array:
    """A matrix of the same pattern, which SciPy does not check again: that takes as long as three products."""
    other = copy.copy(matrix)
    other.data = values
    return other


@dataclass(frozen=True)
class ScaledMatrix:
    """A matrix with the scale `(n,)` of its unknowns and the infinity norm of what it becomes once scaled."""

    matrix: sp.csr_array
    scale: np.ndarray
    norm: float

    @staticmethod
    def of(matrix: sp.csr_array) -> "ScaledMatrix":
        size, indptr, indices = matrix.indptr.size - 1, matrix.indptr, matrix.indices
        magnitude = np.abs(matrix.data)
        scale = np.ones(size)
        counts = np.diff(indptr)
        for _ in range(_SCALING_PASSES):
            largest = np.maximum.reduceat(magnitude, indptr[:-1])
            step = np.sqrt(np.where(largest > 0, largest, 1.0))
            if step.min() > _EVEN and step.max() < 1 / _EVEN:  # after one pass, where neighbours are of a kind
                break
            magnitude = magnitude / (np.repeat(step, counts) * step[indices])
            scale *= step
        norm = float(np.add.reduceat(magnitude, indptr[:-1]).max())
        return ScaledMatrix(matrix, scale, norm)

    @staticmethod
    def of_definite(matrix: sp.csr_array, diagonal: np.ndarray) -> "ScaledMatrix":
        """Of a positive definite matrix, whose `diagonal` stands there among the values: `a_ij^2 <= a_ii a_jj`, so that the
        root of the diagonal makes no entry larger than one, and each row has a one.
        """
        scale = np.sqrt(matrix.data[diagonal])
        sizes = with_values(matrix, np.abs(matrix.data))
        return ScaledMatrix(matrix, scale, float((sizes @ (1 / scale) / scale).max()))

    def residual(self, x: np.ndarray, rhs: np.ndarray, *, transposed: bool) -> np.ndarray:
        """`b - A x`, or `b - A^T x`."""
        return rhs - (self.matrix.T if transposed else self.matrix) @ x

    def backward_error(self, residual: np.ndarray, x: np.ndarray, rhs: np.ndarray) -> float:
        """The relative change of the scaled problem that would make `x` exact; the worst column."""
        d = self.scale[:, None]
        size = _largest(rhs / d) + self.norm * _largest(x * d)
        return float(_ratio(_largest(residual / d), size).max(initial=0.0))


def refined_solve(
    backend: AbstractHostBackend, matrix: ScaledMatrix, rhs: np.ndarray, *, transposed: bool
) -> tuple[np.ndarray, np.ndarray, float]:
    """Solve with up to two steps of iterative refinement. Returns the solution, its residual `b - A x`, and the backward
    error."""
    x = backend.solve(rhs, transposed=transposed)
    residual = matrix.residual(x, rhs, transposed=transposed)
    error = matrix.backward_error(residual, x, rhs)
    for _ in range(_REFINEMENTS):
        if not error > _REFINED_ENOUGH:  # also stops on NaN
            break
        better = x + backend.solve(residual, transposed=transposed)
        better_residual = matrix.residual(better, rhs, transposed=transposed)
        better_error = matrix.backward_error(better_residual, better, rhs)
        if not better_error < 0.5 * error:
            break
        x, residual, error = better, better_residual, better_error
    return x, residual, error


def condition_estimate(backend: AbstractHostBackend, matrix: ScaledMatrix) -> float:
    """A lower bound of the condition number of the scaled matrix; infinite when the factor is wrong."""
    d = matrix.scale[:, None]
    start = _signs(d.size)
    estimate = 0.0
    for _ in range(2):
        rhs = d * start
        x, _, error = refined_solve(backend, matrix, rhs, transposed=False)
        size = float(np.abs(d * x).max())
        if not np.isfinite(size) or error > BACKWARD_ERROR_LIMIT:
            return np.inf
        estimate = max(estimate, matrix.norm * size)
        if estimate < _SUSPICIOUS_CONDITION or size == 0.0:
            break
        start = d * x / size  # a step of inverse iteration, only where the first answer asks for it
    return estimate


@functools.lru_cache(maxsize=8)
def _signs(size: int) -> np.ndarray:
    """Ones of either sign at random, `(size, 1)`: always the same."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(size, 1))
    signs.flags.writeable = False
    return signs


@functools.lru_cache(maxsize=8)
def _pair(size: int) -> np.ndarray:
    """Two vectors at random, `(2, size)`: always the same."""
    pair = np.random.default_rng(2).standard_normal((2, size))
    pair.flags.writeable = False
    return pair


def null_vector(backend: AbstractHostBackend, matrix: ScaledMatrix, diagonal: np.ndarray) -> np.ndarray | None:
    """A unit vector that `A` sends almost to zero, by inverse iteration on `A + eps D^2`.

    `backend` has analysed the pattern; `diagonal` says where its values are on the diagonal. None on failure.
    """
    d = matrix.scale
    shifted = matrix.matrix.data.copy()
    shifted[diagonal] += _SHIFT * matrix.norm * d**2
    v = np.random.default_rng(1).standard_normal(d.size)
    try:
        backend.factor(shifted)
    except SingularMatrixError:
        return None
    for _ in range(_INVERSE_ITERATIONS):
        v = backend.solve((d**2 * v)[:, None], transposed=False)[:, 0]
        size = np.linalg.norm(v)
        if not (np.isfinite(size) and size > 0):
            return None
        v = v / size
    return v


def is_asymmetric(matrix: ScaledMatrix, rounding: float) -> bool:
    """Whether a matrix of numbers of this rounding unit differs from its transpose by more than rounding.

    Two products tell, `u.Av` and `v.Au` of random vectors: a transpose would cost a good part of a small factor.
    """
    A = matrix.matrix
    u, v = _pair(matrix.scale.size) / matrix.scale
    Au, Av = A @ u, A @ v
    gap, size = abs(u @ Av - v @ Au), np.abs(u) @ np.abs(Av) + np.abs(v) @ np.abs(Au)
    return bool(gap > ASYMMETRY * rounding * size)


def relative_residual(residual: np.ndarray, rhs: np.ndarray) -> float:
    """`|b - A x| / |b|`, the worst column."""
    return float(_ratio(np.linalg.norm(residual, axis=0), np.linalg.norm(rhs, axis=0)).max(initial=0.0))


def _largest(columns: np.ndarray) -> np.ndarray:
    return np.abs(columns).max(axis=0)


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Zero over zero is zero: a right-hand side of zeros is solved exactly."""
    return np.where(numerator == 0, 0.0, numerator / np.where(denominator > 0, denominator, 1e-300))
