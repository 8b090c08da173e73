"""Soils and concrete: a strength that grows with the pressure."""

from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_choice
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.internal import internal
from .._scene.parameter import Ranges, check_range, is_concrete, parameter
from .lame import check_engineering, moduli_like
from .strain import displacement_gradient, trace
from .stress_law import AbstractStressLaw

_ROUNDING = 16  # units: what differences of strains make of a stress
_MATCHES = ("compression", "tension", "plane strain")


class DruckerPrager(AbstractStressLaw):
    """Hooke's law within Drucker and Prager's cone `sqrt(J2) + eta p <= xi (c + H a)`; small strains, any dilatancy.

    `p` is the mean stress, positive in tension, `J2 = s:s/2` of its deviator. Flow is along `sqrt(J2) + eta' p`, `eta'` that
    of the angle of dilatancy: volume grows as it shears; `a` grows by `xi` times the multiplier. A step of implicit Euler
    returns the trial stress to the cone, or where that would turn its deviator round, to the tip at `p = (c + H a) xi/eta`:
    what flows beyond the cone's edge is then volume, and `a` grows by `xi/eta` of it. Without friction there is no tip.

    `young` [Pa], `poisson`, `cohesion` `c` [Pa], `friction` and `dilatancy` [rad], `hardening` `H` [Pa]: shared, or one per
    element or Gauss point. `match`: where the cone touches that of Mohr and Coulomb, whose angle and cohesion these are:
    "compression" (along one axis), "tension", or "plane strain" (which asks for a dilatancy like the friction). Internal
    variables of every point: `plastic_strain` (3, 3), symmetric, and `accumulated` `a`. For small rotations only, in
    `StressSolidFEM`: where the angles differ, no step has an energy. A dilatancy beyond the friction would make energy of
    nothing. Raises `ValueError` unless `young > 0`, `-1 < poisson < 1/2`, `cohesion >= 0`, `hardening >= 0`,
    `0 <= dilatancy <= friction < pi/2`, and for an unknown `match`; `TypeError` for what is not a real number.
    Source: E. A. de Souza Neto, D. Peric, D. R. J. Owen, *Computational Methods for Plasticity*, 2008,
    doi:10.1002/9780470694626, sections 6.4 and 8.3.

    Example:

        law = jm.material.DruckerPrager(young=1e8, poisson=0.25, cohesion=1e4, friction=0.5, dilatancy=0.1)
        strength = 2e4 * np.cos(0.5) / (1 - np.sin(0.5))  # Mohr and Coulomb's, pressed along one axis [Pa]
        flowed = 0.01  # far beyond what is elastic; across it grows, by the dilatancy too
        eta = 6 * np.sin(0.1) / (np.sqrt(3) * (3 - np.sin(0.1)))
        plastic = flowed / (1 / np.sqrt(3) - eta / 3) * np.array([eta / 3 - 1 / np.sqrt(3), *[eta / 3 + np.sqrt(3) / 6] * 2])
        F = jnp.eye(3) + jnp.diag(plastic + strength / 1e8 * np.array([-1.0, 0.25, 0.25]))
        P, new = law.update(F, {"plastic_strain": jnp.zeros((3, 3)), "accumulated": jnp.zeros(())}, 0.0)
        assert jnp.allclose(P, jnp.diag(jnp.array([-strength, 0.0, 0.0])), atol=1.0)  # [Pa]
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    cohesion: Parameter = parameter()
    friction: Parameter = parameter()
    dilatancy: Parameter = parameter(default=0.0)
    hardening: Parameter = parameter(default=0.0)
    match: str = eqx.field(static=True, default="compression")
    plastic_strain: Parameter = internal(np.zeros((3, 3)))
    accumulated: Parameter = internal(0.0)
    needs_positive_volume = False

    def __check_init__(self):
        check_engineering(self)
        check_choice("DruckerPrager", "match", self.match, _MATCHES)
        if self.plastic_strain.shape[-2:] != (3, 3):
            raise ValueError(
                f"DruckerPrager: plastic_strain has shape {self.plastic_strain.shape}, expected (3, 3) at the end."
            )
        check_range(
            self,
            cohesion=(self.cohesion, lambda c: c >= 0, "at least 0"),
            friction=(self.friction, lambda a: (a >= 0) & (a < np.pi / 2), "from 0 to less than pi/2"),
            dilatancy=(self.dilatancy, lambda a: (a >= 0) & (a < np.pi / 2), "from 0 to less than pi/2"),
            hardening=(self.hardening, lambda h: h >= 0, "at least 0"),
            **self.internal_ranges(),
        )
        if is_concrete(self.friction, self.dilatancy):
            self._check_dissipation(np.asarray(self.friction), np.asarray(self.dilatancy))

    def _check_dissipation(self, friction: np.ndarray, dilatancy: np.ndarray) -> None:
        """Flow under a pressure `-p` gives `(eta' - eta) (-p)` back for each of the multiplier."""
        axes = max(friction.ndim, dilatancy.ndim)  # of elements, and of Gauss points
        f, d = (a.reshape(a.shape + (1,) * (axes - a.ndim)) for a in (friction, dilatancy))
        if all(1 in sizes or sizes[0] == sizes[1] for sizes in zip(f.shape, d.shape, strict=True)) and (d > f).any():
            f, d = np.broadcast_arrays(f, d)
            raise ValueError(
                f"DruckerPrager: dilatancy must be at most friction, or flow under pressure makes energy of nothing; "
                f"got {d[d > f][:3]} with friction {f[d > f][:3]}."
            )

    def internal_ranges(self) -> Ranges:
        return {"accumulated": (self.accumulated, lambda a: a >= 0, "at least 0")}

    def update(
        self, F: Float[Array, "3 3"], old: Mapping[str, Array], dt: Array
    ) -> tuple[Float[Array, "3 3"], dict[str, Array]]:
        del dt
        unit, H = jnp.eye(3, dtype=F.dtype), displacement_gradient(F)
        mu, lam = moduli_like(F, self.young, self.poisson)
        bulk = lam + 2 / 3 * mu
        flowed = jnp.asarray(old["plastic_strain"], F.dtype)
        elastic = 0.5 * (H + H.T) - flowed
        volume = trace(elastic)
        shape = elastic - volume / 3 * unit  # its deviator
        squared = 2 * mu**2 * jnp.sum(shape * shape)  # J2
        size = 2 * mu * jnp.sum(jnp.abs(H) + jnp.abs(flowed))
        kept, opened, hardened = self._returned(squared, bulk * volume, size, (mu, bulk), old["accumulated"])
        stress = 2 * mu * kept * shape + bulk * (volume - opened) * unit
        flow = (1 - kept) * shape + opened / 3 * unit
        return stress, {"plastic_strain": flowed + flow, "accumulated": old["accumulated"] + hardened}

    def _returned(
        self, squared: Scalar, pull: Scalar, size: Scalar, moduli: tuple[Scalar, Scalar], accumulated: Scalar
    ) -> tuple[Scalar, Scalar, Scalar]:
        """How much of the trial's deviator is kept, the volume that flows, and by how much `accumulated` grows.

        Of the trial: `J2`, the mean stress, and the size of the numbers of which they are made.
        """
        mu, bulk = moduli
        hardening = jnp.asarray(self.hardening, size.dtype)
        eta, xi = self._slopes(self.friction, size.dtype)
        widening, _ = self._slopes(self.dilatancy, size.dtype)
        strength = xi * (jnp.asarray(self.cohesion, size.dtype) + hardening * accumulated)
        # What flowed a step ago stands on the cone, and its rounding must not decide whether it flows on.
        slack = _ROUNDING * jnp.finfo(size.dtype).eps * (strength + size * (1 + bulk / mu))
        limit = strength - eta * pull
        yields = (limit + slack < 0) | (squared > jnp.maximum(limit + slack, 0) ** 2)
        sheared = squared > 0
        q = jnp.where(sheared, jnp.sqrt(jnp.where(sheared, squared, 1)), 0)
        multiplier = jnp.where(yields, (q - limit) / (mu + bulk * eta * widening + xi**2 * hardening), 0)
        beyond, steep = yields & (eta > 0) & (q < mu * multiplier), jnp.where(eta > 0, eta, 1)
        kept = jnp.where(beyond, 0, 1 - mu * multiplier / jnp.where(yields & ~beyond, q, 1))
        # Beyond the edge: the deviator is used up by `q / mu` of the multiplier, the rest is volume.
        edge, ratio = q / mu, xi / steep
        tip = strength / steep + ratio * hardening * xi * (1 - widening / steep) * edge
        opened = (pull - tip) / (bulk + ratio**2 * hardening)
        grown = jnp.where(beyond, xi * edge + ratio * (opened - widening * edge), xi * multiplier)
        return kept, jnp.where(beyond, opened, widening * multiplier), grown

    def _slopes(self, angle: Array, dtype: jnp.dtype) -> tuple[Scalar, Scalar]:
        """`eta` and `xi` of the cone of an angle."""
        angle = jnp.asarray(angle, dtype)
        sine, cosine = jnp.sin(angle), jnp.cos(angle)
        if self.match == "plane strain":
            below = jnp.sqrt(9 * cosine**2 + 12 * sine**2)
            return 3 * sine / below, 3 * cosine / below
        below = np.sqrt(3.0).item() * (3 - sine if self.match == "compression" else 3 + sine)
        return 6 * sine / below, 6 * cosine / below
