"""What a residual to annul is, how to iterate on it, and what is reported of that."""

import abc
from dataclasses import dataclass
from typing import Any

import equinox as eqx
from equinox import AbstractVar

from .._linear_system.base import AbstractLinearSystem
from .._model.dynamics import Fields
from .._model.fault import Fault
from .._model.system import State, System
from .._runtime.argument_checks import check_choice, check_counts, check_instance, check_tolerances
from .._runtime.array_types import Array

LINE_SEARCHES = ("finite", "residual", "none")


class AbstractEquilibrium(eqx.Module):
    """A residual to annul. A pytree: its leaves are what solutions are differentiated by."""

    system: AbstractVar[System]
    linear_system: AbstractVar[AbstractLinearSystem]

    @abc.abstractmethod
    def residual(self, u: Fields) -> tuple[Fields, Fields]:
        """`R(u)` [N, or N s], and the gap of the prescribed directions, before projection."""

    @abc.abstractmethod
    def held(self, u: Fields, start: Fields) -> Fields:
        """The gap to the start in the directions that stay there: nil, but not its derivatives."""

    @abc.abstractmethod
    def operator(self, u: Fields) -> Any:
        """`A = -dR/du` before projection, exactly or nearly."""

    @abc.abstractmethod
    def move(self, u: Fields, d: Fields) -> Fields:
        """`u + d` in the chart of the unknowns."""

    @abc.abstractmethod
    def state(self, u: Fields) -> State:
        """The state that the unknowns stand for."""

    @abc.abstractmethod
    def given(self, u: Fields) -> list[tuple[str, Array]]:
        """All numbers that the problem is made of, by name, with `u` where it starts."""

    @abc.abstractmethod
    def is_exact(self) -> bool:
        """Whether `operator` is the derivative itself. Static."""

    @abc.abstractmethod
    def is_inertial(self) -> bool:
        """Whether `operator` holds mass, and another one in every step: what `default_solver` asks. Static."""

    @abc.abstractmethod
    def is_valid(self, u: Fields) -> Array:
        """Whether every law is defined at `u`."""

    @abc.abstractmethod
    def rounding(self, u: Fields) -> Fields:
        """The magnitude of the numbers whose rounding `A` turns into a residual, per node."""

    @abc.abstractmethod
    def at_load(self, load: Array, start: tuple[Fields, Fields]) -> "AbstractEquilibrium":
        """The problem at a fraction of its load, `start` the residual and gap without any of it."""


@dataclass(frozen=True)
class NewtonOptions:
    """How to iterate. `rtol=None`: the square root of the rounding unit, or the residual's rounding floor if higher.
    `derivatives_of`: whose derivatives raise where their linear solves fail; they are NaN there unless somebody is named.
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int = 50
    load_steps: int = 1
    line_search: str = "finite"
    halvings: int = 12
    derivatives_of: str = ""

    def __post_init__(self):
        check_choice("Newton", "line_search", self.line_search, LINE_SEARCHES)
        check_counts("Newton", max_steps=self.max_steps, load_steps=self.load_steps)
        check_tolerances("Newton", rtol=self.rtol, atol=self.atol)


class NewtonInfo(eqx.Module):
    """What happened. `residuals[l, i]`: the residual norm before iteration `i` of load step `l`, -1 where there was none.

    `floor`: the residual that rounding alone makes. `loose_state`: when singular, the number (in sorted order) of the
    main state that is free to move, -1 if not known. `fault`: where it failed, in numbers that messages put into words.
    """

    result: Any
    iterations: Array
    residuals: Array
    residual: Array
    floor: Array
    linear_steps: Array
    loose_state: Array
    fault: Fault


class StepInfo(eqx.Module):
    """What happened in a time step; of a trajectory, every array with a leading axis of steps.

    `result`: a member of `RESULTS`. `iterations` of Newton, 1 for a linearised step; `residuals[i]` [N, or N s]: the
    residual norm before iteration `i`, -1 where there was none; `residual`: the last one, and `floor`: that which rounding
    alone makes (0 for a linearised step, which looks at none). `linear_steps`: those of the linear solver. `loose_state`
    and `fault`: as in `NewtonInfo`.

        >>> after, info = jm.ImplicitEuler(linear_system).step(system, state, 0.01)
        >>> bool(info.result == jm.RESULTS.successful), int(info.iterations)
        (True, 1)
    """

    result: Any
    iterations: Array
    residuals: Array
    residual: Array
    floor: Array
    linear_steps: Array
    loose_state: Array
    fault: Fault

    @classmethod
    def of_newton(cls, info: NewtonInfo) -> "StepInfo":
        """That of a step that Newton's iteration solved, which has one load step. Raises `TypeError` for anything else."""
        check_instance("StepInfo.of_newton", "info", info, NewtonInfo)
        return cls(
            info.result,
            info.iterations,
            info.residuals[0],
            info.residual,
            info.floor,
            info.linear_steps,
            info.loose_state,
            info.fault,
        )
