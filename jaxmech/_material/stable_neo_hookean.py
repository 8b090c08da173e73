"""A neo-Hookean solid that survives inversion."""

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .base import AbstractMaterial
from .lame import check_engineering, moduli_like
from .strain import shear_terms


class StableNeoHookean(AbstractMaterial):
    """`psi = 1/2 [mu (I1 - 3) + (lam + mu) (J - alpha)^2] - constant`, `alpha = 1 + mu/(lam + mu)` [J/m^3].

    A polynomial: finite, and with a stress that pushes back, for flat and inverted elements. `I1 = tr(F^T
    F)`, `J = det F`; the constant makes `psi(I) = 0`. Writing it with `lam` in the place of `lam + mu`, as in
    the source, gives the linear solid of Lame parameters `(mu, lam - mu)`; the sum used here gives exactly
    `(mu, lam)`, those of `young` [Pa] and `poisson`, shared or one per element (the source's own
    reparametrisation, section 3.4).
    Raises `ValueError` unless `young > 0` and `-1 < poisson < 1/2`, `TypeError` for what is not a real
    number.
    Source: B. Smith, F. de Goes, T. Kim, "Stable neo-Hookean flesh simulation", ACM Trans. Graph. 37(2),
    2018, doi:10.1145/3180491, without the term `log(I1 + 1)` that the source adds for elements collapsed to a
    point.

    Example:

        law = jm.material.StableNeoHookean(young=1e6, poisson=0.25)  # mu = lam = 4e5 Pa
        P = jax.grad(law.energy_density)(jnp.diag(jnp.array([0.0, 1.0, 1.0])))
        assert jnp.allclose(P[0, 0], -1.2e6)  # an element that is flat is pushed apart: -(lam + mu) alpha [Pa]
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    needs_positive_volume = False

    def __check_init__(self):
        check_engineering(self)

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, lam = moduli_like(F, self.young, self.poisson)
        shear, volume = shear_terms(F)  # completing the square: mu ((I1-3)/2 - (J-1)) + (lam+mu)/2 (J-1)^2
        return mu * shear + 0.5 * (lam + mu) * volume**2
