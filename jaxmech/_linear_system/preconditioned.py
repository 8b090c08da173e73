"""Products without a matrix, and beside them a matrix for the preconditioner that is assembled every few steps."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._model.arguments import checked
from .._model.dynamics import Fields
from .._model.system import State, System
from .._model.terms import Factors, Terms
from .._runtime.argument_checks import check_counts, check_flags, check_instance, plain
from .._runtime.array_types import Array, Int
from .._runtime.precision import compiled
from .._sparse.block_matrix import BlockMatrix, Pair
from .._sparse.block_sparse import BlockSparse
from .._sparse.preconditioned import PreconditionedOperator
from .base import AbstractLinearSystem
from .compatibility import BuiltFor, check_topology
from .matrix import MatrixLinearSystem
from .matrix_free import MatrixFreeSystem
from .rotations import nodal_rotations


class KeptMatrix(eqx.Module):
    """A matrix of a past step, part of the carry of an integrator.

    `values`: its blocks by pair of states; `position`: where the main states were when it was assembled; `age`: how many
    steps it has seen, 0 of one that is still to be assembled.
    """

    values: dict[Pair, Array]
    position: Fields
    age: Int[Array, ""]


def _check_carry(this: AbstractLinearSystem, system: System, state: State, carry: Any, *_: Any, **__: Any) -> None:
    del state
    check_topology(f"this {type(this).__name__}", this.built_for, system)
    check_instance(type(this).__name__, "the carry", carry, KeptMatrix)


class PreconditionedMatrixFreeSystem(AbstractLinearSystem):
    """The operator of `MatrixFreeSystem` with a matrix near it, assembled anew at every `every`-th step.

    For iterative solvers: their preconditioners are made from the matrix that was kept, `BlockJacobi` and its like,
    `StaleFactor()`, or `WarpedFactor()`, which also asks how every node has turned since then. Make one with
    `PreconditionedMatrixFreeSystem.build`. SOFA's system of that name, its `assemblingRate`, and its RotationMatrixSystem.

    What is kept is part of the carry of an integrator, never of a `State`. Without a carry, the matrix is assembled each
    time it is used. Nothing is differentiated through what is kept: it changes the number of iterations, not what is solved.
    Units: those of the factors. `build` raises `ValueError` for a rate below 1.
    Source: C. T. Kelley, *Solving Nonlinear Equations with Newton's Method*, 2003, doi:10.1137/1.9780898718898, chapter 3
    (Newton-Krylov methods and their preconditioners).

    Example:

        near = jm.solver.PreconditionedMatrixFreeSystem.build(system, state, every=5)
        operator = near.assemble(system, state, jm.Factors.only("stiffness"))
        assert jnp.allclose(operator.near.to_dense(), A.to_dense(), rtol=1e-4, atol=10.0)
    """

    products: AbstractLinearSystem
    matrix: MatrixLinearSystem
    every: int = eqx.field(static=True)
    kept: KeptMatrix | None = None

    @classmethod
    @checked
    def build(
        cls, system: System, state: State, terms: Terms = Terms(), *, every: int = 10, assembled: bool = False
    ) -> "PreconditionedMatrixFreeSystem":
        """The symbolic phase of the matrix. `assembled`: take products with the matrix of the present, assembled at every
        step (faster products, more memory), and keep only its factor.

        Raises `ValueError` for a rate that is not a whole number of at least 1; what `MatrixLinearSystem.build` raises.
        """
        every = plain(every)
        check_counts("PreconditionedMatrixFreeSystem", every=every)
        check_flags("PreconditionedMatrixFreeSystem", assembled=assembled)
        matrix = MatrixLinearSystem.build(system, state, terms)
        return cls(matrix if assembled else MatrixFreeSystem(terms), matrix, every)

    @property
    def terms(self) -> Terms:
        """Those of the products."""
        return self.products.terms

    @property
    def built_for(self) -> BuiltFor | None:
        return self.matrix.built_for

    @checked
    def assemble(self, system: System, state: State, factors: Factors = Factors()) -> PreconditionedOperator:
        return self.constrain(system, self.unconstrained(system, state, factors))

    @checked
    def unconstrained(self, system: System, state: State, factors: Factors = Factors()) -> PreconditionedOperator:
        check_topology(f"this {type(self).__name__}", self.built_for, system)
        self.matrix.check("this PreconditionedMatrixFreeSystem", system, state)
        operator = self.products.unconstrained(system, state, factors)
        kept = self._assembled(system, state, factors) if self.kept is None else self.kept
        entries = {pair: BlockSparse(kept.values[pair], pattern) for pair, pattern in self.matrix.patterns.items()}
        dtype = jnp.result_type(*kept.values.values())
        indefinite = bool(system.multiplier_states)
        near = BlockMatrix(entries, self.matrix.sizes, self.matrix.plan.symmetric, dtype, indefinite)
        turned = nodal_rotations(system, self.matrix.patterns, kept.position, state.position)
        return PreconditionedOperator(operator, near, turned)

    def as_products(self, system: System, state: State, factors: Factors = Factors()) -> lx.AbstractLinearOperator:
        return self.products.as_products(system, state, factors)

    @checked
    def constrain(self, system: System, operator: PreconditionedOperator) -> PreconditionedOperator:
        return PreconditionedOperator(
            self.products.constrain(system, operator.operator),
            jax.lax.stop_gradient(self.matrix.constrain(system, operator.near)),
            operator.rotations,
        )

    @checked
    def is_exact(self, system: System) -> bool:
        return self.products.is_exact(system)

    @checked
    def init(self, system: System, state: State) -> KeptMatrix:
        """Room for the matrix, which the first step assembles."""
        check_topology(f"this {type(self).__name__}", self.built_for, system)
        size, dtype = {s: d for s, _, d in self.matrix.sizes}, jnp.result_type(*state.position.values())
        patterns = self.matrix.patterns.items()
        values = {(s, t): jnp.zeros((pattern.blocks, size[s], size[t]), dtype) for (s, t), pattern in patterns}
        return KeptMatrix(values, jax.lax.stop_gradient(dict(state.position)), jnp.zeros((), jnp.int32))

    @property
    def has_updates(self) -> bool:
        return True

    @checked
    @functools.partial(compiled, before=_check_carry)
    def updated(self, system: System, state: State, carry: Any, factors: Factors) -> KeptMatrix:
        """The matrix assembled at `state` if it is time, else as it was."""

        def assembled() -> KeptMatrix:
            kept = self._assembled(system, state, factors)
            return KeptMatrix(kept.values, kept.position, carry.age + 1)

        def old() -> KeptMatrix:
            return KeptMatrix(carry.values, carry.position, carry.age + 1)

        return jax.lax.cond(carry.age % self.every == 0, assembled, old)

    @checked
    def revalued(self, system: System, state: State, carry: Any) -> Any:
        """Itself: a preconditioner of former numbers changes how many iterations it takes, not what is solved."""
        del system, state
        return carry

    def using(self, carry: Any) -> "PreconditionedMatrixFreeSystem":
        check_instance("PreconditionedMatrixFreeSystem", "the carry", carry, KeptMatrix)
        return PreconditionedMatrixFreeSystem(self.products, self.matrix, self.every, carry)

    def _assembled(self, system: System, state: State, factors: Factors) -> KeptMatrix:
        matrix = self.matrix.unconstrained(system, state, factors)
        kept: Any = ({pair: entry.values for pair, entry in matrix.entries.items()}, dict(state.position))
        return KeptMatrix(*jax.lax.stop_gradient(kept), jnp.zeros((), jnp.int32))
