"""The simplest frame-indifferent elasticity."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .base import AbstractMaterial
from .lame import check_engineering, moduli_like
from .strain import green_lagrange, trace


class StVenantKirchhoff(AbstractMaterial):
    """Hooke's law in the Green-Lagrange strain: `psi = mu E:E + lam/2 tr(E)^2`, `E = (F^T F - I)/2` [J/m^3].

    `young` [Pa] and `poisson`, shared or one per element. Large rotations, moderate strains: it softens under
    compression (uniaxially below a stretch of `1/sqrt(3)`) and lets elements turn inside out.
    Raises `ValueError` unless `young > 0` and `-1 < poisson < 1/2`, `TypeError` for what is not a real
    number.
    Source: G. A. Holzapfel, *Nonlinear Solid Mechanics*, 2000, ISBN 978-0-471-82319-3, section 6.5.

    Example:

        law = jm.material.StVenantKirchhoff(young=1e6, poisson=0.25)  # mu = lam = 4e5 Pa
        P = jax.grad(law.energy_density)(jnp.diag(jnp.array([1.2, 1.0, 1.0])))
        assert jnp.allclose(P[0, 0], 1.2 * 1.2e6 * 0.22)  # l (lam + 2 mu) (l^2 - 1)/2 [Pa]
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    needs_positive_volume = False

    def __check_init__(self):
        check_engineering(self)

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, lam = moduli_like(F, self.young, self.poisson)
        strain = green_lagrange(F)
        return mu * jnp.sum(strain * strain) + 0.5 * lam * trace(strain) ** 2
