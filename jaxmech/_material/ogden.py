"""The Ogden solid."""

from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .base import AbstractMaterial
from .lame import check_numbers
from .strain import isochoric_invariants
from .stretches import exponential_traces, logarithm_invariants


class Ogden(AbstractMaterial):
    """`psi = sum_i mu_i/alpha_i (l1^alpha_i + l2^alpha_i + l3^alpha_i - 3) + bulk/2 (ln J)^2` [J/m^3].

    `l1, l2, l3` are the principal stretches of `J^(-1/3) F`. `mu` [Pa] and `alpha` have one entry per term:
    shape `(N,)`, or `(e, N)` for one row per element; `bulk` [Pa] is shared or one per element. The shear
    modulus at rest is `sum_i mu_i alpha_i / 2`; a negative `mu_i` goes with a negative `alpha_i`. NaN where
    `J < 0`. Derivatives are exact at repeated stretches (see `_material/stretches.py`), and by `alpha` too.
    Raises `ValueError` unless `bulk > 0`, the shear modulus is positive and no `alpha_i` is zero, `TypeError`
    for what is not a real number.
    Source: R. W. Ogden, "Large deformation isotropic elasticity: on the correlation of theory and experiment
    for incompressible rubberlike solids", Proc. R. Soc. A 326, 1972, doi:10.1098/rspa.1972.0026.

    Example:

        law = jm.material.Ogden(mu=[1e5], alpha=[2.0], bulk=1e8)  # one term with alpha = 2: a neo-Hookean solid
        psi = law.energy_density(jnp.diag(jnp.array([4.0, 0.5, 0.5])))  # of constant volume
        assert jnp.allclose(psi, 1e5 / 2 * 13.5)  # [J/m^3]
    """

    mu: Parameter = parameter(ndim=1)
    alpha: Parameter = parameter(ndim=1)
    bulk: Parameter = parameter()
    needs_positive_volume = True

    def __check_init__(self):
        check_numbers(self)
        terms: Any = (self.mu.shape[-1], self.alpha.shape[-1])
        if terms[0] != terms[1] or not terms[0]:
            raise ValueError(
                f"Ogden: mu has shape {self.mu.shape} and alpha {self.alpha.shape}, expected as many "
                "terms in both, at least one."
            )
        check_range(
            self,
            bulk=(self.bulk, lambda k: k > 0, "positive"),
            alpha=(self.alpha, lambda a: a != 0, "other than zero"),
        )
        if self.mu.ndim == 1 or self.alpha.ndim == 1 or self.mu.shape == self.alpha.shape:
            rest = jnp.sum(self.mu * self.alpha, axis=-1)
            check_range(self, mu=(rest, lambda m: m > 0, "such that sum_i mu_i alpha_i is positive"))

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, alpha, bulk = (jnp.asarray(c, F.dtype) for c in (self.mu, self.alpha, self.bulk))
        first, second, log_j = isochoric_invariants(F)
        j2, j3 = logarithm_invariants(first, second)
        half = 0.5 * alpha
        sums, _ = exponential_traces(half**2 * j2, half**3 * j3)
        return jnp.sum(mu / alpha * sums) + 0.5 * bulk * log_j**2
