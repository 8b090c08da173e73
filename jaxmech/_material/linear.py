"""Small-strain elasticity."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .base import AbstractMaterial
from .lame import check_engineering, moduli_like
from .strain import displacement_gradient, trace


class LinearElastic(AbstractMaterial):
    """Hooke's law: `psi = mu eps:eps + lam/2 tr(eps)^2` with `eps = (F + F^T)/2 - I` [J/m^3].

    `young` [Pa] and `poisson`, shared or one per element. For small rotations only: a rigid rotation strains
    it.
    Raises `ValueError` unless `young > 0` and `-1 < poisson < 1/2`, `TypeError` for what is not a real
    number.
    Source: L. D. Landau and E. M. Lifshitz, *Theory of Elasticity*, 3rd ed., 1986, section 4.

    Example:

        law = jm.material.LinearElastic(young=1e6, poisson=0.25)  # mu = lam = 4e5 Pa
        P = jax.grad(law.energy_density)(jnp.diag(jnp.array([1.001, 1.0, 1.0])))
        assert jnp.allclose(P[0, 0], 1200.0, rtol=1e-3)  # (lam + 2 mu) eps [Pa]
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    needs_positive_volume = False

    def __check_init__(self):
        check_engineering(self)

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, lam = moduli_like(F, self.young, self.poisson)
        H = displacement_gradient(F)
        strain = 0.5 * (H + H.T)
        return mu * jnp.sum(strain * strain) + 0.5 * lam * trace(H) ** 2
