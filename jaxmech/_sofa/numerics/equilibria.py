"""What stands for SOFA's StaticSolver where scenes are solved exactly."""

import dataclasses
from typing import Any

import equinox as eqx
import lineax as lx

from ..._integrator.base import AbstractIntegrator
from ..._linear_system.base import AbstractLinearSystem
from ..._linear_system.compatibility import BuiltFor
from ..._model.system import State, System
from ..._solve.linear_outcome import StepInfo
from ..._solve.static import static_solve


class Equilibria(AbstractIntegrator):
    """Each step is the equilibrium at its end: Newton's method, its steps halved until the residual shrinks, to convergence.

    Velocities stay. Raises as `static_solve` does.
    """

    has_inertia = False

    linear_system: AbstractLinearSystem
    solver: lx.AbstractLinearSolver
    steps: int = eqx.field(static=True, default=200)

    @property
    def built_for(self) -> BuiltFor | None:
        return self.linear_system.built_for

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        options = {"line_search": "residual", "max_steps": self.steps, "throw": throw}
        found = static_solve(system, state, self.linear_system, self.solver, dt=dt, **options)
        return dataclasses.replace(found.state, velocity=state.velocity), carry, StepInfo.of_newton(found.info)
