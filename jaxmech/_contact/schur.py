"""The linear system of motion and contact together, by the factor of the motion and the compliance `W`."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx

from .._linear_solver.base.derivative import constant
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .linear_blocks import LOST
from .sparse_rows import SparseRows

IMPULSES = "contact impulses"  # the key of `ds` beside those of states


class Compliance(eqx.Module):
    """`H`, a row for each coordinate of each contact, `V = A^-1 H^T`, and `W = H V`; rows by state `(3n, nodes, d)`."""

    H: dict[str, Array]
    V: dict[str, Array]
    W: Array

    @classmethod
    def of(cls, H: dict[str, Array], V: dict[str, Array]) -> "Compliance":
        """With their product."""
        W = sum(jnp.einsum("ind,jnd->ij", H[s], V[s]) for s in H)
        return cls(H, V, jnp.asarray(W))

    def across(self, x: dict[str, Array]) -> Array:
        """`H x` `(n, 3)`."""
        return jnp.asarray(sum(jnp.einsum("ind,nd->i", rows, x[s]) for s, rows in self.H.items())).reshape(-1, 3)

    def moved(self, r: Array) -> dict[str, Array]:
        """`A^-1 H^T r`."""
        return {s: jnp.einsum("ind,i->nd", rows, r.reshape(-1)) for s, rows in self.V.items()}

    def pushed(self, r: Array) -> dict[str, Array]:
        """`H^T r`."""
        return {s: jnp.einsum("ind,i->nd", rows, r.reshape(-1)) for s, rows in self.H.items()}

    def returned(self, x: dict[str, Array]) -> Array:
        """`V^T x` `(n, 3)`."""
        return jnp.asarray(sum(jnp.einsum("ind,nd->i", rows, x[s]) for s, rows in self.V.items())).reshape(-1, 3)


def free_and_compliance(
    state: Any, solver: Any, rows: SparseRows, b: Fields, n: int
) -> tuple[Fields, lx.Solution, Compliance]:
    """`A^-1 b`, what the solver says of it or of the first row that fails, and `H P`, `A^-1 P H^T` and `W`, by a solver that
    has a factor as its `state`.

    At once: two batches of solves beside each other may wait for each other's threads (see `Dense`).
    """
    H = rows.dense(b, n)
    sides = {s: jnp.concatenate([b[s][None], H[s]]) for s in b}
    x, result, stats = jax.vmap(lambda b: solver.compute(state, b, {}))(sides)
    free, asked = jax.tree.map(lambda a: a[0], x), sum(jnp.sum(jnp.abs(a), axis=(1, 2)) for a in sides.values()) != 0
    told = jnp.argmax((result != lx.RESULTS.successful) & asked)  # a row that was not solved makes `W` wrong
    result, stats = jax.tree.map(lambda a: a[told], (result, stats))
    return free, lx.Solution(None, result, stats, None), Compliance.of(H, {s: a[1:] for s, a in x.items()})


class ContactSchur(lx.AbstractLinearSolver):
    """Solves `A x - H^T D s = a`, `B H x + (P + B C D) s = c`, `P` and `B` a block for each contact: one solve with `A`, and
    one with `P + B (W + C) D`. `C`: the compliance of contacts, of its normals."""

    A: Any
    solver: lx.AbstractLinearSolver
    rows: Compliance
    P: Array
    B: Array
    D: Array
    C: Array

    def init(self, operator: Any, options: dict[str, Any]):
        del operator, options
        n = self.P.shape[0]
        W = self.rows.W + jnp.diag(self.C.reshape(-1))
        M = jnp.einsum("nij,njmk->nimk", self.B, W.reshape(n, 3, n, 3)) * self.D
        M = M.at[jnp.arange(n), :, jnp.arange(n)].add(self.P).reshape(3 * n, 3 * n)
        # Friction and masses of any size: as if contacts were equally mobile, and rows of size 1.
        mobility = jnp.mean(jnp.diagonal(W).reshape(n, 3), axis=1)
        mobility = jnp.where(mobility > 0, mobility, 1.0)[:, None]
        columns = (1 / (jnp.where(self.D > 0, self.D, 1.0) * jnp.sqrt(mobility))).reshape(-1)
        size = jnp.max(jnp.abs(M) * columns, axis=1)
        rows = 1 / jnp.where(size > 0, size, 1.0)
        factor = jsl.lu_factor(rows[:, None] * M * columns + LOST * jnp.eye(3 * n, dtype=M.dtype))
        return self.solver.init(constant(self.A), {}), (factor, rows, columns), False

    def compute(self, state: Any, vector: dict[str, Array], options: dict[str, Any]):
        inner, (factor, rows, columns), transposed = state
        a = {s: b for s, b in vector.items() if s != IMPULSES}
        c = vector[IMPULSES]

        def solve(b: dict[str, Array]) -> Any:
            return self.solver.compute(inner, b, options)

        if transposed:
            rhs = columns * (c + self.D * self.rows.returned(a)).reshape(-1)
            s = (rows * jsl.lu_solve(factor, rhs, trans=1)).reshape(c.shape)
            back = self.rows.pushed(jnp.einsum("nji,nj->ni", self.B, s))
            x, result, stats = solve({k: a[k] - back[k] for k in a})
        else:
            x, result, stats = solve(a)
            rhs = c - jnp.einsum("nij,nj->ni", self.B, self.rows.across(x))
            s = (columns * jsl.lu_solve(factor, rows * rhs.reshape(-1))).reshape(c.shape)
            more = self.rows.moved(self.D * s)
            x = {k: x[k] + more[k] for k in x}
        return {**x, IMPULSES: s}, result, stats

    def transpose(self, state: Any, options: dict[str, Any]):
        inner, factor, transposed = state
        turned, _ = self.solver.transpose(inner, options)
        return (turned, factor, not transposed), options

    def conj(self, state: Any, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True
