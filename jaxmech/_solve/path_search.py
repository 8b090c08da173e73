"""What lies between two points of a path: limit points and bifurcations, and where a displacement turns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import norm
from .._linear_solver.eigen.inertia import UNKNOWN
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._runtime.results import RESULTS
from .._scene.dof import AbstractDof
from .bordered_system import Critical, find_critical, softest_mode
from .path_problem import PathProblem
from .path_step import Control, PathOptions, PathPoint, Scales, corrected, scaled, unstable_directions

_HALVINGS = 8  # of a step in which two critical points are looked for
_TURNED = 1e-10  # how exactly a turning point is found, as a part of its step
_MOST = 30
_ACROSS = 1e-4  # the cosine between the mode and the load below which a point is a bifurcation;
_ROUNDED = 64.0  # roots of the rounding unit, by which the mode of one may be off: more in single precision


@dataclass(frozen=True)
class Place:
    """A point with what tells whether something lies between it and the next: the number of unstable directions, and the
    sign of the change of load along the path."""

    point: PathPoint
    unstable: int
    sign: float


class PathSearch:
    """Looks between neighbours."""

    def __init__(self, problem: PathProblem, newton: PathOptions, solver: Any, scales: Scales):
        self.problem, self.newton, self.solver, self.scales = problem, newton, solver, scales

    def place(self, point: PathPoint, sign: float, *, count: bool = True) -> Place:
        """At a critical point nothing is counted: one of the eigenvalues is nil."""
        return Place(point, int(unstable_directions(self.problem, point.u, point.load)) if count else UNKNOWN, sign)

    def critical_points(self, a: Place, b: Place, halvings: int = _HALVINGS) -> list[tuple[str, Critical]]:
        """In their order; each alone in its part of the step, if that can be done."""
        if UNKNOWN in (a.unstable, b.unstable):
            return []
        changes, turns = abs(b.unstable - a.unstable), a.sign != b.sign
        if not changes and not turns:
            return []
        kinds = ["limit"] * turns + ["bifurcation"] * (changes > turns)
        if changes == 1 and (found := self._critical(kinds[0], a, b)) is not None:
            return [(kinds[0], found)]
        middle = self._between(a, b, 0.5) if halvings else None
        if middle is None:  # several at once, by symmetry; or a branch that meets another path as it turns
            several = self._several(a, b, changes - turns) if changes - turns > 1 else []
            singly = ("limit", "bifurcation")[: 1 if several else 2] if changes else ()
            pairs = [(kind, self._critical(kind, a, b)) for kind in singly]
            return [(kind, found) for kind, found in pairs if found is not None] + [("bifurcation", c) for c in several]
        (du, dload), (du_a, dload_a) = b.point.travelled, middle.point.travelled
        rest = {s: du[s] - du_a[s] for s in du}, dload - dload_a
        b = replace(b, point=replace(b.point, travelled=rest))
        return self.critical_points(a, middle, halvings - 1) + self.critical_points(middle, b, halvings - 1)

    def turning_point(self, a: Place, b: Place) -> PathPoint | None:
        """Where the displacement turns, by the method of false position (Illinois)."""
        (low, at_low), (high, at_high) = (0.0, self._progress(a)), (1.0, self._progress(b))
        if not at_low * at_high < 0 or not any(_moves(self.problem, p.point) for p in (a, b)):
            return None
        found = b
        for _ in range(_MOST):
            part = high - at_high * (high - low) / (at_high - at_low)
            place = self._between(a, b, part)
            if place is None:
                return None
            value, found = self._progress(place), place
            if value * at_high < 0:
                low, at_low = high, at_high
            else:
                at_low *= 0.5
            moved, high, at_high = abs(part - high), part, value
            if value == 0 or moved < _TURNED:
                break
        return found.point

    def _progress(self, place: Place) -> float:
        """The rate of the displacement along the path."""
        point = place.point
        along = (point.rate, jnp.ones_like(point.load))
        return float(place.sign * point.measured_rate / self.scales.size(along))

    def _between(self, a: Place, b: Place, part: float) -> Place | None:
        """A point of the path at a part of the arc between two."""
        predicted = scaled(part, b.point.travelled)
        length = part * self.scales.size(b.point.travelled)
        at = Control.of("arc_length", length, self.scales)
        point = corrected(self.problem, self.newton, self.solver, at, a.point.mark, predicted)
        if point.result != RESULTS.successful:
            return None
        along = (point.rate, jnp.ones_like(point.load))
        return self.place(point, 1.0 if self.scales.dot(along, point.travelled) > 0 else -1.0)

    def _critical(self, kind: str, a: Place, b: Place) -> Critical | None:
        """The critical point of this kind that lies between, looked for from either end."""
        for place in (b, a):
            u, load, rate = place.point.u, place.point.load, place.point.rate
            # Towards a limit point the path runs along its mode; where paths cross, the mode leaves this one.
            mode = rate if kind == "limit" else softest_mode(self.problem, self.solver, u, load, (rate,))
            found = find_critical(self.problem, self.newton, self.solver, kind, u, (load, mode, self.scales.load))
            if self._is(kind, found, a, b):
                return found
        return None

    def _several(self, a: Place, b: Place, count: int) -> list[Critical]:
        """Bifurcations in as many directions, at once or too near to be told apart by halving: each across those before."""
        for place in (b, a):
            u, load = place.point.u, place.point.load
            found: list[Critical] = []
            for missing in range(count, 0, -1):
                known = tuple(c.mode for c in found)
                ways = (place.point.rate, *known)
                for _ in range(missing):
                    ways += (softest_mode(self.problem, self.solver, u, load, ways),)
                mode, *others = ways[1 + len(known) :]
                start, others = (load, mode, self.scales.load), (*known, *others)
                found.append(find_critical(self.problem, self.newton, self.solver, "bifurcation", u, start, others))
            if all(self._is("bifurcation", c, a, b) for c in found):
                return sorted(found, key=lambda c: self._distance(c.u, c.load, a.point))
        return []

    def _is(self, kind: str, found: Critical, a: Place, b: Place) -> bool:
        most = max(_ACROSS, _ROUNDED * float(jnp.finfo(found.load.dtype).eps) ** 0.5)
        least = most if a.sign == b.sign else _ACROSS  # where the load turns there is a limit point
        passed = bool(found.slope > least if kind == "limit" else found.slope <= most)
        return bool(found.result == RESULTS.successful) and passed and self._lies_between(found, a, b)

    def _lies_between(self, found: Critical, a: Place, b: Place) -> bool:
        load, (low, high) = float(found.load), sorted((float(a.point.load), float(b.point.load)))
        room = 0.5 * float(jnp.finfo(found.load.dtype).eps) ** 0.5 * abs(load)  # as of displacements below
        if a.sign == b.sign and not low - room <= load <= high + room:
            return False  # though displacements may be too small to tell
        whole = self._distance(a.point.u, a.point.load, b.point)
        off = float(found.near / self.scales.displacement)  # of single precision, more than what is left of a step halved
        return max(self._distance(found.u, found.load, p.point) for p in (a, b)) <= 1.0001 * whole + off

    def _distance(self, u: Fields, load: Array, other: PathPoint) -> float:
        way = _way_between(self.problem.scene(load).dofs, other.u, u), load - other.load
        return float(self.scales.size(way))


@compiled
def _moves(problem: PathProblem, point: PathPoint) -> Array:
    """Whether the coordinate that is followed does: as far as it could in so long a way, but for rounding."""
    steepest = norm(problem.lever.forces(problem.slope(point.mark)))
    most = steepest * norm(problem.displacement(point.rate))
    return jnp.abs(point.measured_rate) > jnp.finfo(most.dtype).eps ** 0.5 * most


@compiled
def _way_between(dofs: Mapping[str, AbstractDof], start: Fields, end: Fields) -> Fields:
    """The displacement from one point to another, in the chart of the first."""
    flat = {s: dofs[s].is_vector_space for s in start}
    return {s: end[s] - start[s] if flat[s] else jax.vmap(dofs[s].local)(start[s], end[s]) for s in start}
