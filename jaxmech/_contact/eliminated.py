"""The linear system of motion and contact together, the impulses eliminated: no compliance `W`, no factor of `A`.

    A x - H^T L s = a,      R H x + E s = c,      E a block for each contact

gives `(A + H^T L E^-1 R H) x = a + H^T L E^-1 c`. Where contacts hold, `E` is nil: there they yield a little, all of them by
the same part of their own mobility whatever friction is, and what it changes is mended by solving for what is left over.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx

from .._linear_solver.base.vectors import minus, norm, plus, zeros
from .._linear_solver.default import default_solver
from .._linear_solver.dense.elimination import inverse_by_elimination
from .._linear_solver.dense.lu import Dense
from .._linear_solver.fallback import Fallback
from .._linear_solver.krylov.bicgstab import BiCGStab
from .._linear_solver.krylov.pcg import PCG
from .._math.small_matmul import times_blocks, times_vectors
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.devices import is_run_by_many, on_cpu
from .._sparse.block_matrix import BlockMatrix
from .bicgstab import bicgstab
from .cone import scaling
from .host_factor import sparse_solve
from .linear_blocks import LOST
from .sparse_rows import SparseRows
from .sweeps import are_swept

YIELD = 1e-5  # the compliance of what holds, in units of the mobility of its contact
_FEW, _MANY = 300, 900  # unknowns up to which a dense factor is taken: of any scene, and of one with as many contacts
_SMALL = 60  # unknowns up to which it is taken however few contacts there are
_MOST = 150  # iterations of a linear solve


def way_of(A: Any, solver: Any, contacts: int) -> str:
    """How the motion with impulses eliminated is solved: "iterative", "dense"; "" where it better is not."""
    if solver is not None or not isinstance(A, BlockMatrix):
        return ""
    if isinstance(default_solver(A, inertial=True), Fallback | PCG | BiCGStab):
        return "iterative"
    size = A.in_size()
    # Of few contacts the compliance is the smaller matrix, and the motion is factored once, not in every step of Newton.
    few = size > _SMALL and 3 * contacts <= size
    if not few if size <= _FEW else size <= _MANY and 6 * contacts >= size:
        return "dense"
    return "iterative" if are_swept(A) else ""


def factor_solver(A: Any, solver: lx.AbstractLinearSolver | None = None) -> lx.AbstractLinearSolver:
    """`solver`, or what takes a row of each contact: of what is small a factor in the program, which the host would make for
    each scene of a batch, and solve with for each row."""
    if solver is not None:
        return solver
    return Dense() if isinstance(A, BlockMatrix) and A.in_size() <= _FEW else default_solver(A)


class Eliminated(eqx.Module):
    """The matrix `(A, -H^T L; R H, E)`, `L`, `R`, `E` blocks `(n, 3, 3)`.

    `give`: what is added to `E` where it is inverted. `scales` `(n, 3)`: what makes numbers of any size of masses and of
    friction alike, of rows and of columns of the blocks; `energy`: the square root of a mobility, which does so for momenta.
    """

    A: BlockMatrix
    rows: SparseRows
    L: Array
    E: Array
    R: Array
    give: Array
    scales: tuple[Array, Array]
    energy: Array
    way: str = eqx.field(static=True)

    @classmethod
    def of_law(
        cls, A: BlockMatrix, rows: SparseRows, mu: Array, slopes: tuple[Array, Array], give: Array, mobility: Array, way: str
    ) -> "Eliminated":
        """Of `P ds + B du`, `du = H x + C D ds`: `slopes` `(P, B)`, `give` `C` `(n, 3)`."""
        (P, B), D = slopes, scaling(mu)
        E, unit = P + B * (give * D)[:, None, :], jnp.eye(3, dtype=D.dtype)
        energy = jnp.sqrt(jnp.mean(mobility))
        columns = 1 / (jnp.where(D > 0, D, 1.0) * jnp.sqrt(mobility)[:, None])
        size = jnp.maximum(jnp.max(jnp.abs(E) * columns[:, None, :], axis=2), jnp.max(jnp.abs(B), axis=2) * energy)
        scales = 1 / jnp.where(size > 0, size, 1.0), columns
        # Of tangents without friction nothing is left, and they move nothing.
        lost = jnp.where(D > 0, LOST, YIELD) / (scales[0] * scales[1])
        more = YIELD * B * (mobility[:, None] * D)[:, None, :] + lost[:, :, None] * unit
        return cls(A, rows, D[:, :, None] * unit, E, B, more, scales, energy, way)

    @property
    def transposed(self) -> "Eliminated":
        """The transposed matrix."""
        L, E, R, give = (jnp.swapaxes(a, 1, 2) for a in (self.L, self.E, self.R, self.give))
        return Eliminated(self.A.transpose(), self.rows, -R, E, -L, give, self.scales[::-1], self.energy, self.way)

    def size(self, a: Fields, c: Array) -> Array:
        """How large right-hand sides are, in roots of energies."""
        return jnp.sqrt((self.energy * norm(a)) ** 2 + jnp.sum((self.scales[0] * c) ** 2))

    def left(self, x: Fields, s: Array, a: Fields, c: Array) -> tuple[Fields, Array]:
        """What `x` and `s` leave of the right-hand sides."""
        pushed = self.rows.pushed(times_vectors(self.L, s), x)
        rest = plus(minus(a, self.A.mv(x)), 1.0, pushed)
        return rest, c - times_vectors(self.R, self.rows.across(x, s.shape[0])) - times_vectors(self.E, s)

    def rounding(self, x: Fields, s: Array) -> Array:
        """What forces of that size are rounded by, in roots of energies: of contacts too that push against each other."""
        pushed = self.rows.sizes().pushed(jnp.abs(times_vectors(self.L, s)), x)
        return jnp.finfo(s.dtype).eps * self.energy * (norm(self.A.mv(x)) + norm(pushed))

    def solver(self) -> Callable[[Fields, Array, Any], tuple[Fields, Array, Fields]]:
        """`(a, c, rtol) -> (x, s, a - A x + H^T L s)`, nearly: with `give`."""
        rows, columns = self.scales
        E = small_inverse(rows[:, :, None] * (self.E + self.give) * columns[:, None, :])
        E = columns[:, :, None] * E * rows[:, None, :]
        G = jnp.einsum("nij,njk,nkl->nil", self.L, E, self.R)
        inner = _dense(self, G) if self.way == "dense" else _iterative(self, G)

        def solve(a: Fields, c: Array, rtol: Any) -> tuple[Fields, Array, Fields]:
            x, rest = inner(plus(a, 1.0, self.rows.pushed(times_vectors(self.L, times_vectors(E, c)), a)), rtol)
            return x, times_vectors(E, c - times_vectors(self.R, self.rows.across(x, c.shape[0]))), rest

        def mended(a: Fields, c: Array, rtol: Any) -> tuple[Fields, Array, Fields]:
            def more(_: Any, p: Any) -> Any:
                dx, ds, rest = solve(*self.left(p[0], p[1], a, c), rtol)
                return plus(p[0], 1.0, dx), p[1] + ds, rest

            return jax.lax.fori_loop(0, 2, more, (zeros(a), jnp.zeros_like(c), a))

        # What is added to `E` costs a step of Newton, and with it a factor, unless it is mended by the one at hand.
        return mended if self.way == "dense" else solve

    def product(self, G: Array) -> Callable[[Fields], Fields]:
        """`x -> (A + H^T G H) x`."""
        rows = self.rows
        return lambda x: plus(self.A.mv(x), 1.0, rows.pushed(times_vectors(G, rows.across(x, G.shape[0])), x))


def _dense(system: Eliminated, G: Array) -> Callable[[Fields, Any], tuple[Fields, Fields]]:
    A, rows, product = system.A, system.rows, system.product(G)
    places, H = rows.flat(A.offsets())
    M = A.to_dense().at[places[:, :, None], places[:, None, :]].add(jnp.einsum("nia,nij,njb->nab", H, G, H))
    inverse = _by_sparse_factor(M) if M.shape[0] > _FEW and on_cpu() and not is_run_by_many() else _by_dense_factor(M)

    def solve(b: Fields, rtol: Any) -> tuple[Fields, Fields]:
        del rtol
        x = inverse(jnp.concatenate([b[s].reshape(-1) for s, _, _ in A.sizes]))
        first = A.offsets()
        found = {s: x[first[s] : first[s] + n * d].reshape(n, d) for s, n, d in A.sizes}
        return found, minus(b, product(found))

    return solve


def _by_sparse_factor(M: Array) -> Callable[[Array], Array]:
    return lambda b: sparse_solve(M, b)


def _by_dense_factor(M: Array) -> Callable[[Array], Array]:
    # Every unknown by the size of its own: multipliers and turns beside displacements.
    size = jnp.max(jnp.abs(M), axis=1)
    scale = 1 / jnp.where(size > 0, size, 1.0)
    rows_alike = scale[:, None] * M
    size = jnp.max(jnp.abs(rows_alike), axis=0)
    unit = 1 / jnp.where(size > 0, size, 1.0)
    factor = jsl.lu_factor(rows_alike * unit)
    pivots = jnp.abs(jnp.diagonal(factor[0]))
    # What nothing resists: rounding would choose one of many motions, all of which solve.
    singular = jnp.min(pivots) <= pivots.size * jnp.finfo(pivots.dtype).eps * jnp.max(pivots)
    return lambda b: jnp.where(singular, jnp.nan, unit * jsl.lu_solve(factor, scale * b))


def _iterative(system: Eliminated, G: Array) -> Callable[[Fields, Any], tuple[Fields, Fields]]:
    """With the diagonal blocks of the nodes as preconditioner, contacts included."""
    A, rows = system.A, system.rows
    blocks = dict(A.diagonal)
    for s in rows.parts:
        nodes, more = rows.on_diagonal(s, G)
        blocks[s] = blocks[s].at[nodes].add(more)
    inverse = {s: block_inverse(b) for s, b in blocks.items()}

    def near(r: Fields) -> Fields:
        return {s: times_vectors(inverse[s], r[s]) for s in r}

    return lambda b, rtol: bicgstab(system.product(G), near, b, rtol, _MOST)[:2]


def small_inverse(E: Array) -> Array:
    """Of `(n, 3, 3)` that are of size 1 and may be nearly singular: Newton's step for the inverse mends the cofactors."""
    X = block_inverse(E)
    return times_blocks(X, 2 * jnp.eye(3, dtype=E.dtype) - times_blocks(E, X))


def block_inverse(blocks: Array) -> Array:
    """Of `(n, d, d)`; by cofactors for three, where a factor of each takes ten times as long."""
    if blocks.shape[-1] != 3:
        return inverse_by_elimination(blocks)
    a, b, c = jnp.moveaxis(blocks, 1, 0)
    adjugate = jnp.stack([jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)], axis=2)
    return adjugate / jnp.sum(a * adjugate[:, :, 0], axis=1)[:, None, None]
