"""SOFA's EulerExplicitSolver with `symplectic="false"`: the forward method of Euler."""

from typing import Any

from .._integrator.displaced import combined
from .._integrator.explicit.explicit_scheme import AbstractExplicitScheme, ExplicitCarry, reached
from .._model.system import State, System
from .._runtime.array_types import Array


class ForwardEuler(AbstractExplicitScheme):
    """`x1 = x0 (+) h v0`, `v1 = v0 + h M^-1 f(x0, v0)`: first order; what is undamped grows with every step.

    Positions [m, rad], velocities [m/s, rad/s]. A step raises `FailedComputation`.
    Source: E. Hairer, S. P. Norsett, G. Wanner, *Solving Ordinary Differential Equations I*, 2nd ed., 1993, section I.7.
    """

    order = 1
    stability = 2.0  # of strongly damped motions; of undamped ones it is none
    forces_at_start = True

    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        a = self.acceleration(system, start, carry)
        v = combined((1.0, start.velocity), (h, a))
        return reached(system, start, combined((h, start.velocity)), v, h), None
