"""The generalised minimal residual method, for unsymmetric operators."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl

from ..._runtime.argument_checks import check_counts, plain
from ..._runtime.array_types import Array, Float
from ..base.outcome import FINE, SINGULAR
from ..base.vectors import Vector, dtype_of, norm
from ..preconditioner.base import AbstractPreconditioner
from .iteration import AbstractKrylov, AbstractRecursion, check_krylov

_NIL = 16.0  # rounding units: a product that leaves the space by less has not left it
_CREEP = 0.999


class GMRES(AbstractKrylov):
    """Flexible restarted GMRES for any square operator; memory `2 restart + 1` vectors.

    `rtol`, `atol`, `max_steps`, `give_up`, the option `x0` and `stats`: as for `PCG`. `restart`: steps between restarts; a
    restart that reduces the residual by less than a thousandth ends the solve in `RESULTS.stagnation`.
    `preconditioner`: `BlockJacobi()` for a `BlockMatrix` and none for other operators, unless given; it acts from the right,
    so that the residual is the true one, and need not be symmetric. A singular operator without solution ends in
    `RESULTS.singular` or `RESULTS.stagnation`.
    Source: Y. Saad and M. H. Schultz, SIAM J. Sci. Stat. Comput. 7 (1986) 856, doi:10.1137/0907058; Y. Saad, SIAM J. Sci.
    Comput. 14 (1993) 461, doi:10.1137/0914028.
    Units as for `PCG`: `atol` [N] where `b` is a force.

    Example:

        turning = lx.MatrixLinearOperator(jnp.array([[2.0, 1.0], [-1.0, 2.0]]))  # not symmetric
        x = lx.linear_solve(turning, jnp.array([3.0, 1.0]), jm.solver.GMRES(restart=2)).value
        assert jnp.allclose(x, 1.0, atol=1e-3)
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = eqx.field(static=True, converter=plain, default=None)
    preconditioner: AbstractPreconditioner | None = eqx.field(default=None, kw_only=True)
    give_up: bool = eqx.field(static=True, default=False, kw_only=True)
    restart: int = eqx.field(static=True, converter=plain, default=50, kw_only=True)

    symmetric = False
    definite = False

    def __check_init__(self):
        check_krylov(self)
        check_counts("GMRES", restart=self.restart)

    def recursion(self, r: Vector) -> AbstractRecursion:
        size = sum(leaf.size for leaf in jax.tree.leaves(r))
        m = min(self.restart, size)
        nothing = jax.tree.map(lambda a: jnp.zeros((m + 1, *a.shape), a.dtype), r)
        directions = jax.tree.map(lambda a: jnp.zeros((m, *a.shape), a.dtype), r)
        square = jnp.zeros((m, m), dtype_of(r))
        small = jnp.zeros(m + 1, dtype_of(r))
        turn = jnp.eye(m + 1, dtype=dtype_of(r))
        none = jnp.zeros((), jnp.int32)
        run = _Run(nothing, directions, square, turn, small, none, norm(r), none)
        return run.restarted(r)


class _Run(AbstractRecursion):
    V: Vector  # (m + 1, ...) orthonormal
    Z: Vector  # (m, ...) the directions: M^-1 V
    R: Float[Array, "m m"]  # upper triangle
    Q: Float[Array, "m+1 m+1"]  # all rotations so far
    g: Float[Array, " m+1"]  # Q times the residual, in the basis
    step: Array
    residual: Array
    flaw: Array

    def direction(self, precondition: Any) -> tuple["_Run", Vector]:
        z = precondition(jax.tree.map(lambda V: jax.lax.dynamic_index_in_dim(V, self.step, keepdims=False), self.V))
        return self, z

    def advance(self, y: Vector, Ay: Vector) -> "_Run":
        j, eps = self.step, jnp.finfo(self.g.dtype).eps
        length = norm(Ay)
        # Gram and Schmidt twice, against what there is: later columns are of an earlier cycle.
        known = jnp.arange(self.g.size) <= j
        h, w = jnp.zeros_like(self.g), Ay
        for _ in range(2):
            part = jnp.where(known, _onto(self.V, w), 0)
            h, w = h + part, jax.tree.map(jnp.subtract, w, _combined(self.V, part))
        beyond = norm(w)
        inside = ~(beyond > _NIL * eps * length)
        scale = jnp.where(inside, 0, 1 / jnp.where(inside, 1, beyond))
        w = jax.tree.map(lambda a: scale * a, w)
        h = self.Q @ h.at[j + 1].set(jnp.where(inside, 0, beyond))
        a, b = h[j], h[j + 1]
        size = jnp.hypot(a, b)
        singular = ~(size > _NIL * eps * length)
        c, s = jnp.where(singular, 1, a / size), jnp.where(singular, 0, b / size)
        rows = jnp.stack([c * self.Q[j] + s * self.Q[j + 1], c * self.Q[j + 1] - s * self.Q[j]])
        Q = jax.lax.dynamic_update_slice_in_dim(self.Q, rows, j, 0)
        kept = jnp.where(jnp.arange(h.size) < j, h, 0)[:-1].at[j].set(jnp.where(singular, 1, size))
        g = self.g.at[j].set(jnp.where(singular, 0, c * self.g[j])).at[j + 1].set(-s * self.g[j])
        g = g.at[j + 1].set(jnp.where(singular, self.g[j], g[j + 1]))
        return _Run(
            jax.tree.map(lambda V, a: jax.lax.dynamic_update_index_in_dim(V, a, j + 1, 0), self.V, w),
            jax.tree.map(lambda Z, a: jax.lax.dynamic_update_index_in_dim(Z, a, j, 0), self.Z, y),
            self.R.at[:, j].set(kept),
            Q,
            g,
            j + 1,
            jnp.abs(g[j + 1]),
            jnp.where(singular, SINGULAR, FINE).astype(jnp.int32),
        )

    def correction(self) -> Vector:
        m = self.R.shape[0]
        used = jnp.arange(m) < self.step
        R = jnp.where(used[:, None] & used, self.R, 0) + jnp.diag(jnp.where(used, 0, 1).astype(self.R.dtype))
        return _combined(self.Z, jsl.solve_triangular(R, jnp.where(used, self.g[:-1], 0)))

    def restarted(self, r: Vector) -> "_Run":
        length = norm(r)
        V = jax.tree.map(lambda a, first: a.at[0].set(first / jnp.where(length > 0, length, 1)), self.V, r)
        turn = jnp.eye(self.Q.shape[0], dtype=self.Q.dtype)
        g, none = jnp.zeros_like(self.g).at[0].set(length), jnp.zeros((), jnp.int32)
        return _Run(V, self.Z, self.R, turn, g, none, length, none)

    def full(self) -> Array:
        return self.step >= self.R.shape[0]

    def fall(self) -> Array:
        return jnp.where(self.full(), _CREEP, 0.5)


def _onto(V: Vector, w: Vector) -> Array:
    """The components of `w` in the directions of `V`."""
    pairs = zip(jax.tree.leaves(V), jax.tree.leaves(w), strict=True)
    parts: list[Array] = [a.reshape(a.shape[0], -1) @ b.reshape(-1) for a, b in pairs]
    return functools.reduce(jnp.add, parts)


def _combined(V: Vector, h: Array) -> Vector:
    """The sum of the vectors times their coefficients."""
    return jax.tree.map(lambda a: (h[: a.shape[0]] @ a.reshape(a.shape[0], -1)).reshape(a.shape[1:]), V)
