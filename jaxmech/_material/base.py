"""What a material is: the energy that a deformation gradient stores in a unit of rest volume."""

import abc
from typing import TYPE_CHECKING

from .._runtime.array_types import Array, Float, Scalar
from .._scene.component import Component

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractMaterial(Component):
    """A hyperelastic material: its energy density. Stress and tangent are its derivatives.

    The first Piola stress is `P = d psi / dF` [Pa]; the elasticity `d2 psi / dF2` [Pa].
    """

    needs_positive_volume: AbstractClassVar[bool]  # psi is undefined where det F <= 0

    @abc.abstractmethod
    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        """`psi(F)` [J/m^3], nil and without stress at `F = I`."""
