"""Algebraic multigrid by smoothed aggregation: nodes are joined on the host, all else is compiled."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import lineax as lx
import numpy as np

from ..._runtime.argument_checks import check_choice, check_counts, check_flags, check_instance, plain, real_array
from ..._runtime.array_types import Array, Float
from ..._runtime.precision import compiled
from ..._runtime.results import is_traced
from ..._sparse.block_matrix import BlockMatrix
from ..._sparse.block_sparse import BlockSparse
from ..._sparse.pattern import BlockPattern
from ..base.outcome import FINE
from ..base.rigid_body_modes import rigid_body_modes
from .aggregation import AggregationLevel, aggregation_levels
from .base import AbstractApplied, AbstractPreconditioner, needs_matrix
from .multigrid_cycle import SMOOTHERS, Hierarchy, Numbers, Transfer, hierarchy, hierarchy_numbers


class SmoothedAggregation(AbstractPreconditioner):
    """Algebraic multigrid by smoothed aggregation with rigid-body modes, for symmetric positive definite matrices.

    `from_matrix` joins nodes to aggregates, on the host with pyamg (extra `amg`), and makes the matrices of all levels,
    `A_c = P^T A P` with `P = (I - w D^-1 A) T`. It may serve other matrices near that one. `refreshed(matrix)`, also under
    `jit` and `vmap`, keeps aggregates and prolongations `P` and makes the rest anew, for another matrix of the same pattern;
    `from_matrix(refresh=True)` keeps the aggregates only, and makes the levels of every matrix that is solved.
    Applied in JAX: one symmetric W-cycle, in 32 bits unless `single=False`, which does not limit what is reached.
    Source: P. Vanek, J. Mandel, M. Brezina, Computing 56 (1996) 179, doi:10.1007/BF02238511.
    `from_matrix` raises `ImportError` without pyamg, `ValueError` for a matrix that is not symmetric; `build` for one of
    other sizes. Without units of its own.

    Example:

        amg = jm.solver.SmoothedAggregation.from_matrix(A, state.position)  # [m]
        assert amg.build(A)(b)["cube"].shape == (8, 3)
        stiffer = amg.refreshed(A.scaled(2.0))
        assert jnp.allclose(2.0 * stiffer.build(A)(b)["cube"], amg.build(A)(b)["cube"], atol=1e-6)
    """

    plans: dict[str, tuple[AggregationLevel, ...]]
    modes: dict[str, Float[Array, "n b m"]]
    hierarchies: dict[str, Hierarchy] | None
    smoothing: int = eqx.field(static=True)
    smoother: str = eqx.field(static=True)
    single: bool = eqx.field(static=True)

    definite = True
    indefinite = True

    @classmethod
    def from_matrix(
        cls,
        matrix: BlockMatrix,
        positions: dict[str, Any],
        *,
        modes: dict[str, Any] | None = None,
        smoothing: int = 2,
        smoother: str = "chebyshev",
        threshold: float = 0.0,
        single: bool = True,
        refresh: bool = False,
    ) -> "SmoothedAggregation":
        """The levels of the diagonal matrix of each state; what couples states is left out.

        `positions` `{state: (nodes, coordinates)}` [m] of every state, whose rigid-body modes the coarse levels represent;
        `modes` `{state: (nodes, deriv_size, m)}` instead where these are not what strains nothing. `smoothing`: steps before
        and after each coarse correction, of the `smoother`: `"chebyshev"` (with diagonal blocks), `"block_jacobi"`,
        `"jacobi"`. `threshold`: nodes are joined along blocks with `|A_ij|^2 > threshold^2 |A_ii| |A_jj|` (Frobenius).
        `single`: the cycle in 32 bits. `refresh`: levels are made of each matrix that is solved. Raises `ImportError`
        without pyamg, `ValueError` for a matrix that is not symmetric or lacks a state's positions, `TypeError` for one that
        is traced.
        """
        check_instance("SmoothedAggregation", "matrix", matrix, BlockMatrix)
        smoothing = plain(smoothing)
        _check_options(smoothing, smoother, threshold, single, refresh)
        if not matrix.symmetric:
            raise ValueError("SmoothedAggregation needs a symmetric matrix, and this one is not declared so.")
        if is_traced(matrix):
            raise TypeError(
                "SmoothedAggregation.from_matrix is host work: call it outside jit, and pass in what it returns."
            )
        spaces = _spaces(matrix, positions, modes)
        plans = {}
        for s, _, d in matrix.sizes:
            block = matrix[s, s]
            plans[s] = aggregation_levels(block.pattern, d, spaces[s].shape[-1], _joining(block, threshold))
        arrays = {s: jnp.asarray(space, matrix.dtype) for s, space in spaces.items()}
        planned = cls(plans, arrays, None, smoothing, smoother, single)
        return planned if refresh else planned.refreshed(matrix)

    @classmethod
    def from_pattern(
        cls, patterns: dict[str, BlockPattern], positions: dict[str, Any], *, smoothing: int = 2, smoother: str = "chebyshev"
    ) -> "SmoothedAggregation":
        """The aggregates alone, without a matrix: levels are made of each matrix that is solved, as with `refresh=True`.

        `patterns` `{state: pattern}` of its diagonal matrices (`linear_system.patterns[state, state]`), `positions` as for
        `from_matrix`, as many as the pattern has rows, points of as many unknowns as coordinates. Raises what that does.
        """
        check_instance("SmoothedAggregation", "patterns", patterns, Mapping)
        smoothing = plain(smoothing)
        _check_options(smoothing, smoother, 0.0, True, True)
        if is_traced((patterns, positions)):
            raise TypeError(
                "SmoothedAggregation.from_pattern is host work: call it outside jit, and pass in what it returns."
            )
        plans, modes = {}, {}
        check_instance("SmoothedAggregation", "positions", positions, Mapping)
        for s, pattern in patterns.items():
            check_instance("SmoothedAggregation", f"patterns['{s}']", pattern, BlockPattern)
            if s not in positions:
                raise ValueError(f"SmoothedAggregation: positions lacks state '{s}'; it has {sorted(positions)}.")
            x = real_array("SmoothedAggregation", f"positions['{s}']", positions[s])
            if x.ndim != 2 or pattern.shape != (x.shape[0], x.shape[0]) or pattern.diagonal is None:
                raise ValueError(
                    f"SmoothedAggregation: positions['{s}'] of shape {x.shape} do not fit a pattern of {pattern.shape} "
                    "blocks, which must hold its diagonal."
                )
            space = rigid_body_modes(np.asarray(x), x.shape[1])
            plans[s], modes[s] = aggregation_levels(pattern, x.shape[1], space.shape[-1], None), jnp.asarray(space, x.dtype)
        return cls(plans, modes, None, smoothing, smoother, True)

    def refreshed(self, matrix: BlockMatrix) -> "SmoothedAggregation":
        """For a matrix of the same pattern and other values, with the same aggregates and prolongations.

        May be called under `jit`. Raises `TypeError` for what is no `BlockMatrix`, `ValueError` for one of other sizes.
        """
        check_instance("SmoothedAggregation.refreshed", "matrix", matrix, BlockMatrix)
        self._check(matrix)
        made = _hierarchies(self, matrix)
        return SmoothedAggregation(self.plans, self.modes, made, self.smoothing, self.smoother, self.single)

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        check_instance("SmoothedAggregation", "operator", operator, lx.AbstractLinearOperator)
        self._check(operator)
        if self.hierarchies is not None:
            return _Multigrid(self.hierarchies, jnp.int32(FINE))
        return _Multigrid(_hierarchies(self, needs_matrix("SmoothedAggregation", operator)), jnp.int32(FINE))

    def _check(self, operator: lx.AbstractLinearOperator) -> None:
        sizes = {s: modes.shape[:2] for s, modes in self.modes.items()}
        structure = operator.in_structure()
        if not isinstance(structure, dict) or {s: a.shape for s, a in structure.items()} != sizes:
            raise ValueError(f"SmoothedAggregation was made for a matrix of {sizes}, and is used for one of {structure}.")


class _Multigrid(AbstractApplied):
    hierarchies: dict[str, Hierarchy]
    flaw: Array

    def __call__(self, r):
        return {s: self.hierarchies[s](r[s]) for s in r}

    def transpose(self):
        return self


def _hierarchies(recipe: SmoothedAggregation, matrix: BlockMatrix) -> dict[str, Hierarchy]:
    found, made = _numbers(recipe, matrix), {}
    for s, plan in recipe.plans.items():
        options = {"smoothing": recipe.smoothing, "smoother": recipe.smoother, "kept": _kept(recipe, s)}
        made[s] = hierarchy(plan, matrix[s, s].pattern, found[s], **options)
    return made


@compiled
def _numbers(recipe: SmoothedAggregation, matrix: BlockMatrix) -> dict[str, Numbers]:
    found = {}
    for s, plan in recipe.plans.items():
        block = matrix[s, s]
        dtype = jnp.dtype(jnp.float32) if recipe.single else block.values.dtype
        make = partial(hierarchy_numbers, smoother=recipe.smoother, dtype=dtype, kept=_kept(recipe, s))
        found[s] = make(plan, block, recipe.modes[s])
    return found


def _kept(recipe: SmoothedAggregation, s: str) -> tuple[Transfer, ...] | None:
    return None if recipe.hierarchies is None else tuple(level.transfer for level in recipe.hierarchies[s].levels)


def _check_options(smoothing: int, smoother: str, threshold: float, single: bool, refresh: bool) -> None:
    check_counts("SmoothedAggregation", smoothing=smoothing)
    check_choice("SmoothedAggregation", "smoother", smoother, SMOOTHERS)
    check_flags("SmoothedAggregation", single=single, refresh=refresh)
    if not 0 <= float(real_array("SmoothedAggregation", "threshold", threshold, ())) < 1:
        raise ValueError(f"SmoothedAggregation: threshold must be at least 0 and below 1, got {threshold!r:.80}.")


def _spaces(matrix: BlockMatrix, positions: Any, modes: Any) -> dict[str, np.ndarray]:
    """The modes of every state."""
    check_instance("SmoothedAggregation", "positions", positions, Mapping)
    check_instance("SmoothedAggregation", "modes", {} if modes is None else modes, Mapping)
    given = {s: real_array("SmoothedAggregation", f"modes['{s}']", a) for s, a in (modes or {}).items()}
    unknown = sorted({*given} - {s for s, _, _ in matrix.sizes}, key=str)
    if unknown:
        raise ValueError(f"SmoothedAggregation: modes names {unknown}, which are not states of the matrix.")
    spaces = {}
    for s, n, d in matrix.sizes:
        if s not in given:
            if s not in positions:
                raise ValueError(f"SmoothedAggregation: positions lacks state '{s}'; it has {sorted(positions)}.")
            given[s] = rigid_body_modes(real_array("SmoothedAggregation", f"positions['{s}']", positions[s]), d)
        space = np.asarray(given[s], dtype=np.float64)
        if space.ndim != 3 or space.shape[:2] != (n, d) or not np.isfinite(space).all():
            raise ValueError(f"SmoothedAggregation: the modes of '{s}' must be finite, ({n}, {d}, m); got {space.shape}.")
        spaces[s] = space
    return spaces


def _joining(block: BlockSparse, threshold: float) -> np.ndarray:
    """Which blocks join the nodes of their row and column: those that are not nil, and not weak."""
    values = np.asarray(block.values)
    size = np.einsum("zij,zij->z", values, values)
    own = np.sqrt(size[np.asarray(block.pattern.diagonal)])
    rows, columns = (np.asarray(a) for a in (block.pattern.rows, block.pattern.columns))
    return (size > threshold**2 * own[rows] * own[columns]) | (rows == columns)
