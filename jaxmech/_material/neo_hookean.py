"""The compressible neo-Hookean solid."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .base import AbstractMaterial
from .lame import check_engineering, engineering_constants, moduli_like
from .strain import log_defect, shear_terms


class NeoHookean(AbstractMaterial):
    """`psi = mu/2 (I1 - 3) - mu ln J + lam/2 (ln J)^2`, `I1 = tr(F^T F)`, `J = det F` [J/m^3].

    `young` [Pa] and `poisson` of the small-strain limit, shared or one per element. NaN where `J < 0`.
    Raises `ValueError` unless `young > 0` and `-1 < poisson < 1/2`, `TypeError` for what is not a real
    number.
    Source: J. Bonet and R. D. Wood, *Nonlinear Continuum Mechanics for Finite Element Analysis*, 2nd ed.,
    2008, doi:10.1017/CBO9780511755446, section 6.4.3.

    Example:

        law = jm.material.NeoHookean(young=1e6, poisson=0.25)  # mu = lam = 4e5 Pa
        P = jax.grad(law.energy_density)(jnp.diag(jnp.array([1.2, 1.0, 1.0])))
        assert jnp.allclose(P[0, 0], 4e5 * (1.2 - 1 / 1.2) + 4e5 * jnp.log(1.2) / 1.2)  # mu (l - 1/l) + lam ln(l)/l [Pa]
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    needs_positive_volume = True

    def __check_init__(self):
        check_engineering(self)

    @classmethod
    def from_lame(cls, mu: Array | float, lam: Array | float) -> "NeoHookean":
        """The material of shear modulus `mu` and Lame's first parameter `lam`, both [Pa]."""
        return cls(*engineering_constants(mu, lam))

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, lam = moduli_like(F, self.young, self.poisson)
        shear, volume = shear_terms(F)  # (I1-3)/2 - ln J = shear + (J-1) - ln J, each of second order in F - I
        return mu * (shear + log_defect(volume)) + 0.5 * lam * jnp.log1p(volume) ** 2
