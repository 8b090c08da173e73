"""The block Thomas algorithm: rods, cables and other chains, exactly and in linear time."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._math.small_matmul import times_vectors
from ..._runtime.array_types import Array, Float
from ..._runtime.precision import full_precision
from ..._sparse.block_matrix import BlockMatrix
from ..base.outcome import BREAKDOWN, FINE, NOT_A_CHAIN, SINGULAR, outcome
from ..base.vectors import norm

_REFINEMENTS = 2
_FEWEST = 64  # rounding units that a pivot needs to be a number, or as many as there are unknowns


class BlockTridiagonal(lx.AbstractLinearSolver):
    """Block LU without pivoting between nodes, in pure JAX, of a `BlockMatrix` whose nodes `i` touch `i - 1`
    and `i + 1` only.

    `S_i = D_i - L_i S_{i-1}^-1 U_{i-1}`, by `lax.scan`; `n b^3` operations, batches under `vmap`, for symmetric and
    unsymmetric matrices; two steps of refinement. SOFA's BTDLinearSolver. Raises `ValueError` for a matrix that couples two
    states; one that is not block tridiagonal ends in `RESULTS.not_block_tridiagonal`. A matrix whose pivots vanish ends in
    `RESULTS.singular`, with `stats["unconstrained_state"]` as for `Dense`; one that needs pivoting between nodes, which only
    an indefinite one can, in `RESULTS.breakdown`. Right-hand sides batched by `vmap` share one factor.
    Source: G. H. Golub and C. F. Van Loan, *Matrix Computations*, 4th ed., 2013, ISBN 978-1-4214-0794-4, section 4.5.
    `stats["residual"]` in the unit of `b`, [N] say.

    Example:

        cells = np.array([[0, 1], [1, 2]])  # a chain
        K = jm.matrix.assemble(cells, lambda x: jnp.array([[2.0, -1.0], [-1.0, 2.0]]), np.zeros((3, 1)))
        chain = jm.matrix.BlockMatrix.from_entries({("p", "p"): K}, symmetric=True)
        x = lx.linear_solve(chain, {"p": jnp.ones((3, 1))}, jm.solver.BlockTridiagonal()).value["p"]
        assert jnp.allclose(K.mv(x), 1.0)
    """

    @full_precision
    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        if not isinstance(operator, BlockMatrix):
            raise ValueError(
                f"BlockTridiagonal factorises a BlockMatrix, not a {type(operator).__name__}: use MatrixLinearSystem."
            )
        _refuse_other_patterns(operator)
        # A pattern is data, which lineax traces: what stands beside the three diagonals is told at run time.
        stray = jnp.stack([_strays(operator.entries[s, s]) for s, _, _ in operator.sizes])
        factors = {s: _factored(operator.entries[s, s]) for s, _, _ in operator.sizes}
        return factors, jnp.any(stray), False

    @full_precision
    def compute(self, state, vector, options: dict[str, Any]):
        del options
        factors, stray, transposed = state

        def refine(_: Array, carry: Any) -> Any:
            x, r = carry
            x = {s: x[s] + factors[s].solve(r[s], transposed) for s in x}
            return x, {s: vector[s] - factors[s].product(x[s], transposed) for s in x}

        x, r = jax.lax.fori_loop(0, 1 + _REFINEMENTS, refine, (jax.tree.map(jnp.zeros_like, vector), vector))
        softness = jnp.stack([jnp.max(factors[s].softness) for s in sorted(factors)])
        eps, size = jnp.finfo(softness.dtype).eps, sum(a.size for a in vector.values())
        singular = ~(jnp.max(softness) < 1 / (max(size, _FEWEST) * eps))
        left = norm({s: r[s] * factors[s].scale for s in r})
        scale = norm({s: vector[s] * factors[s].scale for s in r}) + norm({s: x[s] / factors[s].scale for s in x})
        flaw = jnp.where(left <= jnp.sqrt(eps) * scale, FINE, BREAKDOWN)
        flaw = jnp.where(singular, SINGULAR, flaw)
        result, reason = outcome(jnp.where(stray, NOT_A_CHAIN, flaw))
        unconstrained = jnp.argmax(jnp.where(jnp.isnan(softness), jnp.inf, softness)).astype(jnp.int32)
        stats = {
            "num_steps": jnp.zeros((), jnp.int32),
            "residual": norm(r),
            "unconstrained_state": jnp.where(singular & ~stray, unconstrained, -1),
            "reason": reason,
        }
        return x, result, stats

    def transpose(self, state, options: dict[str, Any]):
        factors, stray, transposed = state
        return (factors, stray, not transposed), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


def _refuse_other_patterns(matrix: BlockMatrix) -> None:
    for row, column in matrix.entries:
        if row != column:
            raise ValueError(f"BlockTridiagonal: the matrix couples states '{row}' and '{column}': use SparseDirect.")


def _strays(entry: Any) -> Array:
    """Whether a block that is not nil stands beside the three diagonals."""
    beside = jnp.abs(entry.pattern.rows - entry.pattern.columns) > 1
    return jnp.any(beside[:, None, None] & (entry.values != 0))


class _Factor(eqx.Module):
    """`A = (S + L)(1 + C)` of the matrix scaled to a diagonal of ones: `C_i = S_i^-1 U_i`."""

    diagonal: Float[Array, "n b b"]
    lower: Float[Array, "n b b"]  # the block left of the diagonal one, nil in the first row
    upper: Float[Array, "n b b"]
    inverse: Float[Array, "n b b"]
    ahead: Float[Array, "n b b"]  # C
    scale: Float[Array, "n b"]
    softness: Float[Array, " n"]  # the largest entry of S_i^-1

    def product(self, x: Float[Array, "n b"], transposed: bool) -> Float[Array, "n b"]:
        """`A x`, or `A^T x`, of the matrix as it was."""
        x = x / self.scale
        nil = jnp.zeros_like(x[:1])
        before, after = jnp.concatenate([nil, x[:-1]]), jnp.concatenate([x[1:], nil])
        if transposed:
            left, right = times_vectors(self.upper.swapaxes(1, 2), x), times_vectors(self.lower.swapaxes(1, 2), x)
            y = times_vectors(self.diagonal.swapaxes(1, 2), x) + jnp.concatenate([nil, left[:-1]])
            return (y + jnp.concatenate([right[1:], nil])) / self.scale
        y = times_vectors(self.diagonal, x) + times_vectors(self.lower, before) + times_vectors(self.upper, after)
        return y / self.scale

    def solve(self, b: Float[Array, "n b"], transposed: bool) -> Float[Array, "n b"]:
        """`A^-1 b`, or `A^-T b`."""
        forward, backward = (_solve_down_T, _solve_up_T) if transposed else (_solve_down, _solve_up)
        nil = jnp.zeros_like(b[0])
        y = jax.lax.scan(forward, (nil, jnp.zeros_like(self.ahead[0])), (self.scale * b, self))[1]
        x = jax.lax.scan(backward, (nil, jnp.zeros_like(self.lower[0])), (y, self), reverse=True)[1]
        return self.scale * x


def _solve_down(carry: Any, row: Any) -> Any:
    b, f = row
    y = f.inverse @ (b - f.lower @ carry[0])
    return (y, f.ahead), y


def _solve_up(carry: Any, row: Any) -> Any:
    y, f = row
    x = y - f.ahead @ carry[0]
    return (x, f.lower), x


def _solve_down_T(carry: Any, row: Any) -> Any:
    b, f = row
    y = b - carry[1].T @ carry[0]
    return (y, f.ahead), y


def _solve_up_T(carry: Any, row: Any) -> Any:
    y, f = row
    x = f.inverse.T @ (y - carry[1].T @ carry[0])
    return (x, f.lower), x


def _factored(entry: Any) -> _Factor:
    rows, columns, values, n = entry.pattern.rows, entry.pattern.columns, entry.values, entry.pattern.shape[0]
    D = entry.diagonal

    def beside(shift: int) -> Array:
        where = jnp.where(columns == rows + shift, rows, n)
        return jnp.zeros_like(D).at[where].set(values, mode="drop", unique_indices=False)

    L, U = beside(-1), beside(1)
    size = jnp.sqrt(jnp.abs(jnp.diagonal(D, axis1=1, axis2=2)))
    scale = jnp.where(size > 0, 1 / jnp.where(size > 0, size, 1), 1)
    nil = jnp.ones_like(scale[:1])
    before, after = jnp.concatenate([nil, scale[:-1]]), jnp.concatenate([scale[1:], nil])
    D = scale[:, :, None] * D * scale[:, None, :]
    L = scale[:, :, None] * L * before[:, None, :]
    U = scale[:, :, None] * U * after[:, None, :]

    def eliminate(C: Array, row: Any) -> Any:
        D, L, U = row
        inverse = jnp.linalg.inv(D - L @ C)
        C = inverse @ U
        return C, (inverse, C)

    inverse, ahead = jax.lax.scan(eliminate, jnp.zeros_like(D[0]), (D, L, U))[1]
    return _Factor(D, L, U, inverse, ahead, scale, jnp.max(jnp.abs(inverse), axis=(1, 2)))
