"""Algebraic multigrid by smoothed aggregation: set up on the host, applied in JAX."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from ..._math.small_matmul import times_vectors
from ..._runtime.argument_checks import check_counts, check_instance, real_array
from ..._runtime.array_types import Array, Float
from ..._runtime.results import is_traced
from ..._sparse.block_matrix import BlockMatrix
from ..base.outcome import FINE
from .aggregation import aggregated_levels, rigid_body_modes
from .base import AbstractApplied, AbstractPreconditioner
from .padded import Padded

_COARSEST = 300  # unknowns that are left to a dense inverse
_SPECTRUM = 20.0  # the smoother damps what is between the largest eigenvalue and this fraction of it


class _Level(eqx.Module):
    matrix: Padded
    inverse: Float[Array, "n b b"]
    largest: Array
    down: Padded  # the transposed prolongation
    up: Padded


class _Hierarchy(eqx.Module):
    """One V-cycle, symmetric: Chebyshev smoothing before and after."""

    levels: tuple[_Level, ...]
    coarsest: Float[Array, "N N"]
    smoothing: int = eqx.field(static=True)
    size: tuple[int, int] = eqx.field(static=True)

    def __call__(self, r: Float[Array, "n b"], depth: int = 0) -> Float[Array, "n b"]:
        if depth == len(self.levels):
            return (self.coarsest @ r.reshape(-1)).reshape(r.shape)
        level = self.levels[depth]
        x, r = _smoothed(level, jnp.zeros_like(r), r, jnp.zeros_like(r), self.smoothing)
        e = level.up.mv(self(level.down.mv(r), depth + 1))
        return _smoothed(level, x, r, e, self.smoothing)[0]


def _smoothed(level: _Level, x: Array, r: Array, d: Array, steps: int) -> tuple[Array, Array]:
    """`x + d` and then Chebyshev steps on what is left of the residual `r` of `x`: the new `x` and its residual.

    Y. Saad, Iterative Methods for Sparse Linear Systems, SIAM 2003, algorithm 12.1, with `D^-1 A` for `A`.
    """
    top, bottom = 1.1 * level.largest, level.largest / _SPECTRUM
    theta, delta = (top + bottom) / 2, (top - bottom) / 2
    sigma = theta / delta

    def step(i: Array, carry: Any) -> Any:
        x, r, d, last, rho = carry
        x, r = x + d, r - level.matrix.mv(d)
        z = times_vectors(level.inverse, r)
        first = i == 0
        new = jnp.where(first, 1 / sigma, 1 / (2 * sigma - rho))
        p = jnp.where(first, z / theta, new * rho * last + 2 * new / delta * z)
        return x, r, p, p, new

    x, r, d, _, _ = jax.lax.fori_loop(0, steps, step, (x, r, d, jnp.zeros_like(d), jnp.zeros((), r.dtype)))
    return x + d, r - level.matrix.mv(d)


class SmoothedAggregation(AbstractPreconditioner):
    """Algebraic multigrid by smoothed aggregation with rigid-body modes, for symmetric positive definite matrices.

    Made of one concrete matrix, on the host, with pyamg (extra `amg`), by `from_matrix`; applied in JAX, so that it runs
    under `jit`, `vmap` and on accelerators. It may serve other matrices near that one: it is not made again.
    Source: P. Vanek, J. Mandel, M. Brezina, Computing 56 (1996) 179, doi:10.1007/BF02238511.
    `from_matrix` raises `ImportError` without pyamg, `ValueError` for a matrix that is not symmetric; `build` for one of
    other sizes. Without units of its own.

    Example:

        amg = jm.solver.SmoothedAggregation.from_matrix(A, state.position)  # [m]
        assert amg.build(A)(b)["cube"].shape == (8, 3)
    """

    hierarchies: dict[str, _Hierarchy]

    definite = True
    indefinite = True

    @classmethod
    def from_matrix(
        cls, matrix: BlockMatrix, positions: dict[str, Any], *, modes: dict[str, Any] | None = None, smoothing: int = 2
    ) -> "SmoothedAggregation":
        """The levels of the diagonal matrix of each state; what couples states is left out.

        `positions` `{state: (nodes, coordinates)}` [m] of every state, whose rigid-body modes the coarse levels represent;
        `modes` `{state: (nodes, deriv_size, m)}` instead where these are not what strains nothing. `smoothing`: Chebyshev
        steps before and after each coarse correction. Raises `ImportError` without pyamg, `ValueError` for a matrix that is
        not symmetric or lacks a state's positions, `TypeError` for one that is traced.
        """
        check_instance("SmoothedAggregation", "matrix", matrix, BlockMatrix)
        check_counts("SmoothedAggregation", smoothing=smoothing)
        if not matrix.symmetric:
            raise ValueError("SmoothedAggregation needs a symmetric matrix, and this one is not declared so.")
        if is_traced(matrix):
            raise TypeError(
                "SmoothedAggregation.from_matrix is host work: call it outside jit, and pass in what it returns."
            )
        check_instance("SmoothedAggregation", "positions", positions, Mapping)
        check_instance("SmoothedAggregation", "modes", {} if modes is None else modes, Mapping)
        given = {s: real_array("SmoothedAggregation", f"modes['{s}']", a) for s, a in (modes or {}).items()}
        unknown = sorted({*given} - {s for s, _, _ in matrix.sizes}, key=str)
        if unknown:
            raise ValueError(f"SmoothedAggregation: modes names {unknown}, which are not states of the matrix.")
        made = {}
        for s, n, d in matrix.sizes:
            if s not in given:
                if s not in positions:
                    raise ValueError(f"SmoothedAggregation: positions lacks state '{s}'; it has {sorted(positions)}.")
                given[s] = rigid_body_modes(real_array("SmoothedAggregation", f"positions['{s}']", positions[s]), d)
            space = np.asarray(given[s], dtype=np.float64)
            if space.ndim != 3 or space.shape[:2] != (n, d) or not np.isfinite(space).all():
                raise ValueError(
                    f"SmoothedAggregation: the modes of '{s}' must be finite, ({n}, {d}, m); got {space.shape}."
                )
            made[s] = _hierarchy(matrix[s, s].to_scipy(), space, matrix.dtype, smoothing)
        return cls(made)

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        sizes = {s: h.size for s, h in self.hierarchies.items()}
        check_instance("SmoothedAggregation", "operator", operator, lx.AbstractLinearOperator)
        structure = operator.in_structure()
        if not isinstance(structure, dict) or {s: a.shape for s, a in structure.items()} != sizes:
            raise ValueError(f"SmoothedAggregation was made for a matrix of {sizes}, and is used for one of {structure}.")
        return _Multigrid(self.hierarchies, jnp.int32(FINE))


class _Multigrid(AbstractApplied):
    hierarchies: dict[str, _Hierarchy]
    flaw: Array

    def __call__(self, r):
        return {s: self.hierarchies[s](r[s]) for s in r}

    def transpose(self):
        return self


def _hierarchy(matrix: Any, modes: np.ndarray, dtype: Any, smoothing: int) -> _Hierarchy:
    host = aggregated_levels(matrix, modes, coarsest=_COARSEST)
    levels = tuple(
        _Level(
            Padded.of(h.matrix, dtype),
            jnp.asarray(h.inverse, dtype),
            jnp.asarray(h.largest, dtype),
            Padded.of(_transposed(h.prolongation), dtype),
            Padded.of(h.prolongation, dtype),
        )
        for h in host[:-1]
    )
    last = np.linalg.pinv(host[-1].matrix.toarray(), rcond=1e-12, hermitian=True)
    return _Hierarchy(levels, jnp.asarray(last, dtype), smoothing, modes.shape[:2])


def _transposed(prolongation: Any) -> Any:
    r, c = prolongation.blocksize
    return prolongation.T.tobsr(blocksize=(c, r))
