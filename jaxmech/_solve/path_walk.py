"""The walk along a path, on the host: how long the next step is, and whether it is taken."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._linear_solver.base.vectors import norm, zeros
from .._model.dynamics import Fields
from .._runtime.array_types import Array
from .._runtime.results import RESULTS
from .bordered_system import Critical
from .branch import branch_way
from .critical_point import CriticalPoint
from .path import CutBack
from .path_problem import Mark, PathProblem
from .path_search import PathSearch, Place
from .path_step import Control, PathOptions, PathPoint, Scales, Way, corrected, scaled

_NEAR = 1e-12  # what may be left of the way to the end, as a part of the load or the coordinate there
_GROWTH = 1.5  # of a step over the one before, at most
_STRAIGHT = 0.5  # the cosine between a step and its tangent, at least
_BENDS = 5  # steps in a row that are cut back for that; then the path has a kink,
_JUMP = 4.0  # unless the step is longer than its tangent by this


@dataclass(frozen=True)
class WalkOptions:
    """What a path is asked for: the arguments of `follow_path` of these names."""

    control: str
    step: float
    steps: int
    to: float | None
    direction: int | None
    iterations: int
    shortest: float
    longest: float
    critical: bool


class Walk:
    """A path as far as it was found."""

    def __init__(self, problem: PathProblem, newton: PathOptions, solver: Any, options: WalkOptions):
        self.problem, self.newton, self.solver, self.options = problem, newton, solver, options
        self.places: list[Place] = []
        self.lengths: list[float] = []
        self.critical: list[tuple[str, int, Critical, Way]] = []
        self.turns: list[tuple[Array, Array]] = []
        self.cutbacks: list[CutBack] = []
        self.result: Any = RESULTS.successful

    def go(self, u: Fields, load: Array, branch: tuple[CriticalPoint, float] | None) -> None:
        """Walk from here; along the branch of a critical point, if one is given, with this amplitude."""
        self.begin = float(load)
        nothing = zeros(jax.eval_shape(lambda: self.problem.at(load).residual(u)))
        start = self.problem.mark(u, load)
        still, step = (nothing, jnp.zeros_like(load)), jnp.full_like(load, self.options.step)
        way = None
        if branch is None:
            first = self._corrected("load", 0.0, self._scales(jnp.ones_like(load), step), start, still)
            size = norm(self.problem.displacement(first.rate)) * step
            size = jnp.where((size > 0) & jnp.isfinite(size), size, 1.0)
        else:
            first = PathPoint.at(u, load, still, start.measured)
            size = jnp.full_like(load, branch[1])
        self.scales = self._scales(size, step)
        if branch is not None:
            way = scaled(float(self.options.direction or 1), self._off(branch[0], u, load))
        self.search = PathSearch(self.problem, self.newton, self.solver, self.scales)
        self.last, self.result = first, first.result
        if branch is None and not bool(jnp.isfinite(norm(first.rate))):  # an equilibrium, from which the load leads nowhere
            self.result = RESULTS.where(first.result == RESULTS.successful, RESULTS.singular, first.result)
        self.places.append(self.search.place(first, self._rises(first), count=branch is None))
        self.lengths.append(0.0)
        if self.result == RESULTS.successful:
            self._walk(way)

    def _ahead(self) -> float:
        """Which way the first step goes: up or along the mode (1), or back (-1)."""
        options = self.options
        if options.to is None or options.direction is not None and options.control == "arc_length":
            return float(options.direction or 1)
        return math.copysign(1.0, options.to - (0.0 if options.control == "displacement" else self.begin))

    def _rises(self, first: PathPoint) -> float:
        """The sign of the change of load that the path begins with."""
        return self._heading(first, self._ahead()) if self.options.control == "displacement" else self._ahead()

    def _off(self, point: CriticalPoint, u: Fields, load: Array) -> Way:
        """The way of one arc length along the mode of a limit point, or along the branch of a bifurcation."""
        if point.kind == "limit":
            way = point.mode, jnp.zeros_like(load)
            return scaled(1 / self.scales.size(way), way)
        return branch_way(self.problem, self.solver, self.scales, u, load, point.mode, point.passed)

    def _scales(self, displacement: Array, load: Array) -> Scales:
        return Scales(displacement, load, self.problem.lever, self.problem.multiplier_states)

    def _walk(self, way: Way | None) -> None:
        options, bends = self.options, 0
        length = first = self._first_length(way)
        while len(self.lengths) <= options.steps and not self._finished():
            taken = self._not_past_the_end(length)
            predicted = self._predicted(taken) if way is None else scaled(taken, way)
            here = self.places[-1].point
            trial = self._corrected(options.control, taken, self.scales, here.mark, predicted)
            self.last, result = trial, trial.result
            if result == RESULTS.successful and self._leaves(trial, predicted, bends):
                result, bends = RESULTS.sharp_turn, bends + 1
            if result == RESULTS.successful and self._passes_the_end(trial):
                exact = self._landed(trial)  # a step that is far too long may lead elsewhere from there
                result = exact.result if self._halves(taken, first) else result
                trial = exact if exact.result == RESULTS.successful else trial
            if result == RESULTS.successful:
                self._accept(trial, taken)
                growth = math.sqrt(options.iterations / max(int(trial.iterations), 1))
                longer = min(abs(length) * min(max(growth, 0.5), _GROWTH), options.longest * abs(first))
                length, way, bends = math.copysign(longer, length), None, 0
                continue
            self.cutbacks.append(CutBack(len(self.places) - 1, abs(taken), result))
            length = 0.5 * taken
            if not self._halves(taken, first):
                self.result = result
                return

    def _first_length(self, way: Way | None) -> float:
        """Of arc, where the load and what it moves count alike; otherwise of the load or the displacement."""
        options, here = self.options, self.places[0].point
        if options.control == "arc_length":
            return 1.0 if way is not None else float(self.scales.size(scaled(self.scales.load, (here.rate, 1.0))))
        return self._ahead() * options.step

    def _value(self) -> float:
        """What `to` is compared with."""
        here, start = self.places[-1].point, self.places[0].point
        return float(here.measured - start.measured) if self.options.control == "displacement" else float(here.load)

    def _finished(self) -> bool:
        to = self.options.to
        if to is None:
            return False
        here, start = self.places[-1].point, self.places[0].point
        there = (here.measured, start.measured) if self.options.control == "displacement" else (here.load, start.load)
        rounding = _NEAR + 16 * float(jnp.finfo(here.load.dtype).eps)
        near = abs(self._value() - to) <= rounding * max(abs(to), *(abs(float(a)) for a in there))
        before = self.places[max(len(self.places) - 2, 0)].point
        passed = self.options.control == "arc_length" and (float(before.load) - to) * (self._value() - to) < 0
        return near or passed

    def _not_past_the_end(self, length: float) -> float:
        to = self.options.to
        if to is None or self.options.control == "arc_length":
            return length
        rest = to - self._value()
        return rest if abs(length) >= abs(rest) else 0.5 * rest if abs(rest) < 1.5 * abs(length) else length

    def _predicted(self, length: float) -> Way:
        """Along the tangent, on to where the path was going."""
        here = self.places[-1]
        along = (here.point.rate, jnp.ones_like(here.point.load))
        if self.options.control == "arc_length":
            return scaled(length * here.sign / self.scales.size(along), along)
        return scaled(length / here.point.measured_rate if self.options.control == "displacement" else length, along)

    def _leaves(self, trial: PathPoint, predicted: Way, bends: int) -> bool:
        """Whether the step left its tangent by more than 60 degrees: onto another path, or back. At a kink it always will,
        but as short steps are halved, it is halved as well, and no jump."""
        there, foretold = self.scales.size(trial.travelled), self.scales.size(predicted)
        turned = bool(self.scales.dot(trial.travelled, predicted) < _STRAIGHT * there * foretold)
        return turned and (bends < _BENDS or bool(there > _JUMP * foretold))

    def _halves(self, length: float, first: float) -> bool:
        """Whether a step of this length may be halved; not if it is no number."""
        return 0.5 * abs(length) >= self.options.shortest * abs(first)

    def _passes_the_end(self, trial: PathPoint) -> bool:
        """Whether an arc goes beyond the load at which the path is to end."""
        to, here = self.options.to, self.places[-1].point
        return (
            to is not None
            and self.options.control == "arc_length"
            and (float(here.load) - to) * (float(trial.load) - to) < 0
        )

    def _landed(self, trial: PathPoint) -> PathPoint:
        """The point at the load where the path is to end, which the trial has passed."""
        here = self.places[-1].point
        assert self.options.to is not None
        rest = self.options.to - float(here.load)
        return self._corrected("load", rest, self.scales, here.mark, scaled(rest / trial.travelled[1], trial.travelled))

    def _heading(self, point: PathPoint, length: float) -> float:
        """The sign of the change of load with which the path goes on: what is prescribed goes on as it went, wherever a step
        that jumped has come from; an arc goes on along its step."""
        if self.options.control == "arc_length":
            length = float(self.scales.dot((point.rate, jnp.ones_like(point.load)), point.travelled))
        return math.copysign(1.0, length * (float(point.measured_rate) if self.options.control == "displacement" else 1.0))

    def _accept(self, point: PathPoint, length: float) -> None:
        before, after = self.places[-1], len(self.places) - 1
        place = self.search.place(point, self._heading(point, length))
        if self.options.critical:
            found = self.search.critical_points(before, place)
            self.critical += [(kind, after, critical, point.travelled) for kind, critical in found]
            turn = self.search.turning_point(before, place)
            start = self.places[0].point.measured
            self.turns += [] if turn is None else [(turn.load, turn.measured - start)]
        self.places.append(place)
        self.lengths.append(abs(length))

    def _corrected(self, control: str, length: float, scales: Scales, start: Mark, predicted: Way) -> PathPoint:
        at = Control.of(control, jnp.full_like(start.load, length), scales)
        return corrected(self.problem, self.newton, self.solver, at, start, predicted)
