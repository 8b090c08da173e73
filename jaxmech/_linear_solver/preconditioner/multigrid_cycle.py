"""One W-cycle, symmetric: the same smoothing before and after each coarse correction, twice on all levels but the finest.

Coarse levels are small, and what one pass leaves of them costs a fifth of the steps of conjugate gradients.
"""

from collections.abc import Callable
from typing import Any

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
_WRITTEN_OUT = 3  # steps; more are a loop, which is compiled once
_SPECTRUM = 20.0  # Chebyshev damps what is between the largest eigenvalue and this fraction of it


class Transfer(eqx.Module):
    """From a level to the next and back, and the largest eigenvalue of `D^-1 A`: what other values may keep."""

    largest: Array
    up: Float[Array, "p b m"]
    down: Float[Array, "p m b"]


class Numbers(eqx.Module):
    """What is computed of a matrix: of every level its values and the inverse of its diagonal; `transfers`, unless kept."""

    levels: tuple[tuple[Float[Array, "z b b"], Float[Array, "n b b"]], ...]
    transfers: tuple[Transfer, ...] | None
    coarsest: Float[Array, "N N"]
    scale: Array


class CycleLevel(eqx.Module):
    """What a cycle reads of a level."""

    values: Float[Array, "z b b"]
    pattern: BlockPattern
    inverse: Float[Array, "n b b"]
    transfer: Transfer
    plan: AggregationLevel

    @property
    def largest(self) -> Array:
        return self.transfer.largest

    def mv(self, x: Array) -> Array:
        return product(self.values, self.pattern, x)

    def restricted(self, r: Array) -> Array:
        """To the next level."""
        return product(self.transfer.down, self.plan.restriction, r)

    def prolonged(self, coarse: Array) -> Array:
        """From the next level."""
        return product(self.transfer.up, self.plan.prolongation, coarse)


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

        def one_pass(r: Array) -> Array:
            return cycle(level, r, lambda coarse: self._corrected(coarse, depth + 1), self.smoothing, self.smoother)

        if depth == 0:
            return one_pass(r)
        # A loop, which is compiled once: written out, every level would stand there twice as often as the one before.
        return jax.lax.fori_loop(0, 2, lambda _, x: x + one_pass(r - level.mv(x)), jnp.zeros_like(r))


def cycle(level: Any, r: Array, below: Callable[[Array], Array], smoothing: int, smoother: str) -> Array:
    """What one cycle makes of `A x = r`, from nil, with `below` for all coarser levels.

    Of `level` it takes products, transfers, the inverse of the diagonal, and the largest eigenvalue of `D^-1 A`.
    """
    x, r = _smoothed(level, r, smoothing, smoother)
    r = r - level.mv(x[1])
    e = level.prolonged(below(level.restricted(r)))
    y, _ = _smoothed(level, r - level.mv(e), smoothing, smoother)
    return x[0] + e + y[0]


def _smoothed(level: Any, r: Array, smoothing: int, smoother: str) -> tuple[tuple[Array, Array], Array]:
    """Steps on `A x = r` from nil: `x`, the last of its steps, and the residual before that one.

    Y. Saad, Iterative Methods for Sparse Linear Systems, SIAM 2003, algorithm 12.1, with `D^-1 A` for `A`.
    """
    top, bottom = 1.1 * level.largest, level.largest / _SPECTRUM
    theta, delta = (top + bottom) / 2, (top - bottom) / 2
    if smoother != "chebyshev":
        theta, delta = level.largest * 3 / 4, jnp.zeros_like(delta)

    def step(_: Any, carry: Any) -> Any:
        x, d, r, rho = carry
        r = r - level.mv(d)
        z = times_vectors(level.inverse, r)
        if smoother == "chebyshev":
            new = 1 / (2 * theta / delta - rho)
            d, rho = new * rho * d + 2 * new / delta * z, new
        else:
            d = z / theta
        return x + d, d, r, rho

    d = times_vectors(level.inverse, r) / theta
    carry = d, d, r, delta / theta
    if smoothing > _WRITTEN_OUT:
        carry = jax.lax.fori_loop(1, smoothing, step, carry)
    else:
        for number in range(1, smoothing):
            carry = step(number, carry)
    x, d, r, _ = carry
    return (x, d), r


def hierarchy_numbers(
    plan: tuple[AggregationLevel, ...],
    matrix: BlockSparse,
    modes: Float[Array, "n b m"],
    *,
    smoother: str,
    dtype: jnp.dtype,
    kept: tuple[Transfer, ...] | None = None,
) -> Numbers:
    """Of the levels of a matrix, with the transfers of another one if there are any."""
    matrix = jax.lax.stop_gradient(matrix)
    size = jnp.max(jnp.abs(matrix.diagonal))
    scale = jnp.where(size > 0, size, 1)
    modes = modes if kept is not None else without_isolated(matrix, modes)
    levels, transfers = [], []
    for number, level in enumerate(plan):
        inverse = diagonal_inverse(matrix.diagonal, points=smoother == "jacobi")
        low, low_inverse = (matrix.values / scale).astype(dtype), (inverse * scale).astype(dtype)
        if kept is None:
            largest = largest_eigenvalue(BlockSparse(low, matrix.pattern).mv, low_inverse)
            up, modes = prolongation(level, matrix, inverse, largest.astype(inverse.dtype), modes)
            up = up.astype(dtype)
            transfers.append(Transfer(largest, up, restriction(level, up)))
        else:
            up = kept[number].up
        levels.append((low, low_inverse))
        matrix = coarse_matrix(level, matrix, up)
    inverse = dense_inverse(BlockSparse(matrix.values / scale, matrix.pattern)).astype(dtype)
    return Numbers(tuple(levels), None if kept is not None else tuple(transfers), inverse, scale)


def hierarchy(
    plan: tuple[AggregationLevel, ...],
    pattern: BlockPattern,
    numbers: Numbers,
    *,
    smoothing: int,
    smoother: str,
    kept: tuple[Transfer, ...] | None = None,
) -> Hierarchy:
    """Numbers where they belong, with the transfers that were `kept`. Nothing is copied: a program's results would be."""
    transfers = kept if numbers.transfers is None else numbers.transfers
    assert transfers is not None
    patterns = [pattern, *(level.coarse for level in plan)][: len(plan)]
    parts = zip(numbers.levels, patterns, transfers, plan, strict=True)
    levels = tuple(CycleLevel(values, at, inverse, transfer, level) for (values, inverse), at, transfer, level in parts)
    return Hierarchy(levels, numbers.coarsest, numbers.scale, smoothing, smoother)
