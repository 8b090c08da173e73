"""What explicit schemes share: masses without a matrix, constraints, the critical time step, failures."""

import abc
from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._linear_solver.base.derivative import raise_in_derivatives
from ..._linear_solver.base.vectors import norm
from ..._math.indexing import asked_once
from ..._model.accept import accepted
from ..._model.arguments import checked
from ..._model.constraint_projection import has_prescribed_motion, prescribed, project
from ..._model.dynamics import Fields, kinematics
from ..._model.failure_report import DERIVATIVE, raise_failure
from ..._model.fault import diagnosed, given
from ..._model.internal import with_internal
from ..._model.system import State, System, check_inputs
from ..._model.validity import laws_hold
from ..._runtime.argument_checks import check_flags, check_instance
from ..._runtime.array_types import Array
from ..._runtime.jax_internals import unvmap_any
from ..._runtime.precision import compiled
from ..._runtime.results import RESULTS, is_out_of_sight
from ..._runtime.reverse_mode import kept
from ..._solve.equilibrium import StepInfo
from ..._solve.linear_outcome import ended
from ..base import AbstractIntegrator
from ..displaced import combined, displaced, with_prescribed_rates
from ..mass_inverse import acceleration, force_of_motion, jerked, kept_inverse, state_without_mass
from ..scene_support import check_takes
from ..step_doubling import Error
from ..time_step import check_time_step
from .critical_time_step import Stability, critical


class ExplicitCarry(eqx.Module):
    """What explicit steps hand on: inverse masses that stay, the largest time step, and what the scheme remembers."""

    inverse: Fields | None
    limit: Array | None
    memory: Any


class AbstractExplicitScheme(AbstractIntegrator):
    """A scheme that evaluates forces and solves for nothing but accelerations: a subclass says how it moves (`move`).

    Lumped masses need no matrix: single nodes are divided by; consistent and mapped ones are solved for by `solver` (unless
    given by a dense factor, of more than 60 unknowns by conjugate gradients). `check_step`: refuse a time step that is not
    stable, of the highest frequency and damping at the first state (`critical_time_step`), by a failure of each step that
    `init`'s carry is handed to.
    """

    solver: lx.AbstractLinearSolver | None = None
    check_step: bool = eqx.field(static=True, default=True, kw_only=True)

    forces_at_start: ClassVar[bool] = False  # whether all forces of a step are those of its start
    stability: ClassVar[float]  # the largest `h omega` of an undamped vibration
    damped_stability: ClassVar[float] = 1.0  # the largest `h gamma` of a velocity that is damped alone

    def __check_init__(self):
        who = type(self).__name__
        if self.solver is not None:
            check_instance(who, "solver", self.solver, lx.AbstractLinearSolver)
        check_flags(who, check_step=self.check_step)

    @property
    def stable(self) -> Stability:
        """Which steps are."""
        return Stability(self.stability, self.damped_stability)

    @abc.abstractmethod
    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        """The state after `h`, and what the scheme remembers of the step. The velocities of `start` fit its constraints."""

    def told_move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any, Error | None]:
        """`move`, and the error, of a scheme that has an estimate of its own."""
        return *self.move(system, start, carry, h), None

    def memory(self, system: System, state: State, inverse: Fields | None) -> Any:
        """What the first step is to remember; nothing unless overridden."""
        del system, state, inverse

    def acceleration(self, system: System, state: State, carry: ExplicitCarry) -> Fields:
        """`M^-1 P (f + inertial - C v)`; reverse mode keeps it, and evaluates no forces anew."""
        return kept(acceleration(system, state, carry.inverse, self.solver))

    def arrived(self, system: System, start: State, carry: ExplicitCarry, d: Fields, velocity: Fields, h: Array) -> State:
        """The end of a step, to which accelerations have led: what motions are faster there has jerked the rest."""
        return jerked(system, _reached(system, start, d, velocity, h), carry.inverse, self.solver)

    @checked
    def init(self, system: System, state: State) -> ExplicitCarry:
        """The inverse of lumped masses, the critical time step, and what the scheme remembers."""
        self._check_takes(system)
        return _init(self, system, state)

    def remembered(self, system: System, state: State, inverse: Fields | None, memory: Any) -> Any:
        """What a motion remembers that goes on with other numbers in its scene: as at first, unless overridden."""
        del memory
        return self.memory(system, state, inverse)

    def revalued(self, system: System, state: State, carry: Any) -> Any:
        """The carry for other numbers. The critical time step stays that of the first ones."""
        return None if carry is None else _revalued(self, system, state, carry)

    def after_event(self, system: System, state: State, carry: Any) -> Any:
        return None if carry is None else _begun_anew(self, system, state, carry)

    def _check_takes(self, system: System) -> None:
        # A law with a rate has flowed by the end of a step, and so has another force there than at its start.
        check_takes(type(self).__name__, system, rates=self.forces_at_start)

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, StepInfo]:
        """The state after `dt` [s], the carry of the next step, and what happened.

        `carry`: of `init` or the step before; None for a step by itself, whose `dt` is not compared with the critical one.
        Differentiable in both modes by every leaf of `system`, by `state` and `dt`. Raises `FailedComputation` (under `jit`,
        JAX's run-time error) unless `throw=False`.
        """
        return self._stepped(system, state, carry, dt, throw, False)[:3]

    def _stepped(
        self, system: System, state: State, carry: Any, dt: Any, throw: bool, with_error: bool
    ) -> tuple[State, Any, StepInfo, Error | None]:
        """`step`, and `with_error` the error, for which no step is too large: it tells of one that is."""
        who = type(self).__name__
        check_inputs(who, system, state)
        check_flags(who, throw=throw)
        self._check_takes(system)
        check_time_step(dt)
        if carry is not None:
            check_instance(who, "carry", carry, ExplicitCarry)
        h = jnp.asarray(dt, state.time.dtype)
        end, after, info, error = _step(self, system, state, carry, h, with_error)
        if throw and is_out_of_sight((system, state, h)):
            end = raise_in_derivatives(end, info.result, DERIVATIVE.format(who))
        if carry is not None:  # what stays is handed on as it came
            after = eqx.tree_at(lambda c: c.memory, carry, after, is_leaf=lambda a: a is None)
        result = end, None if carry is None else after, info, error
        return raise_failure(result, info, system, who, partial(given, system, state, h), moves=True) if throw else result


def reached(system: System, start: State, d: Fields, velocity: Fields, later: Array) -> State:
    """`start` moved by `d` at `velocity` in free directions, and as motions prescribe in the others."""
    return held(system, _reached(system, start, d, velocity, later))


def _reached(system: System, start: State, d: Fields, velocity: Fields, later: Array) -> State:
    free = project(system, d)
    if has_prescribed_motion(system):
        free = combined((1.0, free), (1.0, prescribed(system, start.position, start.time + later)))
    return displaced(system, start, free, velocity, later)


@compiled
def _init(scheme: AbstractExplicitScheme, system: System, state: State) -> ExplicitCarry:
    inverse, limit = kept_inverse(system, state), None
    if scheme.check_step:
        limit = critical(*jax.lax.stop_gradient((system, state)), scheme.stable)
    return ExplicitCarry(inverse, limit, scheme.memory(system, jerked(system, state, inverse, scheme.solver), inverse))


@compiled
def _revalued(scheme: AbstractExplicitScheme, system: System, state: State, carry: ExplicitCarry) -> ExplicitCarry:
    inverse = kept_inverse(system, state)
    start = jerked(system, state, inverse, scheme.solver)
    return ExplicitCarry(inverse, carry.limit, scheme.remembered(system, start, inverse, carry.memory))


@compiled
def _begun_anew(scheme: AbstractExplicitScheme, system: System, state: State, carry: ExplicitCarry) -> ExplicitCarry:
    inverse = kept_inverse(system, state)
    return ExplicitCarry(inverse, carry.limit, scheme.memory(system, jerked(system, state, inverse, scheme.solver), inverse))


def held(system: System, state: State) -> State:
    """The state with velocities that fit its constraints and motions."""
    velocity = project(system, state.velocity)
    return with_prescribed_rates(system, eqx.tree_at(lambda s: s.velocity, state, velocity))


@compiled
def _step(
    scheme: AbstractExplicitScheme, system: System, state: State, carry: Any, h: Array, with_error: bool
) -> tuple[State, Any, StepInfo, Error | None]:
    with asked_once((system, carry)) as asked:
        inverse, error = kept_inverse(system, state) if carry is None else carry.inverse, None
        start = jerked(system, state, inverse, scheme.solver)
        if carry is None:
            carry = ExplicitCarry(inverse, None, scheme.memory(system, start, inverse))
        if with_error:
            end, memory, error = scheme.told_move(system, start, carry, h)
        else:
            end, memory = scheme.move(system, start, carry, h)
        info = _outcome(system, state, carry, None if with_error else carry.limit, h, end)
        end = accepted(system, state, end, h)
    end, info = ended(info, state, end, h, asked)
    return end, memory, info, error


def _outcome(system: System, state: State, carry: ExplicitCarry, limit: Array | None, h: Array, end: State) -> StepInfo:
    system, state, limit, h, end = jax.lax.stop_gradient((with_internal(system, state), state, limit, h, end))
    result = RESULTS.where(laws_hold(system, kinematics(system, end.position)), RESULTS.successful, RESULTS.inverted_element)
    moved = norm(end.position) + norm(end.velocity)
    result = RESULTS.where(jnp.isfinite(moved), result, RESULTS.not_finite)
    if limit is not None:
        result = RESULTS.where(h > limit * (1 + 1e-9), RESULTS.unstable_step, result)
    result, fault = diagnosed(result, given(system, state, h), system, lambda: (state.position, end.position), 0)
    failed = result == RESULTS.not_finite
    free, unsolved = _of_masses(system, state, carry.inverse, failed)
    result = RESULTS.where(failed & unsolved, RESULTS.breakdown, result)
    result = RESULTS.where(failed & (free >= 0), RESULTS.singular, result)
    zero, none = jnp.zeros((), h.dtype), jnp.zeros((), jnp.int32)
    many = jnp.full((1,), -1.0, h.dtype)
    info = StepInfo(result, none, many, zero, zero, none, free, fault, jnp.zeros((), bool))
    return jax.lax.stop_gradient(info)


def _of_masses(system: System, state: State, inverse: Fields | None, failed: Array) -> tuple[Array, Array]:
    """The number of the first main state with a node that nothing gives mass or holds, -1 where there is none; and whether
    forces are numbers, though accelerations are not: of masses that are solved for, where a step has `failed`."""
    none, no = jnp.full((), -1, jnp.int32), jnp.zeros((), bool)
    if inverse is None:

        def look() -> tuple[Array, Array]:
            return state_without_mass(system, state.position), jnp.isfinite(norm(force_of_motion(system, state)))

        return jax.lax.cond(unvmap_any(failed), look, lambda: (none, no))
    light = jnp.stack([~jnp.isfinite(inverse[s]).all() for s in system.main_states])
    return jnp.where(light.any(), jnp.argmax(light), none).astype(jnp.int32), no
