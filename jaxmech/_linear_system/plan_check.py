"""Whether the plans of a linear system are such as `build` makes: numbers of rows, blocks and places that there are.

A plan that is read from a file may hold anything. What reads past an array is NaN where it is run, and an error here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from .._assembly.mapping_walk import Step
from .._model.constraint_projection import Touched
from .._model.scene_checks import node_counts
from .._model.system import System
from .._sparse.block_accumulation import PairSums
from .._sparse.block_matrix import Pair, Sizes
from .._sparse.element_scatter import ListSums
from .._sparse.gather_reduction import Reduction
from .._sparse.pattern import BlockPattern
from .._sparse.spmv_gather import RowProducts

_MOST = np.iinfo(np.int32).max

# The name of an array of numbers, the array, its shape (None: any), and the number that none of its reaches.
Bound = tuple[str, Any, tuple[int, ...] | None, int]


class Room(NamedTuple):
    """What plans count in: nodes of every state, elements of every constraint, blocks of every pair of main states."""

    nodes: Mapping[str, int]
    elements: Mapping[str, int]
    blocks: Mapping[Pair, int]

    @classmethod
    def of(cls, system: System, sizes: Sizes, patterns: Mapping[Pair, BlockPattern]) -> "Room":
        """That of a linear system, in a scene that it is known to fit."""
        nodes = node_counts(system, {s: n for s, n, _ in sizes})
        elements = {name: c.on[0].elements for name, c in system.projections.items()}
        return cls(nodes, elements, {pair: pattern.rows.size for pair, pattern in patterns.items()})


def check_plans(who: str, tree: Any, room: Room) -> None:
    """Raise `ValueError` where a plan anywhere in a tree has an array of another shape or dtype, or numbers out of range."""
    for path, plan in _plans(tree):
        where = f"{who}: {path}"
        for name, array, shape, end in _bounds(where, plan, room):
            _check_numbers(f"{where}.{name}", np.asarray(array), shape, end)
        if isinstance(plan, BlockPattern):
            _check_order(where, plan)


def _check_numbers(where: str, numbers: np.ndarray, shape: tuple[int, ...] | None, end: int) -> None:
    if numbers.dtype != np.int32 or (shape is not None and numbers.shape != shape):
        raise ValueError(f"{where} is {numbers.dtype} of shape {numbers.shape}, expected int32 of shape {shape or 'any'}.")
    for number in (numbers.min(), numbers.max()) if numbers.size else ():
        if not 0 <= number < end:
            raise ValueError(f"{where} holds {number}, expected whole numbers from 0 and below {end}.")


def _plans(tree: Any) -> Iterator[tuple[str, Any]]:
    """Every plan in a tree, nested ones included, with its path."""

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


def _bounds(where: str, plan: Any, room: Room) -> Iterator[Bound]:
    match plan:
        case BlockPattern(shape=(n, m)):
            z = plan.rows.size
            yield from (("rows", plan.rows, (z,), n), ("columns", plan.columns, (z,), m))
            yield from (("row_starts", plan.row_starts, (n + 1,), z + 1), ("transposed", plan.transposed, (z,), z))
            yield "by_row.slots", plan.by_row.slots, (z,), n
            yield from _rows("row_products", plan.row_products, n, z)
            if plan.of_transposed is not None:
                yield "of_transposed[0].slots", plan.of_transposed[0].slots, (z,), m
                yield from _rows("of_transposed[1]", plan.of_transposed[1], m, z)
            if plan.diagonal is not None:
                yield "diagonal", plan.diagonal, (n,), z
        case Reduction():
            yield "slots", plan.slots, (plan.slots.size,), plan.size
            yield "position", plan.position, (plan.size,), 1 + sum(t.shape[0] for t in plan.tables)
            yield from ((f"tables[{i}]", t, None, plan.slots.size + 1) for i, t in enumerate(plan.tables))
        case ListSums(mirror=mirror) if mirror is not None:
            yield "mirror", mirror, (plan.total.size,), plan.total.size
        case PairSums(mirror=mirror) if mirror is not None:
            yield "mirror", mirror, (plan.upper[0].size,), plan.upper[0].size
        case Step():
            state = plan.expansion.key.state(plan.expansion.side)
            yield "nodes", plan.nodes, (plan.reduce.size,), _known(where, "state", state, room.nodes)
        case Touched():
            yield "blocks", plan.blocks, (plan.blocks.size,), _known(where, "pair", plan.pair, room.blocks)
            yield "local", plan.local, (plan.blocks.size,), _known(where, "constraint", plan.constraint, room.elements)


def _rows(name: str, plan: RowProducts, rows: int, blocks: int) -> Iterator[Bound]:
    """Of the rows of a pattern, whose blocks stand one after the other: none ends beyond the last of them."""
    yield f"{name}.position", plan.position, (rows,), rows + 1
    for i, (start, length, longest) in enumerate(zip(plan.starts, plan.lengths, plan.longest, strict=True)):
        yield f"{name}.starts[{i}]", start, (start.size,), max(blocks, 1)
        yield f"{name}.lengths[{i}]", length, (start.size,), longest + 1
        ends = np.asarray(start).astype(np.int64) + np.asarray(length) if start.shape == length.shape else np.zeros(0)
        yield f"{name}.starts[{i}] + lengths[{i}]", np.clip(ends, -1, _MOST).astype(np.int32), None, blocks + 1


def _known(where: str, what: str, name: Any, room: Mapping[Any, int]) -> int:
    if name not in room:
        raise ValueError(f"{where} is of the {what} {name!r}, which is none of {list(room)}.")
    return room[name]


def _check_order(where: str, pattern: BlockPattern) -> None:
    """Raise `ValueError` unless the blocks are distinct, row by row, and rows begin where they say."""
    rows, columns = np.asarray(pattern.rows), np.asarray(pattern.columns)
    keys = rows.astype(np.int64) * pattern.shape[1] + columns
    starts = np.searchsorted(rows, np.arange(pattern.shape[0] + 1))
    if not (np.all(np.diff(keys) > 0) and np.array_equal(starts, pattern.row_starts)):
        raise ValueError(f"{where}: the blocks are not distinct and in order, or rows do not begin where row_starts says.")
