"""Semi-smooth Newton for motion and contact together, by products with `A` and `H` alone."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from .._linear_solver.base.vectors import minus, plus, zeros
from .._math.small_matmul import times_blocks, times_vectors
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.loops import seldom_loop, while_loop
from .._sparse.block_matrix import BlockMatrix
from .bicgstab import norm
from .cone import scaling
from .eliminated import Eliminated, block_inverse
from .groups import WHOLE, group_by_group
from .newton import slopes
from .problem import cone_of, mobilities, natural
from .sparse_rows import SparseRows
from .sweeps import are_swept, free_contacts, swept

_NEWTON = 30
_ROUGH, _FINE = 1e-2, 1e-6  # of a linear solve: as much as one step of Newton is good for, and the next is likely to be
_SHARE = 0.3  # of the residual that is small enough, which sweeps aim at
_BALANCE = 1e-10  # of the momentum, what iterations of a step without contact leave of it


class MovingContacts(eqx.Module):
    """`A x = b + H^T D s`, and the law of contact of `u = H x + C D s + u0`."""

    A: BlockMatrix
    b: Fields
    rows: SparseRows
    u0: Array
    mu: Array
    give: Array  # C, the compliance of impulses (n, 3)
    held: Array  # the slots that are contacts (n,)
    kappa: Array
    way: str = eqx.field(static=True)

    @property
    def D(self) -> Array:
        return scaling(self.mu)

    def sizes(self) -> tuple[Array, Array]:
        """By the diagonal blocks of `A`, about: the mean of each contact's diagonal in `W` (n,), positive; velocities `q`
        without impulses `(n, 3)`, nil in slots without contacts."""
        trace, moved = jnp.sum(self.give, axis=1), {}
        for s, (nodes, blocks) in self.rows.parts.items():
            inverse = block_inverse(self.A[s, s].diagonal)
            by_node = jnp.swapaxes(blocks, 1, 2)
            trace = trace + jnp.sum(by_node * times_blocks(by_node, inverse[nodes]), axis=(1, 2, 3))
            moved[s] = times_vectors(inverse, self.b[s])
        q = self.u0 + self.rows.across(moved, self.u0.shape[0])
        return mobilities(trace / 3), jnp.where(self.held[:, None], q, 0.0)


class Moved(NamedTuple):
    """Where Newton ends: the law's residual `size` in units of velocities, steps, whether fine; how mobile each contact is,
    and the length of velocities without impulses."""

    x: Fields
    s: Array
    size: Array
    steps: Array
    fine: Array
    mobility: Array
    speed: Array


def _begun(problem: MovingContacts, s: Array, goal: Array) -> tuple[Fields, Array, Array, Array]:
    """Motion and impulses to begin with, the steps they took, and whether they are solutions where they can be: of bodies
    that nothing but contacts couples."""
    mu, A, nil = problem.mu, problem.A, jnp.zeros((), jnp.int32)
    if not are_swept(A):
        return zeros(problem.b), s, nil, jnp.array(False)
    # The natural map of cones sees friction in units of `mu`.
    goal = goal * _SHARE * jnp.clip(jnp.min(mu, where=mu > 0, initial=1.0), 0.01, 1.0)
    contacts, inverse = free_contacts(A, problem.rows, problem.u0, mu, problem.give)
    r = problem.D * s
    x = contacts.pushed({k: times_vectors(inverse[k], a) for k, a in problem.b.items()}, r)
    found = swept(contacts, x, r, problem.held & (problem.kappa == 0), goal)
    if mu.shape[0] <= WHOLE:
        return found.x, cone_of(mu, found.r), nil, jnp.array(True)
    x, r, steps = group_by_group(contacts, found.x, found.r, found.label, goal)
    return x, cone_of(mu, r), steps, jnp.array(True)


class _Iterate(NamedTuple):
    x: Fields
    s: Array
    u: Array
    rest: Fields
    F: Array
    size: Array
    fall: Array  # of the size, by the last step
    steps: Array
    going: Array


def move(problem: MovingContacts, s: Array, tolerance: float) -> Moved:
    """From impulses `D s` and no motion, or from where sweeps over free bodies end. Source: as of `newton.newton`; the yield
    of constraints that hold is that of the proximal point method, R. T. Rockafellar, SIAM J. Control Optim. 14 (1976) 877,
    doi:10.1137/0314056."""
    w, q = problem.sizes()
    rho, D, mu, kappa = 1 / w, problem.D, problem.mu, problem.kappa
    speed = jnp.max(jnp.abs(q), initial=0.0)
    unit = jnp.where(speed > 0, speed, 1.0) / jnp.mean(w)

    def law(s: Array, u: Array) -> Array:
        return natural(s, u, mu, rho, kappa)

    def length(F: Array, rest: Fields) -> Array:
        size = jnp.sqrt(jnp.sum(F**2) + norm(rest) ** 2)
        return jnp.where(jnp.isfinite(size), size, jnp.inf)

    def goal(s: Array, share: float = 1.0) -> Array:
        return share * tolerance * unit + 32 * jnp.finfo(s.dtype).eps * jnp.linalg.norm(s)

    supply = norm(problem.b)

    def balanced(rest: Fields, s: Array, share: float = 1.0) -> Array:
        return norm(rest) <= share * _BALANCE * (supply + jnp.linalg.norm(s))

    def done(F: Array, rest: Fields, s: Array) -> Array:
        return (jnp.linalg.norm(F) <= goal(s, 0.1)) & balanced(rest, s)

    def advance(p: _Iterate) -> _Iterate:
        slope = slopes(p.s, p.u, mu, rho, kappa)
        linear = Eliminated.of_law(problem.A, problem.rows, mu, slope, problem.give, w, problem.way)
        dx, ds, left = linear.solver()(p.rest, -p.F, jnp.clip(p.fall**2, _FINE, _ROUGH))
        du = problem.rows.across(dx, s.shape[0]) + problem.give * D * ds
        used = minus(p.rest, left)

        def shorter(trial: Any) -> Array:
            a, _, size = trial
            return (a > 1) | (size > (1 - 1e-4 * a) * p.size) & (a > 1e-3)

        def halved(trial: Any) -> Any:
            a = 0.5 * trial[0]
            F = law(p.s + a * ds, p.u + a * du)
            return a, F, length(F, plus(p.rest, -a, used))

        a, F, size = while_loop(shorter, halved, (jnp.full((), 2.0, s.dtype), p.F, p.size))
        a = jnp.where(size < p.size, a, 0.0)
        F = jnp.where(a > 0, F, p.F)
        x, s1, u, rest = plus(p.x, a, dx), p.s + a * ds, p.u + a * du, plus(p.rest, -a, used)
        going = (a > 0) & ~done(F, rest, s1) & (p.steps + 1 < _NEWTON)
        return _Iterate(x, s1, u, rest, F, jnp.minimum(size, p.size), size / p.size, p.steps + 1, going)

    x, s, before, begun = _begun(problem, s, tolerance * unit)
    u = problem.u0 + problem.rows.across(x, s.shape[0]) + problem.give * D * s
    rest = minus(plus(problem.b, 1.0, problem.rows.pushed(D * s, x)), problem.A.mv(x))
    F = law(s, u)
    enough = begun & (jnp.linalg.norm(F) <= goal(s)) & balanced(rest, s)
    going = ~(enough | done(F, rest, s))
    start = _Iterate(x, s, u, rest, F, length(F, rest), jnp.ones((), s.dtype), jnp.zeros((), jnp.int32), going)
    loop = seldom_loop if are_swept(problem.A) else while_loop  # sweeps leave it little
    end = loop(lambda p: p.going, advance, start)
    size = jnp.linalg.norm(end.F)
    rest = minus(plus(problem.b, 1.0, problem.rows.pushed(D * end.s, end.x)), problem.A.mv(end.x))
    fine = (size <= goal(end.s)) & balanced(rest, end.s, 10.0)
    return Moved(end.x, end.s, size / unit, before + end.steps, fine, w, jnp.linalg.norm(q))
