"""Velocity Verlet."""

from typing import Any

from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..displaced import combined
from ..mass_inverse import acceleration
from .explicit_scheme import AbstractExplicitScheme, ExplicitCarry, reached


class VelocityVerlet(AbstractExplicitScheme):
    """`x1 = x0 (+) (h v0 + h^2/2 a0)`, `v1 = v0 + h/2 (a0 + a1)`: explicit, second order, symplectic; `h omega < 2`.

    One evaluation of forces a step: the carry holds the acceleration. Forces that depend on velocities take `v0 + h a0`,
    which keeps the order. Energy swings by the square of the step, and does not drift.
    Lumped masses need no matrix; `solver` for others. `check_step=False` takes any step. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `TypeError` for options of another kind; a step raises `FailedComputation`.
    Source: E. Hairer, C. Lubich, G. Wanner, Acta Numerica 12 (2003) 399, doi:10.1017/S0962492902000144.

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 4.0, [[0.0]])  # [N/m]
        scene = jm.System({"p": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
        start = scene.at_rest({"p": [[1.0]]})
        end, _, _ = jm.integrator.VelocityVerlet().step(scene, start, None, 0.1)
        assert jnp.allclose(end.position["p"], 0.98) and jnp.allclose(end.velocity["p"], -0.396)  # [m, m/s]
    """

    order = 2
    stability = 2.0

    def memory(self, system: System, state: State, inverse: Fields | None) -> Fields:
        return acceleration(system, state, inverse, self.solver)

    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        v0, a0 = start.velocity, carry.memory
        ahead = combined((1.0, v0), (h, a0))
        nearly = reached(system, start, combined((h, v0), (h**2 / 2, a0)), ahead, h)
        a1 = self.acceleration(system, nearly, carry)
        v1 = combined((1.0, v0), (h / 2, a0), (h / 2, a1))
        return self.arrived(system, start, carry, combined((h, v0), (h**2 / 2, a0)), v1, h), a1
