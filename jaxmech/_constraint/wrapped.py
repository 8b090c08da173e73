"""A constraint that is made of another one."""

from typing import Any

from equinox import AbstractVar

from .._scene.stencil import Stencil
from .multiplier import AbstractMultiplierConstraint


class AbstractWrapped(AbstractMultiplierConstraint):
    """A constraint that acts where another one does, with its multipliers; a subclass says what else it asks for."""

    constraint: AbstractVar[AbstractMultiplierConstraint]

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
    def units(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.units

    @property
    def adds_up(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.adds_up

    def check_dofs(self, dofs: Any) -> None:
        self.constraint.check_dofs(dofs)

    def element_compliance(self) -> Any:
        return self.constraint.element_compliance()


class AbstractRestated(AbstractWrapped):
    """The same constraint as a part of a step asks for it: to a linear system there is no difference."""

    @property
    def kind(self) -> str:
        return self.constraint.kind

    @property
    def follows_time(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.constraint.follows_time
