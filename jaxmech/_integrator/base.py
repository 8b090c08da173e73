"""What a time integrator is."""

import abc
from typing import TYPE_CHECKING, Any

import equinox as eqx

from .._linear_system.compatibility import BuiltFor, no_attribute
from .._model.system import State, System


class AbstractIntegrator(eqx.Module):
    """A scheme, configuration only: `step` is a pure function from one `State` to the next.

    What else a step leaves to the next one (an acceleration, a matrix that is kept) is its *carry*, a pytree of arrays that
    `init` makes and `step` hands on:

        carry = integrator.init(system, state)
        for _ in range(steps):
            state, carry, info = integrator.step(system, state, carry, dt)

    A carry belongs to the numbers of its scene and to its motion; `simulate` makes its own.
    Positions [m], velocities [m/s], `dt` [s]. A step raises `FailedComputation` unless `throw=False`, which leaves the
    reason in what it returns.
    Source: E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., 2006, doi:10.1007/3-540-30666-8.

    Example:

        integrator = jm.ImplicitEuler(linear_system)
        run = jm.simulate(system, state, integrator, dt=0.01, steps=4)
        assert isinstance(integrator, jm.integrator.AbstractIntegrator) and run.last.time.shape == ()
    """

    @property
    def built_for(self) -> BuiltFor | None:
        """The scene that its linear system was built for, which `simulate` compares with its own. None: any."""
        return None

    def init(self, system: System, state: State) -> Any:
        """The carry of a motion that begins at `state`. None, unless overridden: steps know of nothing but the state."""
        del system, state

    @abc.abstractmethod
    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        """The state after a time step `dt` [s], the carry of the next step, and what happened.

        What happened: a pytree whose `result` is of `RESULTS`, `StepInfo`, say. `simulate` raises on its failures.
        """

    def advanced(self, system: System, state: State, carry: Any, h: Any, derivatives_of: str = "") -> tuple[State, Any, Any]:
        """`step` with `throw=False`, as `simulate` calls it. `derivatives_of`: in whose name derivatives of the step raise
        where a linear solve of theirs fails; they are NaN there, unless somebody is named."""
        del derivatives_of
        return self.step(system, state, carry, h, throw=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_attribute(self, name))
