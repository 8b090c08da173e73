"""The equations of a step with contact: the balance of momentum with impulses, and the law of contact. One implicit rule."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
from equinox import AbstractVar

from ..._contact.cone import scaling
from ..._contact.contact_set import ContactSet
from ..._contact.eliminated import Eliminated, factor_solver, way_of
from ..._contact.eliminated_solver import EliminatedSolver
from ..._contact.newton import slopes
from ..._contact.problem import ContactErrors, about, coulomb_error, errors_of, natural, settled
from ..._contact.schur import IMPULSES, Compliance, ContactSchur
from ..._contact.solve import SolveOptions
from ..._contact.sparse_rows import SparseRows
from ..._linear_solver.base.derivative import constant, derivative_solve
from ..._linear_solver.krylov.preconditioned_gmres import Nearby
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, zero_forces
from ..._model.system import State, System
from ..._runtime.array_types import Array, structure_of
from ..._runtime.results import RESULTS

_COULOMB = 300.0  # tolerances that Coulomb's law may be missed by, in units of the largest impulses


class ContactNumbers(eqx.Module):
    """How the law of contact is solved, and differentiated."""

    kappa: Array
    kappa_grad: Array | None
    options: SolveOptions = eqx.field(static=True)


class AbstractContactEquations(eqx.Module):
    """`R(x) + P H^T D s = 0` and `F(s, u(x)) = 0`, `F` the natural map; a pytree, by whose leaves solutions are
    differentiated. `x`: the unknowns of the motion [m/s]."""

    system: AbstractVar[System]
    start: AbstractVar[State]
    h: AbstractVar[Array]
    contacts: AbstractVar[ContactSet]
    bounces: AbstractVar[Array]  # the slots whose impact ends with the restitution

    @property
    def mu(self) -> Array:
        return self.contacts.each("friction") * self.contacts.held

    @property
    def give(self) -> Array:
        """The compliance of the impulses `(n, 3)` [1/kg]."""
        nil = jnp.zeros_like(self.mu)
        return jnp.stack([self.contacts.each("compliance") / self.h**2, nil, nil], axis=1)

    @abc.abstractmethod
    def imbalance(self, x: Fields) -> Fields:
        """`R(x)` [N s], projected."""

    @abc.abstractmethod
    def advanced(self, x: Fields, begun: Array) -> Array:
        """The mean rates `(n, 3)` [m/s] of the coordinates over the step, which are `begun` at its start."""

    @abc.abstractmethod
    def place(self, x: Fields) -> Fields:
        """The positions of the main states at which impulses act."""

    def rates(self, position: Fields, velocity: Fields) -> tuple[Array, Array]:
        """The coordinates at a place, and `H v` there, `(n, 3)` [m], [m/s]."""
        zero = zero_forces(self.system, position)

        def coordinates(d: Fields) -> Array:
            return self.contacts.moved(self.system, self.start.position, position, d)

        return jax.jvp(coordinates, (zero,), (velocity,))

    def pushed(self, x: Fields, r: Array) -> Fields:
        """`P H^T r` at the place of `x`."""
        position = self.place(x)
        zero = zero_forces(self.system, position)
        back = jax.vjp(lambda d: self.contacts.moved(self.system, self.start.position, position, d), zero)[1]
        return project(self.system, back(r)[0])

    def at_start(self) -> tuple[Array, Array]:
        """Coordinates `(n, 3)` [m] at the start, and how fast gaps change there `(n,)` [m/s]."""
        at, rates = self.rates(self.start.position, self.start.velocity)
        return at, rates[:, 0]

    def lawful(self, mean: Array, s: Any, gap: Array, arriving: Array) -> Array:
        """`u` `(n, 3)` [m/s] of the law of contact, where coordinates change at `mean` rates: with the gap over `h`, or
        restitution, and compliance."""
        bias = jnp.where(self.bounces, self.contacts.each("restitution") * arriving, gap / self.h)
        u = (mean + self.give * scaling(self.mu) * s).at[:, 0].add(bias)
        held = self.contacts.held[:, None]
        # Slots without contacts open as fast as the fastest of the others moves: what is small is measured by those alone.
        fastest = jax.lax.stop_gradient(jnp.max(jnp.abs(u), where=held, initial=0.0))
        open_ = jnp.zeros_like(u).at[:, 0].set(jnp.where(fastest > 0, fastest, 1.0))
        return jnp.where(held, u, open_)

    def impacts(self, mean: Array, gap: Array, arriving: Array) -> Array:
        """The slots that will touch in a step that would be free of contact, at more speed than its forces make."""
        e, u = self.contacts.each("restitution"), mean[:, 0]
        return jax.lax.stop_gradient((e > 0) & (gap + self.h * u < 0) & (arriving < -2 * jnp.abs(u - arriving)))

    def impacting(self, bounces: Array) -> Any:
        """These equations, of which these slots bounce."""
        return eqx.tree_at(lambda e: e.bounces, self, bounces)

    def balance(self, x: Fields, s: Array) -> Fields:
        """`R(x) + P H^T D s`."""
        R, push = self.imbalance(x), self.pushed(x, scaling(self.mu) * s)
        return {k: R[k] + push[k] for k in R}


class Solved(eqx.Module):
    """The step's unknowns, gaps at its start and velocities of the law, and what it took: which slots bounce, rows and how
    mobile contacts are by them, how large their velocities without impulses are, how both solves ended."""

    x: Fields
    s: Array
    gap: Array
    velocity: Array
    bounces: Array
    rows: Compliance | SparseRows
    mobility: Array
    speed: Array
    said: lx.Solution
    size: Array
    steps: Array
    result: Any


def implicit_rates(
    equations: AbstractContactEquations,
    tangent: Any,
    A: Any,
    solver: Any,
    at: Solved,
    kappa: Array,
    who: str,
    near: bool = False,
) -> tuple[Fields, Array]:
    """`(dx, ds)` by the implicit function theorem, where `at` solves the equations. `near`: `A` is not quite `-dR/dx`."""
    x, s, equations = at.x, at.s, equations.impacting(at.bounces)
    rho = jax.lax.stop_gradient(1 / at.mobility)
    u = settled(s, at.velocity, equations.mu, rho, kappa)

    def both(equations: Any, x: Fields, s: Array, begun: tuple[Array, Array]) -> dict[str, Array]:
        at, arriving = begun
        end = equations.lawful(equations.advanced(x, at), s, at[:, 0], arriving)
        F = natural(s, about(u, end), equations.mu, rho, kappa)
        return {**{k: -a for k, a in equations.balance(x, s).items()}, IMPULSES: F}

    def at_solution(equations: Any) -> tuple[dict[str, Array], tuple[Array, Array]]:
        begun = equations.at_start()
        return both(equations, x, s, begun), begun

    (_, begun), (rate, _) = eqx.filter_jvp(at_solution, (equations,), (tangent,))
    like = {**x, IMPULSES: s}
    rhs = {k: jnp.zeros_like(a) if rate[k] is None else -rate[k] for k, a in like.items()}

    linear = jax.linearize(lambda x, s: both(equations, x, s, begun), x, s)[1]
    product = eqx.Partial(_product, equations.system, linear)  # its arrays are leaves: see `exact_operator`
    P, B = slopes(s, u, equations.mu, rho, kappa)
    D, give = scaling(equations.mu), equations.give
    if isinstance(at.rows, SparseRows):
        way = way_of(A, None, s.shape[0])
        schur = EliminatedSolver(constant(Eliminated.of_law(A, at.rows, equations.mu, (P, B), give, at.mobility, way)))
    else:
        schur = ContactSchur(A, factor_solver(A, solver), *constant((at.rows, P, B, D, give)))
    operator = lx.FunctionLinearOperator(product, structure_of(like), closure_convert=False)
    solved = derivative_solve(operator, rhs, Nearby(constant(A), schur) if near else schur, who)
    return {k: a for k, a in solved.items() if k != IMPULSES}, solved[IMPULSES]


def _product(system: System, linear: Callable[..., Fields], d: dict[str, Array]) -> dict[str, Array]:
    """Of the derivative, free of what constraints hold."""
    dx = {k: a for k, a in d.items() if k != IMPULSES}
    free = project(system, dx)
    moved = linear(free, d[IMPULSES])
    return {k: a if k == IMPULSES else a + dx[k] - free[k] for k, a in moved.items()}


class StepContacts(eqx.Module):
    """The contacts of a step: of every slot, in the order of the names of contacts, a row. Raises nothing.

    `impulse` `(n, 3)` [N s], normal and two tangents, with its derivatives, which nothing else here has; `gap` `(n,)` [m] at
    the start; `velocity` `(n, 3)` [m/s] of the law of contact; `pair` `(n,)`: the number of the pair in its contact; `held`
    `(n,)`: whether the slot holds a pair. `steps`: of the solver; `errors`: `ContactErrors`.

    Example:

        floor = jm.contact.PointContact(("cube", range(8)), jm.contact.Plane(), friction=0.5)
        scheme = jm.integrator.FreeMotion(jm.ImplicitEuler(linear_system), {"floor": floor})
        contacts = jm.simulate(system, state, scheme, dt=0.01, steps=4).info.contacts
        assert contacts.gap.shape == (4, 8) and bool(contacts.held.all())  # of every step
    """

    impulse: Array
    gap: Array
    velocity: Array
    pair: Array
    held: Array
    steps: Array
    errors: ContactErrors


def told(equations: AbstractContactEquations, found: Solved, numbers: ContactNumbers) -> tuple[StepContacts, Any]:
    """What is reported of the contacts, and how their solution ended.

    The natural map sees little of friction far above 1: Coulomb's law is measured by itself, with the normal impulses of
    Signorini's.
    """
    impulse = scaling(equations.mu) * found.s
    equations, found, r = jax.lax.stop_gradient((equations, found, impulse))
    u = found.velocity
    pair = jnp.concatenate([t.pair for t in equations.contacts.touching.values()])
    errors = errors_of(r, u, equations.mu, 1 / found.mobility, found.speed)
    size = found.speed / jnp.min(found.mobility) + jnp.max(jnp.abs(r), initial=0.0)
    share = _COULOMB * (numbers.options.tolerance + jnp.finfo(r.dtype).eps)
    missed = jnp.max(coulomb_error(r, u, equations.mu, 1 / found.mobility), initial=0.0)
    apart = (found.result == RESULTS.successful) & (numbers.kappa == 0) & (missed > share * size)
    result = RESULTS.where(apart, RESULTS.contacts_not_converged, found.result)
    return StepContacts(impulse, found.gap, u, pair, equations.contacts.held, found.steps, errors), result
