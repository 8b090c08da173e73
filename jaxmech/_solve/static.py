"""Static equilibrium: `f(x) = 0` in the free directions."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.derivative import mark_failure
from .._linear_system.base import AbstractLinearSystem
from .._linear_system.compatibility import check_topology
from .._linear_system.matrix import MatrixLinearSystem
from .._model.accept import accepted, unless_failed
from .._model.arguments import checked
from .._model.constraint_projection import constrained_gap, prescribed, project
from .._model.dynamics import Fields, retract, total_force, zero_forces
from .._model.failure_report import DERIVATIVE, raise_failure
from .._model.fault import given
from .._model.internal import Internal, has_memory, in_step
from .._model.lever import coordinate_size
from .._model.subsystem import has_axes_along, has_fixed_axes
from .._model.system import State, System, check_inputs
from .._model.terms import Factors, Terms
from .._runtime.argument_checks import check_flags, check_instance, plain, real_array
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._runtime.results import RESULTS, is_traced
from .._scene.parameter import is_concrete
from .equilibrium import AbstractEquilibrium, NewtonInfo, NewtonOptions
from .history import solved_by_steps
from .linear_problem import LinearProblem
from .multigrid_default import multigrid_solver
from .newton import linear_problem, newton_solve

_MOST_STEPS = {"newton": 50, "trust_region": 200, "dynamic_relaxation": 20_000}
_STIFFNESS = Factors(mass=0.0, damping=0.0, stiffness=1.0, rayleigh=0.0)


class StaticSolution(eqx.Module):
    """The equilibrium: `state` (without velocity), and `info` on how it was found.

    `info`: `result` (of `RESULTS`), `iterations`, `residuals` (load steps, iterations; -1 where there was none) [N], the
    last `residual` and its rounding `floor` [N], `linear_steps` of an iterative solver, `unconstrained_state` of a singular
    matrix. Raises nothing: a member of `RESULTS` says how it ended.

    Example:

        solution = jm.static_solve(system, state, linear_system)
        assert solution.result == jm.RESULTS.successful
        assert solution.state.position["cube"].shape == (8, 3)  # [m]
    """

    state: State
    info: NewtonInfo

    @property
    def position(self) -> dict[str, Array]:
        """The positions of the main states [m]."""
        return self.state.position

    @property
    def result(self) -> Any:
        """How it ended: a member of `RESULTS`, that of `info`."""
        return self.info.result


class StaticEquilibrium(AbstractEquilibrium):
    """`R(x) = f(x)`, less what a part of the load leaves off; the unknowns are positions."""

    system: System
    linear_system: AbstractLinearSystem
    time: Array
    missing: tuple[Fields, Fields] | None = None  # the residual and gap that this load leaves off
    internal: Internal = eqx.field(default_factory=dict)  # as the step before left them

    @property
    def factors(self) -> Factors:
        return _STIFFNESS

    def state(self, u: Fields) -> State:
        return State(u, zero_forces(self.system, u), self.time, self.internal)

    def residual(self, u: Fields) -> Fields:
        return self._loaded(total_force(self.system, self.state(u)), 0)

    def gap(self, u: Fields) -> Fields:
        return self._loaded(prescribed(self.system, u, self.time), 1)

    def _loaded(self, whole: Fields, which: int) -> Fields:
        if self.missing is None:
            return whole
        part = self.missing[which]
        return {s: a - part[s] for s, a in whole.items()}

    def constrained_gap(self, u: Fields, start: Fields) -> Fields:
        return constrained_gap(self.system, u, start)

    def move(self, u: Fields, d: Fields) -> Fields:
        return retract(self.system.dofs, u, d)

    def given(self, u: Fields) -> list[tuple[str, Array]]:
        return _given(self.system, self.state(u))

    def is_exact(self) -> bool:
        return has_fixed_axes(self.system) and self.linear_system.is_exact(self.system)

    def has_dead_torques(self) -> bool:
        # Of axes that go along too: a moment about an edge that something else balances. In time steps mass outweighs it.
        return super().has_dead_torques() or has_axes_along(self.system)

    def is_inertial(self) -> bool:
        return False

    def rounding(self, u: Fields) -> Fields:
        # Coordinates round in proportion to themselves; a quaternion's to one.
        return {
            s: jnp.ones((x.shape[0], self.system.dofs[s].deriv_size), x.dtype) * coordinate_size(self.system.dofs[s], x)
            for s, x in u.items()
        }

    def at_load(self, load: Array, start: tuple[Fields, Fields]) -> "StaticEquilibrium":
        missing = jax.tree.map(lambda a: (1 - load) * a, start)
        return replace(self, missing=missing)


def static_solve(
    system: System,
    state: State,
    linear_system: AbstractLinearSystem | None = None,
    solver: lx.AbstractLinearSolver | None = None,
    *,
    method: str = "newton",
    rtol: float | None = None,
    atol: float = 0.0,
    max_steps: int | None = None,
    load_steps: int = 1,
    line_search: str = "finite",
    dt: Any = None,
    throw: bool = True,
) -> StaticSolution:
    """The equilibrium reached from `state` by Newton's method, or another, at `state.time`.

    `linear_system`: made with `MatrixLinearSystem.build`, or a `MatrixFreeSystem`; built here if none is given (not
    under `jit`). `solver`: a lineax solver; unless given `default_solver`, or outside `jit`, from 60,000 unknowns of points
    of one state on, conjugate gradients with `SmoothedAggregation` (with pyamg; and a factor if they fail).
    Converged when the residual norm over the
    free directions is at most `rtol` times that of the first step's right-hand side, plus `atol` [N]; `rtol=None` takes
    the square root of the rounding unit, or the rounding floor of the residual where that is higher. Moments count as forces
    at the end of a lever as long as the scene.
    `method`: `"newton"`; `"trust_region"`, Newton's steps shortened by `(K + s D) d = f` until the work of the force out
    of balance is what the matrix foretells: to stable equilibria only, also from where the matrix is singular or indefinite
    (needs a matrix); `"dynamic_relaxation"`, the motion of a fictitious mass, stopped at every peak of its kinetic energy:
    no matrix, many cheap steps, stable equilibria only. `max_steps`: 50 iterations, 200 of the trust region, 20000 of
    relaxation unless given.
    `load_steps`: the out-of-balance force at the start, and the prescribed motion, are applied in equal parts.
    `line_search`: `"finite"` halves a step that inverts an element or is not finite; `"residual"` also one that does
    not reduce the residual (not for thin beams and shells, whose residual grows in good steps); `"none"`.
    Internal variables are what they were at `state` while a load step is iterated on, and change where it has converged.
    `dt` [s]: how long the load takes, for laws with a rate, an equal part for each load step; the solution is then at
    `state.time + dt`. None: no time passes.

    Differentiable in forward and reverse mode, to any order, by every leaf of `system`, by `state.time`, `state.internal`
    and `dt`, and by the positions at which constraints hold nodes; nothing depends on the rest of the start, but for load
    steps with internal variables, whose end depends on what lies between. Raises `FailedComputation`
    (under `jit`, JAX's run-time error) with the reason unless `throw=False`, which leaves it in `info.result`.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, chapters 4 and 11; M. R. Barnes, Int. J. Space
    Structures 14 (1999) 89, doi:10.1260/0266351991494722 (relaxation); M. Blondel et al., arXiv:2105.15183 (derivatives).

    Example:

        solution = jm.static_solve(system, state, linear_system)
        drop = state.position["cube"][1, 2] - solution.position["cube"][1, 2]
        assert jnp.allclose(drop, 0.01539, atol=1e-5)  # the free side sags under its weight [m]
    """
    check_inputs("static_solve", system, state)
    check_flags("static_solve", throw=throw)
    if dt is not None:
        dt = real_array("static_solve", "dt", dt, ())
        if is_concrete(dt) and not float(dt) >= 0:
            raise ValueError(f"static_solve: dt must not be negative, got {float(dt)}.")
        dt = jnp.asarray(dt, state.time.dtype)
    raises = throw and is_traced((system, state, dt))
    most, load_steps = plain(_MOST_STEPS.get(str(method), 1) if max_steps is None else max_steps), plain(load_steps)
    who = DERIVATIVE.format("static_solve") if raises else ""
    options = NewtonOptions(rtol, atol, most, load_steps, line_search, derivatives_of=who, method=method)
    if method != "newton" and line_search != "finite":
        raise ValueError(f"static_solve: line_search has no effect on method '{method}': leave it out.")
    if method != "newton" and system.multiplier_states:
        named = [*system.multiplier_constraints] or [*system.multiplier_states]
        raise ValueError(
            f"static_solve: method '{method}' goes downhill, and {named} have multipliers, which make an equilibrium a "
            "saddle; take method='newton'."
        )
    if solver is not None:
        check_instance("static_solve", "solver", solver, lx.AbstractLinearSolver)
    if linear_system is None:
        linear_system = MatrixLinearSystem.build(system, state, Terms(mass=False, damping=False))
    check_instance("static_solve", "linear_system", linear_system, AbstractLinearSystem)
    check_topology("the linear system given to static_solve", linear_system.built_for, system)
    if solver is None and method == "newton":
        solver = multigrid_solver(system, state, linear_system)
    solution = _solve(system, state, linear_system, solver, options, dt)
    if not throw:
        return solution
    given = partial(_given, system, state)
    at = partial(replace, state, time=solution.state.time)
    how = {"load_steps": load_steps, "method": method}
    return raise_failure(solution, solution.info, system, "static_solve", given, **how, held_at=at)


def _given(system: System, state: State) -> list[tuple[str, Array]]:
    """What an equilibrium depends on, and where its iterations start."""
    return given(system, replace(state, velocity={}))


@compiled
def _solve(
    system: System, state: State, linear_system: Any, solver: Any, options: NewtonOptions, dt: Array | None
) -> StaticSolution:
    time = state.time if dt is None else state.time + dt
    each = None if dt is None else dt / options.load_steps

    def equilibrium(start: State) -> StaticEquilibrium:
        scene = in_step(system, each)
        return StaticEquilibrium(scene, linear_system, time, internal=start.internal)

    def arrived(start: State, position: Fields, failed: Array) -> State:
        end = replace(start, position=position, velocity=zero_forces(system, position), time=time)
        return unless_failed(failed, start, accepted(system, start, end, each))

    if options.load_steps > 1 and has_memory(system):
        end, info = solved_by_steps(equilibrium, arrived, state, options, solver)
    else:
        position, info = newton_solve(equilibrium(state), state.position, options, solver)
        end = arrived(state, position, info.result != RESULTS.successful)
    position, internal = mark_failure((end.position, end.internal), info.result != RESULTS.successful)
    return StaticSolution(replace(end, position=position, internal=internal), info)


def static_problem(system: System, state: State, linear_system: AbstractLinearSystem | None = None) -> LinearProblem:
    """The linear system `A x = b` that one Newton iteration of `static_solve` solves at `state`, under the whole load.

    `A = P (K + G) P + I - P`, `b` the force out of balance and the prescribed motion still to go, `x` the displacement.
    At the start of a linear problem it is the whole problem; at a solution `A` is the tangent there and `b` what remains.
    `linear_system`: as in `static_solve`.
    `A` [N/m], `b` [N], `x` [m]. Raises what `static_solve` raises for its arguments.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapter 11.

    Example:

        problem = jm.solver.static_problem(system, state, linear_system)
        x = problem.solve(jm.solver.Dense())
        after = problem.advance(x)  # one iteration of Newton's method
        assert jnp.allclose(after.position["cube"], state.position["cube"] + x["cube"])
    """
    check_inputs("static_problem", system, state)
    if linear_system is None:
        linear_system = MatrixLinearSystem.build(system, state, Terms(mass=False, damping=False))
    check_instance("static_problem", "linear_system", linear_system, AbstractLinearSystem)
    check_topology("the linear system given to static_problem", linear_system.built_for, system)
    return _problem(system, state, linear_system)


@compiled
def _problem(system: System, state: State, linear_system: Any) -> LinearProblem:
    problem = StaticEquilibrium(system, linear_system, state.time, internal=state.internal)
    return linear_problem(problem, state.position)


@checked
def reactions(system: System, state: State) -> Fields:
    """The forces [N, N m] with which constraints hold the main states in equilibrium: `-(I - P) f`.

    `{state: (nodes, deriv_size)}`, nil in free directions. `f` is `total_force`; inertia has no part in it.
    Raises `ValueError` or `TypeError` for a state that is not one of the system's.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4.

    Example:

        solution = jm.static_solve(system, state, linear_system)
        constrained_gap = jm.reactions(system, solution.state)["cube"]
        assert jnp.allclose(constrained_gap.sum(0), jnp.array([0.0, 0.0, 10e3]), atol=0.1)  # the weight of a tonne [N]
    """
    return _reactions(system, total_force(system, state))  # which names what inverts, where values can be looked at


@compiled
def _reactions(system: System, f: Fields) -> Fields:
    free = project(system, f)
    return {s: free[s] - f[s] for s in f}
