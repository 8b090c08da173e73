"""The contact problem: Signorini's and Coulomb's laws for impulses and the velocities that they make."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from .._math.safe_norm import safe_length
from .._runtime.argument_checks import check_instance, real_array
from .._runtime.array_types import Array
from .._runtime.precision import in_one_program
from .._scene.parameter import as_array, is_concrete
from .cone import coulomb_projection, dual, scaling, smoothed_projection


def _compliance(value: Any) -> Any:
    return value if isinstance(value, lx.AbstractLinearOperator) else as_array(value)


class ContactProblem(eqx.Module):
    """Find impulses `r` with `u = W r + q`, `r` in the cone `|r_T| <= mu r_n`, `u + mu |u_T| n` in its dual, orthogonal.

    `n` contacts; of each, component 0 is along the normal, 1 and 2 are tangents. `q` `(n, 3)` [m/s]: the velocities without
    impulses, in which a gap `g` stands as `g / h` and restitution as `e u_n` of before. `W` [1/kg]: `(3n, 3n)`, contact by
    contact, or an operator of lineax on `(n, 3)`, which is never formed. `friction` `mu`, one number or one for each. The
    term of De Saxce, `mu |u_T|`, makes this one law of what are two: `0 <= u_n _|_ r_n >= 0`, and `r_T = -mu r_n u_T /
    |u_T|` where it slips. Raises `ValueError` or `TypeError` for other shapes and for friction that is negative.
    Source: V. Acary, M. Bremond, O. Huber, in *Advanced Topics in Nonsmooth Dynamics*, 2018,
    doi:10.1007/978-3-319-75972-2_10; G. De Saxce and Z.-Q. Feng, Math. Comput. Modelling 28 (1998) 225,
    doi:10.1016/S0895-7177(98)00119-8.

    Example:

        problem = jm.contact.ContactProblem(np.eye(3), [[-1.0, 0.2, 0.0]], 0.5)  # falls and slips, 1 kg
        found = jm.contact.solve_contacts(problem)
        assert jnp.allclose(found.impulse, jnp.array([[1.0, -0.2, 0.0]]))  # [N s]: 0.2 < mu 1.0 is enough to hold it
    """

    W: Any = eqx.field(converter=_compliance)
    q: Array = eqx.field(converter=as_array)
    friction: Array = eqx.field(converter=as_array)

    def __check_init__(self):
        q = real_array("ContactProblem", "q", self.q, (None, 3))
        mu = real_array("ContactProblem", "friction", self.friction)
        if mu.shape not in ((), q.shape[:1]):
            raise ValueError(f"ContactProblem: friction has shape {mu.shape}, expected () or {q.shape[:1]}.")
        if is_concrete(mu) and not (np.asarray(mu) >= 0).all():
            raise ValueError(f"ContactProblem: friction must be at least 0, got {np.asarray(mu).min()}.")
        if not isinstance(self.W, lx.AbstractLinearOperator):
            real_array("ContactProblem", "W", self.W, (q.size, q.size))

    @property
    def mu(self) -> Array:
        """The coefficients of friction, one for each contact."""
        return jnp.broadcast_to(self.friction, self.q.shape[:1]).astype(self.q.dtype)

    def product(self, r: Array) -> Array:
        """`W r` `(n, 3)` [m/s]. Raises `TypeError` or `ValueError` for what is no such array of numbers."""
        return self.moved_by(jnp.asarray(real_array("ContactProblem.product", "r", r, self.q.shape)))

    def diagonal(self) -> Array:
        """The mean of the diagonal of `W` in each contact, positive; the mean over all of them of an operator."""
        if isinstance(self.W, lx.AbstractLinearOperator):
            probe = jnp.asarray(np.random.default_rng(0).choice([-1.0, 1.0], self.q.shape), self.q.dtype)
            size = jnp.full(self.q.shape[0], jnp.sum(probe * self.W.mv(probe)) / probe.size)
        else:
            size = jnp.mean(jnp.diagonal(self.W).reshape(-1, 3), axis=1)
        return mobilities(size)

    def moved_by(self, r: Array) -> Array:
        """`product`, unchecked."""
        if isinstance(self.W, lx.AbstractLinearOperator):
            return self.W.mv(r)
        return (self.W @ r.reshape(-1)).reshape(r.shape)


def mobilities(size: Array) -> Array:
    """`size`, in slots without contacts the mean of the others: whatever the unit of mass, these have no part in means."""
    there = size > 0
    mean = jnp.sum(jnp.where(there, size, 0.0)) / jnp.maximum(jnp.sum(there), 1)
    return jnp.where(there, size, jnp.where(mean > 0, mean, 1.0))


def checked_problem(who: str, problem: Any) -> ContactProblem:
    """Raise `TypeError` unless it is one."""
    check_instance(who, "problem", problem, ContactProblem)
    return problem


def natural(s: Array, u: Array, mu: Array, rho: Array, kappa: Array) -> Array:
    """`s - P_kappa(s - rho y)` of each contact: nil where `s o y = kappa^2 e`, whatever `rho` is.

    `kappa` [J^1/2] is that of `s` and `y`, scaled here as `rho` [kg] scales `y`.
    """

    def of_contact(s, u, mu, rho):
        return s - smoothed_projection(s - rho * dual(u, mu), kappa * jnp.sqrt(rho))

    return jax.vmap(of_contact)(s, u, mu, rho)


def settled(s: Array, u: Array, mu: Array, rho: Array, kappa: Array) -> Array:
    """Velocities of a solution, of which no derivative is taken, without slips where contacts stick for certain.

    There the slip is what rounding has left of it, and another whenever it is evaluated; but its direction is the slope of
    De Saxce's term. So that all parts of a derivative mean one law, it is linearised `about` these velocities.
    """

    def of_contact(s, u, mu, rho):
        w = s - rho * dual(u, mu)
        sticks = (kappa == 0) & (w[0] > 0) & (w[1:] @ w[1:] < w[0] ** 2)
        return u.at[1:].set(jnp.where(sticks, 0.0, u[1:]))

    return jax.lax.stop_gradient(jax.vmap(of_contact)(s, u, mu, rho))


def about(at: Array, u: Array) -> Array:
    """`at`, with the derivatives of `u`."""
    return at + (u - jax.lax.stop_gradient(u))


class ContactErrors(eqx.Module):
    """How far impulses are from the laws of contact, each law by itself: the largest over all contacts.

    `natural`: `|w r - P(w r - (u + mu |u_T| n))| / |q|`, `P` the projection onto Coulomb's cones, `w` the mean of the
    diagonal of `W`, the norms over all contacts: nil at a solution only. `signorini`: `|r_n - max(r_n - m u_n, 0)|` [N s],
    `m` the inverse of the mean of a contact's diagonal in `W`. `coulomb`: how far `r_T` [N s] is from the nearest point to
    `r_T - m u_T` of the disc `mu r_n`. `dissipation`: `|r_T . u_T + mu r_n |u_T||` [J], the work of friction that is not
    that of Coulomb's law. Raises nothing.

    Example:

        problem = jm.contact.ContactProblem(np.eye(3), [[-1.0, 2.0, 0.0]], 0.5)
        errors = jm.contact.contact_errors(problem, jnp.array([[1.0, -0.5, 0.0]]))
        assert errors.natural < 1e-15 and errors.coulomb < 1e-15
    """

    natural: Array
    signorini: Array
    coulomb: Array
    dissipation: Array


def contact_errors(problem: ContactProblem, impulse: Any) -> ContactErrors:
    """How far impulses `(n, 3)` [N s] are from a solution of a contact problem.

    Raises `TypeError` or `ValueError` for what is no contact problem, and for impulses of another shape.

    Example:

        problem = jm.contact.ContactProblem(np.eye(3), [[-1.0, 0.0, 0.0]], 0.5)
        assert jnp.allclose(jm.contact.contact_errors(problem, jnp.zeros((1, 3))).signorini, 1.0)  # [N s]
    """
    q = checked_problem("contact_errors", problem).q
    r = jnp.asarray(real_array("contact_errors", "impulse", impulse, q.shape))
    return _errors_at(problem, r)


@in_one_program
def _errors_at(problem: ContactProblem, r: Array) -> ContactErrors:
    return errors_of(r, problem.moved_by(r) + problem.q, problem.mu, 1 / problem.diagonal(), jnp.linalg.norm(problem.q))


def errors_of(r: Array, u: Array, mu: Array, rho: Array, size: Array) -> ContactErrors:
    """The errors of impulses that leave velocities `u`; `size`: of `q`."""
    length = jax.vmap(safe_length)
    slip = length(u[:, 1:])
    moved = jnp.mean(1 / rho) * r if rho.size else r
    pushed = moved - u.at[:, 0].add(mu * slip)
    F = moved - jax.vmap(coulomb_projection)(pushed, mu)
    held = r[:, 1:] - rho[:, None] * u[:, 1:]
    return ContactErrors(
        jnp.linalg.norm(F) / jnp.where(size > 0, size, 1.0),
        _largest(jnp.abs(r[:, 0] - jnp.maximum(r[:, 0] - rho * u[:, 0], 0.0))),
        _largest(_beyond(r[:, 1:], held, mu * jnp.maximum(r[:, 0], 0.0))),
        _largest(jnp.abs(jnp.sum(r[:, 1:] * u[:, 1:], axis=1) + mu * r[:, 0] * slip)),
    )


def coulomb_error(r: Array, u: Array, mu: Array, rho: Array) -> Array:
    """How far each `r_T` is from Coulomb's law with the normal impulse that Signorini's would have."""
    held = r[:, 1:] - rho[:, None] * u[:, 1:]
    return _beyond(r[:, 1:], held, mu * jnp.maximum(r[:, 0] - rho * u[:, 0], 0.0))


def _beyond(r: Array, held: Array, radius: Array) -> Array:
    """How far `r` is from the nearest point to `held` of a disc."""
    length = jax.vmap(safe_length)
    reach = length(held)
    return length(r - held * jnp.where(reach > radius, radius / jnp.where(reach > 0, reach, 1.0), 1.0)[:, None])


def _largest(a: Array) -> Array:
    return jnp.max(a, initial=0.0)


def cone_of(mu: Array, r: Array) -> Array:
    """`s = D^-1 r`, within the cone; without friction, whatever the tangents are."""
    D = scaling(mu)
    return jnp.where(D > 0, r / jnp.where(D > 0, D, 1.0), 0.0)
