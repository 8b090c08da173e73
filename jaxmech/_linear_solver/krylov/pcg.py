"""Conjugate gradients."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._sparse.block_matrix import BlockMatrix
from ..base.outcome import FINE, INDEFINITE, SINGULAR
from ..base.vectors import Vector, dot, dtype_of, norm, plus, zeros
from ..preconditioner.base import AbstractPreconditioner
from .cg_kernel import Bounds, Steps, more_steps
from .iteration import GRACE, AbstractKrylov, AbstractRecursion, KrylovState, Limits, check_krylov

__all__ = ["PCG", "norm"]


class PCG(AbstractKrylov):
    """Preconditioned conjugate gradients for symmetric positive definite operators.

    Stops when the *true* residual meets `||b - A x|| <= rtol ||b|| + atol` (2-norm). `rtol=None` takes 1e-8 in float64,
    1e-4 in float32; one below what rounding allows ends in `RESULTS.stagnation`, one that says nothing of rows far smaller
    than those of `b` (of a penalty) in `RESULTS.unequal_rows`. `max_steps`: ten times the
    number of unknowns, 20 000 at most, unless given. `give_up=True` ends in `RESULTS.max_steps_reached` as soon as the
    residual falls too slowly to arrive within `max_steps`: after five steps it must keep below the straight line, in
    logarithms, that leads there. `preconditioner`: `BlockJacobi()` for a `BlockMatrix` and none for other operators, unless
    given. The option `x0` is where to start. `stats`: `num_steps`, `residual`, `reason`.

    Raises `ValueError` for an operator that does not promise symmetry. One that breaks the promise ends in the reason
    `RESULTS.unsymmetric`, one that proves indefinite in `RESULTS.indefinite`, a singular one without solution in
    `RESULTS.singular`.
    M. R. Hestenes and E. Stiefel, J. Res. Nat. Bur. Stand. 49 (1952) 409, doi 10.6028/jres.049.044.
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = eqx.field(static=True, default=None)
    preconditioner: AbstractPreconditioner | None = eqx.field(default=None, kw_only=True)
    give_up: bool = eqx.field(static=True, default=False, kw_only=True)

    symmetric = True
    definite = True

    def __check_init__(self):
        check_krylov(self)

    def recursion(self, r: Vector) -> AbstractRecursion:
        return _Run.begin(r)


class _Run(AbstractRecursion):
    d: Vector
    r: Vector
    p: Vector
    rz: Array
    pMp: Array
    steepest: Array  # the largest Rayleigh quotient of M^-1 A so far
    residual: Array
    flaw: Array

    @classmethod
    def begin(cls, r: Vector) -> "_Run":
        zero = jnp.zeros((), dtype_of(r))
        return cls(zeros(r), r, zeros(r), zero, zero, zero, norm(r), jnp.zeros((), jnp.int32))

    def direction(self, precondition: Any) -> tuple["_Run", Vector]:
        z = precondition(self.r)
        rz = dot(self.r, z)
        beta = jnp.where(self.rz > 0, rz / self.rz, 0)
        p = plus(z, beta, self.p)
        pMp = rz + beta**2 * self.pMp  # z and the last p are M-orthogonal
        return _Run(self.d, self.r, p, rz, pMp, self.steepest, self.residual, self.flaw), p

    def advance(self, y: Vector, Ay: Vector) -> "_Run":
        curvature = dot(y, Ay)
        quotient = curvature / self.pMp
        steepest = jnp.maximum(self.steepest, jnp.abs(quotient))
        # A quotient that is nil to rounding: the direction is one that A does not resist.
        flat = jnp.abs(quotient) <= 4 * jnp.finfo(quotient.dtype).eps * steepest
        flaw = jnp.where(flat, SINGULAR, jnp.where(quotient > 0, FINE, INDEFINITE))
        flaw = jnp.where(self.rz > 0, flaw, INDEFINITE).astype(jnp.int32)
        alpha = jnp.where(flaw == FINE, self.rz / curvature, 0)
        r = plus(self.r, -alpha, Ay)
        return _Run(plus(self.d, alpha, y), r, y, self.rz, self.pMp, steepest, norm(r), flaw)

    def continued(self, state: KrylovState, limits: Limits, steps: Array) -> tuple["_Run", Array]:
        """Of a matrix of one state, with a block for each node as preconditioner, by a function compiled for the CPU."""
        operator = state.operator
        if not isinstance(operator, BlockMatrix) or len(operator.sizes) != 1:
            return self, steps
        name = operator.sizes[0][0]
        inverse = state.applied.blocks(name)
        if inverse is None:
            return self, steps
        numbers = self.rz, self.pMp, self.steepest, self.residual, self.flaw
        begin = Steps(self.d[name], self.r[name], self.p[name], *numbers, steps)
        bounds = Bounds(
            limits.claim, limits.far, limits.line(steps), limits.falling(), jnp.int32(limits.steps), jnp.int32(GRACE)
        )
        end = more_steps(operator[name, name], inverse, begin, bounds)
        return _Run(*({name: vector} for vector in end[:3]), *end[3:8]), end.taken

    def correction(self) -> Vector:
        return self.d

    def restarted(self, r: Vector) -> "_Run":
        return _Run.begin(r)
