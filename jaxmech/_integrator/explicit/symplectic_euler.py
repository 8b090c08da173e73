"""The symplectic Euler method."""

from typing import Any

from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..displaced import combined
from .explicit_scheme import AbstractExplicitScheme, ExplicitCarry


class SymplecticEuler(AbstractExplicitScheme):
    """`v1 = v0 + h M^-1 f(x0, v0)`, `x1 = x0 (+) h v1`: explicit, first order, symplectic; stable for `h omega < 2`.

    One evaluation of forces a step. Energy swings about its first value by the order of the step, and does not drift.
    Lumped masses need no matrix; `solver` for others. `check_step=False` takes any step. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `TypeError` for options of another kind; a step raises `FailedComputation`.
    Source: E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., 2006, doi:10.1007/3-540-30666-8,
    section I.1.

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 400.0, [[0.0]])  # [N/m]
        scene = jm.System({"p": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
        end, _, info = jm.integrator.SymplecticEuler().step(scene, scene.at_rest({"p": [[1.0]]}), None, 0.01)
        assert jnp.allclose(end.velocity["p"], -4.0) and jnp.allclose(end.position["p"], 0.96)  # [m/s, m]
    """

    order = 1
    stability = 2.0
    damped_stability = 2.0
    forces_at_start = True

    def move(self, system: System, start: State, carry: ExplicitCarry, h: Array) -> tuple[State, Any]:
        v = combined((1.0, start.velocity), (h, self.acceleration(system, start, carry)))
        return self.arrived(system, start, carry, combined((h, v)), v, h), None
