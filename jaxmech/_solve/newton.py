"""Newton's method for an equilibrium, and the derivative of its solution by the implicit function theorem.

Unknowns `u`, residual `R(u)` to vanish in the free directions, and a gap `g(u)` still to be travelled in the prescribed
ones. One step solves `(P A P + I - P) d = P (R - A g) + g`, `A = -dR/du`. Where `R(u, theta) = 0`,
`du = A^-1 dR(u, theta)[dtheta]` holds in forward and in reverse mode, and, since that rule is itself differentiable, to
any order. Nothing is differentiated through the iterations.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linear_solver.base.derivative import constant, derivative_solve
from .._linear_solver.base.vectors import choose
from .._linear_solver.by_products import solver_by_products
from .._linear_solver.default import default_solver
from .._math.indexing import asked_once
from .._model.constraint_projection import has_prescribed_motion, project
from .._model.dynamics import Fields
from .._model.fault import diagnosed
from .._model.internal import with_internal
from .._model.system import State
from .._runtime.array_types import Array
from .._runtime.results import RESULTS
from .._runtime.reverse_mode import kept
from .dynamic_relaxation import dynamic_relaxation
from .equilibrium import AbstractEquilibrium, NewtonInfo, NewtonOptions
from .linear_outcome import marked_unless_right
from .linear_problem import LinearProblem
from .newton_iteration import Progress, exact_operator, exact_slope, linearised, newton_iteration
from .trust_region import trust_region


def linear_problem(problem: AbstractEquilibrium, u: Fields) -> LinearProblem:
    """The linear system of the Newton step from `u`."""
    R, gap = problem.residual(u), problem.gap(u)
    moved = has_prescribed_motion(problem.system)
    A, free = linearised(problem, problem.operator(u), R, gap, moved=moved)
    return LinearProblem(A, {s: free[s] + gap[s] for s in free}, eqx.Partial(_stepped, problem, u))


def _stepped(problem: AbstractEquilibrium, u: Fields, d: Fields) -> State:
    return problem.state(problem.move(u, d))


@eqx.filter_custom_jvp
def newton_solve(problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, solver: Any):
    """The solution from the start `u`, load step by load step, and what happened."""
    with asked_once((problem, solver)) as asked:
        u, info = _iterated(problem, u, options, solver)
    u, result = marked_unless_right(asked, u, info.result)
    return u, eqx.tree_at(lambda i: i.result, info, result)


def _iterated(problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, solver: Any) -> tuple[Fields, NewtonInfo]:
    iterate = {"newton": newton_iteration, "trust_region": trust_region, "dynamic_relaxation": dynamic_relaxation}[
        options.method
    ]
    first, count = u, jnp.zeros((), jnp.int32)
    if options.load_steps == 1:
        p = iterate(problem, u, options, solver, jnp.array(True))
        result, fault = _diagnosed(problem, first, p.result, lambda: _tried(problem, p), count)
        return p.u, NewtonInfo(
            result, p.steps, p.history[None], p.residual, p.floor, p.linear_steps, p.unconstrained_state, fault
        )
    start = problem.residual(u), problem.gap(u)

    def step(carry, load):
        u, result, steps, linear_steps, tried, done = carry
        part, going = problem.at_load(load, start), result == RESULTS.successful
        p = iterate(part, u, options, solver, going)
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
    last = jnp.minimum(done, options.load_steps - 1)  # or the one that failed
    return u, NewtonInfo(result, steps, history, residual[last], floor[last], linear_steps, jnp.max(unconstrained), fault)


def _tried(problem: AbstractEquilibrium, p: Progress) -> Fields:
    """The last point at which the residual was evaluated, after which the step was halved."""
    return problem.move(p.u, {s: 2 * p.alpha * a for s, a in p.d.items()})


def _diagnosed(problem: AbstractEquilibrium, first: Fields, result: Any, tried: Callable[[], Fields], load_step: Array):
    def places() -> tuple[Fields, Fields]:
        return problem.state(first).position, problem.state(tried()).position

    system = with_internal(problem.system, problem.state(first))
    turned = None if problem.turns(first) is None else lambda: _too_far(problem, first) | _too_far(problem, tried())
    return diagnosed(result, problem.given(first), system, places, load_step, turned)


def _too_far(problem: AbstractEquilibrium, u: Fields) -> Array:
    """Whether a frame turns by more than half a turn."""
    turns = problem.turns(u)
    assert turns is not None
    return jnp.max(jnp.sum(turns**2, axis=1), initial=0.0) > jnp.pi**2


@newton_solve.def_jvp
def _newton_solve_jvp(primals, tangents):
    problem, start, options, solver = primals
    u, info = kept(newton_solve(problem, start, options, solver))

    def gap(problem, start):
        gap, constrained_gap = problem.gap(u), problem.constrained_gap(u, start)
        return {s: gap[s] + constrained_gap[s] for s in gap}

    dgap = _rates(gap, (problem, start), tangents[:2])
    rate = _rate_of_solution(problem, tangents[0], u, dgap, problem.operator(u), options, solver)
    return (u, info), (rate, jax.tree.map(lambda _: None, info))


def _rates(function: Callable, at: Sequence[Any], along: Sequence[Any]) -> Fields:
    values, rates = eqx.filter_jvp(function, at, along) if jax.tree.leaves(along) else (function(*at), None)
    # A part that does not depend on what is varied has no tangent at all.
    return {s: jnp.zeros_like(a) if rates is None or rates[s] is None else rates[s] for s, a in values.items()}


def load_rate(problem: AbstractEquilibrium, along: AbstractEquilibrium, u: Fields, A0: Any, solver: Any) -> Fields:
    """`du` at the solution `u` of a problem that changes `along` a tangent of it; `A0`: its `operator(u)`."""
    dgap = _rates(lambda problem: problem.gap(u), (problem,), (along,))
    return _rate_of_solution(problem, along, u, dgap, A0, NewtonOptions(), solver)


def _rate_of_solution(
    problem: AbstractEquilibrium, along: Any, u: Fields, dgap: Fields, A0: Any, options: NewtonOptions, solver: Any
) -> Fields:
    """`du` by the implicit rule, of the tangent of the problem and the rate of the gap where `u` stays."""

    def residual(problem: AbstractEquilibrium, d: Fields | None) -> Fields:
        return project(problem.system, problem.residual(u if d is None else problem.move(u, d)))

    zero, is_exact = jax.tree.map(jnp.zeros_like, dgap), problem.is_exact()
    # Where the matrix is only near, the residual moves with what is prescribed: one derivative, transposed once.
    dR = _rates(residual, (problem, None if is_exact else zero), (along, None if is_exact else dgap))
    A, free = linearised(problem, A0, dR, dgap, moved=is_exact and bool(problem.system.projections))
    solver = default_solver(A, inertial=problem.is_inertial()) if solver is None else solver
    if is_exact:
        d = derivative_solve(A, free, solver, options.derivatives_of)
        d = {s: d[s] + dgap[s] for s in d}
    else:
        d = _corrected(problem, u, A, free, dgap, solver, options.derivatives_of)
    return jax.jvp(lambda d: problem.move(u, d), (zero,), (d,))[1]


def _corrected(problem: AbstractEquilibrium, u: Fields, A: Any, free: Fields, gap: Fields, solver: Any, who: str) -> Fields:
    """The step with the exact derivative of the residual where `A` is only near it: GMRES preconditioned by `A`, or of a
    handful of unknowns their matrix.

    `A` leaves out what is not worth assembling (how a finite turn changes the chart, how the mass of a turning body
    changes), of the order of one step's rotation, so that a few products are enough.
    """
    slope = exact_slope(problem, u)
    rhs = {s: free[s] + gap[s] for s in free}
    by_products = solver_by_products(constant(A), solver, rhs, units=problem.lever(u).units)
    return derivative_solve(exact_operator(problem, slope, rhs), rhs, by_products, who)
