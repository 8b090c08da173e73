"""Tissue with families of collagen fibres."""

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .fibres import fibre_strain, some_direction
from .lame import check_numbers
from .strain import isochoric_invariants


class HolzapfelGasserOgden(AbstractMaterial):
    """`psi = mu/2 (I1 - 3) + k1/(2 k2) sum_a (exp(k2 <E_a>^2) - 1) + bulk/2 (ln J)^2`, with
    `E_a = d (I1 - 3) + (1 - 3 d) (I4_a - 1)` and `<E> = max(E, 0)` [J/m^3].

    `I1 = J^(-2/3) tr(F^T F)`, `I4_a = J^(-2/3) |F a|^2`, `a` the unit vector along a family of fibres, which resist tension
    only. `mu`, `k1` and `bulk` [Pa], `k2` and the `dispersion` `d`, from 0 (all along `a`) to 1/3 (in all directions),
    numbers: shared, or one per element or Gauss point. `directions`: `(families, 3)`, with axes of elements, and of Gauss
    points, in front; of any length. Fibres that are as long as at rest have the tangent of slack ones. NaN where `J < 0`.
    Raises `ValueError` unless `mu`, `k2` and `bulk` are positive, `k1 >= 0`, `0 <= d <= 1/3`, and for directions that are
    zero or no vectors of space; `TypeError` for what is not a real number.
    Source: T. C. Gasser, R. W. Ogden and G. A. Holzapfel, "Hyperelastic modelling of arterial layers with distributed
    collagen fibre orientations", J. R. Soc. Interface 3, 2006, doi:10.1098/rsif.2005.0073.

    Example:

        law = jm.material.HolzapfelGasserOgden(1e3, k1=2e3, k2=0.5, bulk=1e6, directions=[[1.0, 0.0, 0.0]])
        stretched = jnp.diag(jnp.array([2.0, 0.5**0.5, 0.5**0.5]))  # of constant volume: I1 = 5, I4 = 4
        assert jnp.allclose(law.energy_density(stretched), 500.0 * 2.0 + 2e3 * jnp.expm1(0.5 * 3.0**2))  # [J/m^3]
    """

    mu: Parameter = parameter()
    k1: Parameter = parameter()
    k2: Parameter = parameter()
    bulk: Parameter = parameter()
    directions: Parameter = parameter(ndim=2)
    dispersion: Parameter = parameter(default=0.0)
    needs_positive_volume = True

    def __check_init__(self):
        check_numbers(self)
        if self.directions.shape[-1] != 3 or not self.directions.shape[-2]:
            raise ValueError(
                f"HolzapfelGasserOgden: directions has shape {self.directions.shape}, expected (families, 3) at the end."
            )
        check_range(
            self,
            mu=(self.mu, lambda m: m > 0, "positive"),
            k1=(self.k1, lambda k: k >= 0, "at least 0"),
            k2=(self.k2, lambda k: k > 0, "positive"),
            bulk=(self.bulk, lambda k: k > 0, "positive"),
            directions=(self.directions, some_direction, "other than zero"),
            dispersion=(self.dispersion, lambda d: (d >= 0) & (d <= 1 / 3), "between 0 and 1/3"),
        )

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, k1, k2, bulk = (jnp.asarray(c, F.dtype) for c in (self.mu, self.k1, self.k2, self.bulk))
        directions, spread = jnp.asarray(self.directions, F.dtype), jnp.asarray(self.dispersion, F.dtype)
        first, _, log_j = isochoric_invariants(F)
        isochoric, less = jnp.exp(-2 / 3 * log_j), jnp.expm1(-2 / 3 * log_j)
        along = jax.vmap(fibre_strain, (None, 0))(F, directions)
        strain = spread * first + (1 - 3 * spread) * (isochoric * along + less)
        fibres = jnp.sum(jnp.expm1(k2 * jnp.where(strain > 0, strain, 0) ** 2))
        return 0.5 * mu * first + 0.5 * k1 / k2 * fibres + 0.5 * bulk * log_j**2
