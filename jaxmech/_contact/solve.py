"""The solution of a contact problem, by the method of choice, and its derivative by the implicit function theorem."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from .._linear_solver.base.derivative import constant, derivative_solve
from .._linear_solver.krylov.gmres import GMRES
from .._runtime.argument_checks import check_choice, check_counts, check_flags, check_tolerances, plain, real_array
from .._runtime.array_types import Array, structure_of
from .._runtime.jax_internals import index_of
from .._runtime.precision import compiled
from .._runtime.raise_if import raise_if
from .._runtime.results import RESULTS, FailedComputation, is_traced
from .cone import scaling
from .contradiction import contradict
from .linear_blocks import LOST
from .newton import slopes
from .problem import ContactErrors, ContactProblem, about, checked_problem, cone_of, errors_of, natural, settled
from .scaled import ScaledProblem
from .stages import by_stages

METHODS = ("auto", "newton", "interior_point", "gauss_seidel", "nncg")
_FAR = 1e8  # impulses, in units of the problem, beyond which there is no solution


@dataclass(frozen=True)
class SolveOptions:
    """How a contact problem is solved: `method`, the residual that is near enough to nil, steps at most, `throw`."""

    method: str = "auto"
    tolerance: float = 1e-9
    max_steps: int = 1000

    def __post_init__(self):
        check_choice("contacts", "method", self.method, METHODS)
        check_tolerances("contacts", tolerance=self.tolerance)
        check_counts("contacts", max_steps=self.max_steps)


class ContactInfo(eqx.Module):
    """What happened in the solution of a contact problem.

    No units of its own. `result`: a member of `RESULTS`. `steps`: of Newton, of the interior point, or sweeps, all
    together. `errors`: how far the impulses are from each of the laws, `ContactErrors`, for `kappa = 0`. Raises nothing.

    Example:

        info = jm.contact.solve_contacts(jm.contact.ContactProblem(np.eye(3), -np.ones((1, 3)), 0.5)).info
        assert info.result == jm.RESULTS.successful and info.errors.natural < 1e-10
    """

    result: Any
    steps: Array
    errors: ContactErrors


class ContactSolution(eqx.Module):
    """Impulses `(n, 3)` [N s], the velocities `(n, 3)` [m/s] that they leave, and what happened. Raises nothing.

    Example:

        found = jm.contact.solve_contacts(jm.contact.ContactProblem(np.eye(3), [[-1.0, 0.0, 0.0]], 0.5))
        assert jnp.allclose(found.impulse[0, 0], 1.0) and jnp.allclose(found.velocity, 0.0)
    """

    impulse: Array
    velocity: Array
    info: ContactInfo


@eqx.filter_custom_jvp
def cone_solution(problem: ContactProblem, kappa: Array, kappa_grad: Array | None, start: Array, options: SolveOptions):
    """`s = D^-1 r`, the length of its residual, how many steps it took, and whether it converged."""
    del kappa_grad
    scaled = ScaledProblem.of(problem)
    method, most, tolerance = options.method, options.max_steps, options.tolerance
    s, size, steps, fine = by_stages(scaled, scaled.kappa(kappa), start / scaled.units, method, most, tolerance)
    return s * scaled.units, size, steps, fine


@cone_solution.def_jvp
def _cone_solution_jvp(primals, tangents):
    problem, kappa, kappa_grad, start, options = primals
    s, size, steps, fine = cone_solution(problem, kappa, kappa_grad, start, options)
    at, s = s, (s if kappa_grad is None else cone_solution(problem, kappa_grad, None, jax.lax.stop_gradient(s), options)[0])
    kappa = kappa if kappa_grad is None else kappa_grad
    rho = 1 / jax.lax.stop_gradient(problem.diagonal())

    def velocity(problem, s):
        return problem.moved_by(scaling(problem.mu) * s) + problem.q

    at_solution = settled(s, velocity(problem, s), problem.mu, rho, kappa)

    def residual(problem, s):
        return natural(s, about(at_solution, velocity(problem, s)), problem.mu, rho, kappa)

    rate = eqx.filter_jvp(lambda problem: residual(problem, s), (problem,), (tangents[0],))[1]
    rate = jnp.zeros_like(s) if rate is None else rate
    if isinstance(problem.W, lx.AbstractLinearOperator):
        product = jax.linearize(lambda s: residual(problem, s), s)[1]
        operator = lx.FunctionLinearOperator(product, structure_of(s), closure_convert=False)
        moved = derivative_solve(operator, -rate, GMRES())
    else:
        n, D = s.shape[0], scaling(problem.mu)
        P, B = slopes(s, about(at_solution, velocity(problem, s)), problem.mu, rho, kappa)
        M = jnp.einsum("nij,njmk->nimk", B, problem.W.reshape(n, 3, n, 3)) * D
        M = M.at[jnp.arange(n), :, jnp.arange(n)].add(P).reshape(3 * n, 3 * n)
        moved = jnp.linalg.solve(M + LOST * jnp.eye(3 * n, dtype=M.dtype), -rate.reshape(-1)).reshape(s.shape)
    return (at, size, steps, fine), (moved, None, None, None)


def outcome(problem: ContactProblem, s: Array, fine: Array) -> Any:
    """How a solution ended, a member of `RESULTS`."""
    scaled = ScaledProblem.of(problem)
    far = jnp.max(jnp.abs(s / scaled.units), initial=0.0) > _FAR
    result = RESULTS.where(far | contradict(scaled, ~fine), RESULTS.contacts_infeasible, RESULTS.contacts_not_converged)
    result = RESULTS.where(fine, RESULTS.successful, result)
    finite = jnp.isfinite(jnp.sum(problem.q)) & jnp.isfinite(jnp.sum(s))
    return RESULTS.where(finite, result, RESULTS.not_finite)


def solve_contacts(
    problem: ContactProblem,
    *,
    kappa: Any = 0.0,
    kappa_grad: Any = None,
    method: str = "auto",
    tolerance: float = 1e-9,
    max_steps: int = 1000,
    start: Any = None,
    throw: bool = True,
) -> ContactSolution:
    """The impulses of a contact problem: `s o y = kappa^2 e` in the variables of the cone, for `kappa = 0` Coulomb's law.

    `kappa` [J^1/2]: the smoothness of the law; every contact then has `r . (u + mu |u_T| n) = kappa^2`, and derivatives of
    every order. `kappa_grad`: that of derivatives, `kappa` unless given: they are those of the solution at `kappa_grad`.
    They are of the one residual, whatever solver ran, and exact at `kappa = 0` where every contact is open, sticks or slips
    for certain. At a corner between two of these (an impulse on the edge of the cone without slip, a touch without impulse)
    that of one side is given; without friction, `mu = 0`, that by `mu` is nil.

    `method`: "newton", semi-smooth, by smoothed laws where it sticks, the first to be tried by "auto"; "interior_point",
    where it gives up; "gauss_seidel", and "nncg" which accelerates it, as SOFA has, for `kappa = 0` by themselves. An
    operator `W` is taken by its products by the first three. `tolerance`: of the natural map, in units of `q`; `max_steps`:
    of Newton, the interior point, or sweeps. `start`: impulses `(n, 3)` of a problem like this one. Raises `ValueError` or
    `TypeError` for what cannot be, and `FailedComputation` with the errors of each law, unless `throw=False`.
    Source: V. Acary, M. Bremond, O. Huber, 2018, doi:10.1007/978-3-319-75972-2_10 (solvers); T. A. Howell et al., "Dojo",
    arXiv:2203.00806, 2022 (derivatives along the central path).

    Example:

        def held(mu):  # one kilogram that slips at 2 m/s and falls at 1 m/s
            problem = jm.contact.ContactProblem(np.eye(3), [[-1.0, 2.0, 0.0]], mu)
            return jm.contact.solve_contacts(problem).impulse[0, 1]

        value, slope = jax.value_and_grad(held)(0.5)
        assert jnp.allclose(value, -0.5) and jnp.allclose(slope, -1.0)  # r_T = -mu r_n
    """
    q = checked_problem("solve_contacts", problem).q
    options = SolveOptions(method, tolerance, plain(max_steps))
    check_flags("solve_contacts", throw=throw)
    check_tolerances("solve_contacts", kappa=kappa, **({} if kappa_grad is None else {"kappa_grad": kappa_grad}))
    if method in ("gauss_seidel", "nncg") and isinstance(problem.W, lx.AbstractLinearOperator):
        raise ValueError(f"solve_contacts: {method} needs the matrix W, not an operator: take newton or interior_point.")
    r0 = jnp.zeros_like(q) if start is None else jnp.asarray(real_array("solve_contacts", "start", start, q.shape), q.dtype)
    return _solve(problem, jnp.asarray(kappa, q.dtype), kappa_grad, r0, options, throw)


def _solve(
    problem: ContactProblem, kappa: Array, kappa_grad: Any, r0: Array, options: SolveOptions, throw: bool
) -> ContactSolution:
    q = problem.q
    kappa_grad = None if kappa_grad is None else jnp.asarray(kappa_grad, q.dtype)
    found = _solution(problem, kappa, kappa_grad, r0, options)
    return raise_of_contacts(found, found.info, "solve_contacts") if throw else found


@compiled
def _solution(problem: ContactProblem, kappa: Array, kappa_grad: Any, r0: Array, options: SolveOptions) -> ContactSolution:
    s, _, steps, fine = cone_solution(problem, kappa, kappa_grad, constant(cone_of(problem.mu, r0)), options)
    r = scaling(problem.mu) * s
    still, at = constant((problem, r))
    u, size = still.moved_by(at) + still.q, jnp.linalg.norm(still.q)
    errors = errors_of(at, u, still.mu, 1 / still.diagonal(), size)
    info = ContactInfo(outcome(still, constant(s), fine), steps, errors)
    return ContactSolution(r, problem.moved_by(r) + problem.q, info)


def raise_of_contacts(value: Any, info: ContactInfo, who: str) -> Any:
    """`value`, unless the solution failed: then the words for it, with the errors of each law."""
    failed, e = info.result != RESULTS.successful, info.errors
    residuals = jnp.stack([e.signorini, e.coulomb, e.dissipation]), e.natural
    names, numbers = {"who": who}, {"result": index_of(info.result)}
    if is_traced((failed, residuals)):
        return raise_if(value, failed, names, numbers, residuals)
    if not np.any(np.asarray(failed)):
        return value
    words = f"{who}: {RESULTS[info.result]}\n  Signorini {float(e.signorini):.1e} N s, Coulomb {float(e.coulomb):.1e} N s, "
    raise FailedComputation(
        f"{words}dissipation {float(e.dissipation):.1e} J, natural map {float(e.natural):.1e}", info.result
    )
