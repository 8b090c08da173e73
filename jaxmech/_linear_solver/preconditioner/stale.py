"""The factor of a matrix that was, as a preconditioner of the one that is."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from ..._runtime.argument_checks import check_instance
from ..._runtime.array_types import Array
from ..._sparse.preconditioned import PreconditionedOperator
from ..base.outcome import FINE
from ..sparse.sparse_direct import SparseDirect
from .base import AbstractApplied, AbstractPreconditioner


class StaleFactor(AbstractPreconditioner):
    """Solves with the matrix `near` by a direct `solver`: few iterations where the operator has not gone far from it.

    `near` need not be the same as the operator: the matrix of another step, of another load, of other parameters. Unless
    given, it is the matrix that a `PreconditionedMatrixFreeSystem` keeps beside its operator. `solver`:
    `SparseDirect()` unless given. The factor is made once, and found again where the solver keeps factors (`SparseDirect`
    keeps two per pattern). SOFA's direct or AsyncSparseLDL solvers under a PCGLinearSolver. Nothing is differentiated
    through `near`: stop its gradient. Raises `ValueError` where there is no matrix, or one of other states.
    No units of its own.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, chapter 9.

    Example:

        apply = jm.solver.StaleFactor(near=A.scaled(2.0), solver=jm.solver.Dense()).build(A)  # the factor of another matrix
        assert jnp.allclose(A.mv(apply(b))["cube"], 0.5 * b["cube"], atol=1.0)  # [N]
    """

    near: lx.AbstractLinearOperator | None = None
    solver: lx.AbstractLinearSolver = eqx.field(default_factory=SparseDirect)

    definite = True
    indefinite = False

    def __check_init__(self):
        if self.near is not None:
            check_instance("StaleFactor", "near", self.near, lx.AbstractLinearOperator)
        check_instance("StaleFactor", "solver", self.solver, lx.AbstractLinearSolver)

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        check_instance("StaleFactor", "operator", operator, lx.AbstractLinearOperator)
        near = self.near
        if near is None:
            if not isinstance(operator, PreconditionedOperator):
                raise ValueError(
                    f"StaleFactor has no matrix near a {type(operator).__name__}: give it one (near=), or use "
                    "PreconditionedMatrixFreeSystem."
                )
            near = operator.near
        if operator.in_structure() != near.in_structure():
            raise ValueError(f"StaleFactor: near is of {near.in_structure()}, the operator of {operator.in_structure()}.")
        return _Solves(self.solver, self.solver.init(near, {}), jnp.int32(FINE))


class _Solves(AbstractApplied):
    solver: lx.AbstractLinearSolver
    state: Any
    flaw: Array

    def __call__(self, r):
        return self.solver.compute(self.state, r, {})[0]

    def transpose(self):
        return _Solves(self.solver, self.solver.transpose(self.state, {})[0], self.flaw)
