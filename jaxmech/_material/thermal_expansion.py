"""Thermal strain: a material that is larger where it is warmer."""

from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import Ranges, check_range, is_concrete, parameter
from .base import AbstractMaterial
from .lame import check_numbers


class ThermalExpansion(AbstractMaterial):
    """`psi = s^3 psi_0(F / s)` [J/m^3], `s = 1 + alpha T`: a material whose rest is `s` times as long in all directions.

    `cold`: the material `psi_0`, which may have memory. `expansion` `alpha` [1/K]; `warming` `T` [K], above the temperature
    of rest: both shared, or one per element or Gauss point (`jm.output.gauss_fields` says where those are). `T` is what a
    `control` changes in time, and a derivative may be taken by. Of small strains the stress is that of `eps - alpha T I`, to
    a share of `alpha T`; a change of size by swelling or growth is the same. Raises `ValueError` where `s` is not positive,
    `TypeError` for what is no material or not a real number.
    Source: G. A. Holzapfel, *Nonlinear Solid Mechanics*, 2000, ISBN 978-0-471-82319-3, section 7.8 (thermoelasticity).

    Example:

        steel = jm.material.ThermalExpansion(jm.material.LinearElastic(210e9, 0.3), expansion=12e-6, warming=50.0)
        P = jax.grad(steel.energy_density)(jnp.eye(3))  # it cannot expand
        assert jnp.allclose(P, -210e9 / (1 - 2 * 0.3) * 12e-6 * 50.0 * jnp.eye(3), rtol=1e-3)  # -E alpha T / (1 - 2 nu) [Pa]
    """

    cold: AbstractMaterial
    expansion: Parameter = parameter()
    warming: Parameter = parameter()

    def __check_init__(self):
        check_instance("ThermalExpansion", "cold", self.cold, AbstractMaterial)
        check_numbers(self)
        if is_concrete(self.expansion, self.warming) and self.expansion.ndim == 0:  # else whoever has elements knows
            check_range(self, warming=(self._stretch(), lambda s: s > 0, "such that 1 + expansion * warming is positive"))

    def internal_ranges(self) -> Ranges:
        return {f"cold.{name}": asked for name, asked in self.cold.internal_ranges().items()}

    @property
    def needs_positive_volume(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether that material does."""
        return self.cold.needs_positive_volume

    @property
    def undefined_when(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What that material says."""
        return self.cold.undefined_when

    def is_defined(self, F: Float[Array, "3 3"]) -> Array:
        return self.cold.is_defined(F / self._stretch())

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        stretch = self._stretch().astype(F.dtype)
        return stretch**3 * self.cold.energy_density(F / stretch)

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        return {f"cold.{name}": value for name, value in self.cold.point_update(F / self._stretch()).items()}

    def _stretch(self) -> Array:
        return 1 + self.expansion * self.warming
