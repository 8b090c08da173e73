"""What a time integrator is."""

import abc
from typing import Any

import equinox as eqx

from .._linear_system.compatibility import BuiltFor
from .._model.system import State, System
from .._solve.equilibrium import StepInfo


class AbstractIntegrator(eqx.Module):
    """Configuration only: `step` is a pure function from one `State` to the next."""

    @property
    def built_for(self) -> BuiltFor | None:
        """The scene that its linear system was built for, which `simulate` compares with its own. None: any."""
        return None

    @abc.abstractmethod
    def step(self, system: System, state: State, dt: Any, *, throw: bool = True) -> tuple[State, StepInfo]:
        """The state after a time step `dt` [s], and what happened."""

    def advanced(self, system: System, state: State, h: Any, derivatives_of: str = "") -> tuple[State, StepInfo]:
        """`step` with `throw=False`, as `simulate` calls it. `derivatives_of`: in whose name derivatives of the step raise
        where a linear solve of theirs fails; they are NaN there, unless somebody is named."""
        del derivatives_of
        return self.step(system, state, h, throw=False)

    def prepared(self, system: System, state: State) -> "AbstractIntegrator":
        """This integrator for the motion of a scene: what no step changes, evaluated and kept.

        Itself unless overridden. `simulate` calls it once, before the first step.
        """
        del system, state
        return self

    def refreshed(self, system: System, state: State, dt: Any) -> "AbstractIntegrator":
        """This integrator ready for a step `dt` [s] from `state`: what its linear system keeps, brought up to date.

        Itself unless overridden: most keep nothing. `simulate` calls it before every step.
        """
        del system, state, dt
        return self
