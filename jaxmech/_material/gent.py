"""The Gent solid, whose chains lock."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import isochoric_invariants


class Gent(AbstractMaterial):
    """`psi = -mu/2 Jm ln(1 - (I - 3)/Jm) + bulk/2 (ln J)^2`, `I = J^(-2/3) tr(F^T F)` [J/m^3].

    `mu` and `bulk` [Pa], the shear and bulk modulus at rest; `limit` `Jm`, the `I - 3` at which the chains lock: shared, or
    one per element or Gauss point. Undefined where they would be stretched further, and where `J < 0`: solves take smaller
    steps or fail by name (`RESULTS.inverted_element`, "stretched beyond the limit of Gent's law"); density and stress are
    NaN.
    Raises `ValueError` unless all are positive, `TypeError` for what is not a real number.
    Source: A. N. Gent, "A new constitutive relation for rubber", Rubber Chem. Technol. 69, 1996, doi:10.5254/1.3538357.

    Example:

        law = jm.material.Gent(mu=1e5, bulk=1e8, limit=27.0)
        psi = law.energy_density(jnp.diag(jnp.array([4.0, 0.5, 0.5])))  # of constant volume, I - 3 = 13.5, half of the limit
        assert jnp.allclose(psi, 1e5 / 2 * 27.0 * jnp.log(2.0))  # [J/m^3]
    """

    mu: Parameter = parameter()
    bulk: Parameter = parameter()
    limit: Parameter = parameter()
    needs_positive_volume = True
    undefined_when = "inverted or stretched beyond the limit of Gent's law"

    def __check_init__(self):
        check_numbers(self)
        check_range(
            self,
            mu=(self.mu, lambda m: m > 0, "positive"),
            bulk=(self.bulk, lambda k: k > 0, "positive"),
            limit=(self.limit, lambda j: j > 0, "positive"),
        )

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, bulk, limit = (jnp.asarray(c, F.dtype) for c in (self.mu, self.bulk, self.limit))
        first, _, log_j = isochoric_invariants(F)
        used = first / limit
        known = jnp.where(used < 1, 1.0, jnp.nan).astype(F.dtype)  # as a factor: the derivative would be finite again beyond
        return -0.5 * mu * limit * jnp.log1p(-used * known) + 0.5 * bulk * log_j**2

    def is_defined(self, F: Float[Array, "3 3"]) -> Array:
        return isochoric_invariants(F)[0] < jnp.asarray(self.limit, F.dtype)  # not where either is NaN
