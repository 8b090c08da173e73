"""Thermal strain: a material that is larger where it is warmer."""

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, is_concrete, parameter
from .lame import check_numbers
from .wrapped import AbstractWrappedLaw, AnyLaw


class ThermalExpansion(AbstractWrappedLaw):
    """`psi = s^3 psi_0(F / s)` [J/m^3], `s = 1 + alpha T`: a material whose rest is `s` times as long in all directions.

    `cold`: the law `psi_0`, which may have memory, or an `AbstractStressLaw`, whose stress is then `P = s^2 P_0(F / s)` (in
    `StressSolidFEM`). `expansion` `alpha` [1/K]; `warming` `T` [K], above the temperature
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

    wraps = "cold"

    cold: AnyLaw
    expansion: Parameter = parameter()
    warming: Parameter = parameter()

    def __check_init__(self):
        self.check_wrapped()
        check_numbers(self)
        if is_concrete(self.expansion, self.warming) and self.expansion.ndim == 0:  # else whoever has elements knows
            check_range(self, warming=(self._stretch(), lambda s: s > 0, "such that 1 + expansion * warming is positive"))

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        stretch = self._stretch().astype(F.dtype)
        return stretch**3 * self.cold.energy_density(F / stretch)  # pyright: ignore[reportAttributeAccessIssue]

    def stress(self, F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        stretch = self._stretch().astype(F.dtype)
        return stretch**2 * self.cold.stress(F / stretch)  # pyright: ignore[reportAttributeAccessIssue]

    def inner_gradient(self, F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        return F / self._stretch().astype(F.dtype)

    def _stretch(self) -> Array:
        return 1 + self.expansion * self.warming
