"""Linear motion with contact: by products and rows of contacts, or by a factor and the compliance that it makes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._contact.cone import scaling
from ..._contact.eliminated import way_of
from ..._contact.motion_newton import MovingContacts, move
from ..._contact.problem import ContactProblem, cone_of
from ..._contact.schur import Compliance, rows_of
from ..._contact.solve import cone_solution
from ..._contact.solve import outcome as contact_outcome
from ..._contact.sparse_rows import SparseRows
from ..._linear_solver.base.outcome import reason
from ..._linear_solver.base.vectors import choose
from ..._linear_solver.default import default_solver
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields
from ..._runtime.array_types import Array
from ..._runtime.results import RESULTS
from .contact_equations import AbstractContactEquations, ContactNumbers, Solved, implicit_rates


def compliance(state: Any, solver: Any, equations: AbstractContactEquations, x: Fields) -> Compliance:
    """`H`, `A^-1 P H^T` and `W` at the place of `x`, by a solver that has a factor as its `state`."""
    place = equations.place(x)
    H = rows_of(lambda v: equations.rates(place, project(equations.system, v)), x, equations.mu.shape[0])
    return Compliance.of(H, jax.vmap(lambda b: solver.compute(state, b, {})[0])(H))


@eqx.filter_custom_jvp
def solved_with_contacts(
    equations: AbstractContactEquations, A: Any, b: Fields, solver: Any, numbers: ContactNumbers, start: Array, who: str
) -> Solved:
    """The solution of linear motion `A x = b + H^T D s` with contact. `solver`: of `A`; None to take what is best."""
    del who
    way = _way(A, solver, numbers, equations)
    return by_products(equations, A, b, numbers, start, way) if way else by_factor(equations, A, b, solver, numbers, start)


def _way(A: Any, solver: Any, numbers: ContactNumbers, equations: AbstractContactEquations) -> str:
    return way_of(A, solver, equations.mu.shape[0]) if numbers.options.method == "auto" else ""


def by_factor(
    equations: AbstractContactEquations, A: Any, b: Fields, solver: Any, numbers: ContactNumbers, start: Array
) -> Solved:
    """By a factor of `A` and the compliance `W` that it makes."""
    solver = default_solver(A) if solver is None else solver
    state = solver.init(A, {})
    value, result, stats = solver.compute(state, b, {})
    said = lx.Solution(None, result, stats, None)
    equations = equations.impacting(equations.impacts(value))
    rows = compliance(state, solver, equations, value)
    problem = contact_problem(equations, value, rows)
    s, size, steps, fine = cone_solution(problem, numbers.kappa, None, cone_of(problem.mu, start), numbers.options)
    more = rows.moved(scaling(equations.mu) * s)
    x = {k: value[k] + more[k] for k in value}
    return Solved(x, s, equations.bounces, rows, *sizes(problem), said, size, steps, contact_outcome(problem, s, fine))


def sizes(problem: ContactProblem) -> tuple[Array, Array]:
    """How mobile contacts are, and how large their velocities without impulses."""
    return problem.diagonal(), jnp.linalg.norm(problem.q)


def by_products(
    equations: AbstractContactEquations, A: Any, b: Fields, numbers: ContactNumbers, start: Array, way: str
) -> Solved:
    """By products with `A` and the rows of contacts, without a factor; where Newton gives up, by one."""
    n, position = equations.mu.shape[0], equations.start.position
    bounced = _bounced(equations, A, b)
    equations = equations.impacting(bounced)
    rows = SparseRows.of(equations.contacts, equations.system, position, equations.place(b))
    nil = {k: jnp.zeros_like(a) for k, a in b.items()}
    u0 = equations.velocities(nil, jnp.zeros((n, 3), start.dtype))
    problem = MovingContacts(A, b, rows, u0, equations.mu, equations.give, numbers.kappa, way)
    found = move(problem, cone_of(problem.mu, start), numbers.options.tolerance)
    speed = jnp.linalg.norm(problem.speed())

    fine = lx.Solution(None, lx.RESULTS.successful, {"num_steps": 0, "reason": RESULTS.successful}, None)
    how = (_plain(fine), found.size, found.steps, RESULTS.successful)
    first = Solved(found.x, found.s, bounced, rows, problem.mobility(), speed, *how)

    def again(p: tuple[Solved, Array]) -> tuple[Solved, Array]:
        # Depends on the loop: what does not, XLA may move before it, and would factor every time.
        other = by_factor(equations, A, choose(p[1], nil, b), None, numbers, start)
        how = (_plain(other.said), other.size, p[0].steps + other.steps, other.result)
        solved = Solved(other.x, other.s, bounced, rows, other.mobility, other.speed, *how)
        return _alike(solved, p[0]), jnp.array(True)

    # A loop of one round at most: in a batch, `cond` would run both branches for all.
    first = _alike(first, first)
    return jax.lax.while_loop(lambda p: ~p[1], again, (first, found.fine))[0]


def _plain(said: lx.Solution) -> lx.Solution:
    """What every solver says."""
    unknown = jnp.full((), -1, jnp.int32)
    stats = {
        "num_steps": jnp.asarray(said.stats["num_steps"], jnp.int32),
        "reason": reason(said),
        "unconstrained_state": jnp.asarray(said.stats.get("unconstrained_state", unknown), jnp.int32),
    }
    return lx.Solution(None, said.result, stats, None)


def _alike(found: Solved, like: Solved) -> Solved:
    """With arrays of the same types, as a loop asks."""
    return jax.tree.map(lambda a, b: jnp.asarray(a, jnp.result_type(b)), found, like)


def _bounced(equations: AbstractContactEquations, A: Any, b: Fields) -> Array:
    """The slots whose impact ends with the restitution; no work where there is none."""
    some = jnp.any(equations.contacts.each("restitution") > 0)
    nil = {k: jnp.zeros_like(a) for k, a in b.items()}
    solver = default_solver(A, inertial=True)

    def free(p: Any) -> Any:
        return solver.compute(solver.init(A, {}), choose(p[1], nil, b), {})[0], jnp.array(True)

    value = jax.lax.while_loop(lambda p: ~p[1], free, (nil, ~some))[0]
    return equations.impacts(value)


def contact_problem(equations: AbstractContactEquations, free: Fields, rows: Compliance) -> ContactProblem:
    """That of impulses, where the motion without them is `free`."""
    n = equations.mu.shape[0]
    W = rows.W + jnp.diag(equations.give.reshape(-1))
    return ContactProblem(W, equations.velocities(free, jnp.zeros((n, 3), W.dtype)), equations.mu)


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
