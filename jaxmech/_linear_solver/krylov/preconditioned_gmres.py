"""GMRES preconditioned by solves with a nearby matrix."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
from jax.flatten_util import ravel_pytree

from ..._runtime.array_types import Array
from ..._sparse.block_matrix import BlockMatrix
from ..base.vectors import norm


def gmres_of_any_unit(
    product: Callable[[Array], Array],
    b: Array,
    near: Callable[[Array], Array],
    *,
    rtol: float,
    restart: int,
    max_restarts: int,
) -> Array:
    """JAX's GMRES, preconditioned by `near`, for right-hand sides of any length.

    It takes what is shorter than eps for nil, whatever its unit: it is given what has a solution of about 1.
    """
    size = jnp.linalg.norm(near(b))
    scale = jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)
    limits = {"tol": rtol, "atol": 0.0, "restart": restart, "maxiter": max_restarts}
    return scale * jax.scipy.sparse.linalg.gmres(product, b / scale, M=near, **limits)[0]


class Nearby(lx.AbstractLinearSolver):
    """GMRES preconditioned by `solver` on the operator `near`: a few products where the two differ little.

    For an operator that is known by its products only, next to a matrix that is almost the same. Ends in
    `RESULTS.stagnation` where the residual stays above `1e3 eps (|b| + |A| |x|)`, `|A|` the largest entry of `near`.
    Y. Saad and M. H. Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856, doi 10.1137/0907058.
    """

    near: lx.AbstractLinearOperator
    solver: lx.AbstractLinearSolver
    restart: int = 5  # JAX's GMRES always runs a cycle to its end
    max_restarts: int = 20

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        return operator, self.solver.init(self.near, options)

    def compute(self, state, vector, options: dict[str, Any]):
        operator, near = state
        eps = float(jnp.finfo(jnp.result_type(*jax.tree.leaves(vector))).eps)
        # One array: JAX's GMRES fails in a batch whose parts carry their batch axis at different places.
        flat, unravel = ravel_pytree(vector)

        @jax.jit  # which JAX's GMRES asks for in several places, and so does the other
        def precondition(r: Array) -> Array:
            return ravel_pytree(self.solver.compute(near, unravel(r), options)[0])[0]

        @jax.jit
        def product(x: Array) -> Array:
            return ravel_pytree(operator.mv(unravel(x)))[0]

        limits = {"rtol": 16 * eps, "restart": self.restart, "max_restarts": self.max_restarts}
        x = unravel(gmres_of_any_unit(product, flat, precondition, **limits))
        reached = unravel(product(ravel_pytree(x)[0]))
        residual = norm({s: vector[s] - reached[s] for s in vector})
        R = lx.RESULTS
        result = R.where(residual <= 1e3 * eps * (norm(vector) + self._scale() * norm(x)), R.successful, R.stagnation)
        return x, result, {"num_steps": jnp.zeros((), jnp.int32), "residual": residual}

    def _scale(self) -> Array | float:
        """The size of the numbers whose rounding no iteration can undo."""
        return jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in self._entries()])) if self._entries() else 0.0

    def _entries(self) -> list[Array]:
        if not isinstance(self.near, BlockMatrix):
            return []
        return [entry.values for entry in self.near.entries.values() if entry.values.size]

    def transpose(self, state, options: dict[str, Any]):
        operator, near = state
        return (operator.transpose(), self.solver.transpose(near, options)[0]), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True
