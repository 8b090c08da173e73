"""Solves of motion and contact together, for derivatives: by products, and where these do not get there by a factor."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import lineax as lx

from .._linear_solver.base.derivative import constant
from .._linear_solver.base.vectors import norm, plus, zeros
from .._math.small_matmul import times_vectors
from .._model.dynamics import Fields
from .._runtime.array_types import Array, Bool
from .._runtime.loops import seldom_loop, while_loop
from .._runtime.precision import full_precision
from .eliminated import Eliminated, factor_solver
from .groups import WHOLE
from .linear_blocks import LOST
from .schur import IMPULSES, free_and_compliance
from .sweeps import are_swept

_ROUNDS = 4  # of mending, at most
_ROUNDED = 30  # roundings of forces that balance


class _Mended(NamedTuple):
    x: Fields
    s: Array
    rest: Fields
    more: Array
    size: Array
    rounds: Array
    going: Array


class EliminatedSolver(lx.AbstractLinearSolver):
    """Solves with the matrix `(A, -H^T L; R H, E)` itself, on dictionaries in which `s` stands beside the states."""

    system: Eliminated

    def init(self, operator: Any, options: dict[str, Any]):
        del operator, options
        return constant(self.system)

    @full_precision
    def compute(self, state: Eliminated, vector: dict[str, Array], options: dict[str, Any]):
        del options
        a, c = {k: v for k, v in vector.items() if k != IMPULSES}, vector[IMPULSES]
        solve = state.solver()
        scale = state.size(a, c)

        def better(p: _Mended, dx: Fields, ds: Array) -> _Mended:
            x, s = plus(p.x, 1.0, dx), p.s + ds
            rest, more = state.left(x, s, a, c)
            now = state.size(rest, more)
            less = now < p.size
            keep = lambda new, old: jax.tree.map(lambda u, v: jnp.where(less, u, v), new, old)  # noqa: E731
            going = less & (now > 1e-11 * scale) & (p.rounds + 1 < _ROUNDS)
            return _Mended(*keep((x, s, rest, more, now), p[:5]), p.rounds + 1, going)

        def mended(p: _Mended) -> _Mended:
            dx, ds, _ = solve(p.rest, p.more, jnp.where(p.rounds == 0, 1e-6, 1e-4))
            return better(p, dx, ds)

        # Rows of contacts that contradict each other leave something of `c`: motions are then as near to it as can be.
        least = max(1e-6, 1e3 * float(jnp.finfo(scale.dtype).eps))  # what numbers of so few digits can come to

        def balanced(p: _Mended) -> Bool[Array, ""]:
            return state.energy * norm(p.rest) <= jnp.maximum(least * scale, _ROUNDED * state.rounding(p.x, p.s))

        nil = jnp.zeros((), jnp.int32)
        start = _Mended(zeros(a), jnp.zeros_like(c), a, c, scale, nil, scale > 0)
        end = while_loop(lambda p: p.going, mended, start)
        # A factor of all impulses would take minutes where these are many.
        if not (are_swept(state.A) and c.shape[0] > WHOLE):

            def by_factor(p: tuple[_Mended, Array]) -> tuple[_Mended, Array]:
                # Depends on the loop, before which XLA would factor otherwise.
                arrays, rest = eqx.partition(state, eqx.is_inexact_array)
                arrays, _ = jax.lax.optimization_barrier((arrays, p[1]))
                return better(p[0], *_by_compliance(eqx.combine(arrays, rest), p[0].rest, p[0].more)), jnp.array(True)

            # Nobody asks for a factor where what is asked for is no number: of a member of a batch that failed.
            end = seldom_loop(lambda p: ~p[1], by_factor, (end, balanced(end) | ~jnp.isfinite(scale)))[0]
        result = lx.RESULTS.where(balanced(end), lx.RESULTS.successful, lx.RESULTS.stagnation)
        return {**end.x, IMPULSES: end.s}, result, {"num_steps": end.rounds, "residual": end.size}

    def transpose(self, state: Eliminated, options: dict[str, Any]):
        return state.transposed, options

    def conj(self, state: Eliminated, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


def _by_compliance(system: Eliminated, a: Fields, c: Array) -> tuple[Fields, Array]:
    """By a factor of `A`: `x = A^-1 (a + H^T L s)`, `(E + R W L) s = c - R H A^-1 a`, `W = H A^-1 H^T`."""
    n, at = c.shape[0], jnp.arange(c.shape[0])
    solver = factor_solver(system.A)
    state = solver.init(system.A, {})
    free, _, rows = free_and_compliance(state, solver, system.rows, a, n)
    M = jnp.einsum("nij,njmk,mkl->niml", system.R, rows.W.reshape(n, 3, n, 3), system.L).at[at, :, at].add(system.E)
    across, down = system.scales
    M = (across[:, :, None, None] * M * down).reshape(3 * n, 3 * n)
    factor = jsl.lu_factor(M + LOST * jnp.eye(3 * n, dtype=M.dtype))

    def held(x: Fields, c: Array) -> tuple[Fields, Array]:
        sides = across * (c - times_vectors(system.R, rows.across(x)))
        s = down * jsl.lu_solve(factor, sides.reshape(-1)).reshape(n, 3)
        return plus(x, 1.0, rows.moved(times_vectors(system.L, s))), s

    x, s = held(free, c)
    # What is added to the diagonal is taken back.
    rest, more = system.left(x, s, a, c)
    dx, ds = held(solver.compute(state, rest, {})[0], more)
    return plus(x, 1.0, dx), s + ds
