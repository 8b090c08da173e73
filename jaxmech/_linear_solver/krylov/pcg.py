"""Conjugate gradients."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ..._runtime.argument_checks import plain
from ..._runtime.array_types import Array
from ..._sparse.block_matrix import BlockMatrix
from ..base.vectors import Vector, dtype_of, norm, zeros
from ..preconditioner.base import AbstractPreconditioner
from .cg_recurrence import VECTORS, Bounds, CGState
from .cg_run import run_on
from .cg_step import along, towards
from .iteration import GRACE, AbstractKrylov, AbstractRecursion, KrylovState, Limits, check_krylov

__all__ = ["PCG", "norm"]


class PCG(AbstractKrylov):
    """Preconditioned conjugate gradients for symmetric positive definite operators.

    Stops when the *true* residual meets `||b - A x|| <= rtol ||b|| + atol` (2-norm; `atol` in the unit of `b`, [N] say).
    `rtol=None` takes 1e-8 in float64, 1e-4 in float32; one below what rounding allows ends in `RESULTS.stagnation`, one that
    says nothing of rows far smaller than those of `b` (of a penalty) in `RESULTS.unequal_rows`. `max_steps`: ten times the
    number of unknowns, 20 000 at most, unless given. `give_up=True` ends in `RESULTS.max_steps_reached` as soon as the
    residual falls too slowly to arrive within `max_steps`: after five steps it must keep below the straight line, in
    logarithms, that leads there. `preconditioner`: `BlockJacobi()` for a `BlockMatrix` and none for other operators, unless
    given. The option `x0` is where to start. `stats`: `num_steps`, `residual`, `reason`.

    Raises `ValueError` for an operator that is not declared symmetric. One that is not, though declared, ends in the reason
    `RESULTS.unsymmetric`, one that proves indefinite in `RESULTS.indefinite`, a singular one without solution in
    `RESULTS.singular`.
    Source: M. R. Hestenes and E. Stiefel, J. Res. Nat. Bur. Stand. 49 (1952) 409, doi:10.6028/jres.049.044.

    Example:

        solution = lx.linear_solve(A, b, jm.solver.PCG(rtol=1e-4))
        assert int(solution.stats["num_steps"]) <= 24  # as many as there are unknowns
        assert jnp.allclose(A.mv(solution.value)["cube"], b["cube"], atol=10.0)  # [N]
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int | None = eqx.field(static=True, converter=plain, default=None)
    preconditioner: AbstractPreconditioner | None = eqx.field(default=None, kw_only=True)
    give_up: bool = eqx.field(static=True, default=False, kw_only=True)

    symmetric = True
    definite = True

    def __check_init__(self):
        check_krylov(self)

    def recursion(self, r: Vector) -> AbstractRecursion:
        return _Run.begin(r)


class _Run(AbstractRecursion):
    state: CGState

    @classmethod
    def begin(cls, r: Vector) -> "_Run":
        zero = jnp.zeros((), dtype_of(r))
        return cls(CGState(zeros(r), r, zeros(r), zero, zero, zero, norm(r), jnp.zeros((), jnp.int32)))

    @property
    def residual(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.state.residual

    @property
    def flaw(self) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.state.flaw

    def direction(self, precondition: Any) -> tuple["_Run", Vector]:
        turned = towards(self.state, precondition(self.state.r))
        return _Run(turned), turned.p

    def advance(self, y: Vector, Ay: Vector) -> "_Run":
        del y
        return _Run(along(self.state, Ay))

    def continued(self, state: KrylovState, limits: Limits, steps: Array) -> tuple["_Run", Array] | None:
        """Of a matrix of one state, with a block for each node as preconditioner."""
        operator = state.operator
        if not isinstance(operator, BlockMatrix) or len(operator.sizes) != 1:
            return None
        name = operator.sizes[0][0]
        inverse = state.applied.blocks(name)
        if inverse is None:
            return None
        own = self.state._replace(**{vector: getattr(self.state, vector)[name] for vector in VECTORS})
        bounds = Bounds(
            goal=limits.claim,
            far=limits.far,
            line=limits.line(steps),
            falling=limits.falling(),
            last=jnp.int32(limits.steps),
            grace=jnp.int32(GRACE),
        )
        found = run_on(operator[name, name], inverse, own, steps, bounds)
        if found is None:
            return None
        end, taken = found
        return _Run(end._replace(**{vector: {name: getattr(end, vector)} for vector in VECTORS})), taken

    def correction(self) -> Vector:
        return self.state.d

    def restarted(self, r: Vector) -> "_Run":
        return _Run.begin(r)
