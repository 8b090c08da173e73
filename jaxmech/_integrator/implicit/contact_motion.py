"""Linear motion with contact: by products and rows of contacts, or by a factor and the compliance that it makes."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._contact.cone import scaling
from ..._contact.eliminated import factor_solver, way_of
from ..._contact.groups import WHOLE
from ..._contact.motion_newton import MovingContacts, move
from ..._contact.problem import ContactProblem, cone_of
from ..._contact.schur import Compliance, free_and_compliance
from ..._contact.solve import cone_solution
from ..._contact.solve import outcome as contact_outcome
from ..._contact.sparse_rows import SparseRows
from ..._contact.sweeps import are_swept
from ..._linear_solver.base.outcome import reason
from ..._linear_solver.base.vectors import alike, choose, zeros
from ..._linear_solver.default import default_solver
from ..._model.dynamics import Fields
from ..._runtime.array_types import Array
from ..._runtime.loops import seldom_loop
from ..._runtime.results import RESULTS
from .contact_equations import AbstractContactEquations, ContactNumbers, Solved, implicit_rates


class AbstractLinearContact(AbstractContactEquations):
    """Those of a step that is linear from its start: where it sets out with velocities `begun` [m/s], they change by `x`."""

    @property
    @abc.abstractmethod
    def begun(self) -> Fields:
        """Velocities before anything acts."""


class LinearLaw(eqx.Module):
    """The geometry of a linear step, looked at once: rows `H P`, and of every slot the rates `(n, 3)` [m/s] that it sets out
    with, its gap [m], and how fast that changes [m/s]."""

    rows: SparseRows
    begun: Array
    gap: Array
    arriving: Array

    @classmethod
    def of(cls, equations: AbstractLinearContact) -> "LinearLaw":
        """At the start of the step."""
        system, start, n = equations.system, equations.start, equations.mu.shape[0]
        rows, at = SparseRows.of(equations.contacts, system, start.position, start.position)
        arriving = rows.across(start.velocity, n)[:, 0]
        return cls(rows.projected(system, start.position), rows.across(equations.begun, n), at[:, 0], arriving)

    def mean(self, x: Fields) -> Array:
        """The mean rates `(n, 3)` of the coordinates where velocities change by `x`."""
        return self.begun + self.rows.across(x, self.gap.shape[0])

    def impacts(self, equations: AbstractContactEquations, free: Fields) -> Array:
        """The slots that bounce."""
        return equations.impacts(self.mean(free), self.gap, self.arriving)

    def velocities(self, equations: AbstractContactEquations, x: Fields, s: Any = 0.0) -> Array:
        """`equations.velocities`."""
        return equations.lawful(self.mean(x), s, self.gap, self.arriving)


@eqx.filter_custom_jvp
def solved_with_contacts(
    equations: AbstractLinearContact, A: Any, b: Fields, solver: Any, numbers: ContactNumbers, start: Array, who: str
) -> Solved:
    """The solution of linear motion `A x = b + H^T D s` with contact. `solver`: of `A`; None to take what is best."""
    del who
    way = way_of(A, solver, equations.mu.shape[0]) if numbers.options.method == "auto" else ""
    law = LinearLaw.of(equations)
    if way:
        return by_products(equations, law, A, b, numbers, start, way)
    return by_factor(equations, law, A, b, solver, numbers, start)


def by_factor(
    equations: AbstractContactEquations,
    law: LinearLaw,
    A: Any,
    b: Fields,
    solver: Any,
    numbers: ContactNumbers,
    start: Array,
) -> Solved:
    """By a factor of `A` and the compliance `W` that it makes."""
    solver = factor_solver(A, solver)
    state = solver.init(A, {})
    value, said, rows = free_and_compliance(state, solver, law.rows, b, equations.mu.shape[0])
    equations = equations.impacting(law.impacts(equations, value))
    problem = contact_problem(equations, law.velocities(equations, value), rows)
    s, size, steps, fine = cone_solution(problem, numbers.kappa, None, cone_of(problem.mu, start), numbers.options)
    more = rows.moved(scaling(equations.mu) * s)
    x = {k: value[k] + more[k] for k in value}
    ends = law.gap, law.velocities(equations, x, s)
    how = contact_outcome(problem, s, fine)
    return Solved(x, s, *ends, equations.bounces, rows, *sizes(problem), said, size, steps, how)


def sizes(problem: ContactProblem) -> tuple[Array, Array]:
    """How mobile contacts are, and how large their velocities without impulses."""
    return problem.diagonal(), jnp.linalg.norm(problem.q)


def by_products(
    equations: AbstractContactEquations,
    law: LinearLaw,
    A: Any,
    b: Fields,
    numbers: ContactNumbers,
    start: Array,
    way: str,
) -> Solved:
    """By products with `A` and the rows of contacts, without a factor; where Newton gives up, by one, unless impulses are
    many."""
    bounced = _bounced(equations, law, A, b)
    equations, nil = equations.impacting(bounced), zeros(b)
    u0 = law.velocities(equations, nil)
    problem = MovingContacts(A, b, law.rows, u0, equations.mu, equations.give, equations.contacts.held, numbers.kappa, way)
    found = move(problem, cone_of(problem.mu, start), numbers.options.tolerance)

    many = are_swept(A) and equations.mu.shape[0] > WHOLE  # a factor of all impulses would take minutes
    fine = lx.Solution(None, lx.RESULTS.successful, {"num_steps": 0, "reason": RESULTS.successful}, None)
    ends = law.gap, law.velocities(equations, found.x, found.s)
    ended = RESULTS.where(found.fine, RESULTS.successful, RESULTS.contacts_not_converged) if many else RESULTS.successful
    how = (found.mobility, found.speed, _plain(fine), found.size, found.steps, ended)
    first = Solved(found.x, found.s, *ends, bounced, law.rows, *how)

    def again(p: tuple[Solved, Array]) -> tuple[Solved, Array]:
        # Depends on the loop: what does not, XLA moves before it, and would factor every time. Others of a batch are there.
        arrays, rest = eqx.partition((law, A), eqx.is_inexact_array)
        arrays, there = jax.lax.optimization_barrier((arrays, p[1]))
        begun = choose(there, scaling(equations.mu) * p[0].s, start)
        other = by_factor(equations, *eqx.combine(arrays, rest), b, None, numbers, begun)
        how = (_plain(other.said), other.size, p[0].steps + other.steps, other.result)
        ends = other.gap, other.velocity, bounced, law.rows, other.mobility, other.speed
        solved = Solved(other.x, other.s, *ends, *how)
        return alike(solved, p[0]), jnp.array(True)

    if many:
        return first
    # A loop of one round at most: in a batch, `cond` would run both branches for all.
    first = alike(first, first)
    return seldom_loop(lambda p: ~p[1], again, (first, found.fine))[0]


def _plain(said: lx.Solution) -> lx.Solution:
    """What every solver says."""
    unknown = jnp.full((), -1, jnp.int32)
    stats = {
        "num_steps": jnp.asarray(said.stats["num_steps"], jnp.int32),
        "reason": reason(said),
        "unconstrained_state": jnp.asarray(said.stats.get("unconstrained_state", unknown), jnp.int32),
    }
    return lx.Solution(None, said.result, stats, None)


def _bounced(equations: AbstractContactEquations, law: LinearLaw, A: Any, b: Fields) -> Array:
    """The slots whose impact ends with the restitution; no work where there is none."""
    some = jnp.any(equations.contacts.each("restitution") > 0)
    nil, solver = zeros(b), default_solver(A, inertial=True)

    def free(p: Any) -> Any:
        return solver.compute(solver.init(A, {}), choose(p[1], nil, b), {})[0], jnp.array(True)

    value = seldom_loop(lambda p: ~p[1], free, (nil, ~some))[0]
    return law.impacts(equations, value)


def contact_problem(equations: AbstractContactEquations, q: Array, rows: Compliance) -> ContactProblem:
    """That of impulses, where velocities without them are `q`."""
    return ContactProblem(rows.W + jnp.diag(equations.give.reshape(-1)), q, equations.mu)


@solved_with_contacts.def_jvp
def _solved_with_contacts_jvp(primals, tangents):
    equations, A, _, solver, numbers, _, who = primals
    found = solved_with_contacts(*primals)
    smooth = found
    if numbers.kappa_grad is not None:
        again = ContactNumbers(numbers.kappa_grad, None, numbers.options)
        smooth = solved_with_contacts(*primals[:4], again, jax.lax.stop_gradient(scaling(equations.mu) * found.s), who)
    kappa = numbers.kappa if numbers.kappa_grad is None else numbers.kappa_grad
    dx, ds = implicit_rates(equations, tangents[0], A, solver, smooth, kappa, who)
    still = jax.tree.map(lambda _: None, found)
    return found, eqx.tree_at(lambda f: (f.x, f.s), still, (dx, ds), is_leaf=lambda a: a is None)
