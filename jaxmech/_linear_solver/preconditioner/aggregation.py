"""The symbolic half of multigrid: which nodes are joined at every level, and where the blocks of its matrices stand."""

from typing import Any

import equinox as eqx
import numpy as np

from ..._runtime.array_types import Array, Int
from ..._runtime.host_arrays import as_data
from ..._sparse.block_multiply import BlockRows
from ..._sparse.gather_reduction import Reduction
from ..._sparse.pattern import BlockPattern

_COARSEST = 400  # unknowns that are left to a dense inverse
_MOST_LEVELS = 12
_JOINED = 0.8  # of the nodes: where more than this are left, joining them is given up


class AggregationLevel(eqx.Module):
    """How the nodes of one level become those of the next. Data, of fixed sizes."""

    aggregate: Int[Array, " n"]  # the aggregate of each node; their number, of one that is in none
    members: Reduction  # sums over the nodes of each aggregate, and last over those in none
    unsmoothed: BlockRows  # a block for each node, in the column of its aggregate
    own: Int[Array, " n"]  # where that stands in the prolongation
    prolongation: BlockPattern
    restriction: BlockPattern
    half: BlockRows  # of the matrix times the prolongation
    coarse: BlockPattern

    @property
    def aggregates(self) -> int:
        return self.coarse.shape[0]


def aggregation_levels(
    pattern: BlockPattern, size: int, modes: int, kept: np.ndarray | None
) -> tuple[AggregationLevel, ...]:
    """The levels of a matrix of this pattern, blocks of `size`, with so many modes. Host work; `ImportError` without pyamg.

    `kept`: which of its blocks join nodes.
    """
    try:
        import pyamg  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError('SmoothedAggregation needs pyamg: pip install "jaxmech[amg]".') from error

    matrix = _graph(np.asarray(pattern.row_starts), np.asarray(pattern.columns), pattern.shape)
    levels: list[AggregationLevel] = []
    joins = matrix if kept is None else _filtered(matrix, kept)
    while matrix.shape[0] * size > _COARSEST and len(levels) < _MOST_LEVELS:
        found: Any = pyamg.aggregation.aggregate.standard_aggregation(joins)
        aggregates = found[0].tocsr()
        if not 0 < aggregates.shape[1] <= _JOINED * matrix.shape[0]:
            break
        level, matrix = _level(matrix, aggregates)
        levels.append(level)
        joins, size = matrix, modes
    return tuple(levels)


def _level(matrix: Any, aggregates: Any) -> tuple[AggregationLevel, Any]:
    """The places of all that is computed of one level, and the graph of the next."""
    n, count = aggregates.shape
    aggregate = np.full(n, count, np.int32)
    inside = np.diff(aggregates.indptr) > 0
    aggregate[inside] = aggregates.indices
    half_prolongation = _product(matrix, _graph(aggregates.indptr, aggregates.indices, (n, count)))
    rows, columns = _pairs(half_prolongation)
    prolongation = BlockPattern.build(rows, columns, (n, count))
    own = np.zeros(n, np.int32)
    at = np.flatnonzero(columns == aggregate[rows])
    own[rows[at]] = at
    transposed = half_prolongation.T.tocsr()
    transposed.sort_indices()
    half = _product(matrix, half_prolongation)
    coarse = _product(transposed, half)
    level = AggregationLevel(
        as_data(aggregate),
        Reduction.build(aggregate, count + 1),
        BlockRows.of(np.arange(n + 1), aggregate, count),
        as_data(own),
        prolongation,
        BlockPattern.build(*_pairs(transposed), (count, n)),
        BlockRows.of(half.indptr, half.indices, count),
        BlockPattern.build(*_pairs(coarse), (count, count)),
    )
    return level, coarse


def _graph(starts: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Any:
    from scipy import sparse

    # pyamg knows the matrices of SciPy, not its arrays. Ones: products of patterns must not vanish.
    return sparse.csr_matrix((np.ones(columns.size, np.float32), columns, starts), shape=shape, copy=False)


def _filtered(matrix: Any, kept: np.ndarray) -> Any:
    starts = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)[matrix.indptr]
    return _graph(starts, matrix.indices[kept], matrix.shape)


def _product(left: Any, right: Any) -> Any:
    product = (left @ right).tocsr()
    product.sort_indices()
    return product


def _pairs(graph: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = np.repeat(np.arange(graph.shape[0], dtype=np.int32), np.diff(graph.indptr))
    return rows, graph.indices.astype(np.int32)
