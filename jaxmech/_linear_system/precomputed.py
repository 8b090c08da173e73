"""A matrix assembled once and kept."""

import equinox as eqx
import jax
import jax.numpy as jnp

from .._assembly import Factors, Terms
from .._projection import Plan
from .._sparse.block_matrix import BlockMatrix, Pair
from .._sparse.block_sparse import BlockSparse
from .._system import State, System
from .._typing import Array, Float
from .base import AbstractLinearSystem
from .matrix import MatrixLinearSystem


class PrecomputedMatrixSystem(AbstractLinearSystem):
    """The matrices of a scene at one state, kept apart: `A = m M + b B + k K + g G + c C` is a sum of arrays ever after.

    Make one with `PrecomputedMatrixSystem.build`, at the state to linearise about. Other factors (another time step) give
    their own matrix; another state gives the same one, whose factor `SparseDirect` then finds again. In `static_solve` and
    in steps with `newton=True` that is the modified Newton method: more iterations, none with a factorisation; the answer,
    and its derivatives, are the exact ones. A linearised step (`newton=False`) becomes a step of linear dynamics about that
    state. SOFA's PrecomputedMatrixSystem. Derivatives hold the matrix constant.
    """

    matrix: MatrixLinearSystem
    values: dict[Pair, Float[Array, "p z r c"]]
    parts: tuple[str, ...] = eqx.field(static=True)  # of `PARTS`, those that are more than nothing

    @classmethod
    def build(cls, system: System, state: State, terms: Terms = Terms()) -> "PrecomputedMatrixSystem":
        """Assemble every part at `state`. Outside `jit`; raises what `MatrixLinearSystem.build` raises."""
        matrix = MatrixLinearSystem.build(system, state, terms)
        parts = _present(matrix.walk.plan, terms, system)
        return cls(matrix, _evaluated(matrix, system, state, parts), parts)

    @property
    def terms(self) -> Terms:
        """Those of the matrix."""
        return self.matrix.terms

    def assemble(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        return self.constrain(system, self.unconstrained(system, state, factors))

    def unconstrained(self, system: System, state: State, factors: Factors = Factors()) -> BlockMatrix:
        self.matrix.check("this PrecomputedMatrixSystem", system, state)
        dtype = jnp.result_type(*self.values.values())
        numbers = jnp.stack([jnp.asarray(factors.of(part), dtype) for part in self.parts]) if self.parts else jnp.zeros(0)
        entries = {
            pair: BlockSparse(jnp.einsum("p,pzrc->zrc", numbers, values), self.matrix.patterns[pair])
            for pair, values in self.values.items()
        }
        return BlockMatrix(entries, self.matrix.sizes, self.matrix.walk.plan.symmetric, dtype)

    def constrain(self, system: System, operator: BlockMatrix) -> BlockMatrix:
        return self.matrix.constrain(system, operator)

    def is_exact(self, system: System) -> bool:
        return False


def _present(plan: Plan, terms: Terms, system: System) -> tuple[str, ...]:
    present = {
        "mass": terms.mass and any(item.kind == "mass" for item in plan.items),
        "damping": any(item.damping for item in plan.items),
        "stiffness": terms.stiffness and any(item.stiffness for item in plan.items),
        "rayleigh": terms.has_rayleigh and bool(system.rayleigh),
        "geometric": bool(plan.geometric or plan.velocity),
    }
    return tuple(part for part, there in present.items() if there)


@eqx.filter_jit
def _evaluated(matrix: MatrixLinearSystem, system: System, state: State, parts: tuple[str, ...]) -> dict[Pair, Array]:
    """The blocks of every part. Nothing but the factors is batched: elements are evaluated once."""
    one = jnp.eye(len(parts), dtype=state.time.dtype)
    absent = jnp.zeros(len(parts), state.time.dtype)
    factors = Factors.only()
    factors = Factors(**{part: one[parts.index(part)] if part in parts else absent for part in vars(factors)})

    def blocks(factors: Factors) -> dict[Pair, Array]:
        return {pair: entry.values for pair, entry in matrix.unconstrained(system, state, factors).entries.items()}

    return jax.vmap(blocks)(factors)
