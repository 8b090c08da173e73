"""The factor of a matrix that was, turned with the nodes since."""

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


class WarpedFactor(AbstractPreconditioner):
    """`M^-1 = R A0^-1 R^T`: the factor of a matrix assembled some steps ago, seen from nodes that have turned by `R` since.

    `A0` and the rotation of every node come with the operator of a `PreconditionedMatrixFreeSystem`. What bends softly far
    from where it was assembled mostly turns, and a stiffness turns with it: few iterations for many steps, where a
    `StaleFactor` takes more the further things have gone. `solver`: a direct one, `SparseDirect()` unless given, which
    finds the factor again as long as the matrix is kept. SOFA's WarpPreconditioner.

    Raises `ValueError` for any other operator.
    Source: H. Courtecuisse, J. Allard, C. Duriez, S. Cotin, "Asynchronous preconditioners for efficient solving of
    non-linear deformations", VRIPHYS 2010, doi:10.2312/PE/vriphys/vriphys10/059-068.
    Without units.

    Example:

        turned = {"cube": jnp.tile(jnp.eye(3), (8, 1, 1))}  # not at all
        apply = jm.solver.WarpedFactor(jm.solver.Dense()).build(jm.matrix.PreconditionedOperator(A, A, turned))
        assert jnp.allclose(A.mv(apply(b))["cube"], b["cube"], atol=1.0)  # [N]
    """

    solver: lx.AbstractLinearSolver = eqx.field(default_factory=SparseDirect)

    definite = True
    indefinite = False

    def __check_init__(self):
        check_instance("WarpedFactor", "solver", self.solver, lx.AbstractLinearSolver)

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        if not isinstance(operator, PreconditionedOperator):
            raise ValueError(
                f"WarpedFactor: operator must tell how nodes have turned, which a {type(operator).__name__} does not: use "
                "PreconditionedMatrixFreeSystem."
            )
        return _Turned(operator, self.solver, self.solver.init(operator.near, {}), jnp.int32(FINE))


class _Turned(AbstractApplied):
    operator: PreconditionedOperator
    solver: lx.AbstractLinearSolver
    state: Any
    flaw: Array

    def __call__(self, r):
        return self.operator.from_frames(self.solver.compute(self.state, self.operator.into_frames(r), {})[0])

    def transpose(self):
        return _Turned(self.operator, self.solver, self.solver.transpose(self.state, {})[0], self.flaw)
