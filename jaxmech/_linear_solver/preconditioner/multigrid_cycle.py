"""One V-cycle, symmetric: the same smoothing before and after each coarse correction."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._math.small_matmul import times_vectors
from ..._runtime.array_types import Array, Float
from ..._sparse.block_sparse import BlockSparse
from ..._sparse.pattern import BlockPattern
from .aggregation import AggregationLevel
from .multigrid_values import (
    coarse_matrix,
    dense_inverse,
    diagonal_inverse,
    largest_eigenvalue,
    product,
    prolongation,
    restriction,
    without_isolated,
)

SMOOTHERS = ("chebyshev", "block_jacobi", "jacobi")
_SPECTRUM = 20.0  # Chebyshev damps what is between the largest eigenvalue and this fraction of it


class CycleLevel(eqx.Module):
    """What a cycle reads of a level."""

    values: Float[Array, "z b b"]
    pattern: BlockPattern
    inverse: Float[Array, "n b b"]
    largest: Array
    up: Float[Array, "p b m"]
    down: Float[Array, "p m b"]
    plan: AggregationLevel

    def mv(self, x: Array) -> Array:
        return product(self.values, self.pattern, x)


class Hierarchy(eqx.Module):
    """The levels of one matrix, of numbers of the type of its cycle, scaled by `scale`."""

    levels: tuple[CycleLevel, ...]
    coarsest: Float[Array, "N N"]
    scale: Array
    smoothing: int = eqx.field(static=True)
    smoother: str = eqx.field(static=True)

    def __call__(self, r: Float[Array, "n b"]) -> Float[Array, "n b"]:
        """`M^-1 r`. Numbers of 32 bits reach no further than 1e-38: residuals are brought to one."""
        size = jnp.max(jnp.abs(r))
        size = jnp.where(size > 0, size, 1)
        found = self._corrected((r / size).astype(self.coarsest.dtype), 0)
        return found.astype(r.dtype) * (size / self.scale)

    def _corrected(self, r: Array, depth: int) -> Array:
        if depth == len(self.levels):
            return (self.coarsest @ r.reshape(-1)).reshape(r.shape)
        level = self.levels[depth]
        x, r = self._smoothed(level, r)
        r = r - level.mv(x[1])
        coarse = self._corrected(product(level.down, level.plan.restriction, r), depth + 1)
        e = product(level.up, level.plan.prolongation, coarse)
        y, _ = self._smoothed(level, r - level.mv(e))
        return x[0] + e + y[0]

    def _smoothed(self, level: CycleLevel, r: Array) -> tuple[tuple[Array, Array], Array]:
        """Steps on `A x = r` from nil: `x`, the last of its steps, and the residual before that one.

        Y. Saad, Iterative Methods for Sparse Linear Systems, SIAM 2003, algorithm 12.1, with `D^-1 A` for `A`.
        """
        top, bottom = 1.1 * level.largest, level.largest / _SPECTRUM
        theta, delta = (top + bottom) / 2, (top - bottom) / 2
        if self.smoother != "chebyshev":
            theta, delta = level.largest * 3 / 4, jnp.zeros_like(delta)
        d = times_vectors(level.inverse, r) / theta
        x, rho = d, delta / theta
        for _ in range(self.smoothing - 1):
            r = r - level.mv(d)
            z = times_vectors(level.inverse, r)
            if self.smoother == "chebyshev":
                new = 1 / (2 * theta / delta - rho)
                d, rho = new * rho * d + 2 * new / delta * z, new
            else:
                d = z / theta
            x = x + d
        return (x, d), r


def hierarchy(
    plan: tuple[AggregationLevel, ...],
    matrix: BlockSparse,
    modes: Float[Array, "n b m"],
    *,
    smoothing: int,
    smoother: str,
    dtype: jnp.dtype,
    kept: Hierarchy | None = None,
) -> Hierarchy:
    """The levels of a matrix. With those of another one, its prolongations are `kept`."""
    matrix = jax.lax.stop_gradient(matrix)
    size = jnp.max(jnp.abs(matrix.diagonal))
    scale = jnp.where(size > 0, size, 1)
    modes = modes if kept is not None else without_isolated(matrix, modes)
    levels = []
    for number, level in enumerate(plan):
        inverse = diagonal_inverse(matrix, points=smoother == "jacobi")
        low, low_inverse = (matrix.values / scale).astype(dtype), (inverse * scale).astype(dtype)
        if kept is None:
            largest = largest_eigenvalue(BlockSparse(low, matrix.pattern), low_inverse)
            up, modes = prolongation(level, matrix, inverse, largest.astype(inverse.dtype), modes)
            low_up, down = up.astype(dtype), restriction(level, up)
        else:
            own = kept.levels[number]
            largest, low_up = own.largest, own.up
            up, down = own.up.astype(inverse.dtype), own.down.astype(inverse.dtype)
        levels.append(CycleLevel(low, matrix.pattern, low_inverse, largest, low_up, down.astype(dtype), level))
        matrix = coarse_matrix(level, matrix, up, down)
    matrix = BlockSparse(matrix.values / scale, matrix.pattern)
    inverse = dense_inverse(matrix).astype(dtype)
    return Hierarchy(tuple(levels), inverse, scale, smoothing, smoother)
