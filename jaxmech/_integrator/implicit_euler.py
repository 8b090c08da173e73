"""Backward Euler: one linearised solve a step, or Newton to convergence."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._assembly.structure import knows_velocity
from .._linear_solver.base.derivative import derivative_solve
from .._linear_solver.default import default_solver
from .._linear_system.base import AbstractLinearSystem
from .._linear_system.compatibility import BuiltFor, check_topology
from .._model.accept import accepted
from .._model.arguments import checked
from .._model.constraint_projection import has_prescribed_motion, prescribed, project
from .._model.dynamics import (
    Fields,
    force_ahead,
    force_at,
    inertial_force,
    momentum,
    retract,
    total_force,
    weight_direction,
    zero_forces,
)
from .._model.failure_report import DERIVATIVE, raise_failure
from .._model.fault import given
from .._model.internal import in_step, with_internal
from .._model.subsystem import weightless, with_only
from .._model.system import State, System, check_inputs
from .._model.terms import Factors
from .._runtime.argument_checks import check_flags, check_instance, check_real
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._runtime.results import is_traced
from .._scene.parameter import as_array, is_concrete
from .._solve.equilibrium import NewtonOptions, StepInfo
from .._solve.linear_problem import LinearProblem
from .._solve.newton import linear_problem, newton_solve
from .base import AbstractIntegrator
from .linear_outcome import ended, outcome
from .step_equilibrium import StepEquilibrium
from .time_step import check_time_step


class ImplicitEuler(AbstractIntegrator):
    """`v1 = v0 + h M^-1 f(x1, v1)`, `x1 = x0 (+) h v1`: first order, stable, dissipative.

    `newton=False`: one linearised solve, as SOFA's EulerImplicitSolver does,
    `[(1 + h rM) M + h B + h (h + rK) K + h C] dv = h (f - (h + rK) K v - rM M v - C v)`. `newton=True`: iterations to
    convergence of `p(x1, v1) - p(x0, v0) = h (f(x1, v1) - C v1 + supply)`, with `p = dT/dv` the momentum, so that a free
    body keeps its angular momentum. `C`: the Rayleigh damping of components (`System.rayleigh`), taken at the start of
    the step, with `rayleigh_stiffness` `rK` [s] and `rayleigh_mass` `rM` [1/s] for all components besides.
    Constraints with multipliers hold at the end of a step, `g(x1) = C lambda1`: to first order in `h v1` when linearised.

    `linear_system`: built with the default `Terms()`. `solver`: `default_solver` of a time step unless given, or of any
    matrix where motion changes none of it. `rtol`, `atol`, `max_steps`, `line_search`: as in `static_solve`, for
    `newton=True`.
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: D. Baraff and A. Witkin, SIGGRAPH 1998, doi:10.1145/280814.280821.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        v = run.last.velocity["cube"][1, 2]
        assert jnp.allclose(run.last.time, 0.04) and -0.4 < v < -0.2  # no faster than in free fall [m/s]
    """

    linear_system: AbstractLinearSystem
    solver: lx.AbstractLinearSolver | None = None
    newton: bool = eqx.field(static=True, default=False, kw_only=True)
    rayleigh_stiffness: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    rayleigh_mass: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    rtol: float | None = eqx.field(static=True, default=None, kw_only=True)
    atol: float = eqx.field(static=True, default=0.0, kw_only=True)
    max_steps: int = eqx.field(static=True, default=30, kw_only=True)
    line_search: str = eqx.field(static=True, default="finite", kw_only=True)

    def __check_init__(self):
        check_instance("ImplicitEuler", "linear_system", self.linear_system, AbstractLinearSystem)
        if self.solver is not None:
            check_instance("ImplicitEuler", "solver", self.solver, lx.AbstractLinearSolver)
        check_flags("ImplicitEuler", newton=self.newton)
        terms = self.linear_system.terms
        if not (terms.mass and terms.damping and terms.stiffness):
            raise ValueError(f"ImplicitEuler needs a linear system with mass, damping and stiffness, got {terms}.")
        for name in ("rayleigh_stiffness", "rayleigh_mass"):
            value = getattr(self, name)
            check_real("ImplicitEuler", name, value)
            if value.ndim != 0 or (is_concrete(value) and float(value) < 0):
                raise ValueError(f"ImplicitEuler: {name} must be a number of at least 0, got {value}.")
        self._options()

    def _options(self, derivatives_of: str = "") -> NewtonOptions:
        return NewtonOptions(self.rtol, self.atol, self.max_steps, 1, self.line_search, derivatives_of=derivatives_of)

    @property
    def built_for(self) -> BuiltFor | None:
        return self.linear_system.built_for

    @checked
    def init(self, system: System, state: State) -> Any:
        """What its linear system keeps from step to step (`AbstractLinearSystem.init`)."""
        return self.linear_system.init(system, state)

    def revalued(self, system: System, state: State, carry: Any) -> Any:
        return None if carry is None else self.linear_system.revalued(system, state, carry)

    def step(
        self, system: System, state: State, carry: Any, dt: Any = None, *, throw: bool = True
    ) -> tuple[State, Any, StepInfo]:
        """The state after `dt` [s], the carry of the next step, and what happened.

        `carry`: of `init` or the step before; None for a step by itself, which keeps nothing. Differentiable in both modes
        by every leaf of `system`, by `state`, `dt` and Rayleigh coefficients. Raises `FailedComputation` (under `jit`, JAX's
        run-time error) unless `throw=False`.
        """
        check_inputs("ImplicitEuler", system, state)
        check_flags("ImplicitEuler", throw=throw)
        check_topology("the linear system of ImplicitEuler", self.built_for, system)
        check_time_step(dt, carried_by="ImplicitEuler")
        h = jnp.asarray(dt, state.time.dtype)
        raises = throw and is_traced((self, system, state, h))
        result = self.advanced(system, state, carry, h, DERIVATIVE.format("ImplicitEuler") if raises else "")
        if not throw:
            return result
        return raise_failure(result, result[2], system, "ImplicitEuler", partial(given, system, state, h), moves=True)

    def advanced(
        self, system: System, state: State, carry: Any, h: Array, derivatives_of: str = ""
    ) -> tuple[State, Any, StepInfo]:
        ready = self  # what is handed on as it came is known as such outside of the compiled step
        if carry is not None:
            if self.linear_system.has_updates:
                carry = self.linear_system.updated(system, state, carry, _all_factors(self, h))
            ready = eqx.tree_at(lambda i: i.linear_system, self, self.linear_system.using(carry))
        end, info = (_newton_step if self.newton else _linear_step)(ready, system, state, h, derivatives_of)
        return end, carry, info

    def problem(self, system: System, state: State, dt: Any) -> LinearProblem:
        """The linear system `A x = b` that `step` solves from here, `x` a change of velocity; its `advance(x)` is the step.

        With `newton=True`, that of the first iteration.
        """
        check_inputs("ImplicitEuler", system, state)
        check_topology("the linear system of ImplicitEuler", self.built_for, system)
        check_time_step(dt)
        return _problem(self, system, state, jnp.asarray(dt, state.time.dtype))


def _all_factors(integrator: ImplicitEuler, h: Array) -> Factors:
    """Those of the matrix of one step, Rayleigh damping included."""
    return Factors(
        mass=1 + h * integrator.rayleigh_mass,
        damping=h,
        stiffness=h * (h + integrator.rayleigh_stiffness),
        rayleigh=h,
        multipliers=h * h,  # what is damped may give, equations may not
    )


def _damping_product(system: System, state: State) -> Fields:
    """`B v`, and no work where no force knows a velocity."""
    zero = zero_forces(system, state.position)
    part = with_only(system, forces=[name for name in system.force_fields if knows_velocity(system, name)])
    if not part.forces:
        return zero
    rate = jax.jvp(lambda v: force_at(part, state, zero, v), (state.velocity,), (state.velocity,))[1]
    return {s: -rate[s] for s in rate}


def _start(system: System, state: State, h: Array) -> Fields:
    """The velocity that a step sets out with: what the constraints leave of it, and what they prescribe."""
    start = project(system, state.velocity)
    if not has_prescribed_motion(system):
        return start
    return {s: start[s] + u / h for s, u in prescribed(system, state.position, state.time + h).items()}


def _acting(system: System) -> System:
    """The scene whose forces a step asks for: without weights if these are `M g`, which goes with `M v`; they are where no
    mass is on a mapped state."""
    plain = all(s.state in system.main_states for mass in system.masses.values() for s in mass.on)
    return weightless(system) if plain else system


def _falling(system: System, state: State, h: Array) -> Fields:
    """`v + h g`, or `v` where the forces have the weights."""
    if _acting(system) is system:
        return state.velocity
    return {s: state.velocity[s] + h * g for s, g in weight_direction(system, state.position).items()}


def _supplied(system: System, state: State, h: Array, force: Fields, momentum: Callable[[Fields], Fields]) -> Fields:
    """`M v + h (f + B v)`, which `A v1` shall equal, from the force of `_acting`."""
    inertial, drag = inertial_force(system, state), _damping_product(system, state)
    kept = momentum(_falling(system, state, h))
    return {s: kept[s] + h * (force[s] + inertial[s] + drag[s]) for s in kept}


def _linear_problem(integrator: ImplicitEuler, system: System, state: State, h: Array) -> LinearProblem:
    system = in_step(system, h)
    linear_system, weights = integrator.linear_system, _acting(system) is system
    A, force = linear_system.linearized(system, state, _all_factors(integrator, h), weights=weights)
    supplied = _supplied(system, state, h, force, partial(linear_system.momentum, system, state))
    start = _start(system, state, h)
    already = A.mv(start)
    b = project(system, {s: supplied[s] - already[s] for s in start})
    return LinearProblem(integrator.linear_system.constrain(system, A), b, eqx.Partial(_moved, system, state, h, start))


@jax.checkpoint
def _imbalance(integrator: ImplicitEuler, system: System, state: State, h: Array, dv: Fields) -> Fields:
    """`b - A dv` of the same linear problem, in a form that is cheap to differentiate, and kept by no one."""
    system = in_step(system, h)
    start, free = _start(system, state, h), project(system, dv)
    end = {s: start[s] + free[s] for s in start}
    undamped = not (system.rayleigh or (system.multiplier_constraints and _has_rayleigh(integrator, system)))
    if integrator.linear_system.is_rate_of_force(system) and undamped:
        left = _left_at_once(integrator, system, state, h, end)
    else:
        product = integrator.linear_system.as_products(system, state, _all_factors(integrator, h)).mv(end)
        force = total_force(_acting(system), state)
        supplied = _supplied(system, state, h, force, partial(momentum, system, state.position))
        left = {s: supplied[s] - product[s] for s in start}
    rest = project(system, left)
    return {s: rest[s] + free[s] - dv[s] for s in rest}


def _left_at_once(integrator: ImplicitEuler, system: System, state: State, h: Array, end: Fields) -> Fields:
    """`M v + h (f + B v) - A v1` in one pass over the elements, where `K` and `B` are the derivatives of the force.

    `M (v + h g - (1 + h rM) v1) + h (f + (h + rK) df/dx v1 + df/dv (v1 - v))`
    """
    v, inertial = state.velocity, inertial_force(system, state)
    d = {s: (h + integrator.rayleigh_stiffness) * u for s, u in end.items()}
    force = force_ahead(_acting(system), state, d, {s: end[s] - v[s] for s in v})
    falling, m = _falling(system, state, h), _all_factors(integrator, h).mass
    kept = momentum(system, state.position, {s: falling[s] - m * end[s] for s in v})
    return {s: kept[s] + h * (force[s] + inertial[s]) for s in v}


@eqx.filter_custom_jvp
def _solved(
    inputs: tuple[ImplicitEuler, System, State, Array], A: Any, b: Fields, solver: Any, derivatives_of: str
) -> tuple[Fields, lx.Solution]:
    """`A^-1 b`, `A` and `b` those of `inputs`, and what the solver says."""
    del inputs, derivatives_of
    solution = lx.linear_solve(A, b, solver, throw=False)
    return solution.value, lx.Solution(None, solution.result, solution.stats, None)


@_solved.def_jvp
def _solved_jvp(primals, tangents):
    # A and b move with the inputs: d(dv) = A^-1 d(b - A dv). Products differentiate far faster than the matrix.
    inputs, A, b, solver, derivatives_of = primals
    dv, said = _solved(*primals)
    # Where a failed solve left no number: nil times such a rate shall be nil for whoever does not ask for this member.
    at = {s: jnp.where(jnp.isfinite(a), a, 0) for s, a in dv.items()}
    rate = eqx.filter_jvp(lambda inputs: _imbalance(*inputs, at), (inputs,), (tangents[0],))[1]
    rate = {s: jnp.zeros_like(a) if rate[s] is None else rate[s] for s, a in dv.items()}
    moved = derivative_solve(A, rate, solver, derivatives_of)
    return (dv, said), (moved, jax.tree.map(lambda _: None, said))


def _moved(system: System, state: State, h: Array, start: Fields, dv: Fields) -> State:
    velocity = {s: start[s] + dv[s] for s in start}
    position = retract(system.dofs, state.position, {s: h * velocity[s] for s in start})
    end = dataclasses.replace(state, position=position, velocity=velocity, time=state.time + h)
    return accepted(system, state, end, h)


@compiled
def _problem(integrator: ImplicitEuler, system: System, state: State, h: Array) -> LinearProblem:
    if not integrator.newton:
        return _linear_problem(integrator, system, state, h)
    return linear_problem(_equilibrium(integrator, system, state, h), project(system, state.velocity))


@compiled
def _linear_step(
    integrator: ImplicitEuler, system: System, state: State, h: Array, derivatives_of: str
) -> tuple[State, StepInfo]:
    problem = _linear_problem(integrator, system, state, h)
    solver, constant = integrator.solver, integrator.linear_system.is_constant()
    solver = default_solver(problem.A, inertial=not constant) if solver is None else solver
    dv, said = _solved((integrator, system, state, h), problem.A, problem.b, solver, derivatives_of)
    end = problem.advance(dv)
    return ended(outcome(said, with_internal(system, state), state, h, problem.b, end), state, end)


def _has_rayleigh(integrator: ImplicitEuler, system: System) -> bool:
    given = (integrator.rayleigh_stiffness, integrator.rayleigh_mass)
    return bool(system.rayleigh) or not all(is_concrete(c) and float(c) == 0 for c in given)


def _equilibrium(integrator: ImplicitEuler, system: System, state: State, h: Array) -> StepEquilibrium:
    C, system = None, in_step(system, h)
    if _has_rayleigh(integrator, system):
        factors = Factors(integrator.rayleigh_mass, 0.0, integrator.rayleigh_stiffness, 1.0, multipliers=0.0)
        C = integrator.linear_system.unconstrained(system, state, factors)
    return StepEquilibrium(system, integrator.linear_system, state, h, C)


@compiled
def _newton_step(
    integrator: ImplicitEuler, system: System, state: State, h: Array, derivatives_of: str
) -> tuple[State, StepInfo]:
    problem = _equilibrium(integrator, system, state, h)
    start = project(system, state.velocity)
    velocity, found = newton_solve(problem, start, integrator._options(derivatives_of), integrator.solver)
    return ended(StepInfo.of_newton(found), state, accepted(system, state, problem.state(velocity), h))
