"""TR-BDF2: the trapezoidal rule, then a backward difference over both parts of the step."""

import math
from typing import Any

from .._linear_solver.base.derivative import constant
from .._model.dynamics import Fields
from .._model.system import State, System
from .._runtime.array_types import Array
from .._solve.equilibrium import StepInfo
from .displaced import combined
from .bdf import displacements
from .implicit_scheme import AbstractImplicitScheme, Solve, extrapolated, joined
from .momentum_stage import EndStage
from .stage import Setting
from .trapezoid import rate_of_start, trapezoid_stage

GAMMA = 2 - math.sqrt(2)  # where the first part ends: both parts then have the same matrix


class TRBDF2(AbstractImplicitScheme):
    """The trapezoidal rule to `g h`, `g = 2 - sqrt 2`, then BDF of order 2 over three points: second order, damps what it
    does not resolve.

    Two solves a step, of equal factors `(1, d h, (d h)^2)`, `d = 1 - 1 / sqrt 2`. L-stable: where a fixed step meets stiff
    parts, it is the choice before BDF, and needs no states before. `step_with_error` compares it with a formula of third
    order over the same forces, at no further solve.
    `newton=False`: one linear solve for each part; the options are those of `ImplicitEuler`. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: M. E. Hosea and L. F. Shampine, Appl. Numer. Math. 20 (1996) 21, doi:10.1016/0168-9274(95)00115-8.

    Example:

        run = jm.simulate(system, state, jm.integrator.TRBDF2(linear_system), dt=0.01, steps=4)
        assert jnp.allclose(run.last.time, 0.04) and -0.4 < run.last.velocity["cube"][1, 2] < 0.0  # [m/s]
    """

    order = 2
    stage_weights = (1 / (GAMMA * (2 - GAMMA)), 1.0)

    def stage(self, setting: Setting, memory: Any) -> EndStage:
        predicted = combined((1 - GAMMA, setting.velocity), (GAMMA, extrapolated(setting, memory)))
        return trapezoid_stage(setting, GAMMA * setting.h, predicted)

    def move(self, setting: Setting, memory: Any, solve: Solve) -> tuple[State, Any, StepInfo]:
        first = self.stage(setting, memory)
        u, of_first = solve(first)
        middle = first.end(u)
        second = _second(setting, middle)
        u, of_second = solve(second)
        end = second.end(u)
        return end, self.next_memory(setting, memory, second, u, end), joined(of_first, of_second)


def _second(setting: Setting, middle: State) -> EndStage:
    """`y1 = (y_g - (1 - g)^2 y0) / (g (2 - g)) + (1 - g) / (2 - g) h y1'`."""
    g, h, start = GAMMA, setting.h, setting.start
    of_middle, of_start, reach = 1 / (g * (2 - g)), -((1 - g) ** 2) / (g * (2 - g)), (1 - g) / (2 - g) * h
    before = (
        (of_start, start.position, setting.velocity),
        (of_middle, middle.position, middle.velocity),
    )
    shift = combined((of_middle, displacements(setting.system, start.position, middle.position)))
    predicted = middle.velocity
    if setting.varying:  # one linear solve then needs the velocity to second order
        predicted = combined((1 / g, middle.velocity), (1 - 1 / g, setting.velocity))
    return EndStage(setting, reach, before, shift, reach, None, predicted, h)
