"""The Mooney-Rivlin solid."""

import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import isochoric_invariants


class MooneyRivlin(AbstractMaterial):
    """`psi = c10 (J^(-2/3) I1 - 3) + c01 (J^(-4/3) I2 - 3) + bulk/2 (ln J)^2` [J/m^3].

    `I1`, `I2` are those of `F^T F`, `J = det F`. `c10`, `c01` and `bulk` [Pa], shared or one per element; the
    shear modulus at rest is `2 (c10 + c01)`, the bulk modulus `bulk`. NaN where `J < 0`.
    Raises `ValueError` unless `bulk > 0` and `c10 + c01 > 0`, `TypeError` for what is not a real number.
    Source: R. W. Ogden, *Non-linear Elastic Deformations*, 1984 (Dover: ISBN 978-0-486-69648-5), sections 4.3.4 and 7.2.

    Example:

        law = jm.material.MooneyRivlin(c10=1e5, c01=2e4, bulk=1e8)
        psi = law.energy_density(jnp.diag(jnp.array([4.0, 0.5, 0.5])))  # of constant volume, I1 = 16.5, I2 = 8.0625
        assert jnp.allclose(psi, 1e5 * 13.5 + 2e4 * 5.0625)  # [J/m^3]
    """

    c10: Parameter = parameter()
    c01: Parameter = parameter()
    bulk: Parameter = parameter()
    needs_positive_volume = True

    def __check_init__(self):
        check_numbers(self)
        # Arrays of different numbers of elements do not add: the force field that knows theirs refuses them
        alike = np.ndim(self.c10) * np.ndim(self.c01) == 0 or np.shape(self.c10) == np.shape(self.c01)
        total = self.c10 + self.c01 if alike else None
        check_range(
            self,
            bulk=(self.bulk, lambda k: k > 0, "positive"),
            c10=(total, lambda c: c > 0, "such that c10 + c01 is positive"),
        )

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        c10, c01, bulk = (jnp.asarray(c, F.dtype) for c in (self.c10, self.c01, self.bulk))
        first, second, log_j = isochoric_invariants(F)
        return c10 * first + c01 * second + 0.5 * bulk * log_j**2
