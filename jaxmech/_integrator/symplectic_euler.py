"""The symplectic Euler method."""

from typing import Any

from .._model.system import State, System
from .._runtime.array_types import Array
from .displaced import combined
from .explicit_scheme import AbstractExplicitScheme, ExplicitCarry, reached


class SymplecticEuler(AbstractExplicitScheme):
    """`v1 = v0 + h M^-1 f(x0, v0)`, `x1 = x0 (+) h v1`: explicit, first order, symplectic; stable for `h omega < 2`.

    One evaluation of forces a step. Energy swings about its first value by the order of the step, and does not drift.
    Lumped masses need no matrix; `solver` for others. `check_step=False` takes any step. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `TypeError` for options of another kind; a step raises `FailedComputation`.
    Source: E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., 2006, doi:10.1007/3-540-30666-8,
    section I.1.

    Example:

        run = jm.simulate(system, state, jm.integrator.SymplecticEuler(), dt=1e-3, steps=4)
        assert jnp.allclose(run.last.time, 4e-3) and run.last.velocity["cube"][1, 2] < 0.0  # [m/s]
    """

    order = 1
    stability = 2.0

    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        v = combined((1.0, start.velocity), (h, self.acceleration(system, start, carry)))
        return reached(system, start, combined((h, v)), v, h), None
