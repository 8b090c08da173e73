"""Whether the plans of a linear system are such as `build` makes: numbers of rows, blocks and places that there are.

A plan that is read from a file may hold anything. What reads past an array is NaN where it is run, and an error here.
"""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._assembly.mapping_walk import Step
from .._model.constraint_projection import Touched
from .._sparse.block_accumulation import PairSums
from .._sparse.element_scatter import ListSums
from .._sparse.gather_reduction import Reduction
from .._sparse.pattern import BlockPattern
from .._sparse.spmv_gather import RowProducts

# The name of an array of numbers, the array, its shape (None: any), and the number that none of its reaches (None: any).
Bound = tuple[str, Any, tuple[int, ...] | None, int | None]


def check_plans(who: str, tree: Any) -> None:
    """Raise `ValueError` where a plan anywhere in a tree has an array of another shape or dtype, or numbers out of range."""
    for path, plan in _plans(tree):
        for name, array, shape, end in _bounds(plan):
            _check_numbers(f"{who}: {path}.{name}", np.asarray(array), shape, np.inf if end is None else end)
        if isinstance(plan, BlockPattern):
            _check_order(f"{who}: {path}", plan)


def _check_numbers(where: str, numbers: np.ndarray, shape: tuple[int, ...] | None, end: float) -> None:
    if numbers.dtype != np.int32 or (shape is not None and numbers.shape != shape):
        raise ValueError(f"{where} is {numbers.dtype} of shape {numbers.shape}, expected int32 of shape {shape or 'any'}.")
    for number in (numbers.min(), numbers.max()) if numbers.size else ():
        if not 0 <= number < end:
            raise ValueError(f"{where} holds {number}, expected whole numbers from 0 and below {end}.")


def _plans(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every plan in a tree, those within others too, and where it is."""

    def is_plan(node: Any) -> bool:
        return isinstance(node, BlockPattern | Reduction | RowProducts | ListSums | PairSums | Step | Touched)

    for path, node in jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_plan):
        if is_plan(node):
            name = jax.tree_util.keystr(path).lstrip(".")
            yield name, node
            inner = {f: getattr(node, f) for f in node.__dataclass_fields__}
            yield from ((f"{name}{path}", plan) for path, plan in _plans({k: v for k, v in inner.items() if _is_tree(v)}))


def _is_tree(value: Any) -> bool:
    return isinstance(value, eqx.Module | tuple)


def _bounds(plan: Any) -> Iterator[Bound]:
    match plan:
        case BlockPattern(shape=(n, m)):
            z = plan.rows.size
            yield from (("rows", plan.rows, (z,), n), ("columns", plan.columns, (z,), m))
            yield from (("row_starts", plan.row_starts, (n + 1,), z + 1), ("transposed", plan.transposed, (z,), z))
            yield from (("by_row.slots", plan.by_row.slots, (z,), n), ("by_row.position", plan.by_row.position, (n,), None))
            yield "row_products.position", plan.row_products.position, (n,), None
            if plan.diagonal is not None:
                yield "diagonal", plan.diagonal, (n,), z
        case Reduction():
            yield "slots", plan.slots, (plan.slots.size,), plan.size
            yield "position", plan.position, (plan.size,), 1 + sum(t.shape[0] for t in plan.tables)
            yield from ((f"tables[{i}]", t, None, plan.slots.size + 1) for i, t in enumerate(plan.tables))
        case RowProducts():
            yield "position", plan.position, (plan.position.size,), plan.position.size + 1
            for i, (start, length, longest) in enumerate(zip(plan.starts, plan.lengths, plan.longest, strict=True)):
                yield f"starts[{i}]", start, (start.size,), None
                yield f"lengths[{i}]", length, (start.size,), longest + 1
        case ListSums(mirror=mirror) if mirror is not None:
            yield "mirror", mirror, (plan.total.size,), plan.total.size
        case PairSums(mirror=mirror) if mirror is not None:
            yield "mirror", mirror, (plan.upper[0].size,), plan.upper[0].size
        case Step():
            yield "nodes", plan.nodes, (plan.reduce.size,), None
        case Touched():
            yield from (("blocks", plan.blocks, (plan.blocks.size,), None), ("local", plan.local, (plan.blocks.size,), None))


def _check_order(where: str, pattern: BlockPattern) -> None:
    """Raise `ValueError` unless the blocks are distinct, row by row, and rows begin where they say."""
    rows, columns = np.asarray(pattern.rows), np.asarray(pattern.columns)
    keys = rows.astype(np.int64) * pattern.shape[1] + columns
    starts = np.searchsorted(rows, np.arange(pattern.shape[0] + 1))
    if not (np.all(np.diff(keys) > 0) and np.array_equal(starts, pattern.row_starts)):
        raise ValueError(f"{where}: the blocks are not distinct and in order, or rows do not begin where row_starts says.")
