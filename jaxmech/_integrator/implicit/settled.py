"""The end of a step whose constraints hold with their rates: velocities along them, and the multipliers that go with those.

A scheme that is not stiffly accurate holds positions to their equations, and velocities swing about them; its multipliers
swing too, and no step damps it. So `J v = -dg/dt` is solved for at the end, by the least impulses, and then `M a + J^T
lambda = f`, `J a = -dJ/dt v`: multipliers are a function of the state, and the error of one step is not handed on (index
reduction by projection: E. Hairer and G. Wanner, *Solving Ordinary Differential Equations II*, 1996, section VII.2).
"""

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from equinox import AbstractVar

from ..._linear_solver.base.outcome import reason
from ..._linear_solver.default import default_solver
from ..._linear_system.base import AbstractLinearSystem
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, zero_forces
from ..._model.inertia import force_in_motion
from ..._model.multiplier_rows import (
    motion_of_rows,
    rate_equations,
    row_numbers,
    soft_multipliers,
    without_multipliers,
)
from ..._model.system import State, System
from ..._model.terms import Factors
from ..._runtime.results import RESULTS
from ..._solve.equilibrium import StepInfo
from ..displaced import combined, driven_by_motions
from .linear_step import AbstractLinearStep, solved
from .rayleigh import Rayleigh

_MASSES = Factors(mass=1.0, damping=0.0, stiffness=0.0, rayleigh=0.0, multipliers=1.0)


class AbstractRateStep(AbstractLinearStep):
    """`(M, J^T; J, 0) (x, lambda) = b` at a state."""

    system: AbstractVar[System]
    linear_system: AbstractVar[AbstractLinearSystem]
    at: AbstractVar[State]

    @abc.abstractmethod
    def rhs(self) -> Fields:
        """`b`, before projection."""

    @property
    def place(self) -> tuple[System, State]:
        """The scene of rates, and the state without multipliers, which would add their geometric stiffness."""
        return rate_equations(self.system), without_multipliers(self.system, self.at)

    def imbalance(self, x: Fields) -> Fields:
        free = project(self.system, x)
        product = self.linear_system.as_products(*self.place, _MASSES).mv(free)
        rest = project(self.system, combined((1.0, self.rhs()), (-1.0, product)))
        return {s: rest[s] + free[s] - x[s] for s in rest}

    def solve(self, solver: Any, derivatives_of: str) -> tuple[Fields, Any]:
        """`(x, lambda)`, and what the solver says."""
        A = self.linear_system.constrain(self.system, self.linear_system.unconstrained(*self.place, _MASSES))
        chosen = default_solver(A) if solver is None else solver
        return solved(self, A, project(self.system, self.rhs()), chosen, derivatives_of)

    def rows(self, values: Fields) -> Fields:
        """A right-hand side of the equations alone."""
        return {**zero_forces(self.system, self.at.position), **values}


class VelocityStep(AbstractRateStep):
    """The change of velocity that makes `J v + dg/dt = -g / tau`."""

    system: System
    linear_system: AbstractLinearSystem
    at: State

    def rhs(self) -> Fields:
        g, rate, _ = motion_of_rows(self.system, self.at)
        decay = row_numbers(self.system, self.at).decay
        return self.rows({s: -rate[s] - decay[s] * g[s] for s in g})


class NormalStep(AbstractRateStep):
    """The part of a field along which the constraints do not let go: `J x = J w`, `x = M^-1 J^T (.)`."""

    system: System
    linear_system: AbstractLinearSystem
    at: State
    field: Fields

    def rhs(self) -> Fields:
        moved, still = (
            motion_of_rows(self.system, eqx.tree_at(lambda s: s.velocity, self.at, v))[1]
            for v in (self.field, zero_forces(self.system, self.at.position))
        )
        return self.rows({s: moved[s] - still[s] for s in moved})


class AccelerationStep(AbstractRateStep):
    """The acceleration, and multipliers, of a state whose velocities are settled."""

    system: System
    linear_system: AbstractLinearSystem
    at: State
    rayleigh: Rayleigh

    def force(self) -> tuple[Fields, Fields | None]:
        """All forces but those of the multipliers that are asked for, less what motions take, and the latter."""
        system, state = self.system, self.at
        rate = force_in_motion(system, state)
        if self.rayleigh.acts_on(system):
            drag = self.linear_system.as_products(system, state, self.rayleigh.factors()).mv(state.velocity)
            rate = combined((1.0, rate), (-1.0, drag))
        return driven_by_motions(system, state, rate)

    def rhs(self) -> Fields:
        rate, driven = self.force()
        _, first, second = motion_of_rows(self.system, self.at)
        decay = row_numbers(self.system, self.at).decay
        asked = {s: -second[s] - decay[s] * first[s] for s in second}
        if driven is not None:  # what motions prescribe is no unknown
            moved = eqx.tree_at(lambda s: s.velocity, self.at, driven)
            still = eqx.tree_at(lambda s: s.velocity, self.at, zero_forces(self.system, self.at.position))
            of_motion, of_time = (motion_of_rows(self.system, of)[1] for of in (moved, still))
            asked = {s: a - of_motion[s] + of_time[s] for s, a in asked.items()}
        return {**rate, **asked}


def settled_velocity(
    system: System, linear_system: AbstractLinearSystem, state: State, solver: Any, who: str
) -> tuple[State, Any]:
    """`state` with velocities along its constraints, and what the solver said."""
    calm = eqx.tree_at(lambda s: s.velocity, state, without_multipliers(system, state).velocity)
    x, said = VelocityStep(system, linear_system, calm).solve(solver, who)
    free = project(system, x)
    velocity = {s: v if s in system.multiplier_states else v + free[s] for s, v in calm.velocity.items()}
    return eqx.tree_at(lambda s: s.velocity, calm, velocity), said


def normal_part(
    system: System, linear_system: AbstractLinearSystem, at: State, field: Fields, solver: Any, who: str
) -> Fields:
    """The part of a field of velocities or accelerations across which the constraints hold."""
    x, _ = NormalStep(system, linear_system, at, field).solve(solver, who)
    return {s: jnp.zeros_like(v) if s in system.multiplier_states else v for s, v in project(system, x).items()}


def settled_acceleration(
    system: System, linear_system: AbstractLinearSystem, state: State, rayleigh: Rayleigh, solver: Any, who: str
) -> tuple[Fields, State, Any]:
    """The acceleration, `state` with the multipliers that belong to it, and what the solver said.

    Those of rows that give are `(g + tau g') / C`.
    """
    still, names = without_multipliers(system, state), system.multiplier_states
    step = AccelerationStep(system, linear_system, still, rayleigh)
    soft, C = soft_multipliers(system, still), row_numbers(system, still).compliance
    step = eqx.tree_at(lambda p: [p.at.position[s] for s in names], step, [soft[s] for s in names])
    x, said = step.solve(solver, who)
    driven = step.force()[1]
    a = {s: jnp.zeros_like(v) if s in names else v for s, v in project(system, x).items()}
    a = a if driven is None else combined((1.0, a), (1.0, driven))
    multipliers = [soft[s] + jnp.where(C[s] > 0, 0.0, x[s]) for s in names]
    return a, eqx.tree_at(lambda s: [s.position[n] for n in names], state, multipliers), said


def settled(
    system: System,
    linear_system: AbstractLinearSystem,
    end: State,
    info: StepInfo,
    rayleigh: Rayleigh,
    solver: Any,
    who: str,
    velocities: bool = True,
) -> tuple[State, Fields, StepInfo]:
    """The end of a step with the rates of its constraints (unless `velocities` stay), the acceleration there, and what
    happened."""
    told = []
    if velocities:
        end, moved = settled_velocity(system, linear_system, end, solver, who)
        told = [moved]
    a, end, held = settled_acceleration(system, linear_system, end, rayleigh, solver, who)
    for said in [*told, held]:
        why = RESULTS.where(info.result == RESULTS.successful, reason(said), info.result)
        info = eqx.tree_at(lambda i: i.result, info, why)
    return end, a, info
