"""Newton's method for an equilibrium, and the derivative of its solution by the implicit function theorem.

Unknowns `u`, residual `R(u)` to vanish in the free directions, and a gap `g(u)` still to be travelled in the prescribed
ones. One step solves `(P A P + I - P) d = P (R - A g) + g`, `A = -dR/du`. Where `R(u, theta) = 0`,
`du = A^-1 dR(u, theta)[dtheta]` holds in forward and in reverse mode, and, since that rule is itself differentiable, to
any order. Nothing is differentiated through the iterations.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.derivative import constant, derivative_solve
from .._linear_solver.base.outcome import reason
from .._linear_solver.base.vectors import choose, norm
from .._linear_solver.default import default_solver
from .._linear_solver.krylov.preconditioned_gmres import Nearby
from .._model.constraint_projection import has_prescribed_motion, project
from .._model.dynamics import Fields
from .._model.fault import diagnosed
from .._model.system import State
from .._runtime.array_types import Array
from .._runtime.results import RESULTS
from .._sparse.block_matrix import BlockMatrix
from .equilibrium import AbstractEquilibrium, NewtonInfo, NewtonOptions
from .linear_problem import LinearProblem


class _Progress(eqx.Module):
    u: Fields  # the last point accepted
    residual: Array
    d: Fields  # the step to try from there, times alpha
    alpha: Array
    scale: Array  # what the relative tolerance refers to: the norm of the first step's right-hand side
    gap_scale: Array
    floor: Array
    steps: Array  # linear solves done
    history: Array
    linear_steps: Array
    unconstrained_state: Array
    result: Any
    going: Array


def linearised(problem: AbstractEquilibrium, A0: Any, R: Fields, gap: Fields, *, moved: bool) -> tuple[Any, Fields]:
    """One Newton step's linear system: the operator, and the free part of the right-hand side; the rest of it is the gap.

    `moved`: whether the gap may be more than nothing.
    """
    b = R
    if moved:
        lifted = A0.mv(gap)
        b = {s: b[s] - lifted[s] for s in b}
    return problem.linear_system.constrain(problem.system, A0), project(problem.system, b)


def _linear_solve(problem: AbstractEquilibrium, A0: Any, R: Fields, gap: Fields, solver: Any, *, moved: bool):
    """The operator of one Newton step, the free part of the right-hand side, the solution, and how the solve ended."""
    A, free = linearised(problem, A0, R, gap, moved=moved)
    solver = default_solver(A, inertial=problem.is_inertial()) if solver is None else solver
    solution = lx.linear_solve(A, free, solver, throw=False)
    # Constrained directions are excluded from the norm: there `A` is the identity, whose unit is not that of the others.
    d = {s: solution.value[s] + gap[s] for s in gap} if moved else solution.value
    return A, free, d, solution


def linear_problem(problem: AbstractEquilibrium, u: Fields) -> LinearProblem:
    """The linear system of the Newton step from `u`."""
    R, gap = problem.residual(u), problem.gap(u)
    moved = has_prescribed_motion(problem.system)
    A, free = linearised(problem, problem.operator(u), R, gap, moved=moved)
    return LinearProblem(A, {s: free[s] + gap[s] for s in free}, eqx.Partial(_stepped, problem, u))


def _stepped(problem: AbstractEquilibrium, u: Fields, d: Fields) -> State:
    return problem.state(problem.move(u, d))


def rounding_floor(problem: AbstractEquilibrium, A0: Any, u: Fields) -> Array:
    """What the rounding of `u` makes of a residual that should be nil: `eps | |A_ii| |u| |`."""
    if not isinstance(A0, BlockMatrix):
        return jnp.zeros((), jnp.result_type(*jax.tree.leaves(u)))
    size = problem.rounding(u)
    spread = {s: jnp.einsum("nij,nj->ni", jnp.abs(blocks), size[s]) for s, blocks in A0.diagonal.items()}
    return jnp.finfo(A0.dtype).eps * norm(project(problem.system, spread))


def _converged(problem: AbstractEquilibrium, options: NewtonOptions, p: _Progress, residual, gap_norm, u) -> Array:
    eps = jnp.finfo(residual.dtype).eps
    if options.rtol is None:
        tolerance = jnp.maximum(jnp.sqrt(eps) * p.scale + options.atol, p.floor)
    else:
        # A start that is an equilibrium to rounding has no scale of its own to be measured by.
        tolerance = options.rtol * p.scale + options.atol
        tolerance = jnp.where(p.scale <= p.floor, jnp.maximum(tolerance, p.floor), tolerance)
    travelled = gap_norm <= jnp.maximum(jnp.sqrt(eps) * 1e-2 * p.gap_scale, 16 * eps * norm(problem.rounding(u)))
    nothing_to_do = (residual == 0) & (gap_norm == 0)
    return nothing_to_do | ((p.steps > 0) & (residual <= tolerance) & travelled)


def _direction(problem: AbstractEquilibrium, solver: Any, p: _Progress, R: Fields, gap: Fields) -> _Progress:
    """The next Newton step from `p.u`."""
    A0 = problem.operator(p.u)
    moved = has_prescribed_motion(problem.system)
    _, free, d, solution = _linear_solve(problem, A0, R, gap, solver, moved=moved)
    solved = solution.result == lx.RESULTS.successful
    unconstrained = solution.stats.get("unconstrained_state", jnp.full((), -1, jnp.int32))
    floor = rounding_floor(problem, A0, p.u)
    # A matrix that is not finite is singular to any solver.
    failure = RESULTS.where(jnp.isfinite(floor), reason(solution), RESULTS.not_finite)
    return _Progress(
        p.u,
        p.residual,
        d,
        jnp.ones_like(p.alpha),
        jnp.where(p.steps == 0, norm(free), p.scale),
        jnp.where(p.steps == 0, norm(gap), p.gap_scale),
        floor,
        p.steps + 1,
        p.history,
        p.linear_steps + jnp.asarray(solution.stats["num_steps"], jnp.int32),
        jnp.where(solved, -1, unconstrained),
        RESULTS.where(solved, p.result, failure),
        solved,
    )


def _advance(problem: AbstractEquilibrium, options: NewtonOptions, solver: Any, p: _Progress) -> _Progress:
    """Evaluate the trial point; halve the step, stop, or accept it and find the next step.

    The one place where the residual is evaluated and the one place where a matrix is assembled: each appears once in
    the compiled program, which is what its compilation costs.
    """
    trial = problem.move(p.u, {s: p.alpha * a for s, a in p.d.items()})
    R, gap = problem.residual(trial), problem.gap(trial)
    residual, gap_norm = norm(project(problem.system, R)), norm(gap)
    valid, finite = problem.is_valid(trial), jnp.isfinite(residual) & jnp.isfinite(gap_norm)
    good, shortest = finite & valid, p.alpha <= 0.5**options.halvings
    accepted = finite if options.line_search == "none" else good
    if options.line_search == "residual":
        reduced = residual <= (1 - 1e-4 * p.alpha) * jnp.maximum(p.residual, p.scale)
        accepted = good & (reduced | shortest | (residual <= p.floor) | (p.steps == 0))
    failed = ~accepted & (shortest | (p.steps == 0) | (options.line_search == "none"))
    converged = accepted & _converged(problem, options, p, residual, gap_norm, trial)
    result = RESULTS.where(valid, RESULTS.not_finite, RESULTS.inverted_element)
    result = RESULTS.where(failed, result, p.result)
    exhausted = accepted & ~converged & (p.steps >= options.max_steps)
    result = RESULTS.where(exhausted, RESULTS.not_converged, result)
    if options.rtol is not None:
        stuck = accepted & ~converged & (p.steps > 1) & (residual <= p.floor) & (residual > 0.5 * p.residual)
        result = RESULTS.where(stuck, RESULTS.residual_floor, result)
    going = ~converged & (result == RESULTS.successful)
    u = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), trial, p.u)
    p = eqx.tree_at(
        lambda q: (q.u, q.residual, q.alpha, q.history, q.result, q.going),
        p,
        (
            u,
            jnp.where(accepted, residual, p.residual),
            0.5 * p.alpha,
            p.history.at[p.steps].set(jnp.where(accepted, residual, p.history[p.steps])),
            result,
            going,
        ),
    )
    return jax.lax.cond(going & accepted, lambda p: _direction(problem, solver, p, R, gap), lambda p: p, p)


def _solve_one(problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, solver: Any, going: Array) -> _Progress:
    """Iterate to convergence from `u`; not at all unless `going`."""
    dtype = jnp.result_type(*jax.tree.leaves(u))
    zero, one, count = jnp.zeros((), dtype), jnp.ones((), dtype), jnp.zeros((), jnp.int32)
    still = jax.tree.map(jnp.zeros_like, jax.eval_shape(lambda: problem.residual(u)))
    history = jnp.full(options.max_steps + 1, -1.0, dtype)
    start = _Progress(
        u, zero, still, one, zero, zero, zero, count, history, count, count - 1, RESULTS.successful, jnp.asarray(going)
    )
    return jax.lax.while_loop(lambda p: p.going, lambda p: _advance(problem, options, solver, p), start)


@eqx.filter_custom_jvp
def newton_solve(problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, solver: Any):
    """The solution from the start `u`, load step by load step, and what happened."""
    first, count = u, jnp.zeros((), jnp.int32)
    if options.load_steps == 1:
        p = _solve_one(problem, u, options, solver, jnp.array(True))
        result, fault = _diagnosed(problem, first, p.result, lambda: _tried(problem, p), count)
        return p.u, NewtonInfo(
            result, p.steps, p.history[None], p.residual, p.floor, p.linear_steps, p.unconstrained_state, fault
        )
    start = problem.residual(u), problem.gap(u)

    def step(carry, load):
        u, result, steps, linear_steps, tried, done = carry
        part, going = problem.at_load(load, start), result == RESULTS.successful
        p = _solve_one(part, u, options, solver, going)
        tried = choose(going, _tried(part, p), tried)
        result = RESULTS.where(going, p.result, result)
        done = done + (result == RESULTS.successful)
        return (p.u, result, steps + p.steps, linear_steps + p.linear_steps, tried, done), (
            p.history,
            p.residual,
            p.floor,
            p.unconstrained_state,
        )

    loads = jnp.arange(1, options.load_steps + 1, dtype=jnp.result_type(*jax.tree.leaves(u))) / options.load_steps
    (u, result, steps, linear_steps, tried, done), (history, residual, floor, unconstrained) = jax.lax.scan(
        step, (u, RESULTS.successful, count, count, u, count), loads
    )
    result, fault = _diagnosed(problem, first, result, lambda: tried, done)
    return u, NewtonInfo(result, steps, history, residual[-1], floor[-1], linear_steps, jnp.max(unconstrained), fault)


def _tried(problem: AbstractEquilibrium, p: _Progress) -> Fields:
    """The last point at which the residual was evaluated, after which the step was halved."""
    return problem.move(p.u, {s: 2 * p.alpha * a for s, a in p.d.items()})


def _diagnosed(problem: AbstractEquilibrium, first: Fields, result: Any, tried: Callable[[], Fields], load_step: Array):
    def places() -> tuple[Fields, Fields]:
        return problem.state(first).position, problem.state(tried()).position

    return diagnosed(result, problem.given(first), problem.system, places, load_step)


@newton_solve.def_jvp
def _newton_solve_jvp(primals, tangents):
    problem, start, options, solver = primals
    u, info = newton_solve(problem, start, options, solver)

    def residual(problem, start):
        gap, constrained_gap = problem.gap(u), problem.constrained_gap(u, start)
        return project(problem.system, problem.residual(u)), {s: gap[s] + constrained_gap[s] for s in gap}

    (R, gap), rates = eqx.filter_jvp(residual, (problem, start), tangents[:2])
    # A part that does not depend on what is varied has no tangent at all.
    dR, dgap = (
        jax.tree.map(jnp.zeros_like, a) if d is None else {s: jnp.zeros_like(a[s]) if d[s] is None else d[s] for s in a}
        for a, d in zip((R, gap), rates, strict=True)
    )
    A0 = problem.operator(u)
    A, free = linearised(problem, A0, dR, dgap, moved=bool(problem.system.constraints))
    solver = default_solver(A, inertial=problem.is_inertial()) if solver is None else solver
    if problem.is_exact():
        d = derivative_solve(A, free, solver, options.derivatives_of)
        d = {s: d[s] + dgap[s] for s in d}
    else:
        d = _corrected(problem, u, A, dR, dgap, solver, options.derivatives_of)
    zero = jax.tree.map(jnp.zeros_like, d)
    du = jax.jvp(lambda d: problem.move(u, d), (zero,), (d,))[1]
    return (u, info), (du, jax.tree.map(lambda _: None, info))


def _corrected(problem: AbstractEquilibrium, u: Fields, A: Any, R: Fields, gap: Fields, solver: Any, who: str) -> Fields:
    """The step with the exact derivative of the residual where `A` is only near it: GMRES preconditioned by `A`.

    `A` leaves out what is not worth assembling (how a finite turn changes the chart, how the mass of a turning body
    changes), of the order of one step's rotation, so that a few products are enough.
    """
    zero = jax.tree.map(jnp.zeros_like, R)

    def slope(d: Fields) -> Fields:
        rate = jax.jvp(lambda e: problem.residual(problem.move(u, e)), (zero,), (d,))[1]
        return jax.tree.map(jnp.negative, rate)

    def product(d: Fields) -> Fields:
        free = project(problem.system, d)
        moved = project(problem.system, slope(free))
        return {s: moved[s] + d[s] - free[s] for s in d}

    lifted = slope(gap)
    free = project(problem.system, {s: R[s] - lifted[s] for s in R})
    rhs = {s: free[s] + gap[s] for s in free}
    operator = lx.FunctionLinearOperator(product, jax.eval_shape(lambda: rhs))
    return derivative_solve(operator, rhs, Nearby(constant(A), solver), who)
