"""SOFA's RungeKutta4Solver."""

from typing import Any, ClassVar

import equinox as eqx

from ..._integrator.base import AbstractIntegrator
from ..._model.system import State, System


class SofaRungeKutta4(AbstractIntegrator):
    """`scheme`, `RK4`, without the Rayleigh damping of components: in SOFA it is in matrices alone, and this one has none.

    Positions [m, rad], velocities [m/s, rad/s].
    """

    order: ClassVar[int] = 4

    scheme: AbstractIntegrator

    def init(self, system: System, state: State) -> Any:
        return self.scheme.init(_undamped(system), state)

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        return self.scheme.step(_undamped(system), state, carry, dt, throw=throw)


def _undamped(system: System) -> System:
    return eqx.tree_at(lambda s: s.rayleigh, system, {})
