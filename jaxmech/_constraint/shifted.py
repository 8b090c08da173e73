"""A constraint as a relaxed time step asks for it: a part of what it was off by at the start may stay."""

from typing import Any

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .._scene.stencil import Stencil
from .multiplier import AbstractMultiplierConstraint


class Shifted(AbstractMultiplierConstraint):
    """`g(x) - left = (1 - kept) C lambda`, with `left = kept g(x0)`: `g + tau g' = C lambda` over a step of `h`, `g'` by a
    difference, where `kept = tau / (h + tau)`."""

    constraint: AbstractMultiplierConstraint
    left: Parameter = parameter(ndim=1)  # of each element, (rows,)
    kept: Parameter = parameter(ndim=1)

    @property
    def on(self) -> tuple[Stencil, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.on

    @property
    def multiplier(self) -> tuple[Stencil, ...] | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.multiplier

    @property
    def compliance(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.compliance

    @property
    def relaxation(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.relaxation

    @property
    def adds_up(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.adds_up

    @property
    def follows_time(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.follows_time

    def element_compliance(self) -> Any:
        return self.constraint.element_compliance() * (1 - self.kept)

    def element_constraint(self, *x: Array) -> Array:
        return self.constraint.rows(*x) - self.left

    def at_time(self, time: Array) -> "Shifted":
        return Shifted(self.constraint.at_time(time), self.left, self.kept)
