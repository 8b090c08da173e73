"""The compliance of chosen unknowns: how they give way to forces on one another."""

from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from .._linear_solver.default import default_solver
from .._runtime.argument_checks import check_instance, numeric_array
from .._runtime.array_types import Array, Float
from .._runtime.precision import compiled
from .._runtime.results import is_traced
from .._sparse.layout import StateLayout


def compliance_matrix(
    A: lx.AbstractLinearOperator, dofs: Any, solver: lx.AbstractLinearSolver | None = None
) -> Float[Array, "k k"]:
    """`W = S A^-1 S^T`, with `S` the rows of the identity that choose the unknowns `dofs`.

    Of a stiffness: the displacement [m] of unknown `i` under a unit force [N] on unknown `j`; of the matrix of a step of
    implicit Euler, the change of velocity by a unit impulse. `dofs` `(k,)`: numbers in the flat system, as
    `A.layout.dofs(state, nodes)` gives them. `solver`: a lineax solver, `default_solver` unless given; a direct one
    factorises once for all columns. Differentiable in both modes. A direction that a constraint holds has the 1 of `I - P`
    here, coupled to nothing. Raises `ValueError` for an unknown that does not exist. SOFA's `W()` is that of its
    constraint rows.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 1 (Green's function and
    the inverse of the stiffness).

    Example:

        free = A.layout.dofs("cube", [1], [2])  # node 1, along z
        W = jm.matrix.compliance_matrix(A, free)  # [m/N]
        assert W.shape == (1, 1) and jnp.allclose(W, jnp.linalg.inv(A.to_dense())[free, free], rtol=1e-4)
    """
    check_instance("compliance_matrix", "A", A, lx.AbstractLinearOperator)
    if solver is not None:
        check_instance("compliance_matrix", "solver", solver, lx.AbstractLinearSolver)
    structure = A.in_structure()
    check_instance("compliance_matrix", "the vector that A takes", structure, dict)
    layout = StateLayout.of(structure)
    dofs = numeric_array("compliance_matrix", "dofs", dofs)
    if dofs.ndim != 1 or (dofs.size and not jnp.issubdtype(dofs.dtype, jnp.integer)):
        raise ValueError(f"compliance_matrix: dofs must be a list of whole numbers, got {dofs.dtype} of shape {dofs.shape}.")
    if not is_traced(dofs) and dofs.size and not 0 <= np.min(dofs) <= np.max(dofs) < layout.size:
        raise ValueError(f"compliance_matrix: unknowns {np.min(dofs)} to {np.max(dofs)} of a system of {layout.size}.")
    return _compliance(A, jnp.asarray(dofs, jnp.int32), default_solver(A) if solver is None else solver)


@compiled
def _compliance(A: lx.AbstractLinearOperator, dofs: Array, solver: lx.AbstractLinearSolver) -> Array:
    layout = StateLayout.of(A.in_structure())
    dtype = jnp.result_type(*jax.tree.leaves(A.in_structure()))

    def column(dof: Array) -> Array:
        force = layout.unravel(jnp.zeros(layout.size, dtype).at[dof].set(1))
        return layout.ravel(lx.linear_solve(A, force, solver).value)[dofs]

    return jax.vmap(column, out_axes=1)(dofs)
