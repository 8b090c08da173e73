"""Damage: a material that loses stiffness for good."""

from typing import Any

import jax.numpy as jnp

from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.internal import internal, remembers, time_step
from .._scene.parameter import Ranges, check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .wrapped import innermost

_ROUNDING = 16  # units: what differences of strains make of an energy
_SERIES_BELOW = 0.05  # there the closed form of `_mean_decay` loses digits, in its derivatives
_SERIES = 10  # terms: 0.05^10 / 11! is nothing


class Damage(AbstractMaterial):
    """`psi = (1 - D(k)) psi_0(F)`, `D(k) = d (1 - exp(-(k - k0)/w))`, `k` the largest `psi_0` so far, `k0` at least [J/m^3].

    A step of implicit Euler has the energy density of what is stored and what is dissipated in it, whose derivative is the
    stress `(1 - D) P_0`, and the second one the consistent tangent. To tear a unit of volume takes `k0 + w` where `d = 1`.

    `elastic`: the material `psi_0`, without memory. `threshold` `k0` and `toughness` `w` [J/m^3]; `most` `d`, below 1 so
    that what is torn still has some stiffness; `viscosity` [s], the time in which damage follows,
    `dk/dt = <psi_0 - k>/viscosity` (0: at once): shared, or one per element or Gauss point. Internal variable of
    every point: `worst` `k`, 0 where nothing has happened.

    No length is in this law: where it softens, strain localises in one row of elements, and the energy that a crack takes
    falls with their size. Let `w` be the energy of a crack [J/m^2] over the size of an element there, or take a viscosity
    that spreads the damage over several at the rate of loading; neither gives a crack a width of its own.

    Raises `ValueError` unless `k0 >= 0`, `w > 0`, `0 <= d < 1` and the viscosity is at least 0, `TypeError` for what is no
    material or not a real number.
    Source: J. C. Simo, "On a fully three-dimensional finite-strain viscoelastic damage model", Comput. Methods Appl. Mech.
    Eng. 60, 1987, doi:10.1016/0045-7825(87)90107-1; Z. P. Bazant and B. H. Oh, "Crack band theory for fracture of concrete",
    Mater. Struct. 16, 1983, doi:10.1007/BF02486267.

    Example:

        law = jm.material.Damage(jm.material.LinearElastic(1e3, 0.0), threshold=1.0, toughness=9.0, most=0.99)
        stretched = jnp.diag(jnp.array([1.1, 1.0, 1.0]))  # psi_0 = 500 e^2 = 5 J/m^3
        P = jax.grad(law.energy_density)(stretched)
        assert jnp.allclose(P[0, 0], 100.0 * (1 - 0.99 * -jnp.expm1(-4.0 / 9.0)))  # (1 - D) E e [Pa]
        assert jnp.allclose(law.point_update(stretched)["worst"], 5.0)  # [J/m^3]
    """

    elastic: AbstractMaterial
    threshold: Parameter = parameter()
    toughness: Parameter = parameter()
    most: Parameter = parameter(default=0.999)
    viscosity: Parameter = parameter(default=0.0)
    worst: Parameter = internal(0.0)
    dt: Parameter = time_step()

    def __check_init__(self):
        check_instance("Damage", "elastic", innermost(self.elastic), AbstractMaterial)
        if remembers(self.elastic):
            raise TypeError(f"Damage: elastic must be a material without memory, got {type(self.elastic).__name__}.")
        check_numbers(self)
        check_range(
            self,
            threshold=(self.threshold, lambda k: k >= 0, "at least 0"),
            toughness=(self.toughness, lambda w: w > 0, "positive"),
            most=(self.most, lambda d: (d >= 0) & (d < 1), "at least 0 and below 1"),
            viscosity=(self.viscosity, lambda t: t >= 0, "at least 0"),
            **self.internal_ranges(),
        )

    def internal_ranges(self) -> Ranges:
        return {"worst": (self.worst, lambda k: k >= 0, "at least 0")}

    @property
    def needs_positive_volume(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether that material does."""
        return self.elastic.needs_positive_volume

    @property
    def undefined_when(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What that material says."""
        return self.elastic.undefined_when

    def is_defined(self, F: Float[Array, "3 3"]) -> Array:
        return self.elastic.is_defined(F)

    def damage(self) -> Array:
        """`D` of what was last accepted, from 0 to `most`."""
        return self.most * -jnp.expm1(-jnp.maximum(self.worst - self.threshold, 0) / self.toughness)

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        stored, excess, old, ratio = self._trial(F)
        threshold, toughness, most = self._numbers(F)
        decay = jnp.exp(-(old - threshold) / toughness)
        # The integral of 1 - D over psi_0, which D follows by `ratio`; up to the old `k`, D is what it was.
        beyond = (1 - most) * excess + most * decay * excess * _mean_decay(ratio * excess / toughness)
        return (1 - most + most * decay) * (stored - excess) + beyond

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        _, excess, old, ratio = self._trial(F)
        return {"worst": jnp.where(excess > 0, old + ratio * excess, jnp.asarray(self.worst, F.dtype))}

    def _numbers(self, F: Array) -> tuple[Any, ...]:
        return tuple(jnp.asarray(a, F.dtype) for a in (self.threshold, self.toughness, self.most))

    def _trial(self, F: Float[Array, "3 3"]) -> tuple[Scalar, Scalar, Array, Array]:
        """`psi_0`, what of it is beyond the old `k`, that `k`, and which part of the excess `k` follows in the step."""
        dt, viscosity, worst = (jnp.asarray(a, F.dtype) for a in (self.dt, self.viscosity, self.worst))
        old = jnp.maximum(worst, jnp.asarray(self.threshold, F.dtype))
        stored = self.elastic.energy_density(F)
        # What went on a step ago stands at its limit, and rounding must not decide whether it goes on.
        grows = stored > old * (1 + _ROUNDING * jnp.finfo(F.dtype).eps)
        is_rated = viscosity > 0
        ratio = jnp.where(is_rated, dt / jnp.where(is_rated, dt + viscosity, 1), 1)
        return stored, jnp.where(grows, stored - old, 0), old, ratio


def _mean_decay(u: Scalar) -> Scalar:
    """`(1 - exp(-u))/u`, the mean of `exp(-x)` from 0 to `u`; 1 at 0."""
    small = u < _SERIES_BELOW
    series = jnp.ones_like(u)
    for n in range(_SERIES, 0, -1):
        series = 1 - u / (n + 1) * series
    away = jnp.where(small, 1, u)
    return jnp.where(small, series, -jnp.expm1(-away) / away)
