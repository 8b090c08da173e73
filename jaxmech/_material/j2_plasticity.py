"""Metal plasticity at small strains."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.internal import internal
from .._scene.parameter import Ranges, check_range, parameter
from .base import AbstractMaterial
from .lame import check_engineering, moduli_like
from .strain import displacement_gradient, trace

_ROUNDING = 16  # units: what differences of strains make of a stress

_DRIFT = 1e-3  # of the largest entry of a plastic strain: what steps of float32 may add up to


class J2Plasticity(AbstractMaterial):
    """Hooke's law up to von Mises' yield stress, with linear isotropic and kinematic hardening; small strains.

    Stored: `psi = mu e:e + K/2 tr(eps)^2 + H/2 a^2 + C/3 eps_p:eps_p` [J/m^3], `e = dev(eps - eps_p)`, `K = lam + 2/3 mu`.
    Yielding: `q = sqrt(3/2) |2 mu e - 2/3 C eps_p| <= s + H a`, `a` the accumulated plastic strain, `2/3 C eps_p` the back
    stress (Prager's). A step of implicit Euler has the energy density of the trial, at the old `eps_p` and `a`, less
    `f^2 / (2 (3 mu + H + C))` where `f = q - s - H a` is positive: its derivative is the stress of radial return, the second
    one the consistent tangent.

    `young` [Pa], `poisson`, `yield_stress` `s` [Pa], `hardening` `H` and `kinematic` `C` [Pa] (each of uniaxial stress over
    plastic strain; with `C` the yield surface moves, with `H` it grows): shared, or one per element or Gauss point. Internal
    variables of every point: `plastic_strain` `eps_p` (3, 3), symmetric and without trace, and `accumulated` `a`. For small
    rotations only. Raises `ValueError` unless `young > 0`, `-1 < poisson < 1/2`, `yield_stress > 0`, `hardening >= 0` and
    `kinematic >= 0`, `accumulated >= 0` and `eps_p` as said, `TypeError` for what is not a real number.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, section 3.3; M. Ortiz and
    L. Stainier, Comput. Methods Appl. Mech. Eng. 171, 1999, doi:10.1016/S0045-7825(98)00219-9 (the energy of a step).

    Example:

        law = jm.material.J2Plasticity(young=1e6, poisson=0.25, yield_stress=1e3, hardening=0.0)  # mu = 4e5 Pa
        sheared = jnp.eye(3).at[0, 1].set(0.01)
        P = jax.grad(law.energy_density)(sheared)
        assert jnp.allclose(P[0, 1], 1e3 / jnp.sqrt(3.0), rtol=1e-4)  # the yield stress in shear [Pa]
        flowed = law.point_update(sheared)["plastic_strain"]
        assert jnp.allclose(2.0 * flowed[0, 1], 0.01 - P[0, 1] / 4e5, atol=1e-6)  # what is not elastic
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    yield_stress: Parameter = parameter()
    hardening: Parameter = parameter(default=0.0)
    kinematic: Parameter = parameter(default=0.0)
    plastic_strain: Parameter = internal(np.zeros((3, 3)))
    accumulated: Parameter = internal(0.0)
    needs_positive_volume = False

    def __check_init__(self):
        check_engineering(self)
        if self.plastic_strain.shape[-2:] != (3, 3):
            raise ValueError(
                f"J2Plasticity: plastic_strain has shape {self.plastic_strain.shape}, expected (3, 3) at the end."
            )
        check_range(
            self,
            yield_stress=(self.yield_stress, lambda s: s > 0, "positive"),
            hardening=(self.hardening, lambda h: h >= 0, "at least 0"),
            kinematic=(self.kinematic, lambda c: c >= 0, "at least 0"),
            **self.internal_ranges(),
        )

    def internal_ranges(self) -> Ranges:
        return {
            "accumulated": (self.accumulated, lambda a: a >= 0, "at least 0"),
            "plastic_strain": (self.plastic_strain, _is_deviator, "symmetric and without trace"),
        }

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, lam = moduli_like(F, self.young, self.poisson)
        hardening, kinematic, accumulated, flowed = self._numbers(F)
        elastic, volume, _, _, excess = self._trial(F)
        stored = mu * jnp.sum(elastic * elastic) + 0.5 * (lam + 2 / 3 * mu) * volume**2
        hardened = 0.5 * hardening * accumulated**2 + kinematic / 3 * jnp.sum(flowed * flowed)
        return stored + hardened - 0.5 * excess**2 / (3 * mu + hardening + kinematic)

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        mu, _ = moduli_like(F, self.young, self.poisson)
        hardening, kinematic, accumulated, flowed = self._numbers(F)
        _, _, driving, q, excess = self._trial(F)
        slip = excess / (3 * mu + hardening + kinematic)
        return {"plastic_strain": flowed + (1.5 * slip / q) * driving, "accumulated": accumulated + slip}

    def _trial(self, F: Float[Array, "3 3"]) -> tuple[Array, Scalar, Array, Scalar, Scalar]:
        """If nothing flowed: `e`, `tr(eps)`, the stress that drives the flow, `q` and `max(f, 0)`; where nothing does, some
        `q` that is not 0."""
        mu, _ = moduli_like(F, self.young, self.poisson)
        hardening, kinematic, accumulated, flowed = self._numbers(F)
        limit = jnp.asarray(self.yield_stress, F.dtype) + hardening * accumulated
        H = displacement_gradient(F)
        elastic = 0.5 * (H + H.T) - flowed
        elastic = elastic - trace(elastic) / 3 * jnp.eye(3, dtype=F.dtype)
        driving = 2 * mu * elastic - 2 / 3 * kinematic * flowed
        squared = 1.5 * jnp.sum(driving * driving)
        # What flowed a step ago stands on the surface, and its rounding must not decide whether it flows on: that of one as
        # well, for in plane stress the thickness is found anew.
        size = limit + 3 * mu * (0.5 + jnp.sum(jnp.abs(H) + jnp.abs(flowed))) + kinematic * jnp.sum(jnp.abs(flowed))
        yields = squared > (limit + _ROUNDING * jnp.finfo(F.dtype).eps * size) ** 2
        q = jnp.sqrt(jnp.where(yields, squared, limit**2))
        return elastic, trace(H), driving, q, jnp.where(yields, q - limit, 0.0)

    def _numbers(self, F: Array) -> tuple[Array, ...]:
        """`H`, `C`, `a` and `eps_p`."""
        return tuple(
            jnp.asarray(a, F.dtype) for a in (self.hardening, self.kinematic, self.accumulated, self.plastic_strain)
        )


def _is_deviator(strain: Any) -> Any:
    """Of each tensor. What rounding adds up in a history is allowed."""
    lacks = abs(strain - strain.swapaxes(-1, -2)).max((-1, -2)) + abs(strain.trace(axis1=-2, axis2=-1))
    return lacks <= _DRIFT * abs(strain).max((-1, -2))
