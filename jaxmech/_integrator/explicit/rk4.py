"""The classical method of Runge and Kutta."""

from typing import Any

import jax.numpy as jnp

from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..displaced import chart_rates, combined
from .explicit_scheme import AbstractExplicitScheme, ExplicitCarry, reached


class RK4(AbstractExplicitScheme):
    """The classical method of Runge and Kutta: explicit, fourth order, four evaluations of forces; `h omega < 2.82`.

    Frames move in the chart of the start, whose rates are told from velocities (Munthe-Kaas), so that rotations converge
    at the fourth order too. Damps high frequencies slightly; for long motions without damping take `VelocityVerlet`.
    Lumped masses need no matrix; `solver` for others. `check_step=False` takes any step. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `TypeError` for options of another kind; a step raises `FailedComputation`.
    Source: H. Munthe-Kaas, BIT 38 (1998) 92, doi:10.1007/BF02510919.

    Example:

        assert jm.integrator.RK4().order == 4 and jm.integrator.RK4.stability > jm.integrator.VelocityVerlet.stability
    """

    order = 4
    stability = 2.8

    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        d = {s: jnp.zeros_like(v) for s, v in start.velocity.items()}
        v, parts = start.velocity, []
        for share in (0.5, 0.5, 1.0, None):
            rate, a = self._rates(system, start, d, v, carry, h * (0.0, 0.5, 0.5, 1.0)[len(parts)])
            parts.append((rate, a))
            if share is not None:
                d = combined((share * h, rate))
                v = combined((1.0, start.velocity), (share * h, a))
        weights = (h / 6, h / 3, h / 3, h / 6)
        d = combined(*((w, rate) for w, (rate, _) in zip(weights, parts, strict=True)))
        v = combined((1.0, start.velocity), *((w, a) for w, (_, a) in zip(weights, parts, strict=True)))
        return reached(system, start, d, v, h), None

    def _rates(
        self, system: System, start: State, d: Fields, v: Fields, carry: ExplicitCarry, later: Array
    ) -> tuple[Fields, Fields]:
        """Those of the displacement and of the velocity."""
        at = reached(system, start, d, v, later)
        return chart_rates(system, start.position, d, at.velocity), self.acceleration(system, at, carry)
