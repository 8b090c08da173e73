"""GMRES preconditioned by solves with a nearby matrix."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._runtime.array_types import Array, structure_of
from ..._sparse.block_matrix import BlockMatrix, magnitude
from ..base.outcome import FINE
from ..base.vectors import Vector, dtype_of, minus, norm
from ..preconditioner.none import NoPreconditioner
from .gmres import GMRES
from .iteration import KrylovState

_ROUNDED = 16.0  # rounding units that a preconditioned residual is asked to be, or as near to it as rounding allows


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

    For an operator that is known by its products only, next to a matrix that is almost the same. Stops where rounding keeps
    the preconditioned residual from falling: a handful of steps, whatever the number of unknowns. Ends in
    `RESULTS.stagnation` where the residual stays above `1e3 eps (|b| + |A| |x|)`, `|A|` the largest entry of `near`.
    Y. Saad and M. H. Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856, doi 10.1137/0907058.
    """

    near: lx.AbstractLinearOperator
    solver: lx.AbstractLinearSolver
    restart: int = 30
    max_steps: int = 100
    rtol: float | None = None  # of the preconditioned residual; rounding unless given
    # By state, `(d,)`: what each component is measured in where they are of different kinds; residuals in its inverse.
    units: dict[str, Array] = eqx.field(default_factory=dict)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        return operator, self.solver.init(self.near, options)

    def compute(self, state, vector, options: dict[str, Any]):
        operator, near = state
        eps = float(jnp.finfo(dtype_of(vector)).eps)

        @jax.jit
        def nearly(r: Vector) -> Vector:
            return self.solver.compute(near, r, options)[0]

        # From the left: residuals are then of the units of the solution, in which they are worth comparing.
        def preconditioned_product(y: Vector) -> Vector:
            return self._measured(nearly(operator.mv(self._times_units(y))))

        preconditioned = lx.FunctionLinearOperator(preconditioned_product, structure_of(vector), closure_convert=False)
        start = self._measured(nearly(vector))
        size = norm(start)
        scale = jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)  # whose square is no number, maybe
        start = jax.tree.map(lambda a: a / scale, start)
        given = KrylovState(
            preconditioned, NoPreconditioner().build(operator), None, jax.tree.map(jnp.ones_like, start), jnp.int32(FINE)
        )
        gmres = GMRES(_ROUNDED * eps if self.rtol is None else self.rtol, max_steps=self.max_steps, restart=self.restart)
        x, _, said = gmres.compute(given, start, {})
        x = self._times_units(jax.tree.map(lambda a: scale * a, x))
        residual, of_vector = (norm(self._times_units(f)) for f in (minus(vector, operator.mv(x)), vector))
        R = lx.RESULTS
        result = R.where(residual <= 1e3 * eps * (of_vector + self._terms(x)), R.successful, R.stagnation)
        return x, result, {"num_steps": said["num_steps"], "residual": residual}

    def _terms(self, x: Vector) -> Array | float:
        """The size of the numbers that `A x` is a sum of, whose rounding no iteration can undo."""
        if not isinstance(self.near, BlockMatrix):
            return 0.0
        entries = [entry.values for entry in self.near.entries.values() if entry.values.size]
        if not self.units:
            return jnp.max(jnp.stack([jnp.max(jnp.abs(values)) for values in entries])) * norm(x) if entries else 0.0
        # The largest entry tells nothing where there are several units, of what is held among them.
        return norm(self._times_units(magnitude(self.near).mv(jax.tree.map(jnp.abs, x))))

    def _times_units(self, y: Vector) -> Vector:
        return {s: a * self.units[s] if s in self.units else a for s, a in y.items()} if self.units else y

    def _measured(self, x: Vector) -> Vector:
        return {s: a / self.units[s] if s in self.units else a for s, a in x.items()} if self.units else x

    def transpose(self, state, options: dict[str, Any]):
        operator, near = state
        return (operator.transpose(), self.solver.transpose(near, options)[0]), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True
