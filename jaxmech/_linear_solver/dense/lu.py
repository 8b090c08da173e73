"""The dense direct solver: LU of the whole matrix, for small systems and for batches of them."""

from typing import Any

import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx
from jax.flatten_util import ravel_pytree

from ..._runtime.array_types import Array
from ..._runtime.precision import full_precision
from ..base.outcome import FINE, SINGULAR, outcome
from .whole_matrix import SINGULAR_PIVOT, loosest, residual_norm, scaling


class Dense(lx.AbstractLinearSolver):
    """LU with partial pivoting. Any square operator; memory `16 N^2` bytes in float64.

    A singular matrix ends in `RESULTS.singular`, read from the pivots after scaling rows and columns;
    `stats["unconstrained_state"]` is then the number of the state (in sorted order) that moves most in the null vector.
    `stats` also has `residual` (`|b - A x|`) and `reason`. Right-hand sides batched by `vmap` share one factor.
    Source: G. H. Golub and C. F. Van Loan, *Matrix Computations*, 4th ed., 2013, ISBN 978-1-4214-0794-4, section 3.4.

    Example:

        x = lx.linear_solve(A, b, jm.solver.Dense()).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
    """

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        matrix = operator.as_matrix()
        scale = scaling(matrix)
        factor = jsl.lu_factor(scale[:, None] * matrix * scale)
        return factor, scale, matrix, False

    @full_precision
    def compute(self, state, vector, options: dict[str, Any]):
        del options
        (lu, pivots), scale, matrix, transposed = state
        b, unravel = ravel_pytree(vector)
        x = scale * jsl.lu_solve((lu, pivots), scale * b, trans=1 if transposed else 0)
        diagonal = jnp.abs(jnp.diagonal(lu))
        tolerance = SINGULAR_PIVOT * diagonal.shape[0] * jnp.finfo(lu.dtype).eps
        # NaN compares false: "not (smallest > ...)" catches it.
        singular = ~(jnp.min(diagonal) > tolerance * jnp.max(diagonal))
        result, reason = outcome(jnp.where(singular, SINGULAR, FINE))
        return (
            unravel(x),
            result,
            {
                "num_steps": jnp.zeros((), jnp.int32),
                "residual": residual_norm(matrix, x, b, transposed=transposed),
                "unconstrained_state": loosest(unravel(scale * _softest(lu, tolerance))),
                "reason": reason,
            },
        )

    def transpose(self, state, options: dict[str, Any]):
        factor, scale, matrix, transposed = state
        return (factor, scale, matrix, not transposed), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


def _softest(lu: Array, tolerance: Array | float) -> Array:
    """A vector near the null space of a singular matrix: one inverse iteration, its vanishing pivots kept off zero."""
    diagonal = jnp.diagonal(lu)
    least = tolerance * jnp.max(jnp.abs(diagonal))
    pivots = jnp.where(jnp.abs(diagonal) > least, diagonal, least)
    start = jnp.cos(jnp.arange(lu.shape[0], dtype=lu.dtype))  # any vector without symmetries
    return jsl.solve_triangular(jnp.fill_diagonal(jnp.triu(lu), pivots, inplace=False), start)
