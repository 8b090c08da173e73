"""What SOFA's other time integrators share: one linear solve of a step, by a solver that may stop where it pleases."""

import abc
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from ..._integrator.base import AbstractIntegrator
from ..._integrator.scene_support import check_takes
from ..._integrator.time_step import check_time_step
from ..._linear_system.base import AbstractLinearSystem
from ..._linear_system.compatibility import BuiltFor
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, zero_forces
from ..._model.failure_report import raise_failure
from ..._model.fault import given
from ..._model.system import State, System, check_inputs
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..._solve.linear_outcome import ended, outcome
from .placed import placed
from .unconverged_solvers import AbstractStepSolver, Past, Solved


class SchemeCarry(NamedTuple):
    """What a step hands to the next: what its solver knows, what its linear system keeps, what the scheme remembers."""

    past: Past
    kept: Any
    memory: Any


class Advance(NamedTuple):
    """What a step comes to: the state, the last solution, what is remembered, and the right-hand side of the last solve."""

    end: State
    solved: Solved
    memory: Any
    b: Fields


class AbstractLinearisedScheme(AbstractIntegrator):
    """A scheme of one linear solve after the other, each as its solver leaves it."""

    linear_system: eqx.AbstractVar[AbstractLinearSystem]
    solver: eqx.AbstractVar[AbstractStepSolver]

    @property
    def built_for(self) -> BuiltFor | None:
        return self.linear_system.built_for

    @abc.abstractmethod
    def memory(self, system: System, state: State) -> Any:
        """What it remembers before the first step."""

    @abc.abstractmethod
    def advance(self, system: System, state: State, carry: SchemeCarry, h: Array) -> Advance:
        """One step."""

    def matrix(self, system: System, state: State, kept: Any, factors: Factors) -> Any:
        """`m M + b B + k K + g G` without constraints."""
        return self.linear_system.using(kept).unconstrained(system, state, factors)

    def solved(self, system: System, A: Any, b: Fields, past: Past) -> tuple[Solved, Fields]:
        """The solution of `A x = b` between the constraints, and the right-hand side."""
        b = project(system, b)
        return self.solver.solve(self.linear_system.constrain(system, A), b, past), b

    def init(self, system: System, state: State) -> SchemeCarry:
        return _init(self, system, state)

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        who = type(self).__name__
        check_inputs(who, system, state)
        check_takes(who, system)
        check_time_step(dt)
        h = jnp.asarray(dt, state.time.dtype)
        end, carry, info = _step(self, system, state, self.init(system, state) if carry is None else carry, h)
        if not throw:
            return end, carry, info
        numbers = partial(given, system, state, h)
        return raise_failure((end, carry, info), info, system, who, numbers, moves=self.has_inertia)


@compiled
def _init(scheme: AbstractLinearisedScheme, system: System, state: State) -> SchemeCarry:
    kept, matrix = scheme.linear_system.init(system, state), None
    if scheme.solver.keeps:
        matrix = scheme.solver.first_kept(scheme.linear_system.using(kept).assemble(system, state, Factors()))
    past = Past(jnp.ones((), bool), zero_forces(system, state.position), matrix)
    return SchemeCarry(past, kept, scheme.memory(system, state))


@compiled
def _step(
    scheme: AbstractLinearisedScheme, system: System, state: State, carry: SchemeCarry, h: Array
) -> tuple[State, Any, Any]:
    end, found, memory, b = scheme.advance(system, state, carry, h)
    end = placed(system, state, end)
    end, info = ended(outcome(found.said, system, state, h, b, end), state, end, h)
    return end, SchemeCarry(Past(jnp.zeros((), bool), found.x, found.kept), carry.kept, memory), info
