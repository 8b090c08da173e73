"""TR-BDF2: the trapezoidal rule, then a backward difference over both parts of the step."""

import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from ..._linear_solver.default import default_solver
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, momentum, retract_near
from ..._model.system import State, System
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..._runtime.reverse_mode import anew
from ..._solve.equilibrium import StepInfo
from ..._solve.linear_outcome import joined
from ..carried import in_motion
from ..displaced import chart_rates, combined, displacements
from .implicit_scheme import AbstractImplicitScheme, Record, Solve, Step, recorded_step
from .linear_step import AbstractLinearStep, solved
from .momentum_stage import EndStage
from .scheme_carry import joined_carry, prepared_for
from .stage import Setting, extrapolated, rated
from .trapezoid import rate_of_start, trapezoid_stage

GAMMA = 2 - math.sqrt(2)  # where the first part ends: both parts then have the same matrix
REACH = (1 - GAMMA) / (2 - GAMMA)  # the share of the step that the rate of its end has
_WEIGHTS = -((1 - GAMMA) ** 2) / (GAMMA * (2 - GAMMA)), 1 / (GAMMA * (2 - GAMMA))  # of the start and the middle, in the end


class TRBDF2(AbstractImplicitScheme):
    """The trapezoidal rule to `g h`, `g = 2 - sqrt 2`, then BDF of order 2 over three points: second order, damps what it
    does not resolve.

    Two solves a step, of equal factors `(1, d h, (d h)^2)`, `d = 1 - 1 / sqrt 2`. L-stable: where a fixed step meets stiff
    parts, it is the choice before BDF, and needs no states before. `step_with_error` compares it with a formula of third
    order over the same forces, at two further solves, which take stiff parts out of the estimate: the states that it
    corrects are those of an L-stable scheme too.
    `newton=False`: one linear solve for each part; the options are those of `ImplicitEuler`. Positions [m, rad], velocities
    [m/s, rad/s]. Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: M. E. Hosea and L. F. Shampine, Appl. Numer. Math. 20 (1996) 21, doi:10.1016/0168-9274(95)00115-8.

    Example:

        scheme = jm.integrator.TRBDF2(linear_system, newton=True)
        assert scheme.order == 2 and scheme.init(system, state)[1] is None  # nothing to remember
    """

    order = 2
    stage_weights = (_WEIGHTS[1], 1.0)

    def stage(self, setting: Setting, memory: Any) -> EndStage:
        return trapezoid_stage(setting, GAMMA * setting.h, extrapolated(setting, memory, GAMMA))

    def move(self, setting: Setting, memory: Any, solve: Solve) -> Step:
        return self.recorded_move(setting, memory, solve)[:3]

    def recorded_move(self, setting: Setting, memory: Any, solve: Solve) -> tuple[State, Any, StepInfo, Record]:
        """Both parts are turns of one loop, which is traced and compiled once."""
        first = self.stage(setting, memory)

        def part(before: State, is_second: Array) -> tuple[State, tuple[State, Fields, StepInfo]]:
            u, info = solve(stage := _either(first, before, is_second))
            end = stage.end(u)
            return end, (end, u, info)

        begun = in_motion(setting.start, (setting, first))
        end, parts = jax.lax.scan(anew(part), begun, jnp.array([False, True]))
        (middle, u, of_first), (_, v, of_second) = (jax.tree.map(lambda a, i=i: a[i], parts) for i in range(2))
        second = _second(setting, middle)
        record: Record = [(first, u), (second, v)]
        return end, self.next_memory(setting, memory, second, v, end), joined(of_first, of_second), record

    def step_with_error(
        self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True
    ) -> tuple[State, Any, StepInfo, tuple[Fields, Fields]]:
        """`step`, and an estimate `(dx, dv)` of what its positions and velocities lack, tangent vectors."""
        return self.reported(_advanced_with_error, system, state, carry, dt, throw)


def _second(setting: Setting, middle: State) -> EndStage:
    """`y1 = (y_g - (1 - g)^2 y0) / (g (2 - g)) + (1 - g) / (2 - g) h y1'`."""
    g, h, start, (of_start, of_middle) = GAMMA, setting.h, setting.start, _WEIGHTS
    reach = REACH * h
    before = (
        (of_start, start.position, setting.velocity),
        (of_middle, middle.position, middle.velocity),
    )
    shift = combined((of_middle, displacements(setting.system, start.position, middle.position)))
    predicted = middle.velocity
    if setting.varying:  # one linear solve then needs the velocity to second order
        predicted = combined((1 / g, middle.velocity), (1 - 1 / g, setting.velocity))
    return rated(EndStage(setting, reach, before, shift, reach, None, predicted, h))


def _either(first: EndStage, before: State, is_second: Array) -> EndStage:
    """The first part, or the second, which `before` leads to."""
    (c, x, v), known = *first.before, first.known
    wide = replace(first, before=((c, x, v), (0.0, x, v)))
    second = replace(_second(first.setting, before), known=jax.tree.map(jnp.zeros_like, known))
    dtype = first.setting.h.dtype
    return jax.tree.map(lambda a, b: a if a is b else jnp.where(is_second, b, a).astype(dtype), wide, second)


W, D = math.sqrt(2) / 4, 1 - math.sqrt(2) / 2  # the weights of the forces at 0 and g h, and at h
THIRD = (1 - W) / 3, (3 * W + 1) / 3, D / 3  # of the formula of third order over the same three
MISSING = THIRD[0] - W, THIRD[1] - W, THIRD[2] - D


def _advanced_with_error(scheme: TRBDF2, system: System, state: State, carry: Any, h: Array, derivatives_of: str) -> Any:
    ready, kept, memory = prepared_for(scheme, system, state, carry, h)
    end, memory, info, error = _step_with_error(ready, system, state, memory, h, derivatives_of)
    return end, joined_carry(scheme, carry, kept, memory), info, error


@compiled
def _step_with_error(
    scheme: TRBDF2, system: System, state: State, memory: Any, h: Array, derivatives_of: str
) -> tuple[State, Any, StepInfo, tuple[Fields, Fields]]:
    end, memory, info, record = recorded_step(scheme, system, state, memory, h, derivatives_of)
    (first, u), _ = record
    return end, memory, info, _error(scheme, system, state, first.end(u), end, h)


def _error(scheme: TRBDF2, system: System, state: State, middle: State, end: State, h: Array) -> tuple[Fields, Fields]:
    """`(1 - d h J)^-2 h sum (b' - b) y'`: what is stiff would otherwise pass for an error that is not there.

    Divided once, as Hosea and Shampine do, the estimate of an undamped vibration of a period much below `h` is 0.6 of its
    amplitude: a corrected state would grow with every step.
    """
    estimate = _Estimate(scheme, system, state, middle, end, h)
    stage, dx, b = estimate.parts()
    A = scheme.linear_system.constrain(system, scheme.linear_system.unconstrained(system, end, stage.factors))
    solver = default_solver(A, inertial=True) if scheme.solver is None else scheme.solver
    dv = solved(estimate, A, b, solver, "")[0]
    once = combined((1.0, dx), (REACH * h, dv)), dv
    again = _Smoothed(estimate, *once)
    dv = solved(again, A, again.rhs(), solver, "")[0]
    return project(system, combined((1.0, once[0]), (REACH * h, dv))), dv


class _Estimate(AbstractLinearStep):
    """The linear system of the velocities of `(1 - d h J)^-1 h sum (b' - b) y'`."""

    scheme: TRBDF2
    system: System
    state: State
    middle: State  # that of the step: from its ends it would be told to the rounding of positions, divided by `h`
    end: State
    h: Array

    def parts(self) -> tuple[EndStage, Fields, Fields]:
        """The stage whose matrix it has, what the formula of third order says of positions, and the right-hand side."""
        scheme, system, state, middle, end, h = self.scheme, self.system, self.state, self.middle, self.end, self.h
        setting = scheme.setting(system, state, h)
        first = scheme.stage(setting, None)
        g, v0 = GAMMA, setting.velocity
        p0, pm, p1 = (momentum(system, s.position, s.velocity) for s in (setting.at_start, middle, end))
        r0 = rate_of_start(first, system)
        rm = combined((2 / (g * h), pm), (-2 / (g * h), p0), (-1.0, r0))
        reach = REACH * h
        r1 = combined((1 / reach, p1), ((1 - g) ** 2 / (g * (2 - g)) / reach, p0), (-1 / (g * (2 - g)) / reach, pm))
        v = (v0, middle.velocity, end.velocity)
        dx = combined(*((h * b, u) for b, u in zip(MISSING, v, strict=True)))
        if not all(dof.is_vector_space for dof in system.dofs.values()):
            # To third order frames have turned, and the rates of their chart are no longer the velocities.
            for b, at in ((THIRD[1], middle), (THIRD[2], end)):
                turned = chart_rates(system, state.position, displacements(system, state.position, at.position), at.velocity)
                dx = combined((1.0, dx), (h * b, turned), (-h * b, at.velocity))
        dp = combined(*((h * b, r) for b, r in zip(MISSING, (r0, rm, r1), strict=True)))
        spread = scheme.linear_system.as_products(system, end, Factors(0.0, 0.0, reach)).mv(project(system, dx))
        if setting.varying:  # the same momentum means another velocity where a body has turned

            def of_place(e: Fields) -> Fields:
                return momentum(system, retract_near(system.dofs, end.position, e), end.velocity)

            zero = jax.tree.map(jnp.zeros_like, dx)
            dp = combined((1.0, dp), (-1.0, jax.jvp(of_place, (zero,), (dx,))[1]))
        return _second(setting, middle), dx, project(system, combined((1.0, dp), (-1.0, spread)))

    def imbalance(self, x: Fields) -> Fields:
        stage, _, b = self.parts()
        products = self.scheme.linear_system.as_products(self.system, self.end, stage.factors)
        return project(self.system, combined((1.0, b), (-1.0, products.mv(project(self.system, x)))))


class _Smoothed(AbstractLinearStep):
    """`(1 - d h J)^-1 (dx, dv)`, as the velocities of it."""

    of: _Estimate
    dx: Fields
    dv: Fields

    def rhs(self) -> Fields:
        """`M dv - d h K dx`."""
        system, end = self.of.system, self.of.end
        spread = self.of.scheme.linear_system.as_products(system, end, Factors(0.0, 0.0, REACH * self.of.h))
        kept = momentum(system, end.position, project(system, self.dv))
        return project(system, combined((1.0, kept), (-1.0, spread.mv(project(system, self.dx)))))

    def imbalance(self, x: Fields) -> Fields:
        system, stage = self.of.system, self.of.parts()[0]
        products = self.of.scheme.linear_system.as_products(system, self.of.end, stage.factors)
        rest = combined((1.0, self.rhs()), (-1.0, products.mv(project(system, x))))
        return project(system, rest)
