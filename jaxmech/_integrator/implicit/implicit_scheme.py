"""What implicit schemes share: options, one linear solve or Newton, Rayleigh damping, failures, what is kept."""

import abc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from ..._linear_solver.default import default_solver
from ..._linear_system.base import AbstractLinearSystem
from ..._linear_system.compatibility import BuiltFor, check_topology
from ..._math.indexing import asked_once
from ..._model.accept import accepted
from ..._model.arguments import checked
from ..._model.dynamics import Fields, zero_forces
from ..._model.failure_report import DERIVATIVE, raise_failure
from ..._model.fault import given
from ..._model.inertia import varying_masses
from ..._model.system import State, System, check_inputs
from ..._runtime.argument_checks import check_flags, check_instance, plain
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..._runtime.results import is_traced
from ..._solve.equilibrium import NewtonOptions, StepInfo
from ..._solve.linear_outcome import begun, ended, outcome
from ..._solve.linear_problem import LinearProblem
from ..._solve.newton import linear_problem, newton_solve
from ..base import AbstractIntegrator
from ..carried import using
from ..displaced import combined
from ..scene_support import check_takes
from ..time_step import check_time_step
from .coefficient import check_number, coefficient
from .linear_step import LinearStep, solved
from .rayleigh import Rayleigh
from .scheme_carry import first_memory, joined_carry, parted, prepared_for
from .settled import settled
from .stage import AbstractStage, Setting, reaching

Solve = Callable[[AbstractStage], tuple[Fields, StepInfo]]
Record = list[tuple[AbstractStage, Fields]]
Step = tuple[State, Any, StepInfo]  # where it leads, the next memory or carry, and what happened


class AbstractImplicitScheme(AbstractIntegrator):
    """A scheme whose steps solve balances of momentum: a subclass says which (`stage`, or `move` where there are several).

    `newton=False`: one linear solve, a Newton step from where the velocity stays; `newton=True`: iterations to convergence.
    `rayleigh_stiffness` `rK` [s] and `rayleigh_mass` `rM` [1/s]: the damping `C = rM M + rK (K + G)`, beside that of
    components (`System.rayleigh`), all of it where the forces act. `linear_system`: built with the default `Terms()`.
    `solver`, `rtol`, `atol`, `max_steps`, `line_search`: as in `static_solve`, the last four for `newton=True` (one linear
    solve asks for none of them); but that a residual which stops at its rounding floor is nil, whatever `rtol`.
    """

    linear_system: AbstractLinearSystem
    solver: lx.AbstractLinearSolver | None = None
    newton: bool = eqx.field(static=True, default=False, kw_only=True)
    rayleigh_stiffness: Array | float = eqx.field(converter=coefficient, default=0.0, kw_only=True)
    rayleigh_mass: Array | float = eqx.field(converter=coefficient, default=0.0, kw_only=True)
    rtol: float | None = eqx.field(static=True, default=None, kw_only=True)
    atol: float = eqx.field(static=True, default=0.0, kw_only=True)
    max_steps: int = eqx.field(static=True, converter=plain, default=30, kw_only=True)
    line_search: str = eqx.field(static=True, default="finite", kw_only=True)

    stage_weights: ClassVar[tuple[float, ...]] = (1.0,)  # of the balances of a step, whose sum is that of all of it
    settles: ClassVar[bool] = True  # whether multipliers, which hold at the end of a step, are made to belong to the state
    settles_velocities: ClassVar[bool] = True  # and velocities to be along their constraints
    takes_memory: ClassVar[bool] = True  # whether laws may have internal variables
    remembers: ClassVar[bool] = True  # whether a carry has a part of the scheme's own, beside that of the linear system

    def __check_init__(self):
        who = type(self).__name__
        check_instance(who, "linear_system", self.linear_system, AbstractLinearSystem)
        if self.solver is not None:
            check_instance(who, "solver", self.solver, lx.AbstractLinearSolver)
        check_flags(who, newton=self.newton)
        terms = self.linear_system.terms
        if not (terms.mass and terms.damping and terms.stiffness):
            raise ValueError(f"{who} needs a linear system with mass, damping and stiffness, got {terms}.")
        for name in ("rayleigh_stiffness", "rayleigh_mass"):
            check_number(who, name, getattr(self, name), at_least=0.0)
        self._options()

    def _options(self, derivatives_of: str = "") -> NewtonOptions:
        return NewtonOptions(
            self.rtol, self.atol, self.max_steps, 1, self.line_search, derivatives_of=derivatives_of, to_rounding=True
        )

    @property
    def built_for(self) -> BuiltFor | None:
        return self.linear_system.built_for

    @abc.abstractmethod
    def stage(self, setting: Setting, memory: Any) -> AbstractStage:
        """What the step solves (first)."""

    def move(self, setting: Setting, memory: Any, solve: Solve) -> Step:
        """Where the step leads, the memory of the next one, and what happened. `solve(stage)` gives its unknowns."""
        u, info = solve(stage := self.stage(setting, memory))
        end = stage.end(u)
        first = self.begun(memory)
        return end, self.next_memory(setting, memory, stage, u, end), info if first is None else begun(first, info)

    def recorded_move(self, setting: Setting, memory: Any, solve: Solve) -> tuple[State, Any, StepInfo, Record]:
        """`move`, and the stages that it solved, with their unknowns."""
        record: Record = []

        def recorded(stage: AbstractStage) -> tuple[Fields, StepInfo]:
            u, info = solve(stage)
            record.append((stage, u))
            return u, info

        return *self.move(setting, memory, recorded), record

    def settled(self, system: System, end: State, memory: Any, info: StepInfo, who: str = "") -> Step:
        """The end of a step with the rates and multipliers that belong to it, where there are any, and what follows."""
        if not (self.settles and system.multiplier_states):
            return end, memory, info
        how = self.rayleigh, self.solver, who, self.settles_velocities
        end, a, info = settled(system, self.linear_system, end, info, *how)
        return end, self.resumed(system, end, memory, a, who), info

    def resumed(self, system: System, end: State, memory: Any, acceleration: Fields, derivatives_of: str) -> Any:
        """What the next step remembers, with the acceleration that the constraints of a scene leave at the end."""
        del system, end, acceleration, derivatives_of
        return memory

    def memory(self, system: System, state: State) -> Any:
        """What the first step is to remember: nothing of a motion before, unless overridden.

        Where masses vary with the motion, one linear solve needs an estimate of the acceleration for second order.
        """
        return zero_forces(system, state.position) if not self.newton and varying_masses(system, state) else None

    def begun(self, memory: Any) -> Any:
        """What came of what was solved for before the first step, a member of `RESULTS`; None where nothing was."""
        del memory

    def next_memory(self, setting: Setting, memory: Any, stage: AbstractStage, u: Fields, end: State) -> Any:
        """What the next step is to remember: the mean acceleration of this one, if it asks for that."""
        del stage, u
        if memory is None:
            return None
        h = setting.h
        return combined((1 / h, end.velocity), (-1 / h, setting.velocity))

    @checked
    def init(self, system: System, state: State) -> Any:
        """What the linear system keeps from step to step (`AbstractLinearSystem.init`), and what the scheme remembers."""
        _check_takes(self, system)
        kept = self.linear_system.init(system, state)
        return (kept, first_memory(using(self, kept), system, state)) if self.remembers else kept

    def revalued(self, system: System, state: State, carry: Any) -> Any:
        if carry is None or not self.remembers:
            return None if carry is None else self.linear_system.revalued(system, state, carry)
        kept, memory = parted(self, system, state, carry)
        kept = self.linear_system.revalued(system, state, kept)
        return kept, using(self, kept).remembered(system, state, memory)

    def remembered(self, system: System, state: State, memory: Any) -> Any:
        """What a motion remembers that goes on with other numbers in its scene: what it did, unless overridden."""
        del system, state
        return memory

    def step(self, system: System, state: State, carry: Any, dt: Any = None, *, throw: bool = True) -> Step:
        """The state after `dt` [s], the carry of the next step, and what happened.

        `carry`: of `init` or the step before; None for a step by itself, which keeps nothing. Differentiable in both modes
        by every leaf of `system`, by `state`, `dt` and Rayleigh coefficients. Raises `FailedComputation` (under `jit`, JAX's
        run-time error) unless `throw=False`.
        """
        return self.reported(type(self).advanced, system, state, carry, dt, throw)

    def reported(self, advanced: Callable[..., Any], system: System, state: State, carry: Any, dt: Any, throw: bool) -> Any:
        """What `advanced` makes of the arguments of a step, which are looked at; a failure is raised, if that is wanted."""
        who = type(self).__name__
        check_inputs(who, system, state)
        check_flags(who, throw=throw)
        _check_takes(self, system)
        check_topology(f"the linear system of {who}", self.built_for, system)
        check_time_step(dt, carried_by=who)
        h = jnp.asarray(dt, state.time.dtype)
        raises = throw and is_traced((self.rayleigh_mass, self.rayleigh_stiffness, self.solver, system, state, h))
        result = advanced(self, system, state, carry, h, DERIVATIVE.format(who) if raises else "")
        if not throw:
            return result
        numbers, ends = partial(given, system, state, h), lambda: replace(state, time=state.time + h)
        return raise_failure(result, result[2], system, who, numbers, moves=True, held_at=ends)

    def advanced(self, system: System, state: State, carry: Any, h: Array, derivatives_of: str = "") -> Step:
        # What is handed on as it came is known as such outside of the compiled step.
        ready, kept, memory = prepared_for(self, system, state, carry, h)
        end, memory, info = type(ready).advance(ready, system, state, memory, h, derivatives_of)
        return end, joined_carry(self, carry, kept, memory), info

    def factors(self, system: System, state: State, memory: Any, h: Array) -> Any:
        """Those of the matrix of one step, Rayleigh damping included."""
        return self.stage(self.setting(system, state, h), memory).factors

    def setting(self, system: System, state: State, h: Array) -> Setting:
        """What every stage of a step from `state` has."""
        return Setting.of(system, self.linear_system, state, h, self.rayleigh, self.acts_after)

    @property
    def rayleigh(self) -> Rayleigh:
        """The damping of the scheme."""
        return Rayleigh(self.rayleigh_mass, self.rayleigh_stiffness)

    def lateness(self, stage: AbstractStage) -> Array | None:
        """By how much of a step its forces act after the middle of it, in the mean. None: by nothing, or the scheme is of
        first order, and this is what it dissipates by."""

    @property
    def acts_after(self) -> Any:
        """The share of a step after which rows that give and are relaxed are asked for, unless stages say (`rated`)."""
        return 1.0

    def advance(self, system: System, state: State, memory: Any, h: Array, derivatives_of: str) -> Step:
        """One step, compiled: where it leads, the next memory, and what happened."""
        return _step(self, system, state, memory, h, derivatives_of)

    def problem(self, system: System, state: State, dt: Any, carry: Any = None) -> LinearProblem:
        """The linear system `A x = b` that `step` solves from here, `x` a change of velocity; its `advance(x)` is the step.

        With `newton=True`, that of the first iteration; where a step has several stages, that of the first of them.
        """
        who = type(self).__name__
        check_inputs(who, system, state)
        check_topology(f"the linear system of {who}", self.built_for, system)
        check_time_step(dt)
        h = jnp.asarray(dt, state.time.dtype)
        ready, _, memory = prepared_for(self, system, state, carry, h)
        return ready.first_problem(system, state, memory, h)

    def first_problem(self, system: System, state: State, memory: Any, h: Array) -> LinearProblem:
        """`problem`, of a memory."""
        return _problem(self, system, state, memory, h)


# What every eager step calls: a bound method of an Equinox module is a module itself, and takes longer to make than most of
# what is checked here. So `step` calls functions, and methods by their class.


def _check_takes(scheme: AbstractImplicitScheme, system: System) -> None:
    mixed, memory = not scheme.settles, scheme.takes_memory  # multipliers of settled schemes have rates of their own
    check_takes(type(scheme).__name__, system, multipliers=True, mixed=mixed, memory=memory, rates=memory)


@compiled
def _problem(scheme: AbstractImplicitScheme, system: System, state: State, memory: Any, h: Array) -> LinearProblem:
    stage = scheme.stage(scheme.setting(system, state, h), memory)
    if scheme.newton:
        return linear_problem(stage, stage.predicted)
    return LinearStep(reaching(stage)).problem(stage.arrival)


@compiled
def _step(scheme: AbstractImplicitScheme, system: System, state: State, memory: Any, h: Array, derivatives_of: str) -> Step:
    return recorded_step(scheme, system, state, memory, h, derivatives_of)[:3]


def recorded_step(
    scheme: AbstractImplicitScheme, system: System, state: State, memory: Any, h: Array, derivatives_of: str
) -> tuple[State, Any, StepInfo, Record]:
    """A step, and the stages that it solved, with their unknowns."""
    with asked_once((scheme, system)) as asked:
        *moved, record = scheme.recorded_move(scheme.setting(system, state, h), memory, solve_of(scheme, derivatives_of))
        end, memory, info = scheme.settled(system, *moved, derivatives_of)
    end, info = ended(info, state, accepted(system, state, end, h), h, asked)
    return end, memory, info, record


def solve_of(scheme: AbstractImplicitScheme, derivatives_of: str = "") -> Solve:
    """How the stages of a scheme are solved."""
    return partial(_newton if scheme.newton else _linear, scheme, derivatives_of)


def _newton(scheme: AbstractImplicitScheme, derivatives_of: str, stage: AbstractStage) -> tuple[Fields, StepInfo]:
    u, found = newton_solve(stage, stage.predicted, scheme._options(derivatives_of), scheme.solver)
    return u, StepInfo.of_newton(found)


def _linear(scheme: AbstractImplicitScheme, derivatives_of: str, stage: AbstractStage) -> tuple[Fields, StepInfo]:
    stage = reaching(stage)
    step = LinearStep(stage)
    problem = step.problem(stage.end)
    constant = scheme.linear_system.is_constant()
    solver = default_solver(problem.A, inertial=not constant) if scheme.solver is None else scheme.solver
    x, said = solved(step, problem.A, problem.b, solver, derivatives_of)
    u, setting = step.unknowns(x), stage.setting
    return u, outcome(said, setting.system, setting.start, setting.h, problem.b, stage.end(u))
