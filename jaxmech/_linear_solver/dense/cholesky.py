"""The dense Cholesky factorisation."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx
from jax.flatten_util import ravel_pytree

from ..._runtime.precision import full_precision
from ..base.outcome import FINE, INDEFINITE, SINGULAR, UNSYMMETRIC, outcome
from .whole_matrix import SINGULAR_PIVOT, asymmetric, loosest, needs_symmetry, residual_norm, scaling

_SHIFT = 1e3  # rounding units per row: what a semi-definite matrix lacks to be definite, and an indefinite one does not


class Cholesky(lx.AbstractLinearSolver):
    """Dense Cholesky `A = L L^T` of a symmetric positive definite operator: half the work of `Dense`.

    SOFA's CholeskySolver. Raises `ValueError` for an operator that is not declared symmetric. One that is not, though
    declared, ends in the reason `RESULTS.unsymmetric`, one that is not definite in `RESULTS.indefinite`, a singular one in
    `RESULTS.singular` with `stats["unconstrained_state"]` as for `Dense`. Right-hand sides batched by `vmap` share one
    factor. `stats["residual"]` in the unit of `b`, [N] say.
    Source: G. H. Golub and C. F. Van Loan, *Matrix Computations*, 4th ed., 2013, ISBN 978-1-4214-0794-4, section 4.2.

    Example:

        x = lx.linear_solve(A, b, jm.solver.Cholesky()).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
    """

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        needs_symmetry("Cholesky", operator, "Dense or SparseDirect")
        matrix = operator.as_matrix()
        scale = scaling(matrix, operator.as_matrix)
        scaled = scale[:, None] * matrix * scale
        factor = jnp.linalg.cholesky(scaled)
        pivots = jnp.diagonal(factor)
        eps, size = jnp.finfo(matrix.dtype).eps, matrix.shape[0]
        failed = ~jnp.all(jnp.isfinite(pivots))
        tiny = ~(jnp.min(pivots) ** 2 > SINGULAR_PIVOT * size * eps * jnp.max(pivots) ** 2)
        # The factor of a matrix a little stiffer tells a semi-definite matrix from an indefinite one.
        shifted = scaled + _SHIFT * size * eps * jnp.eye(size, dtype=matrix.dtype)
        soft = jax.lax.cond(failed | tiny, lambda: jnp.linalg.cholesky(shifted), lambda: factor)
        semidefinite = jnp.all(jnp.isfinite(jnp.diagonal(soft)))
        flaw = jnp.where(tiny, SINGULAR, FINE)
        flaw = jnp.where(failed & ~semidefinite, INDEFINITE, flaw)
        flaw = jnp.where(asymmetric(matrix), UNSYMMETRIC, flaw).astype(jnp.int32)
        start = jnp.cos(jnp.arange(size, dtype=matrix.dtype))
        return factor, scale, matrix, flaw, scale * jsl.cho_solve((soft, True), start)

    @full_precision
    def compute(self, state, vector, options: dict[str, Any]):
        del options
        factor, scale, matrix, flaw, null = state
        b, unravel = ravel_pytree(vector)
        x = scale * jsl.cho_solve((factor, True), scale * b)
        result, reason = outcome(flaw, finite=jnp.all(jnp.isfinite(x)))
        return (
            unravel(x),
            result,
            {
                "num_steps": jnp.zeros((), jnp.int32),
                "residual": residual_norm(matrix, x, b, transposed=False),
                "unconstrained_state": jnp.where(flaw == SINGULAR, loosest(unravel(null)), -1),
                "reason": reason,
            },
        )

    def transpose(self, state, options: dict[str, Any]):
        return state, options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True
