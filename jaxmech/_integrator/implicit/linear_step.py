"""One linear solve, differentiated as what it is: `A x = b`, whose derivative is `A^-1 d(b - A x)`."""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from ..._linear_solver.base.derivative import FEW, constant, derivative_solve
from ..._linear_solver.dense.lu import Dense
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..._runtime.precision import joined
from ..._runtime.reverse_mode import kept
from ..._solve.linear_problem import LinearProblem
from ..displaced import combined
from .stage import AbstractStage, to_be_differentiated


class AbstractLinearStep(eqx.Module):
    """What a linear system is made of; a pytree, whose leaves are what its solution is differentiated by."""

    @abc.abstractmethod
    def imbalance(self, x: Fields) -> Fields:
        """`b - A x`, in a form that is cheap to differentiate."""


def solved(step: AbstractLinearStep, A: Any, b: Fields, solver: Any, derivatives_of: str) -> tuple[Fields, lx.Solution]:
    """`A^-1 b`, `A` and `b` those of `step`, and what the solver says."""
    return _solved(step, A, b, solver, derivatives_of)[:2]


class _Made(eqx.Module):
    """What a solver has made of a matrix: its arrays, and the rest, which is to stay as it is."""

    arrays: list[Array]
    rest: Any = eqx.field(static=True)

    @classmethod
    def of(cls, A: Any, solver: Any) -> "_Made":
        leaves, structure = jax.tree.flatten(solver.init(constant(A), {}))
        others = tuple(None if eqx.is_array(a) else a for a in leaves)
        return cls([a for a in leaves if eqx.is_array(a)], (structure, others))

    @property
    def state(self) -> Any:
        structure, others = self.rest
        arrays = iter(self.arrays)
        return jax.tree.unflatten(structure, [next(arrays) if a is None else a for a in others])


@eqx.filter_custom_jvp
def _solved(
    step: AbstractLinearStep, A: Any, b: Fields, solver: Any, derivatives_of: str
) -> tuple[Fields, lx.Solution, _Made | None]:
    """The same, and the dense factor of a matrix of few unknowns."""
    del step, derivatives_of
    made = _Made.of(A, solver) if isinstance(solver, Dense) and A.in_size() <= FEW else None
    known = {} if made is None else {"state": made.state}
    solution = lx.linear_solve(A, b, solver, throw=False, **known)
    return solution.value, lx.Solution(None, solution.result, solution.stats, None), made


@_solved.def_jvp
def _solved_jvp(primals, tangents):
    # A and b move with the inputs: dx = A^-1 d(b - A x). Products differentiate far faster than the matrix.
    step, A, b, solver, derivatives_of = primals
    x, said, made = kept(_solved(*primals))
    # Where a failed solve left no number: nil times such a rate shall be nil for whoever does not ask for this member.
    at = {s: jnp.where(jnp.isfinite(a), a, 0) for s, a in x.items()}
    rate = eqx.filter_jvp(lambda step: step.imbalance(at), (step,), (tangents[0],))[1]
    rate = {s: jnp.zeros_like(a) if rate[s] is None else rate[s] for s, a in x.items()}
    moved = derivative_solve(A, rate, solver, derivatives_of, made=None if made is None else made.state)
    return (x, said, made), (moved, *jax.tree.map(lambda _: None, (said, made)))


class LinearStep(AbstractLinearStep):
    """One Newton step of a stage from its predicted unknowns; `x` is what is added to them."""

    stage: AbstractStage

    def imbalance(self, x: Fields) -> Fields:
        return _imbalance(self.stage, x)

    def unknowns(self, x: Fields) -> Fields:
        """The unknowns that a solution means."""
        return combined((1.0, self.stage.predicted), (1.0, x))

    def problem(self, advance: Callable[[Fields], State]) -> LinearProblem:
        """`A x = b`, assembled; `advance`: where unknowns lead."""
        stage, u = self.stage, self.stage.predicted
        at, linear_system = stage.state(u), stage.linear_system
        with joined():
            A, force = linear_system.linearized(stage.system, at, stage.factors, weights=not stage.joins)
        b = project(stage.system, stage.balance(u, at, force))
        return LinearProblem(linear_system.constrain(stage.system, A), b, eqx.Partial(_advanced, self, advance))


def _advanced(step: LinearStep, advance: Callable[[Fields], State], x: Fields) -> State:
    return advance(step.unknowns(x))


# To Equinox's, numbers that are no arrays, such as a damping of nil, stay what they are.
@partial(eqx.filter_checkpoint, prevent_cse=False)
def _imbalance(stage: AbstractStage, x: Fields) -> Fields:
    """Kept by no one: reverse mode computes it anew, but for what the step itself has there."""
    system: System = stage.system
    free = project(system, x)
    rest = project(system, to_be_differentiated(stage).remainder(free))
    return {s: rest[s] + free[s] - x[s] for s in rest}
