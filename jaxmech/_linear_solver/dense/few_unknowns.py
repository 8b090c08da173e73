"""Systems of few unknowns: factor and solution by one kernel, which takes several of a batch at once.

XLA:CPU calls LAPACK for one matrix after the other, three times, with a dozen operations around. Of four unknowns a kernel
takes 0.2 us for 1, and in a batch of 256 systems 0.014 for 0.27 (benchmarks/RESULTS.md). It makes the factor anew for each
right-hand side, of which a step has one, and its transpose another.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..._codegen import is_compiled, map_elements
from ..._runtime.array_types import Array, Float, Scalar
from ..._runtime.devices import on_cpu
from ..._runtime.element_compiler import element_form

MOST = 8  # unknowns: of twice as many LLVM takes six times as long as XLA, for what LAPACK does sooner where there is one


def are_few(unknowns: int) -> bool:
    """Whether a system of so many is solved here; what is carried out at once, and not compiled, is left to LAPACK."""
    return 0 < unknowns <= MOST and on_cpu() and is_compiled() and element_form() == "llvm"


def solved_by_pivots(
    matrix: Float[Array, "N N"], scale: Float[Array, " N"], b: Float[Array, " N"], *, transposed: bool
) -> tuple[Float[Array, " N"], Scalar, Scalar]:
    """`y` with `S A S y = S b`, or with the transposed matrix, and the least and the largest pivot: LU, rows exchanged."""
    return _by_kernel(_by_pivots_of_transpose if transposed else _by_pivots, matrix, scale, b)


def solved_by_root(matrix: Float[Array, "N N"], b: Float[Array, " N"]) -> tuple[Float[Array, " N"], Scalar]:
    """`y` with `A y = b` of a symmetric matrix, and the least pivot: Cholesky; NaN where it is not definite."""
    return _by_kernel(_by_root, matrix, b)


def shortest(
    matrix: Float[Array, "N N"], scale: Float[Array, " N"], b: Float[Array, " N"], tolerance: float
) -> Float[Array, " N"]:
    """`y` of the shortest `scale y` among those that solve `matrix y = b`, semidefinite: elimination by the largest pivot on
    the diagonal, as long as it is more than `tolerance` of the first.

    What is left is free: columns of the eliminated matrix say how the others follow, and the solution is made orthogonal to
    these motions, where eigenvectors would take iterations.
    """
    least, numbers = tolerance * jnp.max(jnp.diagonal(matrix)), jnp.arange(len(b))

    def eliminate(_: Any, at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rows, right, done = at
        diagonal = jnp.where(done, -jnp.inf, jnp.diagonal(rows))
        here, pivot = numbers == jnp.argmax(diagonal), jnp.max(diagonal)
        counts = pivot > least
        row, column = (jnp.sum(jnp.where(mask, rows, 0), axis=axis) for axis, mask in enumerate((here[:, None], here)))
        share = jnp.where(counts, (column - here) / jnp.where(counts, pivot, 1.0), 0.0)
        off = jnp.sum(jnp.where(here, right, 0))
        return rows - share[:, None] * row, right - share * off, done | (here & counts)

    rows, right, held = jax.lax.fori_loop(0, len(b), eliminate, (matrix, b, jnp.zeros(len(b), bool)))
    free = scale[:, None] * jnp.where(held, 0.0, jnp.eye(len(b), dtype=b.dtype) - jnp.where(held[:, None], rows, 0.0))
    x = scale * jnp.where(held, right, 0.0)
    share = _by_root(free.T @ free + jnp.diag(held.astype(b.dtype)), free.T @ x)[0]
    return (x - free @ share) / scale


def inverted(blocks: Float[Array, "n b b"]) -> Float[Array, "n b b"]:
    """The inverses of many; not finite where there is none."""
    return map_elements(_inverse, 0, blocks)


def _by_kernel(solve: Callable[..., tuple[Array, ...]], *arrays: Array) -> Any:
    of_one = map_elements(solve, 0, *(a[None] for a in arrays))
    return jax.tree.map(lambda a: a[0], of_one)


def _by_pivots(matrix: Array, scale: Array, b: Array) -> tuple[Array, Array, Array]:
    lu, y = _factor_and_solution(scale[:, None] * matrix * scale, (scale * b)[:, None])
    pivots = jnp.abs(jnp.diagonal(lu))
    return y[:, 0], jnp.min(pivots), jnp.max(pivots)


def _by_pivots_of_transpose(matrix: Array, scale: Array, b: Array) -> tuple[Array, Array, Array]:
    return _by_pivots(matrix.T, scale, b)


def _inverse(block: Array) -> Array:
    return _factor_and_solution(block, jnp.eye(len(block), dtype=block.dtype))[1]


def _factor_and_solution(A: Array, B: Array) -> tuple[Array, Array]:
    lu, _, order = jax.lax.linalg.lu(A)
    X = B.at[order].get(mode="promise_in_bounds", wrap_negative_indices=False)
    X = jax.lax.linalg.triangular_solve(lu, X, left_side=True, lower=True, unit_diagonal=True)
    return lu, jax.lax.linalg.triangular_solve(lu, X, left_side=True)


def _by_root(matrix: Array, b: Array) -> tuple[Array, Array]:
    root = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    y = jax.lax.linalg.triangular_solve(root, b[:, None], left_side=True, lower=True)
    y = jax.lax.linalg.triangular_solve(root, y, left_side=True, lower=True, transpose_a=True)
    return y[:, 0], jnp.min(jnp.diagonal(root)) ** 2
