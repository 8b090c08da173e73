"""The stabilised biconjugate gradient method, for unsymmetric operators in little memory."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._runtime.argument_checks import plain
from ..._runtime.array_types import Array
from ..base.outcome import BREAKDOWN, FINE
from ..base.vectors import Vector, choose, dot, dtype_of, norm, plus, zeros
from ..preconditioner.base import AbstractPreconditioner
from .iteration import AbstractKrylov, AbstractRecursion, check_krylov

_ORTHOGONAL = 16.0  # rounding units: cosines below are nil, and to be divided by


class BiCGStab(AbstractKrylov):
    """The stabilised biconjugate gradient method for any square operator. A step is one product: half of a textbook's.

    `rtol`, `atol`, `max_steps`, `give_up`, the option `x0` and `stats`: as for `PCG`. `preconditioner`: `BlockJacobi()` for
    a `BlockMatrix` and none for other operators, unless given; it need not be symmetric. A breakdown starts again from the
    true residual, and ends in `RESULTS.breakdown` where that did not halve.
    Source: H. van der Vorst, SIAM J. Sci. Stat. Comput. 13 (1992) 631, doi:10.1137/0913035.
    Units as for `PCG`: `atol` [N] where `b` is a force.

    Example:

        turning = lx.MatrixLinearOperator(jnp.array([[2.0, 1.0], [-1.0, 2.0]]))  # not symmetric
        x = lx.linear_solve(turning, jnp.array([3.0, 1.0]), jm.solver.BiCGStab()).value
        assert jnp.allclose(x, 1.0, atol=1e-3)
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = eqx.field(static=True, converter=plain, default=None)
    preconditioner: AbstractPreconditioner | None = eqx.field(default=None, kw_only=True)
    give_up: bool = eqx.field(static=True, default=False, kw_only=True)

    symmetric = False
    definite = False

    def __check_init__(self):
        check_krylov(self)

    def recursion(self, r: Vector) -> AbstractRecursion:
        return _Run.begin(r)


class _Run(AbstractRecursion):
    """Even steps go along `p` by `alpha`, odd ones along the residual by `omega`: both are `d += c z, r -= c A z`."""

    d: Vector
    r: Vector
    shadow: Vector  # the first residual
    p: Vector
    v: Vector  # A M^-1 p
    z: Vector  # M^-1 of what is multiplied
    rho: Array
    alpha: Array
    odd: Array
    residual: Array
    flaw: Array

    @classmethod
    def begin(cls, r: Vector) -> "_Run":
        one, code = jnp.ones((), dtype_of(r)), jnp.zeros((), jnp.int32)
        o = zeros(r)
        return cls(o, r, r, r, o, o, dot(r, r), one, jnp.zeros((), bool), norm(r), code)

    def direction(self, precondition: Any) -> tuple["_Run", Vector]:
        z = precondition(choose(self.odd, self.r, self.p))
        return eqx.tree_at(lambda i: i.z, self, z), z

    def advance(self, y: Vector, Ay: Vector) -> "_Run":
        eps = _ORTHOGONAL * jnp.finfo(self.rho.dtype).eps
        length = norm(Ay)
        onto = choose(self.odd, self.r, self.shadow)
        below, span = dot(onto, Ay), norm(onto) * length
        above = jnp.where(self.odd, below, self.rho)
        below_or = jnp.where(self.odd, length**2, below)
        broken = ~(jnp.abs(below) > eps * span)
        c = jnp.where(broken, 0, above / jnp.where(broken, 1, below_or))
        d, r = plus(self.d, c, y), plus(self.r, -c, Ay)
        v = choose(self.odd, self.v, Ay)
        rho = dot(self.shadow, r)
        residual = norm(r)
        lost = self.odd & ~(jnp.abs(rho) > eps * norm(self.shadow) * residual)
        beta = jnp.where(broken, 0, rho / self.rho * self.alpha / jnp.where(broken, 1, c))
        p = choose(self.odd, plus(r, beta, plus(self.p, -c, v)), self.p)
        flaw = jnp.where(broken | (lost & (residual > 0)), BREAKDOWN, FINE).astype(jnp.int32)
        rho, alpha = jnp.where(self.odd, rho, self.rho), jnp.where(self.odd, self.alpha, c)
        return _Run(d, r, self.shadow, p, v, y, rho, alpha, ~self.odd, residual, flaw)

    def correction(self) -> Vector:
        return self.d

    def restarted(self, r: Vector) -> "_Run":
        return _Run.begin(r)
