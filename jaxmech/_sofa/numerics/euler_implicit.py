"""SOFA's EulerImplicitSolver, its options among them: one linearised step."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._assembly.structure import knows_velocity
from ..._integrator.base import AbstractIntegrator
from ..._integrator.displaced import displaced
from ..._integrator.scene_support import check_takes
from ..._integrator.time_step import check_time_step
from ..._linear_system.base import AbstractLinearSystem
from ..._linear_system.compatibility import BuiltFor
from ..._model.accept import accepted
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, force_at, zero_forces
from ..._model.failure_report import raise_failure
from ..._model.fault import given
from ..._model.internal import in_step
from ..._model.subsystem import with_only
from ..._model.system import State, System, check_inputs
from ..._model.terms import Factors
from ..._runtime.argument_checks import check_flags
from ..._runtime.array_types import Array
from ..._runtime.precision import compiled
from ..._scene.parameter import as_array
from ..._solve.linear_outcome import ended, outcome
from ..._solve.linear_problem import LinearProblem
from .attached import Attached, joined
from .node_turns import NodeTurns
from .placed import placed
from .unconverged_solvers import AbstractStepSolver, Past


class EulerCarry(NamedTuple):
    """What a step hands to the next: what its linear solver knows of it, and what its linear system keeps."""

    past: Past
    kept: Any


class SofaEuler(AbstractIntegrator):
    """`[(1 + t h rM) M + t h B + t h (t h + rK) K] dv = h (f - (t h + rK) K v - rM M v)`, `x += h (v + dv)`.

    `t` is 1, or 1/2 if `trapezoidal`, which does not make it of second order. `first_order`: `(M + t h K) v = f` and
    `x += h v`. `velocity_damping` `d` [1/s]: `v *= exp(-h d)` after `x` has moved; nodes slower than
    `threshold` [m/s] then stop. The Rayleigh damping of components is in the matrix alone. `solver` may stop where it
    pleases, as SOFA's do. `attached`: nodes that follow others when the step is over.
    Source: D. Baraff and A. Witkin, SIGGRAPH 1998, doi:10.1145/280814.280821; the options are in SOFA's documentation.
    """

    linear_system: AbstractLinearSystem
    solver: AbstractStepSolver
    rayleigh_stiffness: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    rayleigh_mass: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    velocity_damping: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    threshold: float | None = eqx.field(static=True, default=None, kw_only=True)
    trapezoidal: bool = eqx.field(static=True, default=False, kw_only=True)
    first_order: bool = eqx.field(static=True, default=False, kw_only=True)
    attached: tuple[Attached, ...] = eqx.field(default=(), kw_only=True)
    turns: NodeTurns | None = eqx.field(default=None, kw_only=True)  # of the nodes, where the solver asks for them

    @property
    def built_for(self) -> BuiltFor | None:
        return self.linear_system.built_for

    def init(self, system: System, state: State) -> EulerCarry:
        return _init(self, system, state)

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        check_inputs("SofaEuler", system, state)
        check_flags("SofaEuler", throw=throw)
        check_takes("SofaEuler", system)
        check_time_step(dt)
        h = jnp.asarray(dt, state.time.dtype)
        end, carry, info = _step(self, system, state, self.init(system, state) if carry is None else carry, h)
        if not throw:
            return end, carry, info
        return raise_failure((end, carry, info), info, system, "SofaEuler", partial(given, system, state, h), moves=True)

    def problem(self, system: System, state: State, dt: Any) -> LinearProblem:
        """`A dv = b` of the step from `state`."""
        check_inputs("SofaEuler.problem", system, state)
        return _problem(self, system, state, jnp.asarray(dt, state.time.dtype))

    def factors(self, h: Array) -> Factors:
        """Those of the matrix."""
        t = 0.5 if self.trapezoidal else 1.0
        if self.first_order:
            return Factors(mass=1.0, damping=0.0, stiffness=t * h, rayleigh=0.0)
        stiffness = t * h * (t * h + self.rayleigh_stiffness)
        return Factors(mass=1 + t * h * self.rayleigh_mass, damping=t * h, stiffness=stiffness, rayleigh=t * h)


@compiled
def _init(scheme: SofaEuler, system: System, state: State) -> EulerCarry:
    kept = scheme.linear_system.init(system, state)
    matrix = None
    if scheme.solver.keeps:
        matrix = scheme.solver.first_kept(scheme.linear_system.using(kept).assemble(system, state, Factors()))
    return EulerCarry(Past(jnp.ones((), bool), zero_forces(system, state.position), matrix), kept)


def _linear_problem(scheme: SofaEuler, system: System, state: State, kept: Any, h: Array) -> LinearProblem:
    """`b` from the one product `A v`, which is `(1 + t h rM) M v + ... + t h (t h + rK) K v`: what of it is not in `b` is
    added again."""
    scene = in_step(system, h)
    linear_system, v = scheme.linear_system.using(kept), state.velocity
    A, f = linear_system.linearized(scene, state, scheme.factors(h))
    if scheme.first_order:
        b = f
    else:
        t = 0.5 if scheme.trapezoidal else 1.0
        there = linear_system.momentum(scene, state, v)
        there = {s: a + t * h * f[s] for s, a in there.items()}
        for more in _damping_products(linear_system, scene, state):
            there = {s: a + t * h * more[s] for s, a in there.items()}
        already = A.mv(v)
        b = {s: (a - already[s]) / t for s, a in there.items()}
    return LinearProblem(linear_system.constrain(scene, A), project(scene, b), eqx.Partial(_moved, scheme, system, state, h))


def _damping_products(linear_system: AbstractLinearSystem, system: System, state: State) -> list[Fields]:
    """`B v` and `C v`, as far as the matrix has them."""
    products = []
    part = with_only(system, forces=[name for name in system.force_fields if knows_velocity(system, name)])
    if part.forces and linear_system.terms.damping:
        rate = jax.jvp(lambda v: force_at(part, state, None, v), (state.velocity,), (state.velocity,))[1]
        products.append({s: -a for s, a in rate.items()})
    if system.rayleigh and linear_system.terms.has_rayleigh:
        only = Factors(mass=0.0, damping=0.0, stiffness=0.0, rayleigh=1.0)
        products.append(linear_system.unconstrained(system, state, only).mv(state.velocity))
    return products


def _moved(scheme: SofaEuler, system: System, state: State, h: Array, dv: Fields) -> State:
    v = dv if scheme.first_order else {s: state.velocity[s] + a for s, a in dv.items()}
    d = {s: h * a for s, a in v.items()}
    v = {s: a * jnp.exp(-h * scheme.velocity_damping) for s, a in v.items()}
    if scheme.threshold is not None:
        slow = {s: jnp.sum(a * a, axis=-1, keepdims=True) < scheme.threshold**2 for s, a in v.items()}
        v = {s: jnp.where(slow[s], 0.0, a) for s, a in v.items()}
    end = joined(scheme.attached, placed(system, state, displaced(system, state, d, v, h)))
    return accepted(system, state, end, h)


@compiled
def _problem(scheme: SofaEuler, system: System, state: State, h: Array) -> LinearProblem:
    return _linear_problem(scheme, system, state, None, h)


@compiled
def _step(scheme: SofaEuler, system: System, state: State, carry: EulerCarry, h: Array) -> tuple[State, Any, Any]:
    kept = scheme.linear_system.updated(system, state, carry.kept, scheme.factors(h))
    problem = _linear_problem(scheme, system, state, kept, h)
    turns = None if scheme.turns is None else scheme.turns(system, state)
    found = scheme.solver.solve(problem.A, problem.b, carry.past._replace(turns=turns))
    end = problem.advance(found.x)
    end, info = ended(outcome(found.said, system, state, h, problem.b, end), state, end, h)
    past = Past(jnp.zeros((), bool), found.x, found.kept)
    return end, EulerCarry(past, kept), info
