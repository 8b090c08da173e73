"""The implicit midpoint rule."""

from typing import Any

from .implicit_scheme import AbstractImplicitScheme
from .momentum_stage import MidpointStage, midpoint_stage
from .stage import Setting, rated


class Midpoint(AbstractImplicitScheme):
    """`x1 = x0 (+) h u`, `p1 - p0 = h f(x0 (+) h/2 u, u)`, `u` the mean velocity: second order, symplectic, no dissipation.

    Conserves momentum and angular momentum (the latter to second order where masses are carried by several frames at once,
    as by `BeamMapping`), and the energy of linear systems and of free rigid bodies, whose spins are averaged in the body.
    Stable for linear systems at any step; stiff nonlinear ones need `EnergyMomentum`, or dissipation.
    `newton=False`: one linear solve; the options are those of `ImplicitEuler`. Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., 2006, doi:10.1007/3-540-30666-8,
    section VI.3; J. C. Simo and K. K. Wong, Int. J. Numer. Methods Eng. 31 (1991) 19, doi:10.1002/nme.1620310103.

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 4.0, [[0.0]])  # [N/m]
        scene = jm.System({"p": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
        start = scene.at_rest({"p": [[1.0]]})
        midpoint = jm.integrator.Midpoint(jm.MatrixLinearSystem.build(scene, start))
        end, _, _ = midpoint.step(scene, start, None, 0.5)
        assert jnp.allclose(2 * end.position["p"] ** 2 + end.velocity["p"] ** 2 / 2, 2.0)  # the energy [J]
    """

    order = 2

    def stage(self, setting: Setting, memory: Any) -> MidpointStage:
        return rated(midpoint_stage(setting, memory))
