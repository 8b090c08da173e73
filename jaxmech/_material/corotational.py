"""Small strains in a frame that turns with the element."""

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .base import AbstractMaterial
from .lame import check_engineering, moduli_like
from .polar import rotation_distances


class Corotational(AbstractMaterial):
    """`psi = mu |F - R|^2 + lam/2 tr(R^T F - I)^2`, `R` the rotation of the polar decomposition of `F`
    [J/m^3].

    `young` [Pa] and `poisson`, shared or one per element. Large rotations, moderate strains; defined for
    inverted elements too (`det R = +1` always). The tangent is the exact one, `dR/dF` included: it is
    symmetric, and may be indefinite under compression. It is undefined only where two signed singular values
    of `F` add to zero.
    Raises `ValueError` unless `young > 0` and `-1 < poisson < 1/2`, `TypeError` for what is not a real
    number.
    Source: A. McAdams et al., "Efficient elasticity for character skinning with contact and collisions", ACM
    Trans. Graph. 30(4), 2011, doi:10.1145/2010324.1964932, section 3.

    Example:

        law = jm.material.Corotational(young=1e6, poisson=0.25)  # mu = lam = 4e5 Pa
        turn = jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        assert jnp.allclose(law.energy_density(turn), 0.0)
        assert jnp.allclose(law.energy_density(1.1 * turn), 30e3, rtol=1e-4)  # mu 3 e^2 + lam/2 (3 e)^2 [J/m^3]
    """

    young: Parameter = parameter()
    poisson: Parameter = parameter()
    needs_positive_volume = False

    def __check_init__(self):
        check_engineering(self)

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        mu, lam = moduli_like(F, self.young, self.poisson)
        distance, stretch = rotation_distances(F)
        return mu * distance + 0.5 * lam * stretch**2
