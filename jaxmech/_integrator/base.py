"""What a time integrator is."""

import abc
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from .._linear_system.compatibility import BuiltFor, no_attribute
from .._model.dynamics import Fields
from .._model.failure_report import raise_failure
from .._model.fault import given
from .._model.system import State, System
from .step_checks import checked_step
from .step_doubling import doubled


class AbstractIntegrator(eqx.Module):
    """A scheme, configuration only: `step` is a pure function from one `State` to the next.

    What else a step leaves to the next one (an acceleration, a matrix that is kept) is its *carry*, a pytree of arrays that
    `init` makes and `step` hands on:

        carry = integrator.init(system, state)
        for _ in range(steps):
            state, carry, info = integrator.step(system, state, carry, dt)

    A carry belongs to the numbers of its scene and to its motion; `simulate` makes its own. `order`: by which power of `dt`
    the error of a motion falls, what adaptive steps reckon with.
    Positions [m], velocities [m/s], `dt` [s]. A step raises `FailedComputation` unless `throw=False`, which leaves the
    reason in what it returns.
    Source: E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., 2006, doi:10.1007/3-540-30666-8.

    Example:

        integrator = jm.ImplicitEuler(linear_system)
        run = jm.simulate(system, state, integrator, dt=0.01, steps=4)
        assert isinstance(integrator, jm.integrator.AbstractIntegrator) and run.last.time.shape == ()
    """

    order: ClassVar[int] = 1
    has_inertia: ClassVar[bool] = True  # whether masses resist its steps; not where each of them is an equilibrium

    @property
    def has_impacts(self) -> bool:
        """Whether velocities jump within a step, by as much however short it is: as far as is known."""
        return False

    @property
    def estimated_order(self) -> int:
        """The order of the result whose error `step_with_error` tells: `order`, unless a step goes on from the more accurate
        of two results, and compares it with the other."""
        return self.order

    @property
    def solves(self) -> int:
        """How many solves of a step, or accelerations, reverse mode may keep: two, unless a scheme has more. Static."""
        return 2

    @property
    def control_at(self) -> Any:
        """The time, as a fraction of the step, at which control is evaluated that a step holds constant.

        The end of a step of first order, which takes forces there; else the middle, which keeps second order.
        """
        return 1.0 if self.order == 1 else 0.5

    @property
    def restarts_at_events(self) -> bool:
        """Whether its carry begins anew (`after_event`) where an event is found that leaves the motion as it is: forces, or
        numbers under control, may jump there. Static."""
        return False

    @property
    def velocities_lag(self) -> bool:
        """Whether velocities of its states have an error of second order that no step hands on, and `caught_up` is without.
        Static."""
        return False

    def caught_up(self, system: System, states: tuple[State, ...], carries: tuple[Any, ...]) -> tuple[State, ...]:
        """The ends of several ways to one instant, with velocities of that instant; as they are, unless overridden."""
        del system, carries
        return states

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

        What happened: a pytree whose `result` is of `RESULTS`, `StepInfo`, say. `simulate` raises on its failures. The state
        and the carry are of the form of those that came in, or loops of steps raise `TypeError` or `ValueError`.
        """

    def advanced(self, system: System, state: State, carry: Any, h: Any, derivatives_of: str = "") -> tuple[State, Any, Any]:
        """`step` with `throw=False`, as `simulate` calls it. `derivatives_of`: in whose name derivatives of the step raise
        where a linear solve of theirs fails; they are NaN there, unless somebody is named."""
        del derivatives_of
        end, carry, info = checked_step(self, self.step(system, state, carry, h, throw=False), state, carry)
        return replace(end, time=state.time + h), carry, info  # whether or not the scheme counts it

    def step_with_error(
        self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True
    ) -> tuple[State, Any, Any, tuple[Fields, Fields]]:
        """`step`, and an estimate `(dx, dv)` of what is missing at its end: `retract(x, dx)`, `v + dv` are more accurate.

        Of a scheme whose `estimated_order` is less than its `order`, the estimate is of what another result misses, with
        which it is compared: the step itself is the more accurate one (local extrapolation), and nothing is to be added.
        Tangent fields of the main states [m, rad], [m/s, rad/s]. By step doubling, unless overridden: two steps of `dt / 2`
        beside one of `dt`, of which the error is `(y_2 - y_1) / (2^order - 1)`.
        Source: E. Hairer, S. P. Norsett, G. Wanner, *Solving Ordinary Differential Equations I*, 2nd ed., 1993,
        doi:10.1007/978-3-540-78862-1, section II.4.
        """
        h = jnp.asarray(dt, state.time.dtype)
        result = doubled(self, system, state, carry, h)
        if not throw:
            return result
        who = f"{type(self).__name__}.step_with_error"
        numbers, ends = partial(given, system, state, h), lambda: replace(state, time=state.time + h)
        return raise_failure(result, result[2], system, who, numbers, moves=True, held_at=ends)

    def revalued(self, system: System, state: State, carry: Any) -> Any:
        """The carry of a motion that goes on from `state` with other numbers in its scene.

        `init`, unless overridden: what was made of the old numbers is stale. To be overridden by schemes that remember
        more of the motion than a state tells.
        """
        del carry
        return self.init(system, state)

    def after_event(self, system: System, state: State, carry: Any) -> Any:
        """The carry of a motion that an event has changed (`Event.apply`), and that goes on from `state`.

        `init`, unless overridden: what was remembered of the motion before (former states, a velocity between steps) has no
        part in what follows.
        """
        del carry
        return self.init(system, state)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(no_attribute(self, name))
