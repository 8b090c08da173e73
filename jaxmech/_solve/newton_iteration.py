"""Newton's iteration to one equilibrium. One step solves `(P A P + I - P) d = P (R - A g) + g`, `A = -dR/du`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from jax.flatten_util import ravel_pytree

from .._linear_solver.base.derivative import constant
from .._linear_solver.base.outcome import reason
from .._linear_solver.base.vectors import choose, norm
from .._linear_solver.by_products import solver_by_products
from .._linear_solver.default import default_solver
from .._linear_solver.krylov.preconditioned_gmres import Nearby
from .._model.constraint_projection import constrained_product, has_prescribed_motion, project
from .._model.dynamics import Fields
from .._model.lever import Lever
from .._model.system import System
from .._runtime.array_types import Array, structure_of
from .._runtime.loops import while_loop
from .._runtime.results import RESULTS
from .equilibrium import AbstractEquilibrium, NewtonOptions, check_residual
from .rounding import of_multipliers, rounding_floor

_TRAVELLED = 1e-2  # roots of the rounding unit that a prescribed motion may be off by, relative to its size
_REDUCED = 1e-2  # of the first residual
_TURNED = 1e-8  # what a step under dead torques may leave, of the step
_TURNS = 30  # products that it may take at once: frames that turn by radians take as many as there are ways to


class Progress(eqx.Module):
    u: Fields  # the last point accepted
    residual: Array
    d: Fields  # the step to try from there, times alpha
    alpha: Array
    scale: Array  # what the relative tolerance refers to: the norm of the first step's right-hand side
    gap_scale: Array
    floor: Array
    slack: Array  # the residual of constraints with multipliers that is near enough to nil
    steps: Array  # linear solves done
    history: Array
    linear_steps: Array
    unconstrained_state: Array
    result: Any
    going: Array
    lever: Lever  # by which residuals and gaps are measured


def linearised(problem: AbstractEquilibrium, A0: Any, R: Fields, gap: Fields, *, moved: bool) -> tuple[Any, Fields]:
    """One Newton step's linear system: the operator, and the free part of the right-hand side; the rest of it is the gap.

    `moved`: whether the gap may be more than nothing.
    """
    b = R
    if moved:
        lifted = A0.mv(gap)
        b = {s: b[s] - lifted[s] for s in b}
    return problem.linear_system.constrain(problem.system, A0), project(problem.system, b)


def exact_slope(problem: AbstractEquilibrium, u: Fields) -> Callable[[Fields], Fields]:
    """`d -> dR/du d`, of the residual itself: `operator` leaves out how a finite turn changes the chart, for one.

    What does not depend on `d` is computed once, here: products stand in several places of a program, and in its loops.
    """
    zero = {s: jnp.zeros_like(a) for s, a in jax.eval_shape(lambda: problem.residual(u)).items()}

    return jax.linearize(lambda e: problem.residual(problem.move(u, e)), zero)[1]


def exact_operator(problem: AbstractEquilibrium, slope: Callable[[Fields], Fields], like: Fields) -> Any:
    """`d -> (P A P + I - P) d`, `A d = -slope(d)` the exact one.

    A function whose arrays are its leaves: it is called with arrays of one device and of each of several, which a program
    traced for the one (`closure_convert`) refuses for the other.
    """
    product = eqx.Partial(_exact_product, problem.system, slope)
    return lx.FunctionLinearOperator(product, structure_of(like), closure_convert=False)


def _exact_product(system: System, slope: Callable[[Fields], Fields], d: Fields) -> Fields:
    return constrained_product(system, lambda e: jax.tree.map(jnp.negative, slope(e)), d)


def linear_solve(
    problem: AbstractEquilibrium, u: Fields, A0: Any, R: Fields, gap: Fields, solver: Any, lever: Lever, *, moved: bool
):
    """The operator of one Newton step, the free part of the right-hand side, the solution, and how the solve ended."""
    A, free = linearised(problem, A0, R, gap, moved=moved)
    solver = default_solver(A, inertial=problem.is_inertial()) if solver is None else solver
    factor = solver.init(A, {})
    solution = lx.linear_solve(A, free, solver, state=factor, throw=False)
    d = solution.value
    if problem.has_dead_torques():
        d = turned(problem, u, A, free, d, (solver, factor), lever)
    # Constrained directions are excluded from the norm: there `A` is the identity, whose unit is not that of the others.
    return A, free, {s: d[s] + gap[s] for s in gap} if moved else d, solution


def turned(
    problem: AbstractEquilibrium, u: Fields, A: Any, free: Fields, d: Fields, solved: tuple[Any, Any], lever: Lever
) -> Fields:
    """The step by the exact derivative, which turns torques with frames: where that takes GMRES, preconditioned by the
    matrix without that, whose step `d` stays where it fails. Without it Newton's method converges linearly, under large
    torques not at all. `solved`: the solver and the factor by which `d` was found."""
    solver, factor = solved
    near = solver_by_products(constant(A), solver, free, restart=_TURNS, rtol=_TURNED, units=constant(lever.units))
    operator = exact_operator(problem, exact_slope(problem, u), free)
    made = (operator, factor) if isinstance(near, Nearby) else near.init(operator, {})
    better = _solved_nearly(operator, free, near, constant(made))
    return choose(jnp.all(jnp.isfinite(norm(better))), better, d)


def _solved_nearly(operator: Any, b: Fields, solver: Any, made: Any) -> Fields:
    """`operator^-1 b`, as near as the solver comes. Iterations have no derivatives, by the rule of their solution; but of a
    loop's reverse derivative JAX (0.10, where it hoists) loses that rule, and second derivatives go through them: through a
    solve of the same kind, for one that Lineax makes raises where it is not exact."""
    flat, parted = ravel_pytree(b)

    def product(x: Array) -> Array:
        return ravel_pytree(operator.mv(parted(x)))[0]

    def solve(_: Any, rhs: Array) -> Array:
        return ravel_pytree(lx.linear_solve(operator, parted(rhs), solver, state=made, throw=False).value)[0]

    return parted(jax.lax.custom_linear_solve(product, flat, solve))


def believed_floor(floor: Array, p: Progress, scale: Array) -> Array:
    """The rounding floor, but that of positions that run away, which is no reason to stop: above the floor of the start,
    what is nil is a small part of the first residual."""
    return jnp.where(p.steps == 0, floor, jnp.minimum(floor, jnp.maximum(p.floor, _REDUCED * scale)))


def converged(
    problem: AbstractEquilibrium, options: NewtonOptions, p: Progress, R: Fields, gap_norm, u, to_rounding: Any = False
) -> Array:
    """Whether the free part `R` of the residual, and the gap, are near enough to nil; `to_rounding`: as far as can be told,
    whatever the tolerance."""
    residual = norm(p.lever.forces(R))
    eps = jnp.finfo(residual.dtype).eps
    if options.rtol is None:
        tolerance = jnp.maximum(jnp.sqrt(eps) * p.scale + options.atol, p.floor)
    else:
        # A start that is an equilibrium to rounding has no scale of its own to be measured by.
        tolerance = options.rtol * p.scale + options.atol
        tolerance = jnp.where((p.scale <= p.floor) | to_rounding, jnp.maximum(tolerance, p.floor), tolerance)
    travelled = gap_norm <= jnp.maximum(
        _TRAVELLED * jnp.sqrt(eps) * p.gap_scale, 16 * eps * norm(p.lever.ways(problem.rounding(u)))
    )
    if problem.system.multiplier_states:
        travelled &= norm(of_multipliers(problem, R)) <= p.slack
    nothing_to_do = (residual == 0) & (gap_norm == 0)
    return nothing_to_do | ((p.steps > 0) & (residual <= tolerance) & travelled)


def _direction(problem: AbstractEquilibrium, solver: Any, p: Progress, R: Fields, gap: Fields) -> Progress:
    """The next Newton step from `p.u`."""
    A0 = problem.operator(p.u)
    moved = has_prescribed_motion(problem.system)
    _, free, d, solution = linear_solve(problem, p.u, A0, R, gap, solver, p.lever, moved=moved)
    solved = solution.result == lx.RESULTS.successful
    unconstrained = solution.stats.get("unconstrained_state", jnp.full((), -1, jnp.int32))
    scale = jnp.where(p.steps == 0, norm(p.lever.forces(free)), p.scale)
    floor, slack = rounding_floor(problem, A0, p.u, p.lever)
    # A matrix that is not finite is singular to any solver.
    failure = RESULTS.where(jnp.isfinite(floor), reason(solution), RESULTS.not_finite)
    return Progress(
        p.u,
        p.residual,
        d,
        jnp.ones_like(p.alpha),
        scale,
        jnp.where(p.steps == 0, norm(p.lever.ways(gap)), p.gap_scale),
        believed_floor(floor, p, scale),
        slack,
        p.steps + 1,
        p.history,
        p.linear_steps + jnp.asarray(solution.stats["num_steps"], jnp.int32),
        jnp.where(solved, -1, unconstrained),
        RESULTS.where(solved, p.result, failure),
        solved,
        p.lever,
    )


def _advance(problem: AbstractEquilibrium, options: NewtonOptions, solver: Any, p: Progress) -> Progress:
    """Evaluate the trial point; halve the step, stop, or accept it and find the next step.

    The one place where the residual is evaluated and the one place where a matrix is assembled: each appears once in
    the compiled program, which is what its compilation costs.
    """
    trial = problem.move(p.u, {s: p.alpha * a for s, a in p.d.items()})
    R, gap = problem.residual(trial), problem.gap(trial)
    free = project(problem.system, R)
    residual, gap_norm = norm(p.lever.forces(free)), norm(p.lever.ways(gap))
    valid, finite = problem.is_valid(trial), jnp.isfinite(residual) & jnp.isfinite(gap_norm)
    good, shortest = finite & valid, p.alpha <= 0.5**options.halvings
    accepted = finite if options.line_search == "none" else good
    if options.line_search == "residual":
        reduced = residual <= (1 - 1e-4 * p.alpha) * jnp.maximum(p.residual, p.scale)
        accepted = good & (reduced | shortest | (residual <= p.floor) | (p.steps == 0))
    failed = ~accepted & (shortest | (p.steps == 0) | (options.line_search == "none"))
    stops = (p.steps > 1) & (residual > 0.5 * p.residual)
    done = accepted & converged(problem, options, p, free, gap_norm, trial, options.to_rounding & stops)
    result = RESULTS.where(valid, RESULTS.not_finite, RESULTS.inverted_element)
    result = RESULTS.where(failed, result, p.result)
    exhausted = accepted & ~done & (p.steps >= options.max_steps)
    result = RESULTS.where(exhausted, RESULTS.not_converged, result)
    if options.rtol is not None:
        stuck = accepted & ~done & stops & (residual <= p.floor)
        result = RESULTS.where(stuck, RESULTS.residual_floor, result)
    going = ~done & (result == RESULTS.successful)
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


def beginning(problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, going: Array) -> Progress:
    """Before the first residual at `u` is known."""
    dtype = jnp.result_type(*jax.tree.leaves(u))
    zero, one, count = jnp.zeros((), dtype), jnp.ones((), dtype), jnp.zeros((), jnp.int32)
    told = jax.eval_shape(lambda: problem.residual(u))
    check_residual(problem, told, u)
    still = jax.tree.map(jnp.zeros_like, told)
    history = jnp.full(options.max_steps + 1, -1.0, dtype)
    nothing = (u, zero, still, one, zero, zero, zero, zero, count, history, count, count - 1)
    return Progress(*nothing, RESULTS.successful, jnp.asarray(going), problem.lever(u))


def newton_iteration(problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, solver: Any, going: Array) -> Progress:
    """Iterate to convergence from `u`; not at all unless `going`."""
    start = beginning(problem, u, options, going)
    return while_loop(lambda p: p.going, lambda p: _advance(problem, options, solver, p), start)
