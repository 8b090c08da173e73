"""The dense singular value decomposition."""

from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
from jax.flatten_util import ravel_pytree

from ..._runtime.argument_checks import check_tolerances
from ..._runtime.precision import full_precision
from ..base.outcome import FINE, outcome
from .whole_matrix import residual_norm


class SVD(lx.AbstractLinearSolver):
    """The shortest `x` that minimises `|b - A x|`: the pseudo-inverse, for singular and nearly singular operators.

    Singular values below `rcond` times the largest count as nil; `rcond=None` takes the rounding unit times the size.
    `stats`: `rank`, `condition` (the largest singular value over the smallest, infinite for a singular matrix),
    `residual`, which a right-hand side out of reach leaves above nil, `reason`. Never fails on a matrix that is finite:
    look at `rank`. SOFA's SVDLinearSolver, with an `rcond` that is relative. Derivatives are those of the pseudo-inverse
    at constant rank (see the source). Raises nothing but for what is not finite; `stats["residual"]` in the unit of `b`, [N]
    say.
    Source: G. H. Golub and V. Pereyra, SIAM J. Numer. Anal. 10 (1973) 413, doi:10.1137/0710036.

    Example:

        flat = lx.MatrixLinearOperator(jnp.array([[1.0, 0.0], [0.0, 0.0]]))  # singular
        x = lx.linear_solve(flat, jnp.array([2.0, 0.0]), jm.solver.SVD()).value
        assert jnp.allclose(x, jnp.array([2.0, 0.0]))
    """

    rcond: float | None = None

    def __check_init__(self):
        check_tolerances("SVD", rcond=self.rcond)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        matrix = operator.as_matrix()
        u, s, vt = jnp.linalg.svd(matrix, full_matrices=False)
        return (u, s, vt), matrix, False

    @full_precision
    def compute(self, state, vector, options: dict[str, Any]):
        del options
        (u, s, vt), matrix, transposed = state
        if transposed:
            u, vt = vt.T, u.T
        b, _ = ravel_pytree(vector)
        rcond = max(matrix.shape) * jnp.finfo(s.dtype).eps if self.rcond is None else self.rcond
        kept = s > rcond * jnp.max(s)
        x = vt.T @ (jnp.where(kept, 1 / jnp.where(kept, s, 1), 0) * (u.T @ b))
        smallest = jnp.min(s)
        condition = jnp.where(smallest > 0, jnp.max(s) / jnp.where(smallest > 0, smallest, 1), jnp.inf)
        result, reason = outcome(jnp.int32(FINE), finite=jnp.all(jnp.isfinite(x)))
        stats = {
            "num_steps": jnp.zeros((), jnp.int32),
            "residual": residual_norm(matrix, x, b, transposed=transposed),
            "rank": jnp.sum(kept).astype(jnp.int32),
            "condition": condition,
            "reason": reason,
        }
        return _shaped(x, vector), result, stats

    def transpose(self, state, options: dict[str, Any]):
        factors, matrix, transposed = state
        return (factors, matrix, not transposed), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return False


def _shaped(x: Any, like: Any) -> Any:
    """A flat vector in the shape of another: the operators of mechanics are square."""
    _, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, like))
    return unravel(x)
