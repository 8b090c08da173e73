"""Newton's method with steps that are trusted only as far as the matrix foretold what they do.

A step solves `(A + s D) d = R`, `D` the diagonal of `A` (J. J. More, *The Levenberg-Marquardt algorithm*, 1978). The
energy that it sets free, `d.(R0 + R1) / 2` by the trapezoidal rule, is compared with `d.R0 - d.A d / 2`, so that no energy
has to be known, and forces need not have one. J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, chapter 4.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.vectors import choose, dot, norm, zeros
from .._linear_solver.default import default_solver
from .._math.indexing import add_rows
from .._model.constraint_projection import has_prescribed_motion, project
from .._model.dynamics import Fields
from .._model.lever import Lever, of_each_kind
from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .._runtime.results import RESULTS
from .._sparse.block_matrix import BlockMatrix
from .equilibrium import AbstractEquilibrium, NewtonOptions
from .newton_iteration import Progress, beginning, believed_floor, converged, linearised
from .rounding import rounding_floor

_TRUSTED, _USELESS = 0.5, 1e-4  # what a step did, over what was foretold
_FIRST, _LEAST, _MOST = 1e-3, 1e-5, 1e12  # of the shift s [-]; a smaller one is nil, with a larger one nothing moves
_WIDEN, _NARROW = 0.1, 3.0


class _Region(eqx.Module):
    progress: Progress
    A: Any  # at the last point accepted
    force: Fields  # the free part of the right-hand side there
    gap: Fields
    foretold: Array
    shift: Array


def trust_region(problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, solver: Any, going: Array) -> Progress:
    """Iterate to convergence from `u`; not at all unless `going`."""
    moved = has_prescribed_motion(problem.system)

    def assembled(u: Fields, R: Fields, gap: Fields, lever: Lever) -> tuple[Any, Fields, tuple[Array, Array]]:
        A0 = problem.operator(u)
        if not isinstance(A0, BlockMatrix):
            raise ValueError("static_solve: the trust region needs a matrix; take a MatrixLinearSystem.")
        A, force = linearised(problem, A0, R, gap, moved=moved)
        return A, force, rounding_floor(problem, A0, u, lever)

    def step(r: _Region) -> _Region:
        p = r.progress
        trial = problem.move(p.u, p.d)
        R, gap = problem.residual(trial), problem.gap(trial)
        free = project(problem.system, R)
        residual, gap_norm = norm(p.lever.forces(free)), norm(p.lever.ways(gap))
        good = jnp.isfinite(residual) & jnp.isfinite(gap_norm) & problem.is_valid(trial)
        done = 0.5 * dot(p.d, {s: r.force[s] + free[s] for s in free}) / jnp.where(r.foretold == 0, 1.0, r.foretold)
        first = p.steps == 0
        downhill = (r.foretold > 0) & (dot(p.d, r.force) > 0) & (done > _USELESS)
        arrived = good & converged(problem, options, p, free, gap_norm, trial)
        # A prescribed motion is travelled whatever it costs.
        accepted = good & (first | downhill | arrived | (norm(r.gap) > 0))
        history = p.history.at[p.steps].set(jnp.where(accepted, residual, p.history[p.steps]))
        narrower = jnp.maximum(_NARROW * r.shift, _FIRST)
        wider = jnp.where(_WIDEN * r.shift < _LEAST, 0.0, _WIDEN * r.shift)
        shift = jnp.where(accepted, jnp.where((done > _TRUSTED) | first, wider, r.shift), narrower)
        stuck = (shift > _MOST) | (p.steps >= options.max_steps) | (first & ~good)
        result = RESULTS.where(stuck & ~arrived, RESULTS.not_converged, p.result)
        reason = RESULTS.where(problem.is_valid(trial), RESULTS.not_finite, RESULTS.inverted_element)
        result = RESULTS.where(~good & stuck, reason, result)
        result = RESULTS.where(arrived, RESULTS.successful, result)
        going = ~arrived & ~stuck
        u = choose(accepted, trial, p.u)
        kept = r.A, r.force, (p.floor, p.slack)
        A, force, (floor, slack) = jax.lax.cond(going & accepted, lambda: assembled(trial, R, gap, p.lever), lambda: kept)
        gap = choose(accepted, gap, r.gap)
        d, foretold, linear_steps = _shifted_step(problem, A, force, shift, solver)
        scale = jnp.where(first, norm(p.lever.forces(force)), p.scale)
        p = Progress(
            u,
            jnp.where(accepted, residual, p.residual),
            {s: d[s] + gap[s] for s in d},
            0.5 * jnp.ones_like(p.alpha),
            scale,
            jnp.where(first, gap_norm, p.gap_scale),
            believed_floor(floor, p, scale),
            slack,
            p.steps + 1,
            history,
            p.linear_steps + linear_steps,
            p.unconstrained_state,
            result,
            going,
            p.lever,
        )
        return _Region(p, A, force, gap, foretold, shift)

    start = eqx.tree_at(lambda p: p.linear_steps, beginning(problem, u, options, going), jnp.zeros((), jnp.int32))
    shapes = jax.eval_shape(lambda: assembled(u, problem.residual(u), problem.gap(u), start.lever)[:2])
    A, force = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)
    nothing = zeros(start.d)
    region = _Region(start, A, force, nothing, jnp.zeros_like(start.alpha), jnp.zeros_like(start.alpha))
    end = while_loop(lambda r: r.progress.going, step, region).progress
    return eqx.tree_at(lambda p: p.steps, end, jnp.maximum(end.steps - 1, 0))


def _shifted_step(
    problem: AbstractEquilibrium, A: BlockMatrix, force: Fields, shift: Array, solver: Any
) -> tuple[Fields, Array, Array]:
    """`d` of `(A + s D) d = R`, the energy that it should set free, and the steps of an iterative solver. Nothing is
    foretold of a singular matrix, so that the shift grows."""
    size = {s: jnp.abs(jnp.einsum("nii->ni", blocks)) for s, blocks in A.diagonal.items()}
    # What has no stiffness of its own moves like the average, of which the ones of what is held are no part.
    dofs, free = problem.system.dofs, project(problem.system, size)
    own = {s: of_each_kind(dofs[s], jnp.mean, jnp.abs(a)) for s, a in free.items()}
    size = {s: jnp.maximum(a, 1e-3 * own[s]) for s, a in size.items()}
    entries = dict(A.entries)
    for s, a in size.items():
        entry = entries[s, s]
        assert entry.pattern.diagonal is not None
        values = add_rows(entry.values, entry.pattern.diagonal, shift * jax.vmap(jnp.diag)(a), unique=True)
        entries[s, s] = eqx.tree_at(lambda e: e.values, entry, values)
    shifted = eqx.tree_at(lambda A: A.entries, A, entries)
    solver = default_solver(shifted, inertial=problem.is_inertial()) if solver is None else solver
    solution = lx.linear_solve(shifted, force, solver, throw=False)
    solved = solution.result == lx.RESULTS.successful
    d = {s: jnp.where(solved, a, 0.0) for s, a in project(problem.system, solution.value).items()}
    foretold = dot(d, force) - 0.5 * dot(d, A.mv(d))
    return d, foretold, jnp.asarray(solution.stats["num_steps"], jnp.int32)
