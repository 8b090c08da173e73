"""The exponential solid of Veronda and Westmann, for skin."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import isochoric_invariants


class VerondaWestmann(AbstractMaterial):
    """`psi = c1 (exp(c2 (I1 - 3)) - 1) - c1 c2/2 (I2 - 3) + bulk/2 (ln J)^2` [J/m^3].

    `I1 = J^(-2/3) tr C` and `I2 = J^(-4/3) (tr(C)^2 - tr(C^2))/2`, `C = F^T F`. `c1` and `bulk` [Pa], and `c2`, a number:
    shared, or one per element or Gauss point. The shear modulus at rest is `c1 c2`. NaN where `J < 0`. SOFA's parameters
    `(c1, c2, k0)` are these.
    Raises `ValueError` unless all are positive, `TypeError` for what is not a real number.
    Source: D. R. Veronda and R. A. Westmann, "Mechanical characterization of skin: finite deformations", J. Biomech. 3,
    1970, doi:10.1016/0021-9290(70)90055-2.

    Example:

        law = jm.material.VerondaWestmann(c1=1e3, c2=0.1, bulk=1e6)
        psi = law.energy_density(jnp.diag(jnp.array([4.0, 0.5, 0.5])))  # of constant volume, I1 = 16.5, I2 = 8.0625
        assert jnp.allclose(psi, 1e3 * jnp.expm1(1.35) - 50.0 * 5.0625)  # [J/m^3]
    """

    c1: Parameter = parameter()
    c2: Parameter = parameter()
    bulk: Parameter = parameter()
    needs_positive_volume = True

    def __check_init__(self):
        check_numbers(self)
        check_range(
            self,
            c1=(self.c1, lambda c: c > 0, "positive"),
            c2=(self.c2, lambda c: c > 0, "positive"),
            bulk=(self.bulk, lambda k: k > 0, "positive"),
        )

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        c1, c2, bulk = (jnp.asarray(c, F.dtype) for c in (self.c1, self.c2, self.bulk))
        first, second, log_j = isochoric_invariants(F)
        return c1 * (jnp.expm1(c2 * first) - 0.5 * c2 * second) + 0.5 * bulk * log_j**2
