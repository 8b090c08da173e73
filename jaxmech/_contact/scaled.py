"""A contact problem in pure numbers: `W` about 1, `q` at most 1. Slots that hold no contact have no part in it."""

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from .._runtime.array_types import Array
from .cone import scaling
from .problem import ContactProblem, natural


class ScaledProblem(eqx.Module):
    """`W / w`, `q / c`, in the variables of the second-order cone; impulses are `c / w` of its own."""

    problem: ContactProblem
    w: Array
    c: Array
    rho: Array

    @classmethod
    def of(cls, problem: ContactProblem) -> "ScaledProblem":
        """The scales of a problem."""
        diagonal = problem.diagonal()
        w, c = jnp.mean(diagonal), jnp.max(jnp.abs(problem.q), initial=0.0)
        return cls(problem, w, jnp.where(c > 0, c, 1.0), w / diagonal)

    @property
    def mu(self) -> Array:
        return self.problem.mu

    @property
    def D(self) -> Array:
        return scaling(self.mu)

    @property
    def matrix(self) -> Array | None:
        """`W / w`, where it is formed."""
        return None if isinstance(self.problem.W, lx.AbstractLinearOperator) else self.problem.W / self.w

    def product(self, r: Array) -> Array:
        return self.problem.moved_by(r) / self.w

    def velocity(self, s: Array) -> Array:
        """`u` of `s`."""
        return self.product(self.D * s) + self.problem.q / self.c

    def kappa(self, kappa: Array) -> Array:
        """`kappa` [J^1/2] in these numbers."""
        return kappa * jnp.sqrt(self.w) / self.c

    def residual(self, s: Array, kappa: Array) -> Array:
        return natural(s, self.velocity(s), self.mu, self.rho, kappa)
