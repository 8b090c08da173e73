"""Backward Euler: one linearised solve a step, or Newton to convergence."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax

from ..._assembly.structure import knows_velocity
from ..._linear_solver.default import default_solver
from ..._math.indexing import asked_once
from ..._model.accept import accepted
from ..._model.constraint_projection import has_prescribed_motion, prescribed, project
from ..._model.dynamics import Fields, force_at, momentum, total_force, weight_direction, zero_forces
from ..._model.force_ahead import force_ahead, forces_ahead
from ..._model.inertia import inertial_force, varying_masses
from ..._model.internal import in_step
from ..._model.multiplier_rows import relaxed
from ..._model.subsystem import has_direct_masses, weightless, with_only
from ..._model.system import State, System
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled, joined
from ..._solve.equilibrium import StepInfo
from ..._solve.linear_outcome import ended, outcome
from ..._solve.linear_problem import LinearProblem
from ..displaced import displaced
from .euler_stage import EulerStage
from .implicit_scheme import AbstractImplicitScheme, Record, Solve
from .linear_step import AbstractLinearStep, solved
from .stage import Setting


class ImplicitEuler(AbstractImplicitScheme):
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

    remembers = False
    settles = False  # multipliers are those of the step, and each step forgets the one before
    order = 1

    def stage(self, setting: Setting, memory: Any) -> EulerStage:
        del memory
        C = None
        if setting.rayleigh.acts_on(setting.system):
            C = self.linear_system.unconstrained(setting.system, setting.start, setting.rayleigh.factors())
        return EulerStage(setting, C, project(setting.system, setting.start.velocity))

    def factors(self, system: System, state: State, memory: Any, h: Array) -> Factors:
        return _all_factors(self, h)

    def advance(
        self, system: System, state: State, memory: Any, h: Array, derivatives_of: str
    ) -> tuple[State, Any, StepInfo]:
        if self.newton:
            return super().advance(system, state, memory, h, derivatives_of)
        end, info = _linear_step(self, system, state, h, derivatives_of)
        return end, None, info

    def recorded_move(self, setting: Setting, memory: Any, solve: Solve) -> tuple[State, Any, StepInfo, Record]:
        if self.newton:
            return super().recorded_move(setting, memory, solve)
        end, info = _linear_step(self, setting.system, setting.start, setting.h, "")
        return end, None, info, [(self.stage(setting, memory), dict(end.velocity))]

    def first_problem(self, system: System, state: State, memory: Any, h: Array) -> LinearProblem:
        return super().first_problem(system, state, memory, h) if self.newton else _problem(self, system, state, h)


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
    part = with_only(system, forces=[name for name in system.force_fields if knows_velocity(system, name)])
    if not part.forces:
        return zero_forces(system, state.position)
    rate = jax.jvp(lambda v: force_at(part, state, None, v), (state.velocity,), (state.velocity,))[1]
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
    return weightless(system) if has_direct_masses(system) else system


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


def _equations(system: System, state: State, h: Array) -> tuple[System, State]:
    """The scene as the step has it, and the state at the time at which its constraints shall hold."""
    scene = relaxed(in_step(system, h), state, h)
    if not any(c.follows_time for c in system.multiplier_constraints.values()):
        return scene, state
    return scene, eqx.tree_at(lambda s: s.time, state, state.time + h)


def _linear_problem(integrator: ImplicitEuler, system: System, state: State, h: Array) -> LinearProblem:
    system, ahead = _equations(system, state, h)
    linear_system, weights = integrator.linear_system, _acting(system) is system
    with joined():
        A, force = linear_system.linearized(system, ahead, _all_factors(integrator, h), weights=weights)
    supplied = _supplied(system, state, h, force, partial(linear_system.momentum, system, state))
    start = _start(system, state, h)
    already = A.mv(start)
    b = project(system, {s: supplied[s] - already[s] for s in start})
    return LinearProblem(integrator.linear_system.constrain(system, A), b, eqx.Partial(_moved, system, state, h, start))


@partial(jax.checkpoint, prevent_cse=False)
def _imbalance(integrator: ImplicitEuler, system: System, state: State, h: Array, dv: Fields) -> Fields:
    """`b - A dv` of the same linear problem, in a form that is cheap to differentiate, and kept by no one."""
    system, ahead = _equations(system, state, h)
    start, free = _start(system, state, h), project(system, dv)
    end = {s: start[s] + free[s] for s in start}
    undamped = not (system.rayleigh or (system.multiplier_constraints and _has_rayleigh(integrator, system)))
    if integrator.linear_system.is_rate_of_force(system) and undamped:
        left = _left_at_once(integrator, system, ahead, h, end)
    else:
        product = integrator.linear_system.as_products(system, ahead, _all_factors(integrator, h)).mv(end)
        force = total_force(_acting(system), ahead)
        supplied = _supplied(system, state, h, force, partial(momentum, system, state.position))
        left = {s: supplied[s] - product[s] for s in start}
    rest = project(system, left)
    return {s: rest[s] + free[s] - dv[s] for s in rest}


def _left_at_once(integrator: ImplicitEuler, system: System, state: State, h: Array, end: Fields) -> Fields:
    """`M v + h (f + B v) - A v1` in one pass over the elements, where `K` and `B` are the derivatives of the force.

    `M (v + h g - (1 + h rM) v1) + h (f + (h + rK) df/dx v1 + df/dv (v1 - v))`
    """
    v, falling, m = state.velocity, _falling(system, state, h), _all_factors(integrator, h).mass
    d, faster = {s: (h + integrator.rayleigh_stiffness) * u for s, u in end.items()}, {s: end[s] - v[s] for s in v}
    if varying_masses(system, state) or not has_direct_masses(system):  # inertia goes through the mappings with the forces
        a = {s: (m * end[s] - falling[s]) / h for s in v}
        return {s: h * f for s, f in forces_ahead(_acting(system), state, d, faster, a)[1].items()}
    force = force_ahead(_acting(system), state, d, faster)
    kept = momentum(system, state.position, {s: falling[s] - m * end[s] for s in v})
    return {s: kept[s] + h * force[s] for s in v}


def _has_rayleigh(integrator: ImplicitEuler, system: System) -> bool:
    return integrator.rayleigh.acts_on(system)


class EulerStep(AbstractLinearStep):
    """What the linear problem is made of."""

    integrator: ImplicitEuler
    system: System
    state: State
    h: Array

    def imbalance(self, x: Fields) -> Fields:
        return _imbalance(self.integrator, self.system, self.state, self.h, x)

    def problem(self) -> LinearProblem:
        """`A x = b`, assembled."""
        return _problem(self.integrator, self.system, self.state, self.h)

    def end(self, x: Fields) -> State:
        """Where a solution leads."""
        return _ended(self.system, self.state, self.h, x)


def _moved(system: System, state: State, h: Array, start: Fields, dv: Fields) -> State:
    velocity = {s: start[s] + dv[s] for s in start}
    return accepted(system, state, displaced(system, state, {s: h * velocity[s] for s in start}, velocity, h), h)


@compiled
def _problem(integrator: ImplicitEuler, system: System, state: State, h: Array) -> LinearProblem:
    return _linear_problem(integrator, system, state, h)


@compiled
def _ended(system: System, state: State, h: Array, dv: Fields) -> State:
    system, _ = _equations(system, state, h)
    return _moved(system, state, h, _start(system, state, h), dv)


@compiled
def _linear_step(
    integrator: ImplicitEuler, system: System, state: State, h: Array, derivatives_of: str
) -> tuple[State, StepInfo]:
    with asked_once((system, integrator)) as asked:
        problem = _linear_problem(integrator, system, state, h)
        solver, constant = integrator.solver, integrator.linear_system.is_constant()
        solver = default_solver(problem.A, inertial=not constant) if solver is None else solver
        dv, said = solved(EulerStep(integrator, system, state, h), problem.A, problem.b, solver, derivatives_of)
        dv, right = asked.marked(dv)  # one array, of which the others are made
        end = problem.advance(dv)
        info = outcome(said, system, state, h, problem.b, end, right)
    return ended(info, state, end, h, asked)
