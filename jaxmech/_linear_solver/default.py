"""The solver that is taken where none is named."""

import lineax as lx

from .auto import AutoLinearSolver


def default_solver(operator: lx.AbstractLinearOperator) -> lx.AbstractLinearSolver:
    """The solver that is taken where none is named: that of `AutoLinearSolver().choose(operator)`."""
    return AutoLinearSolver().choose(operator)[0]
