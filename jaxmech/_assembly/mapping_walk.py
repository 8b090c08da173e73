"""The second part of the pass: from the blocks of every pair of states to those of the main states, `J^T (.) J`.

A mapped node has few parents, so a block at a mapped row becomes one block per parent: `J^T K`; at a mapped column,
`K J`. The walk goes through the mappings from the last child to the first, sums repeats before each expansion, and adds
the geometric stiffness on its way. It is written once, for lists of blocks of any kind: their places, on the host
(`block_places`), their values (`block_assembly`), or both (`component_matrix`).

Forces that depend on the velocities of mapped states, `v = J(q) v_q`, have a second matrix that goes the same way, `B`:
each time one of its columns is expanded, `B d(J v)/dq` joins the stiffness.
"""

import abc
import enum
import itertools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import equinox as eqx

from .._model.system import System, force_field
from .._runtime.array_types import Array, Int
from .._scene.stencil import Stencil
from .._sparse.block_accumulation import Lists
from .._sparse.block_matrix import Pair
from .._sparse.gather_reduction import Reduction
from .structure import Plan

T = TypeVar("T")
_LARGE = 50_000  # blocks of one component that are summed by themselves


class Content(enum.IntEnum):
    """What the blocks of a list are. The last two are of pairs of main states, and go through no mapping."""

    MATRIX = 0  # of the matrix, repeats not summed
    DRAG = 1  # of the matrix `B` whose product with `d(J v)/dq` joins the other
    UPPER = 2  # the upper triangle `H` of symmetric element matrices, for `H + H^T`
    SUMS = 3  # of the matrix, summed over the elements where they were made


class Side(enum.IntEnum):
    """Rows or columns."""

    ROW = 0
    COLUMN = 1


@dataclass(frozen=True, order=True)
class Key:
    """What a list holds, and the states of its rows and columns."""

    content: Content
    row: str
    column: str

    def state(self, side: Side) -> str:
        """The state on one side."""
        return self.row if side is Side.ROW else self.column

    def to(self, side: Side, state: str) -> "Key":
        """The key of what has another state on one side."""
        return replace(self, **{"row" if side is Side.ROW else "column": state})


@dataclass(frozen=True)
class Expansion:
    """What is at the child of a mapping, on one side of a list, goes to the parents."""

    key: Key
    side: Side
    mapping: str

    @property
    def has_rate(self) -> bool:
        """Whether `B d(J v)/dq` is made here."""
        return self.key.content is Content.DRAG and self.side is Side.COLUMN


class Step(eqx.Module):
    """The plan of one expansion: the sums of the repeats, and the mapped nodes at which the distinct blocks stand."""

    expansion: Expansion = eqx.field(static=True)
    reduce: Reduction
    nodes: Int[Array, " blocks"]


class Expanded(NamedTuple, Generic[T]):
    """What an expansion gives: a list for each parent, and another of `B d(J v)/dq`, and its plan, where it has one."""

    products: Sequence[T]
    rates: Sequence[T] = ()
    step: Step | None = None


class AbstractBlocks(abc.ABC, Generic[T]):
    """What the walk asks of lists of blocks, whatever they hold."""

    @abc.abstractmethod
    def size(self, blocks: T) -> int:
        """The number of blocks in a list."""

    @abc.abstractmethod
    def joined(self, lists: Sequence[T]) -> T:
        """All blocks of lists, in one."""

    @abc.abstractmethod
    def expanded(self, expansion: Expansion, blocks: T) -> Expanded[T]:
        """`J^T` times the blocks of a row, or the blocks of a column times `J`."""


class Local(NamedTuple, Generic[T]):
    """The lists that go into the walk, each `[s][t]` of a component row by row: what the two phases fill alike."""

    matrices: Mapping[str, Sequence[T]]  # of every contribution, by its label
    drag: Mapping[str, Sequence[T]]  # `B` of the force fields that the plan names
    geometric: Mapping[str, Sequence[T]]  # of mappings
    summed: Collection[str]  # the labels of those that are sums over the elements
    there: Mapping[Pair, T]  # blocks of main states that are there from the start


class Arrived(NamedTuple, Generic[T]):
    """What comes out: the lists of every pair of main states, to be summed apart, and the plan of every expansion."""

    lists: dict[Pair, Lists[T]]
    steps: tuple[Step, ...]


def mapped_to_main(system: System, plan: Plan, local: Local[T], blocks: AbstractBlocks[T]) -> Arrived[T]:
    """The walk."""
    pending = _entered(system, plan, local)
    steps: list[Step] = []
    for name in reversed(system.mapping_order):
        mapping = system.mappings[name]
        if name in local.geometric:
            _enter(pending, Content.MATRIX, mapping.parents, local.geometric[name])
        for side in Side:
            for key in sorted(key for key in pending if key.state(side) == mapping.child):
                done = blocks.expanded(Expansion(key, side, name), blocks.joined(pending.pop(key)))
                for parent, product in zip(mapping.parents, done.products, strict=True):
                    pending[key.to(side, parent.state)].append(product)
                for parent, rate in zip(mapping.parents, done.rates, strict=bool(done.rates)):
                    pending[Key(Content.MATRIX, key.row, parent.state)].append(rate)
                steps += [] if done.step is None else [done.step]
    return Arrived(_by_pair(pending, blocks), tuple(steps))


def _entered(system: System, plan: Plan, local: Local[T]) -> dict[Key, list[T]]:
    pending: dict[Key, list[T]] = defaultdict(list)
    for pair, blocks in local.there.items():
        pending[Key(Content.MATRIX, *pair)].append(blocks)
    for item in plan.items:
        on, upper = item.component(system).on, item.upper(system)
        pairs = itertools.product(enumerate(on), repeat=2)
        for ((i, s), (j, t)), blocks in zip(pairs, local.matrices[item.label], strict=True):
            if item.label in local.summed:
                main = s.state in system.main_states and t.state in system.main_states
                content = Content.SUMS if main else Content.MATRIX
            else:
                content = Content.UPPER if i == j and i in upper else Content.MATRIX
            pending[Key(content, s.state, t.state)].append(blocks)
    for name in plan.velocity:
        _enter(pending, Content.DRAG, force_field(system, name).on, local.drag[name])
    return pending


def _enter(pending: dict[Key, list[T]], content: Content, on: Sequence[Stencil], lists: Sequence[T]) -> None:
    for (s, t), blocks in zip(itertools.product(on, repeat=2), lists, strict=True):
        pending[Key(content, s.state, t.state)].append(blocks)


def _by_pair(pending: Mapping[Key, Sequence[T]], blocks: AbstractBlocks[T]) -> dict[Pair, Lists[T]]:
    def grouped(content: Content, pair: Pair) -> list[T]:
        return [blocks.joined(group) for group in _groups(pending.get(Key(content, *pair), ()), content, blocks)]

    pairs = {(key.row, key.column): None for key in pending if key.content is not Content.DRAG}
    return {
        pair: Lists(
            [*grouped(Content.MATRIX, pair), *grouped(Content.SUMS, pair)],
            grouped(Content.UPPER, pair),
        )
        for pair in pairs
    }


def _groups(lists: Sequence[T], content: Content, blocks: AbstractBlocks[T]) -> list[list[T]]:
    """Lists that are joined before they are summed: the large ones are not copied for the sake of the others."""
    most = 0 if content is Content.SUMS else _LARGE
    small = [part for part in lists if blocks.size(part) < most]
    return [[part] for part in lists if blocks.size(part) >= most] + ([small] if small else [])
