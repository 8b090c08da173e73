"""The Yeoh solid: a polynomial in the first invariant."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import isochoric_invariants


class Yeoh(AbstractMaterial):
    """`psi = sum_i c_i (I - 3)^i + bulk/2 (ln J)^2`, `I = J^(-2/3) tr(F^T F)` [J/m^3].

    `coefficients` `c_i` [Pa]: `(terms,)`, three of them in the source, with axes of elements, and of Gauss points, in front;
    `bulk` [Pa]. The shear modulus at rest is `2 c_1`. NaN where `J < 0`.
    Raises `ValueError` unless `bulk` and `c_1` are positive, `TypeError` for what is not a real number.
    Source: O. H. Yeoh, "Some forms of the strain energy function for rubber", Rubber Chem. Technol. 66, 1993,
    doi:10.5254/1.3538343.

    Example:

        law = jm.material.Yeoh(coefficients=[1e5, -1e3, 1e2], bulk=1e8)
        psi = law.energy_density(jnp.diag(jnp.array([4.0, 0.5, 0.5])))  # of constant volume, I = 16.5
        assert jnp.allclose(psi, 1e5 * 13.5 - 1e3 * 13.5**2 + 1e2 * 13.5**3)  # [J/m^3]
    """

    coefficients: Parameter = parameter(ndim=1)
    bulk: Parameter = parameter()
    needs_positive_volume = True

    def __check_init__(self):
        check_numbers(self)
        if not self.coefficients.shape[-1]:
            raise ValueError(f"Yeoh: coefficients has shape {self.coefficients.shape}, expected at least one term.")
        check_range(
            self,
            bulk=(self.bulk, lambda k: k > 0, "positive"),
            coefficients=(self.coefficients[..., 0], lambda c: c > 0, "of a positive first term"),
        )

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        coefficients, bulk = jnp.asarray(self.coefficients, F.dtype), jnp.asarray(self.bulk, F.dtype)
        first, _, log_j = isochoric_invariants(F)
        total = jnp.zeros_like(first)
        for i in reversed(range(coefficients.shape[-1])):
            total = first * (coefficients[i] + total)
        return total + 0.5 * bulk * log_j**2
