"""The eight-chain solid of Arruda and Boyce."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import isochoric_invariants

_SERIES = (1 / 2, 1 / 20, 11 / 1050, 19 / 7000, 519 / 673750)  # of the inverse Langevin function


class ArrudaBoyce(AbstractMaterial):
    """`psi = mu sum_i c_i / N^(i-1) (I^i - 3^i) + bulk/2 (ln J)^2`, `i = 1 ... 5`, `I = J^(-2/3) tr(F^T F)` [J/m^3].

    `c = 1/2, 1/20, 11/1050, 19/7000, 519/673750`. `mu` [Pa], `n k T` of the network; `bulk` [Pa]; `segments` `N` of a chain,
    which locks at a stretch of about `sqrt(N)`: shared, or one per element or Gauss point. The shear modulus at rest is
    `mu (1 + 3/(5 N) + 99/(175 N^2) + 513/(875 N^3) + 42039/(67375 N^4))`. NaN where `J < 0`. SOFA's parameters `(mu, k0)`
    are `ArrudaBoyce(mu, k0)`, of 8 segments.
    Raises `ValueError` unless all are positive, `TypeError` for what is not a real number.
    Source: E. M. Arruda and M. C. Boyce, "A three-dimensional constitutive model for the large stretch behavior of rubber
    elastic materials", J. Mech. Phys. Solids 41, 1993, doi:10.1016/0022-5096(93)90013-6.

    Example:

        law = jm.material.ArrudaBoyce(mu=1e5, bulk=1e8, segments=1e9)  # chains that never lock: a neo-Hookean solid
        psi = law.energy_density(jnp.diag(jnp.array([4.0, 0.5, 0.5])))  # of constant volume, I = 16.5
        assert jnp.allclose(psi, 1e5 / 2 * 13.5)  # [J/m^3]
    """

    mu: Parameter = parameter()
    bulk: Parameter = parameter()
    segments: Parameter = parameter(default=8.0)
    needs_positive_volume = True

    def __check_init__(self):
        check_numbers(self)
        check_range(
            self,
            mu=(self.mu, lambda m: m > 0, "positive"),
            bulk=(self.bulk, lambda k: k > 0, "positive"),
            segments=(self.segments, lambda n: n > 0, "positive"),
        )

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, bulk, segments = (jnp.asarray(c, F.dtype) for c in (self.mu, self.bulk, self.segments))
        first, _, log_j = isochoric_invariants(F)
        # I^i - 3^i = (I - 3) s_i with s_(i+1) = I s_i + 3^i, which does not cancel at rest
        invariant, factor, power, total = 3 + first, jnp.ones_like(first), 1.0, jnp.zeros_like(first)
        for i, c in enumerate(_SERIES):
            total = total + c * power * factor
            factor, power = invariant * factor + 3.0 ** (i + 1), power / segments
        return mu * first * total + 0.5 * bulk * log_j**2
