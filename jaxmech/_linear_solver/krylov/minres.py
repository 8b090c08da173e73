"""The minimal residual method, for symmetric matrices that need not be definite."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._runtime.argument_checks import plain
from ..._runtime.array_types import Array
from ..base.outcome import INDEFINITE, SINGULAR
from ..base.vectors import Vector, dot, dtype_of, norm, plus, zeros
from ..preconditioner.base import AbstractPreconditioner
from .iteration import AbstractKrylov, AbstractRecursion, check_krylov

_FLAT = 2 / 3  # power of the rounding unit: a residual that A sends to less is one that no step can reduce


class MINRES(AbstractKrylov):
    """The preconditioned minimal residual method for symmetric operators, definite or not. SOFA's MinResLinearSolver.

    `rtol`, `atol`, `max_steps`, `give_up`, the option `x0` and `stats`: as for `PCG`. The preconditioner must be symmetric
    positive definite also where the operator is not: `BlockJacobi(absolute=True)` for a `BlockMatrix` and none for other
    operators, unless given.

    Raises `ValueError` for an operator that is not declared symmetric, or a preconditioner that may be indefinite. An
    operator that is not, though declared, ends in the reason `RESULTS.unsymmetric`, a singular one without solution in
    `RESULTS.singular`.
    Source: C. C. Paige and M. A. Saunders, SIAM J. Numer. Anal. 12 (1975) 617, doi:10.1137/0712047; recursion as in
    H. Elman, D. Silvester, A. Wathen, Finite Elements and Fast Iterative Solvers, Oxford 2014, algorithm 4.1.
    Units as for `PCG`: `atol` [N] where `b` is a force.

    Example:

        with_multiplier = jnp.array([[2.0, 1.0], [1.0, 0.0]])  # indefinite
        saddle = lx.MatrixLinearOperator(with_multiplier, lx.symmetric_tag)
        x = lx.linear_solve(saddle, jnp.array([3.0, 1.0]), jm.solver.MINRES()).value
        assert jnp.allclose(x, 1.0, atol=1e-3)
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = eqx.field(static=True, converter=plain, default=None)
    preconditioner: AbstractPreconditioner | None = eqx.field(default=None, kw_only=True)
    give_up: bool = eqx.field(static=True, default=False, kw_only=True)

    symmetric = True
    definite = False

    def __check_init__(self):
        check_krylov(self)

    def recursion(self, r: Vector) -> AbstractRecursion:
        return _Run.begin(r)


class _Run(AbstractRecursion):
    """The rotation of one step needs the preconditioned vector of the next: it is done on the way to the next product."""

    d: Vector
    r: Vector  # r - A d
    v: tuple[Vector, Vector]  # the last two Lanczos vectors, of length gamma in the norm of M^-1
    w: tuple[Vector, Vector]  # the last two directions
    Aw: tuple[Vector, Vector]
    z: Vector  # the last vector multiplied
    Az: Vector
    gamma: tuple[Array, Array]
    delta: Array
    c: tuple[Array, Array]  # rotations
    s: tuple[Array, Array]
    eta: Array
    largest: Array  # entry of the tridiagonal matrix
    started: Array
    residual: Array
    flaw: Array

    @classmethod
    def begin(cls, r: Vector) -> "_Run":
        o, nil = zeros(r), jnp.zeros((), dtype_of(r))
        one = jnp.ones_like(nil)
        off, code = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
        ones, nils = (one, one), (nil, nil)
        return cls(o, r, (o, r), (o, o), (o, o), o, o, ones, nil, ones, nils, nil, nil, off, norm(r), code)

    def direction(self, precondition: Any) -> tuple["_Run", Vector]:
        z = precondition(self.v[1])
        squared = dot(z, self.v[1])
        gamma = jnp.sqrt(jnp.maximum(squared, 0))
        d, r, w, Aw, c, s, eta, flat = self._rotated(gamma)
        flaw = jnp.where(flat & self.started, SINGULAR, self.flaw)
        flaw = jnp.where(squared < 0, INDEFINITE, flaw).astype(jnp.int32)  # the preconditioner is
        eta = jnp.where(self.started, eta, gamma)
        gammas = (jnp.where(self.started, self.gamma[1], 1), gamma)
        z = plus(zeros(z), jnp.where(gamma > 0, 1 / jnp.where(gamma > 0, gamma, 1), 0), z)
        run = _Run(d, r, self.v, w, Aw, z, self.Az, gammas, self.delta, c, s, eta, self.largest, self.started, norm(r), flaw)
        return run, z

    def _rotated(self, gamma: Array) -> tuple[Any, ...]:
        """The last step, completed by the gamma of the next; nothing before the first."""
        alpha0 = self.c[1] * self.delta - self.c[0] * self.s[1] * self.gamma[1]
        alpha1 = jnp.hypot(alpha0, gamma)
        alpha2 = self.s[1] * self.delta + self.c[0] * self.c[1] * self.gamma[1]
        alpha3 = self.s[0] * self.gamma[1]
        # |A r| / |r| of the last residual.
        slope = jnp.hypot(alpha0, self.c[1] * gamma)
        flat = slope <= jnp.finfo(slope.dtype).eps ** _FLAT * self.largest
        inverse = jnp.where(self.started & (alpha1 > 0), 1 / jnp.where(alpha1 > 0, alpha1, 1), 0)
        c, s = jnp.where(self.started, alpha0 * inverse, 1), gamma * inverse

        def combined(new: Vector, w: tuple[Vector, Vector]) -> Vector:
            return plus(zeros(new), inverse, plus(plus(new, -alpha3, w[0]), -alpha2, w[1]))

        w, Aw = combined(self.z, self.w), combined(self.Az, self.Aw)
        step = jnp.where(flat, 0, c * self.eta)
        d, r = plus(self.d, step, w), plus(self.r, -step, Aw)
        return d, r, (self.w[1], w), (self.Aw[1], Aw), (self.c[1], c), (self.s[1], s), -s * self.eta, flat

    def advance(self, y: Vector, Ay: Vector) -> "_Run":
        delta = dot(y, Ay)
        inverse = jnp.where(self.gamma[1] > 0, 1 / jnp.where(self.gamma[1] > 0, self.gamma[1], 1), 0)
        v = plus(plus(Ay, -delta * inverse, self.v[1]), -self.gamma[1] / self.gamma[0], self.v[0])
        largest = jnp.maximum(self.largest, jnp.maximum(jnp.abs(delta), jnp.where(self.started, self.gamma[1], 0)))
        return eqx.tree_at(
            lambda i: (i.v, i.Az, i.delta, i.largest, i.started),
            self,
            ((self.v[1], v), Ay, delta, largest, jnp.ones((), bool)),
        )

    def correction(self) -> Vector:
        return self.d

    def restarted(self, r: Vector) -> "_Run":
        return _Run.begin(r)
