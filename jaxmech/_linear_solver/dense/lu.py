"""The dense direct solver: LU of the whole matrix, for small systems and for batches of them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx
import numpy as np
from jax.flatten_util import ravel_pytree

from ..._math.one_loop import extremes
from ..._runtime.array_types import Array, Bool, Float, Int
from ..._runtime.jax_internals import unvmap_any
from ..._runtime.precision import full_precision
from ..._sparse.block_matrix import BlockMatrix
from ..._sparse.indefinite import is_indefinite
from ..base.outcome import FINE, SINGULAR, outcome
from ..base.vectors import Vector
from .few_unknowns import are_few, solved_by_pivots
from .whole_matrix import SINGULAR_PIVOT, loosest, residual_norm, scaling

_Factor = tuple[Float[Array, "N N"], Int[Array, " N"], Bool[Array, ""]]


class Dense(lx.AbstractLinearSolver):
    """LU with partial pivoting. Any square operator; memory `16 N^2` bytes in float64.

    A singular matrix ends in `RESULTS.singular`, read from the pivots after scaling rows and columns;
    `stats["unconstrained_state"]` is then the number of the state (in sorted order) that moves most in the null vector.
    `stats` also has `residual` (`|b - A x|`) and `reason`. Right-hand sides batched by `vmap` share one factor, but
    that of up to eight unknowns, which is made for each.
    Source: G. H. Golub and C. F. Van Loan, *Matrix Computations*, 4th ed., 2013, ISBN 978-1-4214-0794-4, section 3.4.

    Example:

        x = lx.linear_solve(A, b, jm.solver.Dense()).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
    """

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        matrix = operator.as_matrix()
        scale = _scale_of(operator, matrix)
        return None if are_few(len(matrix)) else _factored(_scaled(matrix, scale)), scale, matrix, False

    @full_precision
    def compute(self, state, vector, options: dict[str, Any]):
        del options
        factor, scale, matrix, transposed = state
        b, unravel = ravel_pytree(vector)
        if factor is None:
            y, least, most = solved_by_pivots(matrix, scale, b, transposed=transposed)
            singular = ~(least > _tolerance(matrix) * most)
        else:
            lu, order, singular = factor
            y = (_solved if transposed else _solved_by_transpose)(lu, order, scale * b)

        def softest() -> Vector:
            found = _softest(*factor[:2]) if factor is not None else _softest_of_few(_scaled(matrix, scale))
            return unravel(scale * found)

        result, reason = outcome(jnp.where(singular, SINGULAR, FINE))
        return (
            jax.tree.map(jnp.multiply, unravel(scale), unravel(y)),
            result,
            {
                "num_steps": jnp.zeros((), jnp.int32),
                "residual": residual_norm(matrix, scale * y, b, transposed=transposed),
                "unconstrained_state": _unconstrained(singular, softest),
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


def _scale_of(operator: lx.AbstractLinearOperator, matrix: Float[Array, "N N"]) -> Float[Array, " N"]:
    """As `scaling` does; of a matrix that is definite as far as is known, nothing but its diagonal is looked at."""
    if not (isinstance(operator, BlockMatrix) and lx.is_symmetric(operator)) or is_indefinite(operator):
        return scaling(matrix, operator.as_matrix, _states(operator))
    scale, bad = _by_diagonal(matrix)

    def even() -> Float[Array, " N"]:
        whole = operator.as_matrix()  # made anew, as `scaling` says why
        return jnp.where(_by_diagonal(whole)[1], scaling(whole, lambda: whole), scale)

    return jax.lax.cond(unvmap_any(bad), even, lambda: scale)


def _states(operator: lx.AbstractLinearOperator) -> np.ndarray | None:
    """The number of the state of each row of a matrix of blocks."""
    if not isinstance(operator, BlockMatrix):
        return None
    return np.repeat(np.arange(len(operator.sizes)), [n * d for _, n, d in operator.sizes])


def _by_diagonal(matrix: Float[Array, "N N"]) -> tuple[Float[Array, " N"], Bool[Array, ""]]:
    """One over the roots of the diagonal, and whether it has none."""
    diagonal = jnp.diagonal(matrix)
    least, most = extremes(diagonal)
    return 1 / jnp.sqrt(jnp.maximum(diagonal, 0)), ~((least > 0) & (most < jnp.inf))


def _scaled(matrix: Float[Array, "N N"], scale: Float[Array, " N"]) -> Float[Array, "N N"]:
    return scale[:, None] * matrix * scale


def _factored(scaled: Float[Array, "N N"]) -> _Factor:
    """`L` and `U` of the transpose of a scaled matrix, the order of its rows, and whether pivots say that it is singular.

    LAPACK goes by columns: the transpose is the matrix as it lies, and need not be turned in memory.
    """
    lu, _, order = jax.lax.linalg.lu(scaled.T)
    least, most = extremes(jnp.abs(jnp.diagonal(lu)))
    # NaN compares false: "not (smallest > ...)" catches it.
    return lu, order, ~(least > _tolerance(lu) * most)


def _tolerance(matrix: Float[Array, "N N"]) -> float:
    return SINGULAR_PIVOT * len(matrix) * float(jnp.finfo(matrix.dtype).eps)


def _solved(lu: Float[Array, "N N"], order: Int[Array, " N"], b: Float[Array, " N"]) -> Float[Array, " N"]:
    """`x` with `A^T x = b`, where rows of `A^T` in this order are `L U`."""
    ordered = b.at[order].get(mode="promise_in_bounds", wrap_negative_indices=False)
    of_l = jsl.solve_triangular(lu, ordered, lower=True, unit_diagonal=True)
    return jsl.solve_triangular(lu, of_l)


def _solved_by_transpose(lu: Float[Array, "N N"], order: Int[Array, " N"], b: Float[Array, " N"]) -> Float[Array, " N"]:
    """`x` with `A x = b`. `lu_solve` with `trans=1` sorts, to invert the permutation."""
    of_u = jsl.solve_triangular(lu, b, trans=1)
    of_l = jsl.solve_triangular(lu, of_u, trans=1, lower=True, unit_diagonal=True)
    return jnp.zeros_like(b).at[order].set(of_l, unique_indices=True, mode="promise_in_bounds", wrap_negative_indices=False)


def _unconstrained(singular: Array, softest: Callable[[], Vector]) -> Array:
    """The state that moves most in the null vector, where any matrix of a batch is singular; -1 otherwise.

    Beside the solve itself it would be another: of a large batch, XLA:CPU's LAPACK (jaxlib 0.10) waits for threads of the
    pool in which such calls run, and as many at once as there are threads wait for ever.
    """
    unknown = jnp.full((), -1, jnp.int32)
    if len(jax.tree.leaves(jax.eval_shape(softest))) == 1:
        return jnp.where(singular, 0, unknown)
    return jax.lax.cond(unvmap_any(singular), lambda: loosest(softest()), lambda: unknown)


def _softest(lu: Float[Array, "N N"], order: Int[Array, " N"]) -> Float[Array, " N"]:
    """A vector near the null space of a singular matrix: one inverse iteration, its vanishing pivots kept off zero."""
    diagonal = jnp.diagonal(lu)
    least = _tolerance(lu) * jnp.max(jnp.abs(diagonal))
    regular = jnp.fill_diagonal(lu, jnp.where(jnp.abs(diagonal) > least, diagonal, least), inplace=False)
    return _solved_by_transpose(regular, order, _start(lu))


def _softest_of_few(scaled: Float[Array, "N N"]) -> Float[Array, " N"]:
    """The same, its diagonal moved by as much."""
    off = _tolerance(scaled) * jnp.max(jnp.abs(scaled)) * jnp.eye(len(scaled), dtype=scaled.dtype)
    return solved_by_pivots(scaled + off, jnp.ones_like(scaled[0]), _start(scaled), transposed=False)[0]


def _start(matrix: Float[Array, "N N"]) -> Float[Array, " N"]:
    """Any vector without symmetries."""
    return jnp.cos(jnp.arange(len(matrix), dtype=matrix.dtype))
