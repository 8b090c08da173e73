"""Linear solvers that stop where SOFA's do, whose answer is what they had then: no failure, and no converged solution.

What is computed is differentiated, step by step of the iteration. Sources: J. R. Shewchuk, "An introduction to the conjugate
gradient method without the agonizing pain", 1994; the stopping rules are in the documentation of SOFA's CGLinearSolver and
PCGLinearSolver.
"""

import abc
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._linear_solver.base.derivative import derivative_solve
from ..._linear_solver.base.vectors import Vector, choose, dot, minus, norm, plus, zeros
from ..._runtime.array_types import Array
from ..._runtime.jax_internals import bounded_loop
from ..._runtime.loops import while_loop
from .step_preconditioners import AbstractStepPreconditioner, Unchanged


class Past(NamedTuple):
    """What a solver knows of the step before: whether there was none, its solution, what it keeps of its matrix, and how far
    each node has turned since rest (`turns`), where it asks for that."""

    first: Array
    last: Vector
    kept: Any
    turns: Any = None


class Solved(NamedTuple):
    """A solution, what there is to say of the solve, and what is kept of the matrix from now on."""

    x: Vector
    said: lx.Solution
    kept: Any = None


class AbstractStepSolver(eqx.Module):
    """Solves `A x = b` of one step, knowing the step before."""

    @property
    def keeps(self) -> bool:
        """Whether it keeps a matrix of the steps before. Static."""
        return False

    def first_kept(self, A: Any) -> Any:
        """What it keeps before the first step: a matrix of the same pattern."""
        return A

    @abc.abstractmethod
    def solve(self, A: Any, b: Vector, past: Past) -> Solved:
        """The solution that the step takes."""


class ConjugateGradients(AbstractStepSolver):
    """From zero, or from the last solution if `warm_start`; ends where `|r| <= tolerance |b|`, or `|p A p| < threshold`
    before the solution is moved along `p`, or after `iterations`. Neither counts in the first iteration of the first step;
    later, either leaves the solution where it began."""

    tolerance: Array
    threshold: Array
    iterations: int = eqx.field(static=True)
    warm_start: bool = eqx.field(static=True, default=False)

    def solve(self, A: Any, b: Vector, past: Past) -> Solved:
        start = past.last if self.warm_start else zeros(b)
        x, steps = _conjugate_gradients(A, b, start, past.first, self)
        return Solved(x, _arrived(steps))


class PreconditionedConjugateGradients(AbstractStepSolver):
    """From the last solution, while `r^T M^-1 r > tolerance b^T b`, at most `iterations`; `M` by `preconditioner`."""

    tolerance: Array
    iterations: int = eqx.field(static=True)
    preconditioner: AbstractStepPreconditioner = Unchanged()

    @property
    def keeps(self) -> bool:
        return self.preconditioner.keeps

    def first_kept(self, A: Any) -> Any:
        return self.preconditioner.first_kept(A)

    def solve(self, A: Any, b: Vector, past: Past) -> Solved:
        kept = self.preconditioner.refreshed(A, past.kept, past.first)
        x, steps = _preconditioned(A, b, past.last, kept, past.turns, self)
        return Solved(x, _arrived(steps), kept)


class Direct(AbstractStepSolver):
    """A solver of lineax; `keeps_first`: the matrix of the first step serves all; `lags`: each step takes the matrix of the
    one before, as a factorisation beside it would give."""

    solver: lx.AbstractLinearSolver
    keeps_first: bool = eqx.field(static=True, default=False)
    lags: bool = eqx.field(static=True, default=False)

    @property
    def keeps(self) -> bool:
        return self.keeps_first or self.lags

    def solve(self, A: Any, b: Vector, past: Past) -> Solved:
        now = A
        if self.keeps:
            A = jax.tree.map(lambda new, old: jnp.where(past.first, new, old), A, past.kept)
        x, said = _direct(A, b, self.solver)
        return Solved(x, said, (A if self.keeps_first else now) if self.keeps else None)


def _arrived(steps: Array) -> lx.Solution:
    return lx.Solution(None, lx.RESULTS.successful, {"num_steps": steps}, None)


@eqx.filter_custom_jvp
def _direct(A: Any, b: Vector, solver: Any) -> tuple[Vector, Any]:
    solution = lx.linear_solve(A, b, solver, throw=False)
    return solution.value, lx.Solution(None, solution.result, solution.stats, None)


@_direct.def_jvp
def _direct_jvp(primals: Any, tangents: Any) -> Any:
    (A, b, solver), (dA, db, _) = primals, tangents
    x, said = _direct(A, b, solver)
    rate = eqx.filter_jvp(lambda A, b: minus(b, A.mv(x)), (A, b), (dA, db))[1]
    rate = {s: jnp.zeros_like(a) if rate[s] is None else rate[s] for s, a in x.items()}
    return (x, said), (derivative_solve(A, rate, solver), jax.tree.map(lambda _: None, said))


class _Run(NamedTuple):
    """A run of conjugate gradients: the solution, the residual, the direction; `rho` of the last round; whether it ended."""

    x: Vector
    r: Vector
    p: Vector
    rho: Array
    steps: Array
    ended: Array


def _rounds(step: Any, start: _Run, most: int, differentiated: bool) -> tuple[Vector, Array]:
    def goes_on(run: _Run) -> Array:
        return ~run.ended & (run.steps < most)

    end = bounded_loop(goes_on, step, start, most) if differentiated else while_loop(goes_on, step, start)
    return end.x, end.steps


def _cg(A: Any, b: Vector, x0: Vector, first: Array, rules: ConjugateGradients, differentiated: bool):
    length = norm(_held(b))
    r = minus(b, A.mv(x0)) if rules.warm_start else b
    nothing = ~(length > 0)

    def step(run: _Run) -> _Run:
        forced = (run.steps == 0) & first
        rho = dot(run.r, run.r)
        small = jnp.sqrt(_held(rho)) <= rules.tolerance * length
        beta = rho / jnp.where(run.steps > 0, run.rho, 1.0)
        p = choose(run.steps > 0, plus(run.r, beta, run.p), run.r)
        q = A.mv(p)
        curvature = dot(p, q)
        ended = (~forced & (small | (jnp.abs(curvature) < rules.threshold))) | (curvature == 0)
        alpha = jnp.where(ended, 0.0, rho / jnp.where(curvature == 0, 1.0, curvature))
        return _Run(plus(run.x, alpha, p), plus(run.r, -alpha, q), p, rho, run.steps + ~ended, ended)

    start = _Run(x0, r, zeros(b), jnp.ones_like(length), jnp.zeros((), jnp.int32), nothing)
    return _rounds(step, start, rules.iterations, differentiated)


def _pcg(
    A: Any, b: Vector, x0: Vector, kept: Any, turns: Any, rules: PreconditionedConjugateGradients, differentiated: bool
):
    precondition = rules.preconditioner.applied(A, kept, turns)
    r = minus(b, A.mv(x0))
    d = precondition(r)
    goal = rules.tolerance * _held(dot(b, b))
    rho = dot(r, d)

    def step(run: _Run) -> _Run:
        q = A.mv(run.p)
        curvature = dot(run.p, q)
        alpha = run.rho / jnp.where(curvature == 0, 1.0, curvature)
        x, r = plus(run.x, alpha, run.p), plus(run.r, -alpha, q)
        z = precondition(r)
        rho = dot(r, z)
        p = plus(z, rho / jnp.where(run.rho == 0, 1.0, run.rho), run.p)
        return _Run(x, r, p, rho, run.steps + 1, ~(_held(rho) > goal))

    start = _Run(x0, r, d, rho, jnp.zeros((), jnp.int32), ~(_held(rho) > goal))
    return _rounds(step, start, rules.iterations, differentiated)


def _held(a: Any) -> Any:
    """Numbers that decide when to stop, of which no derivative is taken."""
    return jax.lax.stop_gradient(a)


@eqx.filter_custom_jvp
def _conjugate_gradients(A: Any, b: Vector, x0: Vector, first: Array, rules: ConjugateGradients) -> tuple[Vector, Array]:
    return _cg(A, b, x0, first, rules, False)


@_conjugate_gradients.def_jvp
def _cg_jvp(primals: Any, tangents: Any) -> Any:
    return eqx.filter_jvp(lambda *all: _cg(*all, True), primals, tangents)


@eqx.filter_custom_jvp
def _preconditioned(A: Any, b: Vector, x0: Vector, kept: Any, turns: Any, rules: Any) -> tuple[Vector, Array]:
    return _pcg(A, b, x0, kept, turns, rules, False)


@_preconditioned.def_jvp
def _pcg_jvp(primals: Any, tangents: Any) -> Any:
    return eqx.filter_jvp(lambda *all: _pcg(*all, True), primals, tangents)
