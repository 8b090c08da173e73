"""The places of blocks, on the host: the instance of the walk that finds the pattern of a matrix."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._model.system import System, force_field
from .._runtime.host_arrays import as_data
from .._scene.alike import groups_of_alike
from .._scene.stencil import Stencil
from .._sparse.block_accumulation import Places
from .._sparse.block_matrix import Pair
from .._sparse.element_scatter import ElementSums
from .._sparse.gather_reduction import Reduction
from .._sparse.pattern import unique_pairs
from .mapping_walk import AbstractBlocks, Expanded, Expansion, Local, Side, Step
from .structure import Plan


@dataclass(frozen=True)
class BlockPlaces(AbstractBlocks[Places]):
    """Lists of rows and columns, in nodes."""

    system: System
    counts: Mapping[str, int]  # nodes of every state

    def size(self, blocks: Places) -> int:
        return blocks[0].size

    def joined(self, lists: Sequence[Places]) -> Places:
        return np.concatenate([rows for rows, _ in lists]), np.concatenate([columns for _, columns in lists])

    def expanded(self, expansion: Expansion, blocks: Places) -> Expanded[Places]:
        key, by_row = expansion.key, expansion.side is Side.ROW
        rows, columns, slots = unique_pairs(*blocks, (self.counts[key.row], self.counts[key.column]))

        def of_parent(parent: Stencil) -> Places:
            nodes = np.asarray(parent.nodes).reshape(parent.elements, parent.nodes_per_element)
            if by_row:
                return nodes[rows].reshape(-1), np.repeat(columns, nodes.shape[1])
            return np.repeat(rows, nodes.shape[1]), nodes[columns].reshape(-1)

        products = [of_parent(parent) for parent in self.system.mappings[expansion.mapping].parents]
        step = Step(expansion, Reduction.build(slots, rows.size), as_data(rows if by_row else columns))
        return Expanded(products, products if expansion.has_rate else (), step)


def local_places(
    system: System, plan: Plan, counts: Mapping[str, int], there: Mapping[Pair, Places]
) -> tuple[Local[Places], dict[str, ElementSums]]:
    """Where the local matrices of a plan stand, and the sums of those that are summed where they are made."""
    sums: dict[str, ElementSums] = {}
    matrices: dict[str, Sequence[Places]] = {}
    together = groups_of_alike({item.label: item.component(system) for item in plan.items}, system.dofs)
    by_themselves = {labels[0] for labels in together if len(labels) == 1}
    for item in plan.items:
        on, upper = item.component(system).on, item.upper(system)
        whole = item.name in plan.velocity or (plan.symmetric and not item.symmetric)
        built = _sums(on, upper, counts) if item.label in by_themselves and not whole else None
        if built is None:
            matrices[item.label] = _flat_places(on, upper)
        else:
            sums[item.label], matrices[item.label] = built
    drag = {name: _flat_places(force_field(system, name).on) for name in plan.velocity}
    geometric = {name: _flat_places(system.mappings[name].parents) for name, _ in plan.geometric}
    return Local(matrices, drag, geometric, sums.keys(), there), sums


def _places(on: tuple[Stencil, ...], upper: Collection[int] = ()) -> list[Places]:
    """Where the blocks of every element's matrices `[s][t]` stand: rows and columns `(elements, blocks)`."""
    nodes = [np.asarray(s.nodes).reshape(s.elements, s.nodes_per_element) for s in on]

    def of_pair(i: int, j: int) -> Places:
        k, l = nodes[i].shape[1], nodes[j].shape[1]
        rows, columns = np.triu_indices(k) if i == j and i in upper else np.indices((k, l)).reshape(2, -1)
        return nodes[i][:, rows], nodes[j][:, columns]

    return [of_pair(i, j) for i, j in itertools.product(range(len(on)), repeat=2)]


def _flat_places(on: tuple[Stencil, ...], upper: Collection[int] = ()) -> list[Places]:
    return [(rows.reshape(-1), columns.reshape(-1)) for rows, columns in _places(on, upper)]


def _sums(
    on: tuple[Stencil, ...], upper: Collection[int], counts: Mapping[str, int]
) -> tuple[ElementSums, list[Places]] | None:
    """The plan of the sums of every `[s][t]`, and where these stand; None where it is not worth it."""
    pairs = list(itertools.product(enumerate(on), repeat=2))
    shapes = [(counts[s.state], counts[t.state]) for (_, s), (_, t) in pairs]
    return ElementSums.build(_places(on, upper), shapes, [i == j and i in upper for (i, _), (j, _) in pairs])
