"""What of a matrix no motion changes: masses, and the forces that are linear, through mappings that are linear."""

import equinox as eqx
import jax.numpy as jnp

from .._model.subsystem import with_only
from .._model.system import System
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array
from .._sparse.block_accumulation import PairSums, Places
from .._sparse.block_matrix import Pair
from .contributions import contributions
from .evaluation import Evaluation
from .matrix_mapping import Walk
from .separate_terms import Parts, present
from .structure import Plan


class SteadyBlocks(eqx.Module):
    """The blocks of the steady contributions to a matrix, each once: evaluated when they are asked for, or `kept`.

    They join the blocks that vary as if they were another component's.
    """

    walk: Walk
    sums: dict[Pair, PairSums]
    kept: Parts | None = None

    @classmethod
    def build(cls, system: System, plan: Plan, main: dict[str, int]) -> tuple["SteadyBlocks", dict[Pair, Places]]:
        """The symbolic phase, and the places of the blocks. Host work."""
        walk, arrived = Walk.build(system, plan, main, {})
        sums, places = {}, {}
        for pair, lists in arrived.items():
            sums[pair], places[pair] = PairSums.build(lists, (main[pair[0]], main[pair[1]]), diagonal=False)
        return cls(walk, sums), places

    def mappings(self, system: System) -> frozenset[str]:
        """The mappings whose Jacobian it asks for."""
        return frozenset() if self.kept is not None else self.walk.mappings(system)

    def masses(self, system: System) -> dict[Pair, Array] | None:
        """The blocks of the mass matrix, if all of it is kept."""
        steady = {item.name for item in self.walk.plan.items if item.kind == "mass"}
        if self.kept is None or "mass" not in self.kept.names or steady != set(system.masses):
            return None
        number = self.kept.names.index("mass")
        return {pair: values[number] for pair, values in self.kept.values.items()}

    def blocks(self, evaluation: Evaluation, terms: Terms, factors: Factors) -> dict[Pair, Array]:
        """What joins the matrix of these factors."""
        if self.kept is not None:
            return self.kept.sum(factors)
        arrived = self.walk.run(evaluation, terms, factors, {})
        return {pair: self.sums[pair](lists) for pair, lists in arrived.items()}

    def prepared(self, evaluation: Evaluation, terms: Terms) -> "SteadyBlocks":
        """These blocks, evaluated and kept, whatever was kept before. Of a scene with forces of other laws, that are not
        steady there, none are."""
        fresh = SteadyBlocks(self.walk, self.sums)
        system, items = evaluation.system, self.walk.plan.items
        names = {kind: [item.name for item in items if item.kind == kind] for kind in ("force", "mass")}
        if not items or contributions(with_only(system, forces=names["force"], masses=names["mass"]), terms) != items:
            return fresh
        parts = present(self.walk.plan, terms, system)
        dtype = jnp.result_type(*(evaluation.x[s] for s in system.main_states))
        kept = Parts.of(lambda factors: fresh.blocks(evaluation, terms, factors), parts, dtype)
        return SteadyBlocks(self.walk, self.sums, kept)
