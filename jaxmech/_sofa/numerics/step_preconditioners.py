"""Preconditioners of SOFA's conjugate gradients: of the matrix of a step, or of one of the steps before.

Sources: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, chapter 10; what is kept and turned is in
H. Courtecuisse et al., "Preconditioner-based contact response", MICCAI 2011, doi:10.1007/978-3-642-23623-5_40.
"""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._linear_solver.base.vectors import Vector
from ..._linear_solver.dense.elimination import inverse_by_elimination
from ..._runtime.array_types import Array

Applied = Callable[[Vector], Vector]


class AbstractStepPreconditioner(eqx.Module):
    """What takes the place of `A^-1`. It may keep something from step to step."""

    @property
    def keeps(self) -> bool:
        """Whether it keeps a matrix. Static."""
        return False

    def first_kept(self, A: Any) -> Any:
        """What it keeps before the first step."""
        del A
        return None

    def refreshed(self, A: Any, kept: Any, first: Array) -> Any:
        """What it keeps from this step on."""
        del A, first
        return kept

    @abc.abstractmethod
    def applied(self, A: Any, kept: Any, turns: Any) -> Applied:
        """`M^-1` as a function of a residual; `turns`: rotations of the nodes since rest, where they are known."""


class Unchanged(AbstractStepPreconditioner):
    """None."""

    def applied(self, A: Any, kept: Any, turns: Any) -> Applied:
        return lambda r: r


class Nil(AbstractStepPreconditioner):
    """The inverse of a matrix that nobody has assembled: conjugate gradients end before they begin."""

    def applied(self, A: Any, kept: Any, turns: Any) -> Applied:
        return lambda r: {s: jnp.zeros_like(a) for s, a in r.items()}


class Diagonal(AbstractStepPreconditioner):
    """JacobiPreconditioner."""

    def applied(self, A: Any, kept: Any, turns: Any) -> Applied:
        diagonal = {s: jnp.diagonal(blocks, axis1=1, axis2=2) for s, blocks in A.diagonal.items()}
        return lambda r: {s: a / diagonal[s] for s, a in r.items()}


class DiagonalBlocks(AbstractStepPreconditioner):
    """BlockJacobiPreconditioner."""

    def applied(self, A: Any, kept: Any, turns: Any) -> Applied:
        inverses = {s: inverse_by_elimination(blocks) for s, blocks in A.diagonal.items()}
        return lambda r: {s: jnp.einsum("nij,nj->ni", inverses[s], a) for s, a in r.items()}


class BackwardForwardSweeps(AbstractStepPreconditioner):
    """SSORPreconditioner: `M = (D/w + U) w D^-1 (D/w + L) / (2 - w)`, the sweep back first. The matrix is dense here."""

    omega: Array

    def applied(self, A: Any, kept: Any, turns: Any) -> Applied:
        dense, w = A.to_dense(), self.omega
        diagonal = jnp.diagonal(dense)
        upper, lower = (half(dense, k) + jnp.diag(diagonal / w) for half, k in ((jnp.triu, 1), (jnp.tril, -1)))

        def apply(r: Vector) -> Vector:
            flat = jnp.concatenate([r[s].reshape(-1) for s in sorted(r)])
            half = jax.scipy.linalg.solve_triangular(upper, flat)
            whole = jax.scipy.linalg.solve_triangular(lower, half * diagonal / w, lower=True) * jnp.where(w == 1, 1.0, 2 - w)
            ends, pieces = 0, {}
            for s in sorted(r):
                pieces[s] = whole[ends : ends + r[s].size].reshape(r[s].shape)
                ends += r[s].size
            return pieces

        return apply


class KeptMatrix(NamedTuple):
    """The matrix of the step at which it was last assembled, and how many steps ago that was."""

    A: Any
    age: Array


class Factored(AbstractStepPreconditioner):
    """A direct solver of the matrix as it was up to `every` steps ago (0: in the first step), `z = R A0^-1 R^T r`.

    `turned`: `R` holds the rotations of the nodes since rest, but for the step in which the matrix is new and `every` is not
    0. SOFA's direct solvers as preconditioners, WarpPreconditioner (`turned`), PrecomputedWarpPreconditioner (`every=0`).
    """

    solver: lx.AbstractLinearSolver
    every: int = eqx.field(static=True, default=1)
    turned: bool = eqx.field(static=True, default=False)

    @property
    def keeps(self) -> bool:
        return self.every != 1

    def first_kept(self, A: Any) -> KeptMatrix:
        return KeptMatrix(A, jnp.zeros((), jnp.int32))

    def refreshed(self, A: Any, kept: KeptMatrix | None, first: Array) -> Any:
        if kept is None:
            return None
        new = first | (kept.age + 1 >= self.every) if self.every else first
        matrix = jax.tree.map(lambda now, then: jnp.where(new, now, then), A, kept.A)
        return KeptMatrix(matrix, jnp.where(new, 0, kept.age + 1))

    def applied(self, A: Any, kept: KeptMatrix | None, turns: Any) -> Applied:
        A0 = A if kept is None else kept.A

        def apply(r: Vector) -> Vector:
            if not self.turned or turns is None or kept is None:
                return lx.linear_solve(A0, r, self.solver, throw=False).value
            there = _turned(turns, r, "nji,nj->ni", kept.age, self.every)
            z = lx.linear_solve(A0, there, self.solver, throw=False).value
            return _turned(turns, z, "nij,nj->ni", kept.age, self.every)

        return apply


def _turned(turns: Any, r: Vector, product: str, age: Array, every: int) -> Vector:
    fresh = (age == 0) & (every != 0)
    return {s: jnp.where(fresh, a, jnp.einsum(product, turns[s], a)) if s in turns else a for s, a in r.items()}
