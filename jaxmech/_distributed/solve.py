"""Newton's method, and one linear solve, over ranks; each differentiated by the implicit function theorem.

A rank evaluates the rows of its nodes. Norms are sums over ranks, so that all take the same steps. In reverse mode the
transposed system gives `w`, of which each rank keeps the rows of its nodes: what they say of the numbers of its part is its
share of the derivative, and the sum over ranks (`Division.part`) is the whole. So nothing but ghosts, norms and that sum is
ever sent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._integrator.implicit.implicit_euler import EulerStep
from .._linear_solver.base.derivative import constant
from .._linear_solver.sparse.petsc import PETSc
from .._model.constraint_projection import constrained_product, has_prescribed_motion, project
from .._model.dynamics import Fields
from .._runtime.failure_messages import describe_result
from .._runtime.precision import compiled
from .._runtime.results import RESULTS, FailedComputation
from .._solve.equilibrium import AbstractEquilibrium
from .._solve.newton_iteration import linearised
from .._solve.rounding import rounding_spread
from .division import Division
from .matrix import DividedSolver
from .ranks import Rows

_ACCURATE = 1e-10  # of a linear solve, unless a solver is given
_HALVINGS = 12
_TRAVELLED = 1e-10  # of what a prescribed motion goes, may be left
_EXACT = 1e-12  # of the right-hand side of an adjoint, may be left by a matrix that is near the derivative
_ROUNDS = 60


@dataclass(frozen=True)
class Means:
    """What a solve has beside its problem. Not a pytree."""

    division: Division
    solver: PETSc | None
    who: str
    rtol: float = 1e-8
    atol: float = 0.0
    max_steps: int = 50

    def factor(self, A: Any, positions: Fields) -> DividedSolver:
        """The solver of a matrix, ready."""
        key = (tuple(A.entries), tuple(e.values.shape for e in A.entries.values()), A.symmetric, repr(self.solver))
        made = self.division.solvers
        if key not in made:
            s, _, d = A.sizes[0]
            points = self.division.of_owned(positions)[s]
            fits = len(A.sizes) == 1 and points.shape[1] == d
            solver = self.solver or PETSc("mg" if fits and A.symmetric and find_spec("pyamg") else "gamg", rtol=_ACCURATE)
            made[key] = DividedSolver(self.division, A, solver.chosen(A.symmetric), points if fits else None)
        made[key].put(A)
        return made[key]

    def fail(self, result: Any) -> None:
        """Raise, as all ranks do."""
        raise FailedComputation(f"{self.who}: {describe_result(result)}", result)


# What a rank evaluates, compiled once for each kind of problem.


@compiled
def _look(problem: AbstractEquilibrium, u: Fields) -> tuple[Fields, Fields, Fields, Any]:
    R = problem.residual(u)
    return R, project(problem.system, R), problem.gap(u), problem.is_valid(u)


@compiled
def _tangent(problem: AbstractEquilibrium, u: Fields, R: Fields, gap: Fields) -> tuple[Any, Fields, Fields]:
    """The matrix of a Newton step, the free part of its right-hand side, and what rounding makes of that."""
    A0 = problem.operator(u)
    A, b = linearised(problem, A0, R, gap, moved=has_prescribed_motion(problem.system))
    return A, b, {s: jnp.finfo(A0.dtype).eps * a for s, a in rounding_spread(problem, A0, u).items()}


@compiled
def _direction(problem: AbstractEquilibrium, x: Fields, gap: Fields) -> Fields:
    # What iterations leave of constrained directions is not nil, and would stay for ever.
    return {s: a + gap[s] for s, a in project(problem.system, x).items()}


@compiled
def _moved(problem: AbstractEquilibrium, u: Fields, d: Fields, part: Any) -> Fields:
    return problem.move(u, {s: part * a for s, a in d.items()})


@compiled
def rates_by_problem(problem: AbstractEquilibrium, start: Fields, u: Fields, wanted: Any, w: Fields) -> Any:
    """`w` times the derivative of `P (R - A g) + g` by what is wanted of the problem and the start."""
    A0 = constant(problem.operator(u))
    varied, fixed = eqx.partition((problem, start), wanted)

    def right_hand_side(varied):
        problem, start = eqx.combine(varied, fixed)
        gap, held = problem.gap(u), problem.constrained_gap(u, start)
        gap = {s: gap[s] + held[s] for s in gap}
        b = linearised(problem, A0, problem.residual(u), gap, moved=bool(problem.system.projections))[1]
        return {s: b[s] + gap[s] for s in b}

    return eqx.filter_vjp(right_hand_side, varied)[1](w)[0]


@compiled
def _transposed_product(problem: AbstractEquilibrium, u: Fields, w: Fields) -> Fields:
    """`w` times the exact derivative, whatever `operator` leaves out."""
    zero = jax.tree.map(jnp.zeros_like, w)

    def slope(d):
        rate = jax.jvp(lambda e: problem.residual(problem.move(u, e)), (zero,), (d,))[1]
        return {s: -a for s, a in rate.items()}

    return jax.linear_transpose(lambda d: constrained_product(problem.system, slope, d), w)(w)[0]


@eqx.filter_custom_vjp
def newton_over_ranks(posed: tuple[AbstractEquilibrium, Fields], means: Means) -> Fields:
    """The unknowns at which the residual is nil, at all nodes of the part."""
    return _iterated(*posed, means)


def _iterated(problem: AbstractEquilibrium, u: Fields, means: Means) -> Fields:
    division = means.division
    trial, d, alpha, scale, asked, floor = u, None, 1.0, 0.0, 0.0, 0.0
    for step in range(means.max_steps + 1):
        while True:
            R, free, gap, valid = _look(problem, trial)
            residual, left = division.norm(free), division.norm(gap)
            if division.everywhere(bool(valid)) and np.isfinite(residual + left):
                break
            if d is None or alpha <= 0.5**_HALVINGS:
                means.fail(RESULTS.not_finite if division.everywhere(bool(valid)) else RESULTS.inverted_element)
            alpha *= 0.5
            trial = _moved(problem, u, d, alpha)
        u = trial
        near = max(means.rtol * scale + means.atol, floor)
        if (step and residual <= near and left <= _TRAVELLED * asked) or residual == left == 0:
            return u
        if step == means.max_steps:
            break
        A, b, spread = _tangent(problem, u, R, gap)
        if not step:
            # Positions that run away have a floor of any height: that of the start is believed.
            scale, asked, floor = division.norm(b), left, division.norm(spread)
        x = means.factor(A, problem.state(u).position).solve(b, means.who)[0]
        d, alpha = _direction(problem, {s: jnp.asarray(x[s], a.dtype) for s, a in b.items()}, gap), 1.0
        trial = _moved(problem, u, d, alpha)
    return means.fail(RESULTS.not_converged)  # pyright: ignore[reportReturnType]


@newton_over_ranks.def_fwd
def _newton_fwd(perturbed: Any, posed: Any, means: Means) -> tuple[Fields, Fields]:
    del perturbed
    u = _iterated(*posed, means)
    return u, u


@newton_over_ranks.def_bwd
def _newton_bwd(u: Fields, rate: Any, perturbed: Any, posed: Any, means: Means) -> Any:
    (problem, start), division = posed, means.division
    zero = jax.tree.map(jnp.zeros_like, problem.gap(u))
    rate = division.halo.returned({s: _given(rate, s, a) for s, a in u.items()})
    goal = jax.vjp(lambda d: problem.move(u, d), zero)[1]({s: jnp.asarray(rate[s], a.dtype) for s, a in u.items()})[0]
    R, _, gap, _ = _look(problem, u)
    factor = means.factor(_tangent(problem, u, R, gap)[0], problem.state(u).position)

    def product(w: Fields) -> Rows:
        return division.halo.returned(_transposed_product(problem, u, w))

    w = _adjoint(factor, goal, means, None if problem.is_exact() else product)
    return rates_by_problem(problem, start, u, perturbed, w)


@eqx.filter_custom_vjp
def linear_step_over_ranks(step: EulerStep, means: Means) -> Fields:
    """The change of velocity of a linearised step, at all nodes of the part."""
    return _solved(step, means)


def _solved(step: EulerStep, means: Means) -> Fields:
    problem = step.problem()
    x = means.factor(problem.A, step.state.position).solve(problem.b, means.who)[0]
    return {s: jnp.asarray(x[s], a.dtype) for s, a in problem.b.items()}


@linear_step_over_ranks.def_fwd
def _linear_fwd(perturbed: Any, step: EulerStep, means: Means) -> tuple[Fields, Fields]:
    del perturbed
    x = _solved(step, means)
    return x, x


@linear_step_over_ranks.def_bwd
def _linear_bwd(x: Fields, rate: Any, perturbed: Any, step: EulerStep, means: Means) -> Any:
    rate = means.division.halo.returned({s: _given(rate, s, a) for s, a in x.items()})
    w = _adjoint(means.factor(step.problem().A, step.state.position), rate, means, None)
    return _rates_by_step(step, x, perturbed, w)


@compiled
def _rates_by_step(step: EulerStep, x: Fields, wanted: Any, w: Fields) -> Any:
    varied, fixed = eqx.partition(step, wanted)
    return eqx.filter_vjp(lambda varied: eqx.combine(varied, fixed).imbalance(x), varied)[1](w)[0]


def _given(rate: Any, s: str, like: Any) -> np.ndarray:
    return np.zeros(like.shape) if rate is None or rate.get(s) is None else np.asarray(rate[s])


def _adjoint(factor: DividedSolver, goal: Fields, means: Means, product: Callable[[Fields], Rows] | None) -> Fields:
    """`w` of `A^T w = goal` in the rows of owned nodes; where a matrix is only near `A`, by corrections with it."""
    division, total = means.division, None
    left, size = {s: np.asarray(a) for s, a in goal.items()}, division.norm(goal)
    for _ in range(_ROUNDS):
        x = division.masked(division.of_owned(factor.solve(left, means.who, transposed=True)[0]))
        total = x if total is None else {s: total[s] + x[s] for s in x}
        w = {s: jnp.asarray(total[s], goal[s].dtype) for s in total}
        if product is None or size == 0:
            return w
        done = product(w)
        left = {s: np.asarray(goal[s]) - done[s] for s in done}
        if division.norm(left) <= _EXACT * size:
            return w
    return means.fail(RESULTS.stagnation)  # pyright: ignore[reportReturnType]
