"""Linear systems `(P + B W D) x = b`, `P` and `B` a block for each contact: what Newton's methods solve."""

from collections.abc import Callable

import jax.numpy as jnp
import jax.scipy.linalg as jsl

from .._linear_solver.krylov.preconditioned_gmres import gmres_of_any_unit
from .._runtime.array_types import Array

LOST = 1e-13  # added to the diagonal, relative to `P`: impulses that nothing determines stay where they are


def block_solver(product: Callable[[Array], Array], W: Array | None, P: Array, B: Array, D: Array) -> Callable:
    """`b -> x`, one factor for as many right-hand sides as there are; without `W`, by GMRES with products."""
    n = P.shape[0]
    if W is not None:
        M = jnp.einsum("nij,njmk->nimk", B, W.reshape(n, 3, n, 3)) * D
        at = jnp.arange(n)
        M = M.at[at, :, at].add(P).reshape(3 * n, 3 * n)
        M = M + LOST * jnp.eye(3 * n, dtype=M.dtype)
        factor = jsl.lu_factor(M)
        return lambda b: jsl.lu_solve(factor, b.reshape(-1)).reshape(b.shape)
    near = jnp.linalg.inv(P + B * D[:, None, :] + LOST * jnp.eye(3, dtype=P.dtype))  # as if W were the identity

    def times(x: Array) -> Array:
        return jnp.einsum("nij,nj->ni", P, x) + jnp.einsum("nij,nj->ni", B, product(D * x))

    def solve(b: Array) -> Array:
        precondition = lambda r: jnp.einsum("nij,nj->ni", near, r)  # noqa: E731
        return gmres_of_any_unit(times, b, precondition, rtol=1e-13, restart=60, max_restarts=10)

    return solve
