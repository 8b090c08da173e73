"""How a system is solved whose operator is known by its products, next to a matrix that is almost the same."""

from typing import Any

import jax
import lineax as lx

from .base.vectors import Vector
from .dense.few_unknowns import MOST
from .dense.lu import Dense
from .krylov.preconditioned_gmres import Nearby


def solver_by_products(near: lx.AbstractLinearOperator, solver: lx.AbstractLinearSolver, like: Vector, **how: Any) -> Any:
    """For an operator near to `near`, of vectors `like` one: of a handful of unknowns its matrix, a product for each of
    them, is made and factored; else `Nearby`, told `how`."""
    unknowns = sum(a.size for a in jax.tree.leaves(like))
    return Dense() if unknowns <= MOST else Nearby(near, solver, **how)
