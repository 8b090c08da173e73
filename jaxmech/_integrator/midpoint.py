"""The implicit midpoint rule."""

from typing import Any

from .displaced import combined
from .implicit_scheme import AbstractImplicitScheme, extrapolated
from .momentum_stage import MidpointStage
from .stage import Setting


class Midpoint(AbstractImplicitScheme):
    """`x1 = x0 (+) h u`, `p1 - p0 = h f(x0 (+) h/2 u, u)`, `u` the mean velocity: second order, symplectic, no dissipation.

    Conserves momentum and angular momentum, and the energy of linear systems and of free rigid bodies, whose spins are
    averaged in the body. Stable for linear systems at any step; stiff nonlinear ones need `EnergyMomentum`, or dissipation.
    `newton=False`: one linear solve; the options are those of `ImplicitEuler`. Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., 2006, doi:10.1007/3-540-30666-8,
    section VI.3; J. C. Simo and K. K. Wong, Int. J. Numer. Methods Eng. 31 (1991) 19, doi:10.1002/nme.1620310103.

    Example:

        run = jm.simulate(system, state, jm.integrator.Midpoint(linear_system), dt=0.01, steps=4)
        assert jnp.allclose(run.last.time, 0.04) and -0.4 < run.last.velocity["cube"][1, 2] < 0.0  # [m/s]
    """

    order = 2

    def stage(self, setting: Setting, memory: Any) -> MidpointStage:
        x, v = setting.start.position, setting.velocity
        predicted = combined((0.5, v), (0.5, extrapolated(setting, memory)))
        return MidpointStage(setting, ((1.0, x, v),), predicted)
