"""The linear system of one step, in the user's hand: take it, solve it elsewhere, hand the solution back."""

from collections.abc import Callable

import equinox as eqx
import lineax as lx

from .._linear_solver.default import default_solver
from .._model.dynamics import Fields
from .._model.system import State
from .._runtime.argument_checks import check_instance


class LinearProblem(eqx.Module):
    """`A x = b`, as a step or a Newton iteration solves it, constraints included; given by `static_problem` and by the
    `problem` of integrators. SOFA's `A()`, `b()` and `x()`.

    `A`: the operator, a `BlockMatrix` or without a matrix; `b`, `x`: `{state: (nodes, deriv_size)}`. `advance(x)`: the
    `State` that a solution leads to. Steps are pure functions, so nothing has to be kept for this: the linear system of any
    past step is made again from the state at which it began.
    Units: `A` [N/m], `b` [N] and `x` [m] in statics. `solve` raises `TypeError` for what is no solver, and lineax's error
    where the solver fails.
    Source: J. Nocedal and S. J. Wright, *Numerical Optimization*, 2006, doi:10.1007/978-0-387-40065-5, chapter 11.

    Example:

        problem = jm.solver.static_problem(system, state, linear_system)
        x = problem.solve(jm.solver.Dense())
        assert jnp.allclose(problem.A.mv(x)["cube"], problem.b["cube"], atol=1.0)  # [N]
    """

    A: lx.AbstractLinearOperator
    b: Fields
    advance: Callable[[Fields], State]

    def solve(self, solver: lx.AbstractLinearSolver | None = None) -> Fields:
        """`x = A^-1 b`, by a lineax solver (`default_solver` unless given), which raises where it fails."""
        if solver is not None:
            check_instance("LinearProblem.solve", "solver", solver, lx.AbstractLinearSolver)
        solver = default_solver(self.A) if solver is None else solver
        return lx.linear_solve(self.A, self.b, solver).value
