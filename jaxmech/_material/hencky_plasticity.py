"""Metal plasticity at large strains."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._math.matrix_functions import exponential, half_logarithm
from .._math.small_matrix import inverse
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.internal import internal
from .._scene.parameter import Ranges, check_range, parameter
from .base import AbstractMaterial
from .lame import check_engineering, moduli_like
from .strain import determinants, isochoric_invariants, trace
from .stretches import logarithm_invariants

_ROUNDING = 16  # units: what differences of strains make of a stress


class HenckyPlasticity(AbstractMaterial):
    """Von Mises plasticity at strains and rotations of any size: `F = F_e F_p`, Hooke's law of the logarithmic strain.

    Stored: `psi = mu e:e + K/2 (ln J)^2 + H/2 a^2` [J/m^3], `e` the deviator of `ln(F_e^T F_e)/2`, `K = lam + 2/3 mu`.
    Yielding: `q = sqrt(6) mu |e| <= s + H a` of the Kirchhoff stress, `a` the accumulated plastic strain. A step of implicit
    Euler by the exponential map, `F_p = exp(da 3 mu e / q) F_p(old)`, is radial return in logarithmic strains: its energy
    density is that of the trial, at the old `F_p` and `a`, less `f^2 / (2 (3 mu + H))` where `f = q - s - H a` is positive;
    its derivatives are the stress and the consistent tangent. Plastic flow keeps the volume.

    `young` [Pa], `poisson`, `yield_stress` `s` [Pa], `hardening` `H` [Pa] (Kirchhoff stress over logarithmic plastic
    strain): shared, or one per element or Gauss point. Internal variables of every point: `plastic_gradient` `F_p` (3, 3) of
    determinant 1, `accumulated` `a`. Strains of one step up to 4. `J2Plasticity` is the same of small strains, and cheaper.
    Raises `ValueError` unless `young > 0`, `-1 < poisson < 1/2`, `yield_stress > 0`, `hardening >= 0`, `accumulated >= 0`,
    and for a plastic gradient of another volume; `TypeError` for what is not a real number.
    Source: A. L. Eterovic, K.-J. Bathe, Int. J. Numer. Methods Eng. 30 (1990) 1099, doi:10.1002/nme.1620300602; M. Ortiz and
    L. Stainier, Comput. Methods Appl. Mech. Eng. 171, 1999, doi:10.1016/S0045-7825(98)00219-9 (the energy of a step).

    Example:

        law = jm.material.HenckyPlasticity(young=2e5, poisson=0.3, yield_stress=200.0, hardening=100.0)
        plastic = 0.5  # logarithmic strain along x; stress s + H a = 250, on which the elastic strain is 250/E
        across = -0.3 * 250 / 2e5 - 0.5 * plastic  # [-], in a bar that is free to get thinner
        stretched = jnp.diag(jnp.exp(jnp.array([250 / 2e5 + plastic, across, across])))
        kirchhoff = jax.grad(law.energy_density)(stretched) @ stretched.T
        assert jnp.allclose(kirchhoff, jnp.diag(jnp.array([250.0, 0.0, 0.0])), atol=0.1)  # [Pa]
        assert jnp.allclose(law.point_update(stretched)["accumulated"], plastic, atol=1e-4)
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    yield_stress: Parameter = parameter()
    hardening: Parameter = parameter(default=0.0)
    plastic_gradient: Parameter = internal(np.eye(3))
    accumulated: Parameter = internal(0.0)
    needs_positive_volume = True

    def __check_init__(self):
        check_engineering(self)
        if self.plastic_gradient.shape[-2:] != (3, 3):
            raise ValueError(
                f"HenckyPlasticity: plastic_gradient has shape {self.plastic_gradient.shape}, expected (3, 3) at the end."
            )
        check_range(
            self,
            yield_stress=(self.yield_stress, lambda s: s > 0, "positive"),
            hardening=(self.hardening, lambda h: h >= 0, "at least 0"),
            **self.internal_ranges(),
        )

    def internal_ranges(self) -> Ranges:
        return {
            "accumulated": (self.accumulated, lambda a: a >= 0, "at least 0"),
            "plastic_gradient": (self.plastic_gradient, _keeps_volume, "of determinant 1"),
        }

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, lam = moduli_like(F, self.young, self.poisson)
        hardening, accumulated = (jnp.asarray(a, F.dtype) for a in (self.hardening, self.accumulated))
        j2, log_j, _, excess = self._trial(F)
        stored = 0.5 * mu * j2 + 0.5 * (lam + 2 / 3 * mu) * log_j**2
        return stored + 0.5 * hardening * accumulated**2 - 0.5 * excess**2 / (3 * mu + hardening)

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        mu, _ = moduli_like(F, self.young, self.poisson)
        hardening, accumulated = (jnp.asarray(a, F.dtype) for a in (self.hardening, self.accumulated))
        _, _, q, excess = self._trial(F)
        slip, elastic = excess / (3 * mu + hardening), self._elastic(F)
        strain = half_logarithm(elastic.T @ elastic)
        strain = strain - trace(strain) / 3 * jnp.eye(3, dtype=F.dtype)
        flow = exponential(3 * mu * slip / q * strain)
        return {"plastic_gradient": flow @ self._flowed(F), "accumulated": accumulated + slip}

    def _flowed(self, F: Array) -> Float[Array, "3 3"]:
        return jnp.asarray(self.plastic_gradient, F.dtype)

    def _elastic(self, F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        """`F_e` if nothing flowed."""
        return F @ inverse(self._flowed(F))

    def _trial(self, F: Float[Array, "3 3"]) -> tuple[Scalar, Scalar, Scalar, Scalar]:
        """If nothing flowed: `2 e:e`, `ln J`, `q` and `max(f, 0)`; where nothing does, some `q` that is not 0."""
        mu, _ = moduli_like(F, self.young, self.poisson)
        limit = jnp.asarray(self.yield_stress, F.dtype) + jnp.asarray(self.hardening, F.dtype) * self.accumulated
        first, second, log_j = isochoric_invariants(self._elastic(F))
        j2, _ = logarithm_invariants(first, second)
        squared = 3 * mu**2 * j2
        # What flowed a step ago stands on the surface, and its rounding must not decide whether it flows on.
        size = limit + 3 * mu * (jnp.sum(jnp.abs(F)) + jnp.sum(jnp.abs(self._flowed(F))))
        yields = squared > (limit + _ROUNDING * jnp.finfo(F.dtype).eps * size) ** 2
        q = jnp.sqrt(jnp.where(yields, squared, limit**2))
        return j2, log_j, q, jnp.where(yields, q - limit, 0.0)


def _keeps_volume(gradient: Any) -> Any:
    return abs(determinants(gradient) - 1) < 1e-3
