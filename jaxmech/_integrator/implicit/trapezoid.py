"""The trapezoidal rule."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._model.dynamics import Fields, total_force
from ..._model.system import System
from ..._runtime.array_types import Array
from ..displaced import combined
from .implicit_scheme import AbstractImplicitScheme
from .momentum_stage import EndStage
from .stage import AbstractStage, Setting, extrapolated, rated


class Trapezoid(AbstractImplicitScheme):
    """`x1 = x0 (+) h/2 (v0 + v1)`, `p1 - p0 = h/2 (f0 + f1)`: second order, no dissipation.

    On points the average acceleration of Newmark, without a memory: both forces are evaluated. In place of accelerations
    it averages rates of momentum, so that a free body keeps its angular momentum.
    `newton=False`: one linear solve; the options are those of `ImplicitEuler`. Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: E. Hairer, S. P. Norsett, G. Wanner, *Solving Ordinary Differential Equations I*, 2nd ed., 1993,
    doi:10.1007/978-3-540-78862-1, section II.7.

    Example:

        trapezoid = jm.integrator.Trapezoid(linear_system, newton=True)
        assert trapezoid.order == 2 and trapezoid.init(system, state)[1] is None  # nothing to remember
    """

    order = 2

    def stage(self, setting: Setting, memory: Any) -> EndStage:
        return trapezoid_stage(setting, setting.h, extrapolated(setting, memory))


def trapezoid_stage(setting: Setting, h: Array, predicted: Fields) -> EndStage:
    """The trapezoidal rule over `h` from the start of the step."""
    x, v = setting.start.position, setting.velocity
    stage = rated(EndStage(setting, h / 2, ((1.0, x, v),), combined((h / 2, v)), h / 2, None, predicted, h, share=1.0))
    return eqx.tree_at(
        lambda s: s.known, stage, combined((h / 2, rate_of_start(stage, stage.acting))), is_leaf=lambda a: a is None
    )


def rate_of_start(stage: AbstractStage, acting: System) -> Fields:
    """The rate of momentum at the start, of the forces that act."""
    return rate_of_force(stage, total_force(acting, stage.setting.at_start))


def rate_of_force(stage: AbstractStage, force: Fields) -> Fields:
    """That of a force there. What an equation is off by is no rate of anything."""
    rate = stage.rate(stage.setting.at_start, force)
    return rate | {s: jnp.zeros_like(rate[s]) for s in stage.system.multiplier_states}
