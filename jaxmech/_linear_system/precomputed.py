"""A matrix assembled once and kept."""

import jax.numpy as jnp

from .._assembly.separate_terms import Parts, present
from .._model.arguments import checked
from .._model.system import State, System
from .._model.terms import Factors, Terms
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._sparse.block_matrix import BlockMatrix, Pair
from .._sparse.block_sparse import BlockSparse
from .base import AbstractLinearSystem
from .compatibility import BuiltFor, check_topology
from .matrix import MatrixLinearSystem


class PrecomputedMatrixSystem(AbstractLinearSystem):
    """The matrices of a scene at one state, kept apart: `A = m M + b B + k K + g G + c C` is a sum of arrays ever after.

    Make one with `PrecomputedMatrixSystem.build`, at the state to linearise about. Other factors (another time step) give
    their own matrix; another state gives the same one, whose factor `SparseDirect` then finds again. In `static_solve` and
    in steps with `newton=True` that is the modified Newton method: more iterations, none with a factorisation; the answer,
    and its derivatives, are the exact ones. A linearised step (`newton=False`) becomes a step of linear dynamics about that
    state. SOFA's PrecomputedMatrixSystem. Derivatives hold the matrix constant.
    Units: those of the factors. Raises `ValueError` for a scene of another topology.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapter 11.

    Example:

        kept = jm.solver.PrecomputedMatrixSystem.build(system, state)
        stiff = kept.assemble(system, state, jm.Factors.only("stiffness")).to_dense()
        assert kept.is_constant() and jnp.allclose(stiff, A.to_dense(), rtol=1e-4, atol=10.0)
    """

    matrix: MatrixLinearSystem
    parts: Parts

    @classmethod
    @checked
    def build(cls, system: System, state: State, terms: Terms = Terms()) -> "PrecomputedMatrixSystem":
        """Assemble every part at `state`. Outside `jit`; raises what `MatrixLinearSystem.build` raises."""
        matrix = MatrixLinearSystem.build(system, state, terms)
        return cls(matrix, _evaluated(matrix, system, state))

    @property
    def terms(self) -> Terms:
        """Those of the matrix."""
        return self.matrix.terms

    @property
    def built_for(self) -> BuiltFor | None:
        return self.matrix.built_for

    @checked
    def assemble(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        return self.constrain(system, self.unconstrained(system, state, factors))

    @checked
    def unconstrained(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        check_topology(f"this {type(self).__name__}", self.built_for, system)
        self.matrix.check("this PrecomputedMatrixSystem", system, state)
        values = self.parts.sum(factors)
        entries = {pair: BlockSparse(blocks, self.matrix.patterns[pair]) for pair, blocks in values.items()}
        dtype, indefinite = jnp.result_type(*values.values()), bool(system.multiplier_states)
        return BlockMatrix(entries, self.matrix.sizes, self.matrix.plan.symmetric, dtype, indefinite)

    @checked
    def constrain(self, system: System, operator: BlockMatrix) -> BlockMatrix:
        return self.matrix.constrain(system, operator)

    @checked
    def is_exact(self, system: System) -> bool:
        return False

    def is_constant(self) -> bool:
        return True


@compiled
def _evaluated(matrix: MatrixLinearSystem, system: System, state: State) -> Parts:
    def blocks(factors: Factors) -> dict[Pair, Array]:
        return {pair: entry.values for pair, entry in matrix.unconstrained(system, state, factors).entries.items()}

    return Parts.of(blocks, present(matrix.plan, matrix.terms, system), state.time.dtype)
