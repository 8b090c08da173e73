"""Laws that are made of another law."""

import abc
from typing import TYPE_CHECKING

from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float
from .._scene.parameter import Ranges
from .base import AbstractMaterial
from .stress_law import AbstractStressLaw

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

AnyLaw = AbstractMaterial | AbstractStressLaw


class AbstractWrappedLaw(AbstractMaterial):
    """A law made of another one, held in the field that `wraps` names, at the deformation gradient `inner_gradient`.

    Of an energy it is an energy, of a stress (`AbstractStressLaw`) a stress, for `StressSolidFEM`.
    """

    wraps: AbstractClassVar[str]

    def check_wrapped(self) -> None:
        """Raise `TypeError` unless there is a law within."""
        check_instance(type(self).__name__, self.wraps, self.inner, (AbstractMaterial, AbstractStressLaw))

    @property
    def inner(self) -> AnyLaw:
        """The law within."""
        return getattr(self, self.wraps)

    def inner_gradient(self, F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        """What that law is deformed by."""
        return F

    @abc.abstractmethod
    def stress(self, F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        """The first Piola stress [Pa], where the law within says its own."""

    def internal_ranges(self) -> Ranges:
        return {f"{self.wraps}.{name}": asked for name, asked in self.inner.internal_ranges().items()}

    @property
    def needs_positive_volume(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the law within does."""
        return self.inner.needs_positive_volume

    @property
    def undefined_when(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What the law within says."""
        return getattr(self.inner, "undefined_when", AbstractMaterial.undefined_when)

    def is_defined(self, F: Float[Array, "3 3"]) -> Array:
        return self.inner.is_defined(self.inner_gradient(F))  # pyright: ignore[reportAttributeAccessIssue]

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        new = self.inner.point_update(self.inner_gradient(F))
        return {f"{self.wraps}.{name}": value for name, value in new.items()}


def innermost(law: AnyLaw) -> AnyLaw:
    """The law that no other is within."""
    while isinstance(law, AbstractWrappedLaw):
        law = law.inner
    return law
