"""The assembled linear system: the pattern once, outside `jit`; the values as often as you like, inside."""

import dataclasses
import functools
from os import PathLike
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from .._assembly.block_assembly import BlockAssembly
from .._assembly.evaluation import LocalValues, Wanted, evaluate, total_force
from .._assembly.mapping_walk import Content, Expansion, Key, Side, Step
from .._assembly.separate_terms import Parts, constant_parts
from .._assembly.structure import Contribution, MatrixKind, Plan, approximate_tangents
from .._model.arguments import checked
from .._model.constraint_projection import Touched, check_constraints, constrain_matrix, constrained_nodes, touched_blocks
from .._model.dynamics import Fields
from .._model.scene_checks import check_elements, check_nodes, component_stencils
from .._model.system import State, System, check_inputs
from .._model.terms import Factors, Terms
from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, UInt8
from .._runtime.precision import compiled
from .._runtime.results import is_traced
from .._sparse.block_accumulation import PairSums
from .._sparse.block_matrix import BlockMatrix, Pair, Sizes
from .._sparse.block_sparse import BlockSparse
from .._sparse.element_scatter import ElementSums, ListSums
from .._sparse.gather_reduction import Reduction
from .._sparse.pattern import BlockPattern
from .._sparse.spmv_gather import RowProducts
from .base import AbstractLinearSystem
from .compatibility import BuiltFor, Signature, check_fit, check_pattern, check_topology, signature, topology
from .matrix_free import MatrixFreeSystem
from .plan_check import Room, check_plans
from .serialization import load_pytree, save_pytree


def _same_topology(this: AbstractLinearSystem, system: System, *_: Any, **__: Any) -> None:
    check_topology(f"this {type(this).__name__}", this.built_for, system)


on_its_topology = functools.partial(compiled, before=_same_topology)


class MatrixLinearSystem(AbstractLinearSystem):
    """Assembles the matrix of a scene into a fixed pattern, the union of the patterns of `K`, `B`, `M` and `G`.

    Make one with `MatrixLinearSystem.build(system, state)`, outside `jit`; it is a pytree of index arrays, so it is an
    argument like any other, and a scene of equal sizes does not re-compile. It serves every scene of the same topology,
    whatever the numbers are: parameters, positions, factors. A scene with other components, or of other sizes, is refused
    (`ValueError`), under `jit` as well; one with other node numbers wherever these are not traced. `save` and `load` keep
    it in a file; `share_pattern` gives several one pattern.
    Units: those of the factors, `K` [N/m] alone. `build` raises `ValueError` for node numbers that do not exist, constraints
    that disagree, and under `jit`.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, section 3.4
    (block rows); T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2 (assembly).

    Example:

        built = jm.MatrixLinearSystem.build(system, state)
        K = built.assemble(system, state, jm.Factors.only("stiffness"))  # [N/m]
        assert K.to_dense().shape == (24, 24) and K.symmetric
    """

    terms: Terms = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)
    constant: BlockAssembly  # of what no motion changes
    varying: BlockAssembly  # of the rest, which the blocks of that join
    patterns: dict[Pair, BlockPattern]
    touched: tuple[Touched, ...]
    sizes: Sizes = eqx.field(static=True)
    built: Signature = eqx.field(static=True)
    topology: UInt8[Array, "32"]
    kept: Parts | None = None  # what `constant` gives, where it has been evaluated

    @classmethod
    @checked
    def build(cls, system: System, state: State, terms: Terms = Terms()) -> "MatrixLinearSystem":
        """The symbolic phase: the blocks that the scene's topology makes non-zero, for ever.

        Raises `ValueError` for node numbers out of range, for element functions that cannot be evaluated or give other
        shapes, for constraints that disagree, and when called under `jit`.
        """
        if is_traced((state.position, [s for _, s in _indices(system)])):
            raise ValueError(
                "MatrixLinearSystem.build needs node numbers and states that are not traced: call it outside jit, vmap and "
                "derivatives, and hand over what it makes."
            )
        main = {s: x.shape[0] for s, x in state.position.items()}
        check_nodes(system, main)
        check_elements(system, jnp.result_type(*state.position.values()))  # the state may be of a scene without them
        check_constraints(system, state)
        plan = Plan.build(system, terms)
        of_constant, of_varying = plan.divided(system)
        constant, there = BlockAssembly.build(system, of_constant, main, {}, diagonal=False)
        varying, places = BlockAssembly.build(system, of_varying, main, there, diagonal=True)
        patterns = {pair: BlockPattern.build(*found, (main[pair[0]], main[pair[1]])) for pair, found in places.items()}
        touched = touched_blocks(constrained_nodes(system), places) if terms.constrained else ()
        sizes = tuple((s, main[s], system.dofs[s].deriv_size) for s in system.main_states)
        return cls(terms, plan, constant, varying, patterns, touched, sizes, signature(system), topology(system))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the pattern and everything else that `build` found out to an `.npz` file of this name.

        An old file of that name is replaced by a whole one or, where writing is interrupted, left as it is.
        """
        save_pytree(path, self, _SAVED)

    @classmethod
    def load(cls, path: str | PathLike[str], system: System, state: State) -> "MatrixLinearSystem":
        """Read what `save` wrote, without the symbolic phase.

        Raises `ValueError` for a file that is not of this kind or version, or whose contents have changed since, and for a
        scene that is not the one it was built for: other components, other sizes, other node numbers.
        """
        loaded = load_pytree(path, cls, _SAVED)
        who = f"the MatrixLinearSystem in {str(path)!r}"
        loaded.check(who, system, state)
        check_topology(who, loaded.built_for, system)
        check_plans(who, loaded, Room.of(system, loaded.sizes, loaded.patterns))
        if loaded.plan != Plan.build(system, loaded.terms):
            raise ValueError(f"{who} was built for forces that depend on other things than those of this scene.")
        return loaded

    @property
    def built_for(self) -> BuiltFor | None:
        return self.built, self.topology

    def check(self, who: str, system: System, state: State) -> None:
        """Raise `ValueError` unless a scene and a state are of the shapes that this was built for."""
        check_inputs(who, system, state)
        check_fit(who, self.built, self.sizes, system, state)

    @checked
    @on_its_topology
    def assemble(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        return self.constrain(system, self.unconstrained(system, state, factors))

    @checked
    @on_its_topology
    def unconstrained(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        self.check("this MatrixLinearSystem", system, state)
        return self.matrix(evaluate(system, state, self.wanted(system)), factors)

    @checked
    @on_its_topology
    def linearized(
        self, system: System, state: State, factors: Factors = Factors(), *, weights: bool = True
    ) -> tuple[BlockMatrix, Fields]:
        self.check("this MatrixLinearSystem", system, state)
        values = evaluate(system, state, self.wanted(system) | Wanted(forces=frozenset(system.force_fields)))
        return self.matrix(values, factors), total_force(values, weights=weights)

    @checked
    def momentum(self, system: System, state: State, velocity: Fields) -> Fields:
        check_topology(f"this {type(self).__name__}", self.built_for, system)
        M = self.kept_masses(system)
        return super().momentum(system, state, velocity) if M is None else M.mv(velocity)

    @checked
    def kept_masses(self, system: System) -> BlockMatrix | None:
        kept, constant = self.kept, {item.name for item in self.constant.plan.items if item.is_mass}
        values = None if kept is None or constant != set(system.masses) else kept.part("mass")
        # Distinct blocks in row-major order, of places that the pattern has: as many are the same ones.
        if values is None or any(p not in values or values[p].shape[0] != a.blocks for p, a in self.patterns.items()):
            return None
        entries = {pair: BlockSparse(blocks, self.patterns[pair]) for pair, blocks in values.items()}
        return BlockMatrix(entries, self.sizes, True, jnp.result_type(*values.values()))

    def wanted(self, system: System) -> Wanted:
        """What `matrix` asks to have been evaluated."""
        wanted = self.varying.wanted(system)
        return wanted if self.kept is not None else self.constant.wanted(system) | wanted

    def matrix(self, values: LocalValues, factors: Factors) -> BlockMatrix:
        """The matrix before constraints: local matrices, mapped to the main states and summed into the pattern."""
        constant = self.constant(values, self.terms, factors, {}) if self.kept is None else self.kept.sum(factors)
        blocks = self.varying(values, self.terms, factors, constant)
        dtype = jnp.result_type(*(values.x[s] for s, _, _ in self.sizes))
        size = {s: d for s, _, d in self.sizes}
        entries = {}
        for pair, pattern in self.patterns.items():
            total = blocks[pair] if pair in blocks else jnp.zeros((pattern.blocks, size[pair[0]], size[pair[1]]))
            entries[pair] = BlockSparse(total.astype(dtype), pattern)
        return BlockMatrix(entries, self.sizes, self.plan.symmetric, dtype, bool(values.system.multiplier_states))

    def as_products(self, system: System, state: State, factors: Factors = Factors()) -> lx.AbstractLinearOperator:
        # A derivative of every entry of a matrix costs many times that of the force that a product is; but where a tangent
        # is not that derivative, a product with the matrix is another.
        free = MatrixFreeSystem(self.terms)
        same = free.serves(system) and not approximate_tangents(system)
        return (free if same else self).unconstrained(system, state, factors)

    @checked
    def constrain(self, system: System, operator: BlockMatrix) -> BlockMatrix:
        if not self.terms.constrained or not system.projections:
            return operator
        check_topology(f"this {type(self).__name__}", self.built_for, system)
        check_pattern("constrain", operator, self.sizes, self.patterns)
        return constrain_matrix(system, self.touched, operator)

    @checked
    def is_exact(self, system: System) -> bool:
        return self.plan.exact

    @checked
    def is_rate_of_force(self, system: System) -> bool:
        return self.plan.is_rate_of_force and self.terms.damping

    def is_constant(self) -> bool:
        plan = self.varying.plan
        return not (plan.items or plan.geometric or plan.velocity)

    @checked
    @on_its_topology
    def init(self, system: System, state: State) -> Parts | None:
        """What of the matrix no motion changes: masses, and linear forces through linear mappings; None: nothing."""
        self.check("this MatrixLinearSystem", system, state)
        return constant_parts(self.constant, self.terms, system, state)

    def using(self, carry: Any) -> "MatrixLinearSystem":
        if carry is None:
            return self
        check_instance("MatrixLinearSystem", "the carry", carry, Parts)
        if not set(carry.values) <= set(self.patterns):
            raise ValueError(f"MatrixLinearSystem: the carry is of blocks {sorted(carry.values)}, another linear system's.")
        return dataclasses.replace(self, kept=carry)


_SAVED = (MatrixLinearSystem, BlockAssembly, Parts, Plan, Contribution, Terms, Step, Expansion, Key)
_SAVED += (MatrixKind, Content, Side)
_SAVED += (PairSums, ElementSums, ListSums, Reduction, RowProducts, BlockPattern, Touched)


def _indices(system: System) -> list:
    return [(name, tuple(s.nodes for s in stencils)) for name, stencils in component_stencils(system)]
