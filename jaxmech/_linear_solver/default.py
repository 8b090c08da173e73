"""The solver that is taken where none is named."""

import lineax as lx

from .._runtime.argument_checks import check_instance
from .auto import AutoLinearSolver


def default_solver(operator: lx.AbstractLinearOperator, *, inertial: bool = False) -> lx.AbstractLinearSolver:
    """The solver that is taken where none is named: that of `AutoLinearSolver(inertial=inertial).choose(operator)`.

    `inertial`: of a time step, with mass, and other values in the next one.
    Raises `TypeError` for what is no operator, and what `AutoLinearSolver` raises. No units.

    Example:

        assert isinstance(jm.solver.default_solver(A), jm.solver.Dense)  # 24 unknowns
    """
    check_instance("default_solver", "operator", operator, lx.AbstractLinearOperator)
    return AutoLinearSolver(inertial=inertial).choose(operator)[0]
