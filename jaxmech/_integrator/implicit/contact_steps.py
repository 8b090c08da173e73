"""The kinds of steps with contact: linearised, with something else in the place of `A^-1`, and fully implicit."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._contact.cone import scaling
from ..._contact.contact_set import ContactSet
from ..._contact.eliminated import factor_solver
from ..._contact.problem import cone_of
from ..._contact.schur import Compliance, free_and_compliance
from ..._contact.solve import cone_solution
from ..._contact.solve import outcome as contact_outcome
from ..._contact.sparse_rows import SparseRows
from ..._linear_solver.base.vectors import choose, norm
from ..._linear_solver.default import default_solver
from ..._linear_solver.dense.elimination import inverse_by_elimination
from ..._model.accept import accepted
from ..._model.constraint_projection import has_prescribed_motion, project
from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..._runtime.loops import while_loop
from ..._runtime.results import RESULTS
from ..._solve.linear_outcome import ended, outcome
from .contact_equations import (
    AbstractContactEquations,
    ContactNumbers,
    Solved,
    implicit_rates,
    told,
)
from .contact_motion import (
    AbstractLinearContact,
    LinearLaw,
    contact_problem,
    sizes,
    solved_with_contacts,
)
from .euler_stage import EulerStage
from .implicit_euler import ImplicitEuler, _imbalance, _linear_problem, _start, in_step

_AT_REST = 1e-3  # of positions over the time step
_ROUNDING = 16  # roundings of positions that a step of Newton may be made of


class LinearContact(AbstractLinearContact):
    """A linearised step: `x` is the change of velocity, gaps and slips are linear from the start."""

    motion: ImplicitEuler
    system: System
    start: State
    h: Array
    contacts: ContactSet
    bounces: Array

    def imbalance(self, x: Fields) -> Fields:
        return _imbalance(self.motion, self.system, self.start, self.h, x)

    def place(self, x: Fields) -> Fields:
        return self.start.position

    @property
    def begun(self) -> Fields:
        return _start(in_step(self.system, self.h), self.start, self.h)

    def advanced(self, x: Fields, begun: Array) -> Array:
        before = self.begun
        return self.rates(self.start.position, {s: before[s] + x[s] for s in x})[1]


class ImplicitContact(AbstractContactEquations):
    """A fully implicit step: `x` is the velocity, gaps, slips and forces are those of its end."""

    stage: EulerStage
    system: System
    start: State
    h: Array
    contacts: ContactSet
    bounces: Array

    def imbalance(self, x: Fields) -> Fields:
        return project(self.system, self.stage.residual(x))

    def place(self, x: Fields) -> Fields:
        return self.stage.state(x).position

    def advanced(self, x: Fields, begun: Array) -> Array:
        return self.mean(self.contacts.coordinates(self.system, self.start.position, self.place(x)), begun)

    def mean(self, at: Array, begun: Array) -> Array:
        """The rates at which coordinates came to be these."""
        return (at - begun) / self.h


def _nowhere(contacts: ContactSet) -> Array:
    return jnp.zeros(contacts.held.shape, bool)


def _solver(scheme: Any, A: Any) -> Any:
    return default_solver(A) if scheme.motion.solver is None else scheme.motion.solver


def linear_step(scheme: Any, system: System, state: State, contacts: ContactSet, warm: Array, h: Array, who: str) -> Any:
    """The step, its `StepInfo`, what is told of its contacts, and how these ended."""
    problem = _linear_problem(scheme.motion, system, state, h)
    equations = LinearContact(scheme.motion, system, state, h, contacts, _nowhere(contacts))
    found = solved_with_contacts(equations, problem.A, problem.b, scheme.motion.solver, scheme.numbers, warm, who)
    return _ended(scheme, equations, found, problem.advance(found.x), problem.b)


def _ended(scheme: Any, equations: AbstractContactEquations, found: Solved, end: State, b: Fields) -> Any:
    system, state, h = equations.system, equations.start, equations.h
    end, info = ended(outcome(found.said, system, state, h, b, end), state, end, h)
    return end, info, *told(equations, found, scheme.numbers)


def approximate_step(
    scheme: Any, system: System, state: State, contacts: ContactSet, warm: Array, h: Array, who: str
) -> Any:
    """The same with diagonal blocks, or the matrix of another state, in the place of `A^-1` for the impulses."""
    problem = _linear_problem(scheme.motion, system, state, h)
    solver = _solver(scheme, problem.A)
    equations = LinearContact(scheme.motion, system, state, h, contacts, _nowhere(contacts))
    solution = lx.linear_solve(problem.A, problem.b, solver, throw=False)
    free = solution.value
    law = LinearLaw.of(equations)
    equations = equations.impacting(law.impacts(equations, free))
    H = law.rows.dense(free, equations.mu.shape[0])
    V = _applied(scheme, problem.A, H)
    rows = Compliance.of(H, {s: project_rows(system, V)[s] for s in V})
    start = cone_of(equations.mu, warm)
    numbers = scheme.numbers
    contact = contact_problem(equations, law.velocities(equations, free), rows)
    s, size, steps, fine = cone_solution(contact, numbers.kappa, numbers.kappa_grad, start, numbers.options)
    more = rows.moved(scaling(equations.mu) * s)
    x = {k: free[k] + more[k] for k in free}
    said = lx.Solution(None, solution.result, solution.stats, None)
    how = *sizes(contact), said, size, steps, contact_outcome(contact, s, fine)
    done = Solved(x, s, law.gap, law.velocities(equations, x, s), equations.bounces, rows, *how)
    return _ended(scheme, equations, done, problem.advance(x), problem.b)


def project_rows(system: System, rows: Fields) -> Fields:
    """Every row projected."""
    return jax.vmap(lambda v: project(system, v))(rows)


def _applied(scheme: Any, A: Any, H: Fields) -> Fields:
    """What stands for `A^-1`, times every row."""
    if scheme.precomputed is not None:
        flat = jnp.concatenate([H[s].reshape(H[s].shape[0], -1) for s in sorted(H)], axis=1) @ scheme.precomputed.T
        result, first = {}, 0
        for s in sorted(H):
            size = H[s][0].size
            result[s] = flat[:, first : first + size].reshape(H[s].shape)
            first += size
        return result
    inverse = {s: inverse_by_elimination(blocks) for s, blocks in A.diagonal.items()}
    return {s: jnp.einsum("nij,rnj->rni", inverse[s], rows) for s, rows in H.items()}


class _Iterate(NamedTuple):
    u: Fields
    s: Array
    bounces: Array
    change: Array  # of the velocities, by the last step, and what of it may be rounding
    rounded: Array
    steps: Array
    contact_steps: Array
    fine: Array
    going: Array


@eqx.filter_custom_jvp
def _implicit(equations: ImplicitContact, solver: Any, numbers: ContactNumbers, start: Array, most: int, who: str) -> Solved:
    """Contact and deformation together: linearised steps with contact until nothing changes."""
    del who
    stage, system = equations.stage, equations.system
    begun, arriving = equations.at_start()
    gap, held, lever = begun[:, 0], equations.contacts.held[:, None], stage.lever(stage.predicted)

    def linearised(u: Fields) -> tuple[Fields, Compliance, Any, Array]:
        A = stage.linear_system.constrain(system, stage.operator(u))
        inner = factor_solver(A, solver)
        state = inner.init(A, {})
        place, start = equations.place(u), equations.start.position
        H, at = SparseRows.of(equations.contacts, system, start, place)
        n, imbalance = equations.mu.shape[0], equations.imbalance(u)
        d, said, rows = free_and_compliance(state, inner, H.projected(system, place), imbalance, n)
        return d, rows, said, equations.mean(at, begun)

    def advance(p: _Iterate) -> _Iterate:
        d, rows, _, mean = linearised(p.u)
        free, more = {k: p.u[k] + d[k] for k in d}, rows.across(d) * held
        bounces = jnp.where(p.steps == 0, equations.impacts(mean + more, gap, arriving), p.bounces)
        q = equations.impacting(bounces).lawful(mean, 0.0, gap, arriving) + more
        law = contact_problem(equations, q, rows)
        s, _, count, fine = cone_solution(law, numbers.kappa, None, p.s, numbers.options)
        more = rows.moved(scaling(equations.mu) * s)
        u = {k: free[k] + more[k] for k in d}
        # What rests has no size of its own to be measured by: a small part of what its rounding comes from stands for it.
        # Multipliers are forces, which stiff bodies round, over the time step: of a motion that stays they follow.
        moving = [k for k in u if k not in system.multiplier_states]
        source = norm(lever.ways({k: a for k, a in stage.rounding(u).items() if k in moving}))
        size = jnp.maximum(norm(lever.ways({k: u[k] for k in moving})), _AT_REST * source)
        change = norm(lever.ways({k: u[k] - p.u[k] for k in moving})) / size
        rounded = _ROUNDING * jnp.finfo(s.dtype).eps * source / size
        small = (change <= 1e-12) | ((change <= jnp.maximum(1e-9, rounded)) & (change > 0.5 * p.change))
        known = jnp.isfinite(change)
        going = ~small & (p.steps + 1 < most) & known
        # What made it no number is asked below of the matrix that did, which is made here.
        u, s = choose(known, (u, s), (p.u, p.s))
        return _Iterate(u, s, bounces, change, rounded, p.steps + 1, p.contact_steps + count, fine, going)

    nil = jnp.zeros((), jnp.int32)
    s0 = cone_of(equations.mu, start)
    far, yes = jnp.full((), jnp.inf, s0.dtype), jnp.array(True)
    first = _Iterate(stage.predicted, s0, equations.bounces, far, jnp.zeros_like(far), nil, nil, yes, yes)
    end = while_loop(lambda p: p.going, advance, first)
    _, rows, said, mean = linearised(end.u)
    fine = end.fine & (end.change <= jnp.maximum(1e-8, end.rounded))
    equations = equations.impacting(end.bounces)
    law = contact_problem(equations, equations.lawful(mean, 0.0, gap, arriving), rows)
    r = scaling(law.mu) * end.s
    law = eqx.tree_at(lambda c: c.q, law, law.q + equations.give * r - law.moved_by(r))
    how = *sizes(law), said, end.change, end.contact_steps, contact_outcome(law, end.s, fine)
    ends = gap, equations.lawful(mean, end.s, gap, arriving)
    return Solved(end.u, end.s, *ends, end.bounces, rows, *how)


@_implicit.def_jvp
def _implicit_jvp(primals, tangents):
    equations, solver, numbers, start, most, who = primals
    found = _implicit(*primals)
    smooth, kappa = found, numbers.kappa
    if numbers.kappa_grad is not None:
        kappa = numbers.kappa_grad
        again = ContactNumbers(kappa, None, numbers.options)
        warm = jax.lax.stop_gradient(scaling(equations.mu) * found.s)
        smooth = _implicit(equations, solver, again, warm, most, who)
    A = equations.stage.linear_system.constrain(equations.system, equations.stage.operator(smooth.x))
    inner = factor_solver(A, solver)
    dx, ds = implicit_rates(equations, tangents[0], A, inner, smooth, kappa, who, near=True)
    still = jax.tree.map(lambda _: None, found)
    return found, eqx.tree_at(lambda f: (f.x, f.s), still, (dx, ds), is_leaf=lambda a: a is None)


def newton_step(scheme: Any, system: System, state: State, contacts: ContactSet, warm: Array, h: Array, who: str) -> Any:
    """The fully implicit step, as `linear_step`."""
    if has_prescribed_motion(system):
        raise ValueError("FreeMotion: with newton=True no constraint may prescribe a motion; take newton=False.")
    setting = scheme.motion.setting(system, state, h)
    stage = scheme.motion.stage(setting, None)
    equations = ImplicitContact(stage, setting.system, state, h, contacts, _nowhere(contacts))
    found = _implicit(equations, scheme.motion.solver, scheme.numbers, warm, scheme.contact_iterations, who)
    end = stage.end(found.x)
    end, info = ended(outcome(found.said, system, state, h, found.x, end), state, accepted(system, state, end, h), h)
    contact, how = told(equations, found, scheme.numbers)
    apart = (how == RESULTS.contacts_not_converged) & (found.size > 1e-8)
    how = RESULTS.where(apart, RESULTS.contact_motion_not_converged, how)
    return end, info, contact, how
