"""Newton's method as users call it, on a residual of their own."""

from functools import partial
from typing import Any

import lineax as lx

from .._linear_solver.base.derivative import mark_failure
from .._linear_system.compatibility import check_topology
from .._model.dynamics import Fields
from .._model.failure_report import DERIVATIVE, raise_failure
from .._model.state_checks import check_arrays, check_has
from .._runtime.argument_checks import check_flags, check_instance, plain
from .._runtime.precision import compiled
from .._runtime.results import RESULTS, is_traced
from .equilibrium import AbstractEquilibrium, NewtonInfo, NewtonOptions
from .newton import newton_solve


def solve_equilibrium(
    equilibrium: AbstractEquilibrium,
    start: Fields,
    solver: lx.AbstractLinearSolver | None = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    max_steps: int = 30,
    line_search: str = "finite",
    throw: bool = True,
) -> tuple[Fields, NewtonInfo]:
    """The unknowns `u` at which `P R(u) = 0`, by Newton's method from `start`, and what happened.

    `equilibrium`: the residual, an `AbstractEquilibrium`, of a time step, say; `start`: `{state: (nodes, deriv_size)}` of
    the main states. What `start` has in constrained directions stays. The other arguments are those of `static_solve`.

    Differentiable in both modes, to any order, by every leaf of `equilibrium`, by the implicit function theorem, with the
    exact derivative of the residual even where its `operator` is only near that. Raises `FailedComputation` (under `jit`,
    JAX's run-time error) unless `throw=False`, `ValueError` or `TypeError` for arguments that do not fit the system. Units:
    those of `equilibrium`.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2nd ed., 2006, chapter 11.

    Example:

        class Fall(jm.solver.AbstractEquilibrium):  # R(v) = m (v0 - v) + h f: a step of implicit Euler
            system: jm.System
            linear_system: jm.solver.AbstractLinearSystem
            factors = jm.Factors(mass=1.0, damping=0.0, stiffness=0.0)

            def state(self, u):
                return jm.State(arm_state.position, u, arm_state.time)

            def residual(self, u):
                f = jm.total_force(self.system, arm_state)["frame"]
                return {"frame": 0.1 * f - jm.mass.momentum(self.system, self.state(u))["frame"]}

        fall = Fall(arm, jm.MatrixLinearSystem.build(arm, arm_state))
        v, info = jm.solver.solve_equilibrium(fall, arm_state.velocity)
        assert jnp.allclose(v["frame"], jnp.array([0.0, 0.0, -0.5, 0.0, 1.0, 0.0]))  # h M^-1 f
    """
    who = "solve_equilibrium"
    check_instance(who, "equilibrium", equilibrium, AbstractEquilibrium)
    system = equilibrium.system
    check_topology(f"the linear system given to {who}", equilibrium.linear_system.built_for, system)
    check_arrays(who, "start", start, system, "deriv_size")
    check_has(who, "start", start, system.main_states)
    check_flags(who, throw=throw)
    if solver is not None:
        check_instance(who, "solver", solver, lx.AbstractLinearSolver)
    raises = throw and is_traced((equilibrium, start))
    derivatives_of = DERIVATIVE.format(who) if raises else ""
    options = NewtonOptions(rtol, atol, plain(max_steps), 1, line_search, derivatives_of=derivatives_of)
    result = _solve(equilibrium, dict(start), options, solver)
    if not throw:
        return result
    return raise_failure(result, result[1], system, who, partial(equilibrium.given, start), moves=True)


@compiled
def _solve(
    equilibrium: AbstractEquilibrium, start: Fields, options: NewtonOptions, solver: Any
) -> tuple[Fields, NewtonInfo]:
    u, info = newton_solve(equilibrium, start, options, solver)
    return mark_failure(u, info.result != RESULTS.successful), info
