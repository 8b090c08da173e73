"""The central difference method."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._model.constraint_projection import has_prescribed_motion, led, prescribed
from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..displaced import combined
from ..mass_inverse import dragged
from .explicit_scheme import AbstractExplicitScheme, ExplicitCarry, held


class CentralDifference(AbstractExplicitScheme):
    """`v_1/2 = v_-1/2 + h a0`, `x1 = x0 (+) h v_1/2`: explicit, second order, velocities between steps; `h omega < 2`.

    The positions are those of `x1 - 2 x0 + x_-1 = h^2 a0`, and of `VelocityVerlet`. The velocity of a state is `v_1/2 + h/2
    a0`, with the acceleration at the start of the step, so that forces are evaluated once, after the motion of the step is
    known; in adaptive steps not under control with that at the end, as `VelocityVerlet` has it. Steps may differ. The
    carry holds the velocity between steps, which begins anew at events.
    Lumped masses need no matrix; `solver` for others. `check_step=False` takes any step. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `TypeError` for options of another kind; a step raises `FailedComputation`.
    Source: T. Belytschko, W. K. Liu, B. Moran, *Nonlinear Finite Elements for Continua and Structures*, 2000,
    ISBN 978-0-471-98773-4, section 6.2.

    Example:

        between, before = jm.integrator.CentralDifference().init(system, state).memory
        assert before == 0.0 and jnp.array_equal(between["cube"], state.velocity["cube"])  # the first step has none before
    """

    order = 2
    stability = 2.0

    forces_at_start = True

    @property
    def control_at(self) -> float:
        return 0.0  # where its forces act

    @property
    def velocities_lag(self) -> bool:
        return True  # by half a step times what the acceleration changes by

    def caught_up(self, system: System, states: tuple[State, ...], carries: tuple[Any, ...]) -> tuple[State, ...]:
        return _caught_up(self, system, states, carries)

    @property
    def restarts_at_events(self) -> bool:
        return True  # half a step's force of before is in the velocity between steps, and half of one of after

    def remembered(self, system: System, state: State, inverse: Fields | None, memory: Any) -> Any:
        del system, state, inverse
        return memory  # velocities, whatever the forces

    def memory(self, system: System, state: State, inverse: Fields | None) -> tuple[Fields, Array]:
        """The velocity between steps, and the length of the step before: at first the velocity itself, and none."""
        del system, inverse
        return dict(state.velocity), jnp.zeros_like(state.time)

    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        between, before = carry.memory
        a = self.acceleration(system, start, carry)
        between = combined((1.0, between), ((before + h) / 2, a))
        if has_prescribed_motion(system):
            between = self._led(system, start, carry, between, h)
        end = self.arrived(system, start, carry, combined((h, between)), combined((1.0, between), (h / 2, a)), h)
        return end, (between, h)

    def _led(self, system: System, start: State, carry: ExplicitCarry, between: Fields, h: Array) -> Fields:
        """The velocity between steps as the displacements of motions have it, which jerks the rest."""
        mean = combined((1 / h, prescribed(system, start.position, start.time + h)))
        jump = combined((1.0, mean), (-1.0, led(system, between)))
        return combined((1.0, between), (1.0, jump), (-1.0, dragged(system, start, jump, carry.inverse, self.solver)))


@compiled
def _caught_up(
    scheme: CentralDifference, system: System, states: tuple[State, ...], carries: tuple[ExplicitCarry, ...]
) -> tuple[State, ...]:
    """By the acceleration at the last of the states."""
    a = scheme.acceleration(system, states[-1], carries[-1])
    found = []
    for state, (between, before) in zip(states, (carry.memory for carry in carries), strict=True):
        velocity = combined((1.0, between), (before / 2, a))
        found.append(held(system, eqx.tree_at(lambda s: s.velocity, state, velocity)))
    return tuple(found)
