"""SOFA's EulerExplicitSolver: one solve with the mass matrix, whatever it is like."""

from functools import partial
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp

from ..._integrator.base import AbstractIntegrator
from ..._integrator.displaced import displaced
from ..._integrator.scene_support import check_takes
from ..._integrator.time_step import check_time_step
from ..._linear_system.base import AbstractLinearSystem
from ..._linear_system.compatibility import BuiltFor
from ..._model.accept import accepted
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, total_force
from ..._model.failure_report import raise_failure
from ..._model.fault import given
from ..._model.system import State, System, check_inputs
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..._scene.parameter import as_array
from ..._solve.linear_outcome import ended, outcome
from .placed import placed
from .unconverged_solvers import Direct, Past


class SofaExplicitEuler(AbstractIntegrator):
    """`v1 = c v0 + h' M^-1 f(x0, v0)`; `x1 = x0 (+) h v1` if `symplectic`, else `x0 (+) h v0`: what is undamped grows.

    `c = 1`, `h' = h`; with `rayleigh_mass` `r` [1/s] `c = (1/h - r/2) / (1/h + r/2)`, `h' = 1 / (1/h + r/2)`: SOFA's
    CentralDifferenceSolver, velocities between steps. `halfway`: explicit midpoint, RungeKutta2Solver.

    A direct solver takes any mass matrix: that of vertices and edges of hexahedra is not positive definite.
    `linear_system`: built with the mass alone. Positions [m, rad], velocities [m/s, rad/s].
    Source: E. Hairer, C. Lubich, G. Wanner, *Geometric Numerical Integration*, 2nd ed., 2006, doi:10.1007/3-540-30666-8.
    """

    order: ClassVar[int] = 1

    linear_system: AbstractLinearSystem
    solver: Direct
    symplectic: bool = eqx.field(static=True)
    rayleigh_mass: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    halfway: bool = eqx.field(static=True, default=False, kw_only=True)

    @property
    def built_for(self) -> BuiltFor | None:
        return self.linear_system.built_for

    @property
    def control_at(self) -> float:
        return 0.0

    def init(self, system: System, state: State) -> Any:
        return self.linear_system.init(system, state)

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        check_inputs("SofaExplicitEuler", system, state)
        check_takes("SofaExplicitEuler", system)
        check_time_step(dt)
        h = jnp.asarray(dt, state.time.dtype)
        end, info = _step(self, system, state, carry, h)
        if not throw:
            return end, carry, info
        who = "SofaExplicitEuler"
        return raise_failure((end, carry, info), info, system, who, partial(given, system, state, h), moves=True)


@compiled
def _step(scheme: SofaExplicitEuler, system: System, state: State, kept: Any, h: Array) -> tuple[State, Any]:
    at = state
    if scheme.halfway:
        a, _, _ = _acceleration(scheme, system, state, kept)
        half = h / 2
        v = {s: state.velocity[s] + half * a[s] for s in a}
        at = displaced(system, state, {s: half * u for s, u in state.velocity.items()}, v, half)
    a, said, b = _acceleration(scheme, system, at, kept)
    r = scheme.rayleigh_mass
    old, new = (1 / h - r / 2) / (1 / h + r / 2), 1 / (1 / h + r / 2)
    v = {s: old * state.velocity[s] + new * a[s] for s in a}
    along = at.velocity if scheme.halfway or not scheme.symplectic else v
    d = {s: h * u for s, u in along.items()}
    end = accepted(system, state, placed(system, state, displaced(system, state, d, v, h)), h)
    end, info = ended(outcome(said, system, state, h, b, end), state, end, h)
    return end, info


def _acceleration(scheme: SofaExplicitEuler, system: System, at: State, kept: Any) -> tuple[Fields, Any, Fields]:
    """`M^-1 f`, what the solver says of it, and `f`."""
    A = scheme.linear_system.using(kept).assemble(system, at, Factors.only("mass"))
    b = project(system, total_force(system, at))
    a, said, _ = scheme.solver.solve(A, b, Past(jnp.ones((), bool), b, None))
    return a, said, b
