"""A contact problem in pure numbers: `W` about 1 in every contact, `q` at most 1. Slots without contacts have no part."""

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from .._runtime.array_types import Array
from .cone import scaling
from .problem import ContactProblem, errors_of, natural


class ScaledProblem(eqx.Module):
    """`E W E / w`, `E q / c`, in the variables of the second-order cone; impulses are `E c / w` of its own.

    `E`, one for each contact, makes all of them equally mobile; the smoothness of the law does not see it, nor friction.
    `alpha`, `anchor`: `alpha (r - anchor)` is added to the velocities, nil at a solution that has come to rest there.
    """

    problem: ContactProblem
    w: Array
    c: Array
    E: Array  # (n, 1)
    alpha: Array
    anchor: Array

    @classmethod
    def of(cls, problem: ContactProblem) -> "ScaledProblem":
        """The scales of a problem."""
        diagonal = problem.diagonal()
        w = jnp.mean(diagonal)
        E = jnp.sqrt(w / diagonal)[:, None]
        c = jnp.max(jnp.abs(E * problem.q), initial=0.0)
        return cls(problem, w, jnp.where(c > 0, c, 1.0), E, jnp.zeros_like(w), jnp.zeros_like(problem.q))

    def held_at(self, s: Array, alpha: Array) -> "ScaledProblem":
        """The problem that holds impulses to those of `s`."""
        return ScaledProblem(self.problem, self.w, self.c, self.E, alpha, self.D * s)

    @property
    def units(self) -> Array:
        """What impulses of this problem are, in those of the one it was made of `(n, 1)`."""
        return self.E * self.c / self.w

    @property
    def mu(self) -> Array:
        return self.problem.mu

    @property
    def D(self) -> Array:
        return scaling(self.mu)

    @property
    def rho(self) -> Array:
        return jnp.ones_like(self.mu) / (1 + self.alpha)

    @property
    def q(self) -> Array:
        """Velocities without impulses."""
        return self.E * self.problem.q / self.c - self.alpha * self.anchor

    @property
    def matrix(self) -> Array | None:
        """`W` of these numbers, where it is formed."""
        if isinstance(self.problem.W, lx.AbstractLinearOperator):
            return None
        E = jnp.repeat(self.E[:, 0], 3)
        return E[:, None] * self.problem.W * E / self.w + self.alpha * jnp.eye(E.size, dtype=E.dtype)

    def product(self, r: Array) -> Array:
        return self.E * self.problem.moved_by(self.E * r) / self.w + self.alpha * r

    def velocity(self, s: Array) -> Array:
        """`u` of `s`."""
        return self.product(self.D * s) + self.q

    def kappa(self, kappa: Array) -> Array:
        """`kappa` [J^1/2] in these numbers."""
        return kappa * jnp.sqrt(self.w) / self.c

    def residual(self, s: Array, kappa: Array) -> Array:
        return natural(s, self.velocity(s), self.mu, self.rho, kappa)

    def plain(self, s: Array) -> tuple[Array, Array]:
        """`ContactErrors.natural` of `s`, and what rounding makes of it."""
        problem = self.problem
        r, size = self.D * s * self.units, jnp.linalg.norm(problem.q)
        error = errors_of(r, problem.moved_by(r) + problem.q, self.mu, 1 / problem.diagonal(), size).natural
        moved = jnp.linalg.norm(r) if self.matrix is None else jnp.linalg.norm(jnp.abs(problem.W) @ jnp.abs(r).reshape(-1))
        moved = moved * (jnp.max(problem.diagonal()) if self.matrix is None else 1.0)
        rounding = jnp.finfo(s.dtype).eps * (moved + self.w * jnp.linalg.norm(r))
        return error, 4 * rounding / jnp.where(size > 0, size, 1.0)
