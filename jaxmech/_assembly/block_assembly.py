"""From local matrices to the distinct blocks between main states, planned once and run as often as you like."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._math.indexing import take_rows
from .._math.small_matmul import times_blocks
from .._model.mapping_jacobian import interpolates, on_mapped
from .._model.scene_checks import node_counts
from .._model.subsystem import without_unloaded
from .._model.system import System
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array
from .._sparse.block_accumulation import Lists, PairSums, Places
from .._sparse.block_matrix import Pair
from .._sparse.element_scatter import ElementSums
from .block_places import BlockPlaces, local_places
from .element_matrices import Blocks, weighted_matrix
from .evaluation import LocalMatrix, LocalValues, Wanted
from .mapping_walk import AbstractBlocks, Expanded, Expansion, Local, Side, Step, mapped_to_main
from .structure import Contribution, MatrixKind, Plan


class BlockAssembly(eqx.Module):
    """Local matrices, mapped to the main states and summed: for one plan, and one topology."""

    plan: Plan = eqx.field(static=True)
    element_sums: dict[str, ElementSums]  # of the components of many elements, by their labels
    steps: tuple[Step, ...]  # through the mappings
    pair_sums: dict[Pair, PairSums]

    @classmethod
    def build(
        cls, system: System, plan: Plan, main: Mapping[str, int], there: Mapping[Pair, Places], *, diagonal: bool
    ) -> tuple["BlockAssembly", dict[Pair, Places]]:
        """The symbolic phase, and the places of the blocks, in row-major order. Host work.

        `main`: the nodes of main states. `there`: blocks that are there from the start. `diagonal`: those of the diagonal
        are all there.
        """
        counts = node_counts(system, dict(main))
        local, element_sums = local_places(system, plan, counts, there)
        arrived = mapped_to_main(system, plan, local, BlockPlaces(system, counts))
        pair_sums, places = {}, {}
        for pair in sorted({*arrived.lists, *((s, s) for s in main if diagonal)}):
            lists, shape = arrived.lists.get(pair, Lists()), (main[pair[0]], main[pair[1]])
            whole = diagonal and pair[0] == pair[1]
            pair_sums[pair], places[pair] = PairSums.build(lists, shape, diagonal=whole)
        return cls(plan, element_sums, arrived.steps, pair_sums), places

    def wanted(self, system: System) -> Wanted:
        """What must be evaluated before this can be run."""
        matrices = {}
        for item in self.plan.items:
            sums = self.element_sums.get(item.label)
            matrices |= {_form(system, item, kind, self.element_sums): sums for kind in item.kinds}
        matrices |= {LocalMatrix(name, MatrixKind.DAMPING): None for name in self.plan.velocity}
        rates = frozenset(step.expansion.mapping for step in self.steps if step.expansion.has_rate)
        if not self.plan.geometric:
            jacobians = frozenset(step.expansion.mapping for step in self.steps)
            return Wanted(matrices, jacobians=jacobians, rates=rates)
        # The forces on mapped states are handed up through all mappings.
        forces, jacobians = frozenset(on_mapped(system, system.force_fields)), frozenset(without_unloaded(system).mappings)
        return Wanted(matrices, forces, jacobians, rates, frozenset(self.plan.geometric))

    def __call__(
        self, values: LocalValues, terms: Terms, factors: Factors, there: Mapping[Pair, Array]
    ) -> dict[Pair, Array]:
        """The distinct blocks of every pair of main states at which anything arrives. `there`: as in `build`."""
        local = _weighted(self.plan, values, terms, factors, self.element_sums, there)
        steps = {step.expansion: step for step in self.steps}
        blocks = BlockValues(values, steps, factors.of("geometric"))
        arrived = mapped_to_main(values.system, self.plan, local, blocks)
        return {pair: self.pair_sums[pair](lists) for pair, lists in arrived.lists.items()}


def _form(system: System, item: Contribution, kind: MatrixKind, summed: Collection[str]) -> LocalMatrix:
    """What is asked for of a contribution."""
    return LocalMatrix(item.name, kind, item.upper(system), item.label in summed)


def _weighted(
    plan: Plan,
    values: LocalValues,
    terms: Terms,
    factors: Factors,
    summed: Collection[str],
    there: Mapping[Pair, Array],
) -> Local[Array]:
    """The local matrices of a plan, every factor applied."""
    system = values.system

    def of_item(item: Contribution) -> Blocks:
        own = {kind: values.matrices[_form(system, item, kind, summed)] for kind in item.kinds}
        return weighted_matrix(system, item, terms, factors, own)

    def scaled(blocks: Blocks) -> Blocks:
        return jax.tree.map(lambda b: factors.of("geometric") * b, blocks)

    return Local(
        {item.label: _listed(of_item(item)) for item in plan.items},
        {name: _listed(values.matrices[LocalMatrix(name, MatrixKind.DAMPING)]) for name in plan.velocity},
        {name: _listed(scaled(values.geometric[name, form])) for name, form in plan.geometric},
        summed,
        there,
    )


def _listed(blocks: Blocks) -> list[Array]:
    return list(itertools.chain.from_iterable(blocks))


@dataclass(frozen=True)
class BlockValues(AbstractBlocks[Array]):
    """Lists of blocks `(blocks, rows, columns)`, expanded as the plan of the walk says."""

    values: LocalValues
    steps: Mapping[Expansion, Step]
    geometric: Any  # the factor of `B d(J v)/dq`

    def size(self, blocks: Array) -> int:
        return blocks.shape[0]

    def joined(self, lists: Sequence[Array]) -> Array:
        return lists[0] if len(lists) == 1 else jnp.concatenate(lists)

    def expanded(self, expansion: Expansion, blocks: Array) -> Expanded[Array]:
        system, step = self.values.system, self.steps[expansion]
        name, values = expansion.mapping, step.reduce(blocks)
        scaled = interpolates(system, system.mappings[name])
        products = [_product(step, values, J, scaled=scaled) for J in self.values.jacobians[name]]
        if not expansion.has_rate:
            return Expanded(products)
        drag = self.geometric * values
        return Expanded(products, [_product(step, drag, J, scaled=False) for J in self.values.rates[name]])


def _product(step: Step, values: Array, jacobian: Array, *, scaled: bool) -> Array:
    """`J^T` times the blocks of a row, or the blocks of a column times `J`, of one parent.

    `scaled`: the blocks of `J` are multiples of the identity, and only their first numbers are read.
    """
    at, values = take_rows(jacobian[:, :, :1, :1] if scaled else jacobian, step.nodes), values[:, None]
    if scaled:
        product = at * values
    elif step.expansion.side is Side.ROW:
        product = times_blocks(at.swapaxes(-1, -2), values)
    else:
        product = times_blocks(values, at)
    return product.reshape(-1, *product.shape[2:])
