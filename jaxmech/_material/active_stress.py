"""Muscle: a material that pulls along its fibres."""

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .fibres import fibre_strain, some_direction
from .lame import check_numbers
from .wrapped import AbstractWrappedLaw, AnyLaw


class ActiveStress(AbstractWrappedLaw):
    """`psi = psi_0(F) + T/2 (|F a|^2 - 1)` [J/m^3]: the second Piola stress of a material and `T a (x) a` along fibres.

    `passive`: the law `psi_0`, which may have memory, or an `AbstractStressLaw` (in `StressSolidFEM`). `tension` `T` [Pa]:
    shared, or one per element or Gauss point; it is what a `control` changes in time
    (`{"muscle": {"material.tension": table(time)}}`). `direction`: `(3,)`, with axes of elements, and of Gauss points, in
    front; of any length, `a` is the unit vector along it. Where `T` is not 0 the material is not at rest at `F = I`: it
    contracts. Raises `ValueError` for a direction that is zero or no vector of space, `TypeError` for what is no material or
    not a real number.
    Source: G. A. Holzapfel, *Nonlinear Solid Mechanics*, 2000, ISBN 978-0-471-82319-3, section 6.7 (fibres); R. C. P.
    Kerckhoffs et al., Ann. Biomed. Eng. 31, 2003, doi:10.1114/1.1566447 (active stress added to a passive one).

    Example:

        muscle = jm.material.ActiveStress(jm.material.LinearElastic(1e5, 0.0), tension=1e3, direction=[2.0, 0.0, 0.0])
        P = jax.grad(muscle.energy_density)(jnp.eye(3))
        assert jnp.allclose(P, jnp.diag(jnp.array([1e3, 0.0, 0.0])), atol=1e-2)  # it pulls along x [Pa]
    """

    wraps = "passive"

    passive: AnyLaw
    tension: Parameter = parameter()
    direction: Parameter = parameter(ndim=1)

    def __check_init__(self):
        self.check_wrapped()
        check_numbers(self)
        if self.direction.shape[-1] != 3:
            raise ValueError(f"ActiveStress: direction has shape {self.direction.shape}, expected (3,) at the end.")
        check_range(self, direction=(self.direction, some_direction, "other than zero"))

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        return self.passive.energy_density(F) + self._pull(F)  # pyright: ignore[reportAttributeAccessIssue]

    def stress(self, F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        return self.passive.stress(F) + jax.grad(self._pull)(F)  # pyright: ignore[reportAttributeAccessIssue]

    def _pull(self, F: Float[Array, "3 3"]) -> Scalar:
        return 0.5 * jnp.asarray(self.tension, F.dtype) * fibre_strain(F, jnp.asarray(self.direction, F.dtype))
