"""Which way a path leaves a bifurcation.

Where `K w = 0`, a way `s w + t (z, 1)`, `K z = q`, is along a path if `w^T R` vanishes to second order:

    a s^2 + 2 b s t + c t^2 = 0,    a, b, c = w^T R''[w, w], w^T R''[w, v], w^T R''[v, v],    v = (z, 1)

whose two solutions are the tangents of the paths that cross. H. B. Keller, "Numerical solution of bifurcation and nonlinear
eigenvalue problems", in P. H. Rabinowitz (ed.), *Applications of Bifurcation Theory*, 1977, ISBN 978-0-12-574250-4.
"""

from typing import Any

import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import dot, plus
from .._model.constraint_projection import project
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .bordered_system import Border
from .path_problem import PathProblem, Tangent
from .path_step import Scales, Way, scaled


@compiled
def branch_way(
    problem: PathProblem, solver: Any, scales: Scales, u: Fields, load: Array, mode: Fields, passed: Way | None
) -> Way:
    """The tangent of the other path at a bifurcation, of unit arc length, towards the mode (or of rising load, across it).

    `passed`: a step of the path that is known there; unless given, the path that leaves the mode by most.
    """
    tangent = Tangent.of(problem, u, load)
    border = Border(tangent.A, mode, solver, problem.multiplier_states)
    w = border.w
    z = border.without_modes(plus(border.solve(tangent.load), 1.0, tangent.gap_rate))

    def along_mode(way: Array) -> Array:
        s, t = way
        equilibrium = problem.at(load + t)
        d = {k: s * w[k] + t * z[k] for k in w}
        return dot(w, project(equilibrium.system, equilibrium.residual(equilibrium.move(u, d))))

    (a, b), (_, c) = jax.jacfwd(jax.jacfwd(along_mode))(jnp.zeros(2, load.dtype))
    q = b + jnp.where(b < 0, -1.0, 1.0) * jnp.sqrt(jnp.maximum(b**2 - a * c, 0.0))

    def unit(s: Array, t: Array) -> Way:
        turn = jnp.where((s < 0) | ((s == 0) & (t < 0)), -1.0, 1.0) * jnp.where(dot(w, mode) < 0, -1.0, 1.0)
        way = {k: s * w[k] + t * z[k] for k in w}, t
        return scaled(turn / scales.size(way), way)

    first, second = unit(-q, a), unit(c, -q)  # neither takes a difference; the first is more along the mode
    straight = scaled(1 / scales.size((mode, jnp.zeros_like(load))), (mode, jnp.zeros_like(load)))
    if passed is not None:
        known = jnp.abs(scales.dot(first, passed)) > jnp.abs(scales.dot(second, passed))
        first = jax.tree.map(lambda x, y: jnp.where(known, y, x), first, second)
    # Where several modes are as soft, the border of one leaves a singular matrix; symmetry has them leave along themselves.
    alike = scales.across(w, mode) ** 2 > 0.5 * scales.across(w, w) * scales.across(mode, mode)
    fine = alike & jnp.isfinite(scales.size(first))
    return jax.tree.map(lambda x, y: jnp.where(fine, x, y), first, straight)
