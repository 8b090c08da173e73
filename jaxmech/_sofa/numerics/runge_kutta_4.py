"""SOFA's RungeKutta4Solver."""

from typing import Any

import equinox as eqx

from ..._integrator.base import AbstractIntegrator
from ..._integrator.explicit.rk4 import RK4
from ..._model.system import State, System

_SCHEME = RK4(check_step=False)


class SofaRungeKutta4(AbstractIntegrator):
    """`RK4` without the Rayleigh damping of components: in SOFA it is in matrices alone, and this scheme has none.

    Positions [m, rad], velocities [m/s, rad/s].
    """

    order = 4

    def init(self, system: System, state: State) -> Any:
        return _SCHEME.init(_undamped(system), state)

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        return _SCHEME.step(_undamped(system), state, carry, dt, throw=throw)


def _undamped(system: System) -> System:
    return eqx.tree_at(lambda s: s.rayleigh, system, {})
