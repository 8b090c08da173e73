"""Dynamic relaxation: an equilibrium as the rest of a motion, without a matrix.

A fictitious mass `m` falls by central differences with a step of one; where forces begin to work against it, so that its
kinetic energy has passed a peak, it is stopped and let go again (kinetic damping), for the potential energy is least near
there. (Kinetic energies half a step apart would not tell: of a mode with a period of four steps all are equal.) `m` is a
quarter of the largest eigenvalue of the stiffness, found by products, with a margin, so that the motion is stable. A. S.
Day, The Engineer 219 (1965) 218; M. R. Barnes, Int. J. Space Structures 14 (1999) 89, doi 10.1260/0266351991494722.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import choose, dot, norm, scattered, zeros
from .._model.constraint_projection import project
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .._runtime.results import RESULTS
from .equilibrium import AbstractEquilibrium, NewtonOptions
from .newton_iteration import Progress, beginning, converged

_PRODUCTS = 12  # of the power iteration
_MARGIN = 2.5  # over the mass of the limit of stability: stiffness may grow, and the iteration is not at its end
_STALE = 200  # steps after which the mass is found anew, if no peak came before


class _Motion(eqx.Module):
    progress: Progress  # `d`: half a step ago to now, at a velocity
    mass: Array
    age: Array  # steps since the mass was found


def dynamic_relaxation(
    problem: AbstractEquilibrium, u: Fields, options: NewtonOptions, solver: Any, going: Array
) -> Progress:
    """Relax to convergence from `u`; not at all unless `going`."""
    del solver

    def mass_at(u: Fields, seed: Fields) -> Array:
        def slope(d: Fields) -> Fields:
            return project(problem.system, jax.jvp(lambda e: problem.residual(problem.move(u, e)), (zeros(d),), (d,))[1])

        def product(_: int, at: tuple[Fields, Array]) -> tuple[Fields, Array]:
            d = lever.forces(slope(lever.forces(at[0])))
            size = norm(d)
            return {s: a / jnp.where(size > 0, size, 1.0) for s, a in d.items()}, size

        seed = project(problem.system, seed)
        seed = {s: a / norm(seed) for s, a in seed.items()}
        return _MARGIN / 4 * jax.lax.fori_loop(0, _PRODUCTS, product, (seed, jnp.zeros_like(start.alpha)))[1]

    start = beginning(problem, u, options, going)
    lever = start.lever  # a mass that turns is of inertia where it ends: all unknowns are lengths

    def step(m: _Motion) -> _Motion:
        p = m.progress
        first = p.steps == 0
        trial = problem.move(p.u, p.d)
        R, gap = problem.residual(trial), problem.gap(trial)
        free = project(problem.system, R)
        residual, gap_norm = norm(lever.forces(free)), norm(lever.ways(gap))
        valid = problem.is_valid(trial)
        good = jnp.isfinite(residual) & valid
        p = eqx.tree_at(
            lambda q: (q.scale, q.gap_scale), p, (jnp.where(first, residual, p.scale), p.gap_scale + first * gap_norm)
        )
        arrived = good & converged(problem, options, p, free, gap_norm, trial)
        peak = (dot(free, p.d) < 0) & ~first
        renew = first | peak | (m.age >= _STALE)
        mass = jax.lax.cond(renew, lambda: mass_at(trial, scattered(free, 1)), lambda: m.mass)
        mass = jnp.where(mass > 0, mass, 1.0)
        fall = {s: a / mass for s, a in lever.forces(lever.forces(free)).items()}
        # Let go at rest: half a step of acceleration. A prescribed motion is travelled at once.
        d = choose(first | peak, {s: 0.5 * fall[s] + gap[s] for s in fall}, {s: p.d[s] + fall[s] for s in fall})
        exhausted = p.steps >= options.max_steps
        result = RESULTS.where(exhausted & ~arrived, RESULTS.not_converged, p.result)
        result = RESULTS.where(good, result, RESULTS.where(valid, RESULTS.not_finite, RESULTS.inverted_element))
        rounded = lever.ways(project(problem.system, problem.rounding(trial)))
        p = Progress(
            choose(good, trial, p.u),
            jnp.where(good, residual, p.residual),
            d,
            0.5 * jnp.ones_like(p.alpha),
            p.scale,
            p.gap_scale,
            # What the rounding of positions makes of a residual: the largest eigenvalue times it.
            jnp.finfo(residual.dtype).eps * 4 / _MARGIN * mass * norm(rounded),
            p.slack,
            p.steps + 1,
            p.history.at[p.steps].set(residual),
            p.linear_steps,
            p.unconstrained_state,
            result,
            ~arrived & (result == RESULTS.successful),
            lever,
        )
        return _Motion(p, mass, jnp.where(renew, 0, m.age + 1))

    zero = jnp.zeros_like(start.alpha)
    motion = _Motion(start, zero + 1, jnp.zeros((), jnp.int32))
    end = while_loop(lambda m: m.progress.going, step, motion).progress
    return eqx.tree_at(lambda p: p.steps, end, jnp.maximum(end.steps - 1, 0))
