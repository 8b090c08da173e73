"""The dense factor of a matrix of few unknowns that is definite, as masses are, or lacks nothing but some motions."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx
from jax.flatten_util import ravel_pytree

from ..._runtime.array_types import Array, Float
from ..._runtime.jax_internals import unvmap_any
from ..._runtime.precision import full_precision
from ..base.outcome import FINE, SINGULAR, outcome
from ..base.vectors import Vector
from .few_unknowns import are_few, solved_by_root
from .few_unknowns import shortest as shortest_of_few
from .whole_matrix import SINGULAR_PIVOT, residual_norm

_REACHED = 1e3  # rounding units of a row: of a right-hand side that much may be out of reach


class Semidefinite(lx.AbstractLinearSolver):
    """Cholesky; of a singular matrix the shortest solution where there is one.

    What conjugate gradients find of a few unknowns, sooner. The operator must be symmetric, which is not looked at, and its
    state is the same for the transposed one. Ends in `RESULTS.singular` where the right-hand side is out of reach. `stats`:
    `num_steps`, `residual` (of the scaled system where it is singular, else nil), `reason`.
    Source: G. H. Golub and C. F. Van Loan, *Matrix Computations*, 4th ed., 2013, ISBN 978-1-4214-0794-4, sections 4.2 and
    5.5.
    """

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        matrix = operator.as_matrix()
        diagonal = jnp.diagonal(matrix)
        scale = jnp.where(diagonal > 0, 1 / jnp.sqrt(jnp.where(diagonal > 0, diagonal, 1.0)), 1.0)
        scaled = scale[:, None] * matrix * scale
        return None if are_few(len(scaled)) else jnp.linalg.cholesky(scaled), scale, scaled

    @full_precision
    def compute(self, state, vector: Vector, options: dict[str, Any]):
        del options
        factor, scale, scaled = state
        b, unravel = ravel_pytree(vector)
        b = scale * b
        if factor is None:
            y, least = solved_by_root(scaled, b)
        else:
            y, least = jsl.cho_solve((factor, True), b), jnp.min(jnp.diagonal(factor), initial=1.0) ** 2
        singular = ~(least > _tolerance(scaled))  # NaN, of a matrix that is not definite, compares false

        def shortest(y: Array) -> tuple[Array, Array, Array]:
            of_few = factor is None
            least = shortest_of_few(scaled, scale, b, _tolerance(scaled)) if of_few else _shortest(scaled, scale, b)
            found = jnp.where(singular, least, y)
            residual = residual_norm(scaled, found, b, transposed=False)
            reached = residual <= _REACHED * len(b) * float(jnp.finfo(b.dtype).eps) * jnp.linalg.norm(b)
            return found, residual, singular & ~reached

        def definite(y: Array) -> tuple[Array, Array, Array]:
            return y, jnp.zeros((), b.dtype), jnp.zeros((), bool)

        y, residual, lost = jax.lax.cond(unvmap_any(singular), shortest, definite, y)
        result, reason = outcome(jnp.where(lost, SINGULAR, FINE), finite=jnp.all(jnp.isfinite(y)))
        stats = {"num_steps": jnp.zeros((), jnp.int32), "residual": residual, "reason": reason}
        return unravel(scale * y), result, stats

    def transpose(self, state, options: dict[str, Any]):
        return state, options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


def _tolerance(matrix: Float[Array, "N N"]) -> float:
    return SINGULAR_PIVOT * len(matrix) * float(jnp.finfo(matrix.dtype).eps)


def _shortest(matrix: Float[Array, "N N"], scale: Float[Array, " N"], b: Float[Array, " N"]) -> Float[Array, " N"]:
    """`y` of the shortest `scale y` among those that solve `matrix y = b`."""
    values, vectors = jnp.linalg.eigh(matrix)
    kept = values > _tolerance(matrix) * values[-1]
    x = scale * (vectors @ (jnp.where(kept, 1 / jnp.where(kept, values, 1.0), 0.0) * (vectors.T @ b)))
    null = scale[:, None] * jnp.where(kept, 0.0, vectors)
    size, directions = jnp.linalg.eigh(null @ null.T)
    free = jnp.where(size > _tolerance(matrix) * size[-1], directions.T @ x, 0.0)
    return (x - directions @ free) / scale
