"""One step along a path of equilibria: a predictor along the tangent, and Newton's method with one equation more.

The equation says how far the step goes: `mu - mu0 = s` (load control), `w - w0 = s` (displacement control), or
`|u - u0|^2 / L^2 + (mu - mu0)^2 / M^2 = s^2` (arc length, a sphere). Each is linearised with the rest, so that a step of
Newton is two solves with one matrix. M. A. Crisfield, Computers & Structures 13 (1981) 55, doi 10.1016/0045-7949(81)90108-5;
K. Schweizerhof and P. Wriggers, Comput. Methods Appl. Mech. Engrg. 59 (1986) 261, doi 10.1016/0045-7825(86)90001-0.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import choose, dot, norm, plus, zeros
from .._linear_solver.eigen.inertia import UNKNOWN, negative_eigenvalues
from .._model.dynamics import Fields
from .._model.lever import Lever
from .._runtime.argument_checks import check_counts, check_tolerances
from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .._runtime.precision import compiled
from .._runtime.results import RESULTS
from .._sparse.block_matrix import BlockMatrix
from .path_problem import Mark, PathProblem, Tangent, displacement

CONTROLS = ("load", "displacement", "arc_length")
_ON_THE_WAY = 1e-9  # relative error of the length of a step
_TOO_FAR = 4.0  # lengths of the step, beyond which an iteration is not coming back


Way = tuple[Fields, Array]  # a displacement and a change of the load factor; or a point, and its load


def scaled(factor: Any, way: tuple[Fields, Any]) -> Way:
    """A multiple of a way."""
    return {s: factor * a for s, a in way[0].items()}, jnp.asarray(factor * way[1])


class Scales(eqx.Module):
    """What a displacement and a load factor are measured by, so that their squares can be added."""

    displacement: Array
    load: Array
    lever: Lever  # of turns
    multiplier_states: tuple[str, ...] = eqx.field(static=True)  # which are no displacements

    def across(self, a: Fields, b: Fields) -> Array:
        """The product of two displacements."""
        return dot(*(displacement(self.multiplier_states, self.lever, way) for way in (a, b)))

    def dot(self, a: Way, b: Way) -> Array:
        return self.across(a[0], b[0]) / self.displacement**2 + a[1] * b[1] / self.load**2

    def size(self, way: Way) -> Array:
        """Its arc length [-]."""
        return jnp.sqrt(self.dot(way, way))


class Control(eqx.Module):
    """How far a step goes: its length under one of `CONTROLS`, which `chosen` marks by a one among zeros."""

    chosen: Array  # (3,)
    length: Array
    scales: Scales

    @classmethod
    def of(cls, name: str, length: Array, scales: Scales) -> "Control":
        return cls(jnp.asarray([float(name == c) for c in CONTROLS], jnp.result_type(length)), length, scales)

    def equation(self, travelled: Way, way: Array) -> tuple[Array, Array, Array]:
        """What is left of the way; and its derivatives by the displacements (a multiple of them) and by the load, besides
        that of what is measured."""
        s = jnp.where(self.length == 0, 1.0, self.length)
        sphere = (self.scales.dot(travelled, travelled) - self.length**2) / (2 * s)
        value = jnp.stack([travelled[1] - self.length, way - self.length, sphere])
        by_displacement = self.chosen[2] / (s * self.scales.displacement**2)
        by_load = self.chosen[0] + self.chosen[2] * travelled[1] / (s * self.scales.load**2)
        return self.chosen @ value, by_displacement, by_load

    def rounding(self, load: Array, measured: Array, size: Array) -> Array:
        """What the equation is rounded by, over the precision and in its own unit; `size`: of the coordinates."""
        arc = jnp.abs(load / self.scales.load) + size / self.scales.displacement
        return self.chosen @ jnp.stack([jnp.abs(load), jnp.abs(measured), arc])


@dataclass(frozen=True)
class PathOptions:
    """When a point counts as on the path, and after how many iterations it does not."""

    rtol: float | None = None
    atol: float = 0.0
    max_iterations: int = 12

    def __post_init__(self):
        check_tolerances("follow_path", rtol=self.rtol, atol=self.atol)
        check_counts("follow_path", max_iterations=self.max_iterations)

    def tolerance(self, tangent: Tangent, load_scale: Array) -> Array:
        """Of the residual [N]: relative to the force of one load increment, and not below rounding."""
        eps = jnp.finfo(tangent.residual.dtype).eps
        rtol = eps ** (2 / 3) if self.rtol is None else self.rtol
        return jnp.maximum(rtol * tangent.size * jnp.abs(load_scale) + self.atol, tangent.floor)


class PathPoint(eqx.Module):
    """A point found, and the way to it. `rate`: `du/dmu` there."""

    u: Fields
    load: Array
    travelled: Way
    rate: Fields
    measured: Array
    measured_rate: Array
    iterations: Array
    residual: Array
    floor: Array
    unconstrained_state: Array
    result: Any
    going: Array

    @classmethod
    def at(cls, u: Fields, load: Array, travelled: Way, measured: Array) -> "PathPoint":
        """A point by itself, of which no more is known."""
        none, count = jnp.zeros_like(load), jnp.zeros((), jnp.int32)
        rest = (count, none, none, count - 1, RESULTS.successful, jnp.array(True))
        return cls(u, load, travelled, travelled[0], measured, none, *rest)

    @property
    def mark(self) -> Mark:
        return Mark(self.u, self.load, self.measured)


@compiled
def corrected(
    problem: PathProblem,
    options: PathOptions,
    solver: Any,
    control: Control,
    start: Mark,
    predicted: Way,
) -> PathPoint:
    """The point of the path that is `control.length` away from the start, from a predicted displacement and load."""
    zero = jnp.zeros_like(start.load)

    def step(p: PathPoint) -> PathPoint:
        tangent = Tangent.of(problem, p.u, p.load)
        equilibrium = problem.at(p.load)
        d, rate, solved, loose = tangent.directions(problem, p.u, p.load, solver)
        directions = jax.tree.map(lambda a, b: jnp.stack([a, b]), (d, zero), (rate, zero + 1))

        def gone(d: Fields, load: Array) -> Array:
            return problem.way(start, equilibrium.move(p.u, d), load)

        way, slopes = jax.vmap(lambda e: jax.jvp(gone, (zeros(d), p.load), e), out_axes=(None, 0))(directions)
        value = start.measured + way
        left, by_displacement, by_load = control.equation(p.travelled, way)
        w = control.chosen[1]
        ahead = w * slopes[1] + by_displacement * control.scales.across(p.travelled[0], rate) + by_load
        dload = -(left + w * slopes[0] + by_displacement * control.scales.across(p.travelled[0], d)) / jnp.where(
            ahead == 0, jnp.inf, ahead
        )
        eps = jnp.finfo(value.dtype).eps
        size = norm(problem.displacement(equilibrium.rounding(p.u)))
        arrived = jnp.abs(left) <= _ON_THE_WAY * jnp.abs(control.length) + 16 * eps * control.rounding(p.load, value, size)
        there = norm(problem.lever.ways(tangent.gap)) <= 16 * eps * size
        on_path = tangent.residual <= options.tolerance(tangent, control.scales.load)
        far = control.chosen[2] * control.scales.dot(p.travelled, p.travelled) > (_TOO_FAR * control.length) ** 2
        converged = on_path & there & arrived
        result = RESULTS.where(solved == RESULTS.successful, RESULTS.successful, solved)
        result = RESULTS.where(far | (p.iterations >= options.max_iterations), RESULTS.not_converged, result)
        result = RESULTS.where(jnp.isfinite(tangent.residual), result, RESULTS.not_finite)
        result = RESULTS.where(equilibrium.is_valid(p.u), result, RESULTS.inverted_element)
        result = RESULTS.where(converged, RESULTS.where(equilibrium.is_valid(p.u), RESULTS.successful, result), result)
        going = ~converged & (result == RESULTS.successful)
        d = jax.tree.map(lambda a: jnp.where(going, a, 0.0), plus(d, dload, rate))
        dload = jnp.where(going, dload, 0.0)
        return PathPoint(
            choose(going, equilibrium.move(p.u, d), p.u),
            p.load + dload,
            (plus(p.travelled[0], 1.0, d), p.travelled[1] + dload),
            rate,
            value,
            slopes[1],
            p.iterations + going,
            tangent.residual,
            tangent.floor,
            jnp.where(result == RESULTS.singular, loose, -1),
            result,
            going,
        )

    begin = PathPoint.at(problem.at(start.load).move(start.u, predicted[0]), start.load + predicted[1], predicted, zero)
    return while_loop(lambda p: p.going, step, begin)


@compiled
def unstable_directions(problem: PathProblem, u: Fields, load: Array) -> Array:
    """The negative eigenvalues of the tangent: directions of instability. `UNKNOWN` where it is not symmetric.

    Each equation that multipliers hold has one of its own, stable or not (C. Lanczos, *The Variational Principles of
    Mechanics*, 1970, chapter 2.12; J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, theorem 16.3).
    """
    equilibrium = problem.at(load)
    K = equilibrium.linear_system.constrain(equilibrium.system, equilibrium.operator(u))
    assert isinstance(K, BlockMatrix)
    if not (K.symmetric and (equilibrium.linear_system.terms.symmetric or not equilibrium.has_dead_torques())):
        return jnp.full((), UNKNOWN, jnp.int32)
    counted, blocks = negative_eigenvalues(K), K.diagonal
    # What holds a multiplier at its place put a one on the diagonal, where equations have nil, or what they give by.
    rows = [jnp.sum(jnp.diagonal(blocks[s], axis1=1, axis2=2) <= 0) for s in problem.multiplier_states]
    return jnp.where(counted == UNKNOWN, UNKNOWN, counted - sum(rows)).astype(jnp.int32)
