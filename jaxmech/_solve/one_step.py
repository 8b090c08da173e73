"""One step of Newton's method by a matrix that is there already."""

import dataclasses
from typing import Any

import jax.numpy as jnp

from .._linear_solver.base.vectors import norm
from .._model.constraint_projection import has_prescribed_motion, project
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .equilibrium import AbstractEquilibrium, NewtonOptions
from .newton_iteration import beginning, converged, linear_solve
from .rounding import rounding_floor


def one_step(problem: AbstractEquilibrium, u: Fields, A0: Any, solver: Any) -> tuple[Fields, Array]:
    """Where the first step from `u` leads, `A0 = problem.operator(u)`, and whether `newton_solve` would end there."""
    options, moved = NewtonOptions(), has_prescribed_motion(problem.system)
    R, gap = problem.residual(u), problem.gap(u)
    start = beginning(problem, u, options, jnp.array(True))
    lever = start.lever
    _, free, d, _ = linear_solve(problem, u, A0, R, gap, solver, lever, moved=moved)
    floor, slack = rounding_floor(problem, A0, u, lever)
    scales = {"scale": norm(lever.forces(free)), "gap_scale": norm(lever.ways(gap)), "floor": floor, "slack": slack}
    before = dataclasses.replace(start, steps=start.steps + 1, **scales)
    end = problem.move(u, d)
    R, gap_norm = project(problem.system, problem.residual(end)), norm(lever.ways(problem.gap(end)))
    finite = jnp.isfinite(norm(R)) & jnp.isfinite(gap_norm)
    valid = problem.is_valid(u) & problem.is_valid(end)
    return end, finite & valid & converged(problem, options, before, R, gap_norm, end)
