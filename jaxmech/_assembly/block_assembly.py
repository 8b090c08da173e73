"""The pass from local matrices to the distinct blocks between main states, planned once and run as often as you like."""

from collections.abc import Mapping

import equinox as eqx

from .._model.mapping_jacobian import on_mapped
from .._model.scene_checks import node_counts
from .._model.subsystem import without_idle
from .._model.system import System
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array
from .._sparse.block_accumulation import Lists, PairSums, Places
from .._sparse.block_matrix import Pair
from .._sparse.element_scatter import ElementSums
from .block_places import BlockPlaces, local_places
from .block_values import BlockValues, local_values, wanted_matrix
from .evaluation import LocalMatrix, LocalValues, Wanted
from .mapping_walk import Step, mapped_to_main
from .structure import MatrixKind, Plan


class BlockAssembly(eqx.Module):
    """Local matrices, mapped to the main states and summed: for one plan, and one topology."""

    plan: Plan = eqx.field(static=True)
    element_sums: dict[str, ElementSums]  # of the components of many elements, by their labels
    steps: tuple[Step, ...]  # through the mappings
    pair_sums: dict[Pair, PairSums]

    @classmethod
    def build(
        cls, system: System, plan: Plan, main: Mapping[str, int], there: Mapping[Pair, Places] = {}, *, diagonal: bool
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
            matrices |= {wanted_matrix(system, item, kind, sums is not None): sums for kind in item.kinds}
        matrices |= {LocalMatrix(name, MatrixKind.DAMPING): None for name in self.plan.velocity}
        turning = frozenset(step.expansion.mapping for step in self.steps if step.expansion.turns)
        if not self.plan.geometric:
            jacobians = frozenset(step.expansion.mapping for step in self.steps)
            return Wanted(matrices, jacobians=jacobians, turning=turning)
        # The forces on mapped states are handed up through all mappings.
        forces, jacobians = frozenset(on_mapped(system, system.forces)), frozenset(without_idle(system).mappings)
        return Wanted(matrices, forces, jacobians, turning, frozenset(self.plan.geometric))

    def __call__(
        self, values: LocalValues, terms: Terms, factors: Factors, there: Mapping[Pair, Array] = {}
    ) -> dict[Pair, Array]:
        """The distinct blocks of every pair of main states at which anything arrives. `there`: as in `build`."""
        local = local_values(self.plan, values, terms, factors, self.element_sums, there)
        steps = {step.expansion: step for step in self.steps}
        blocks = BlockValues(values, steps, factors.of("geometric"))
        arrived = mapped_to_main(values.system, self.plan, local, blocks)
        return {pair: self.pair_sums[pair](lists) for pair, lists in arrived.lists.items()}
