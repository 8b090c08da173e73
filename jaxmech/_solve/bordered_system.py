"""Points of a path where the tangent is singular: limit points and bifurcations, found exactly, with their derivatives.

The tangent `K`, bordered by the unit vector `e` of the largest component of the mode, is not singular there:

    K w + g e = 0,  e^T w = 1    so that    g(u, mu) = -w^T K w,    dg = -w^T dK w

and `g = 0` where `K` is singular, with `w` the mode. Newton's method solves `R(u, mu) = 0` and `g(u, mu) = 0` together,
with two matrices' worth of solves of `K` without the row and column of `e`; derivatives by parameters follow from the same
linear system (implicit function theorem). A. Griewank and G. W. Reddien, IMA J. Numer. Anal. 4 (1984) 295,
doi 10.1093/imanum/4.3.295; W. J. F. Govaerts, *Numerical Methods for Bifurcations of Dynamical Equilibria*, 2000.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from .._linear_solver.base.derivative import derivative_solve
from .._linear_solver.base.vectors import dot, norm, plus, scattered, zeros
from .._linear_solver.default import default_solver
from .._linear_solver.eigen.eigenpairs import held
from .._model.constraint_projection import project
from .._model.dynamics import Fields
from .._model.lever import Lever
from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .._runtime.precision import compiled
from .._runtime.results import RESULTS
from .newton_iteration import linearised
from .path_problem import PathProblem, Tangent
from .path_step import PathOptions, Way

KINDS = ("limit", "bifurcation")
_NEAR = 1e-8  # the last step, relative to positions and loads; half the root of the rounding unit in single precision
_MOST = 25
_INVERSE_ITERATIONS = 25  # two modes may be nearly as soft


class Critical(eqx.Module):
    """Where the iteration ended."""

    u: Fields
    load: Array
    mode: Fields
    slope: Array  # the cosine between the mode and the load: nil at a bifurcation
    near: Array  # how far off it may be [m]
    going: Array
    iterations: Array
    residual: Array
    result: Any


class Border:
    """The tangent bordered by `e`, the unit vector of the largest displacement of a mode that is known nearly; and by those
    of `others` that are as soft."""

    def __init__(
        self, K: Any, mode: Fields, solver: Any, multiplier_states: tuple[str, ...], others: tuple[Fields, ...] = ()
    ):
        _, parted = ravel_pytree(mode)
        weight, _ = ravel_pytree({s: jnp.full_like(a, s not in multiplier_states) for s, a in mode.items()})
        pins = []
        for way in (mode, *others):
            pins.append(jnp.zeros_like(weight).at[jnp.argmax(jnp.abs(ravel_pytree(way)[0]) * weight)].set(1))
            weight = weight * (1 - pins[-1])  # no two of the same
        free = parted(1 - sum(pins))
        pinned = held(K, free)
        chosen = default_solver(pinned) if solver is None else solver
        self.modes = [{s: a * (s not in multiplier_states) for s, a in way.items()} for way in (mode, *others)]
        self.solve = lambda b: derivative_solve(pinned, {s: free[s] * b[s] for s in b}, chosen)  # all rows but that of e
        self.along = [plus(e, -1.0, self.solve(K.mv(e))) for e in map(parted, pins)]
        self.w = self.along[0]

    def without_modes(self, y: Fields) -> Fields:
        """The solution that moves along none of the modes: on the path that the bifurcation lies on, not off it."""
        parts = jnp.stack([jnp.stack([dot(mode, way) for way in (*self.along, y)]) for mode in self.modes])
        for part, way in zip(jnp.linalg.solve(parts[:, :-1], parts[:, -1]), self.along, strict=True):
            y = plus(y, -part, way)
        return y


def _cosine(lever: Lever, mode: Fields, load: Fields) -> Array:
    """Between what belongs to each other, state by state: their units are not the same."""
    a, b = lever.ways(mode), lever.forces(load)
    size = sum(norm(a[s]) * norm(b[s]) for s in a)
    return jnp.abs(dot(a, b)) / jnp.where(size > 0, size, 1.0)


def _softness(problem: PathProblem, u: Fields, load: Array, w: Fields) -> Array:
    """`g = -w^T K w`, of the residual itself."""
    equilibrium = problem.at(load)

    def residual(d: Fields) -> Fields:
        return project(equilibrium.system, equilibrium.residual(equilibrium.move(u, d)))

    nothing = zeros(w)
    return dot(w, jax.jvp(residual, (nothing,), (w,))[1])


def _solve_bordered(
    problem: PathProblem,
    u: Fields,
    load: Array,
    source: tuple[Fields, Fields, Array],
    rates: Any,
    kind: str,
    border: Border,
) -> tuple[Fields, Array]:
    """`(du, dmu)` with `K du = f + q dmu` (`du = gap + p dmu` where prescribed) and `dg[du, dmu] = -g`; `source`: `f`, the
    gap and `g`, `rates`: `q` and `p`.

    At a bifurcation the first equation leaves the amplitude of the mode open, and there is none.
    """
    (force, gap, g), (q, p), w = source, rates, border.w
    parts = [plus(border.solve(b), 1.0, way) for b, way in ((force, gap), (q, p))]
    if kind == "bifurcation":
        parts = [border.without_modes(y) for y in parts]
    at = problem.at(load)
    nothing, zero, one = zeros(w), jnp.zeros_like(load), jnp.ones_like(load)
    ways = jax.tree.map(lambda *a: jnp.stack(a), (parts[1], one), (w, zero))

    def softness(d: Fields, load: Array) -> Array:
        return _softness(problem, at.move(u, d), load, w)

    def rate(way: Way) -> Array:
        return jax.jvp(softness, (nothing, load), way)[1]

    # Apart: the force is what derivatives are linear in.
    by_force, (by_load, by_mode) = rate((parts[0], zero)), jax.vmap(rate)(ways)
    if kind == "bifurcation":
        dload = -(g + by_force) / by_load
        return plus(parts[0], dload, parts[1]), dload
    # The row of e: w^T (force + q dmu) + c g0 = 0 with the g0 of here, which vanishes at the point.
    here = _softness(problem, u, load, w)
    f, slope = dot(w, force), dot(w, q)
    determinant = slope * by_mode - here * by_load
    dload = (here * (g + by_force) - f * by_mode) / determinant
    c = (f * by_load - slope * (g + by_force)) / determinant
    return plus(plus(parts[0], dload, parts[1]), c, w), dload


@compiled
def find_critical(
    problem: PathProblem,
    options: PathOptions,
    solver: Any,
    kind: str,
    u: Fields,
    start: tuple[Array, Fields, Array],
    others: tuple[Fields, ...] = (),
) -> Critical:
    """The critical point near `u`, by Newton's method; `start`: the load there, the mode nearly, and a scale of the load.
    `others`: modes that are as soft there."""
    load, mode, load_scale = start

    def step(c: Critical) -> Critical:
        tangent = Tangent.of(problem, c.u, c.load)
        border = Border(tangent.A, mode, solver, problem.multiplier_states, others)
        w = border.w
        source = tangent.force, tangent.gap, _softness(problem, c.u, c.load, w)
        d, dload = _solve_bordered(problem, c.u, c.load, source, (tangent.load, tangent.gap_rate), kind, border)
        equilibrium = problem.at(c.load)
        size = norm(problem.displacement(equilibrium.rounding(c.u)))
        # The next step, of second order, is rounding.
        enough = max(_NEAR, 0.5 * float(jnp.finfo(c.load.dtype).eps) ** 0.5)
        off = enough * jnp.where(size > 0, size, 1.0)
        near = norm(problem.displacement(d)) <= off
        near &= jnp.abs(dload) <= enough * jnp.maximum(jnp.abs(c.load), load_scale)
        done = near & (tangent.residual <= options.tolerance(tangent, load_scale))
        finite = jnp.isfinite(dload) & jnp.isfinite(norm(d))
        result = RESULTS.where(c.iterations >= _MOST, RESULTS.not_converged, RESULTS.successful)
        known = jnp.isfinite(tangent.residual) & jnp.isfinite(norm(tangent.A.mv(jax.tree.map(jnp.ones_like, d))))
        why = RESULTS.where(known, RESULTS.several_modes, RESULTS.not_finite)  # the bordered tangent is singular too
        result = RESULTS.where(finite, result, why)
        result = RESULTS.where(equilibrium.is_valid(c.u), result, RESULTS.inverted_element)
        moved = jax.tree.map(lambda a, b: jnp.where(finite, a, b), equilibrium.move(c.u, d), c.u)
        going = ~done & (result == RESULTS.successful)
        result = RESULTS.where(done & finite, RESULTS.successful, result)
        load = jnp.where(finite, c.load + dload, c.load)
        slope = _cosine(problem.lever, w, tangent.load)
        return Critical(moved, load, w, slope, off, going, c.iterations + 1, tangent.residual, result)

    count = jnp.zeros((), jnp.int32)
    one, zero = jnp.ones_like(load), jnp.zeros_like(load)
    begin = Critical(u, load, mode, one, zero, jnp.array(True), count, zero, RESULTS.successful)
    return while_loop(lambda c: c.going, step, begin)


@eqx.filter_custom_jvp
def critical_load(problem: PathProblem, u: Fields, start: tuple[Array, Fields, Array], options: Any, solver: Any, kind: str):
    """`find_critical`, with a derivative by the leaves of `problem` and by the positions at which constraints hold nodes."""
    found = find_critical(problem, options, solver, kind, u, start)
    return found.u, found.load, found


@critical_load.def_jvp
def _critical_load_jvp(primals, tangents):
    problem, begin, start, options, solver, kind = primals
    u, load, found = critical_load(problem, begin, start, options, solver, kind)
    tangent = Tangent.of(problem, u, load)
    border = Border(tangent.A, start[1], solver, problem.multiplier_states)

    def equations(problem: PathProblem, begin: Fields) -> tuple[Fields, Fields, Array]:
        equilibrium = problem.at(load)
        gap, kept = equilibrium.gap(u), equilibrium.constrained_gap(u, begin)
        return equilibrium.residual(u), {s: gap[s] + kept[s] for s in gap}, _softness(problem, u, load, border.w)

    values, rates = eqx.filter_jvp(equations, (problem, begin), tangents[:2])
    R, gap, g = jax.tree.map(lambda a, d: jnp.zeros_like(a) if d is None else d, values, _whole(values, rates))
    equilibrium = problem.at(load)
    moved = bool(equilibrium.system.projections)
    _, force = linearised(equilibrium, tangent.unconstrained, R, gap, moved=moved)
    along = tangent.load, tangent.gap_rate
    d, dload = _solve_bordered(problem, u, load, (force, gap, g), along, kind, border)
    du = jax.jvp(lambda e: equilibrium.move(u, e), (zeros(d),), (d,))[1]
    return (u, load, found), (du, dload, jax.tree.map(lambda _: None, found))


def _whole(values: Any, rates: Any) -> Any:
    """Rates with a None for every value without one, in the structure of the values."""
    (R, gap, _), (dR, dgap, dg) = values, rates
    return *({s: None if d is None else d[s] for s in a} for a, d in ((R, dR), (gap, dgap))), dg


@compiled
def softest_mode(problem: PathProblem, solver: Any, u: Fields, load: Array, ways: tuple[Fields, ...]) -> Fields:
    """The unit vector whose eigenvalue is nearest to nil, across the path and modes that are known, by inverse iteration."""
    equilibrium, lever = problem.at(load), problem.lever
    A = equilibrium.linear_system.constrain(equilibrium.system, equilibrium.operator(u))
    chosen = default_solver(A) if solver is None else solver

    def closer(_: int, x: Fields) -> Fields:
        mass = lever.ways(lever.ways(x))  # the unit of a way, of a turn that at the end of the lever; multipliers have none
        moved = {s: a * (s not in problem.multiplier_states) for s, a in mass.items()}
        x = project(equilibrium.system, derivative_solve(A, moved, chosen))
        for way, square in zip(ways, squares, strict=True):
            x = plus(x, -inner(x, way) / jnp.where(square > 0, square, 1.0), way)
        size = jnp.sqrt(inner(x, x))
        return {s: a / size for s, a in x.items()}

    def inner(a: Fields, b: Fields) -> Array:
        return dot(problem.displacement(a), problem.displacement(b))

    squares = [inner(way, way) for way in ways]
    seed = project(equilibrium.system, scattered(A.in_structure(), 0))
    return jax.lax.fori_loop(0, _INVERSE_ITERATIONS, closer, seed)
