"""What a material is: the energy that a deformation gradient stores in a unit of rest volume."""

import abc
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
from equinox import is_array_like

from .._runtime.array_types import Array, Float, Scalar
from .._scene.component import Component
from .._scene.internal import has_own_internal
from .._scene.parameter import Ranges

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractMaterial(Component):
    """A material: its energy density. Stress and tangent are its derivatives.

    The first Piola stress is `P = d psi / dF` [Pa]; the elasticity `d2 psi / dF2` [Pa].
    `F` `(3, 3)` is the deformation gradient. A law has parameters (`parameter()`) and `needs_positive_volume`: whether it
    is undefined where `det F <= 0`, so that line searches keep elements from turning inside out; further limits of what is
    defined are for `is_defined` to tell, and for `undefined_when` to name. One with memory
    (`internal()`) has an energy density of a step, what it stores and dissipates, whose derivatives are its stress and its
    consistent tangent; and a `point_update`. Numbers are shared, one per element, or one per element and Gauss point. Raises
    `TypeError` where `energy_density` is not defined, or internal variables are and `point_update` is not.
    Source: J. Bonet and R. D. Wood, *Nonlinear Continuum Mechanics for Finite Element Analysis*, 2nd ed., 2008,
    doi:10.1017/CBO9780511755446, chapter 6.

    Example:

        class Fibres(jm.material.AbstractMaterial):  # along x
            stiffness: jax.Array = jm.parameter()  # [Pa]
            needs_positive_volume = False

            def energy_density(self, F):
                return 0.5 * self.stiffness * (F[:, 0] @ F[:, 0] - 1) ** 2

        P = jax.grad(Fibres(3.0).energy_density)(jnp.diag(jnp.array([2.0, 1.0, 1.0])))
        assert jnp.allclose(P[0, 0], 36.0)  # 2 k (l^2 - 1) l [Pa]
    """

    needs_positive_volume: AbstractClassVar[bool]  # psi is undefined where det F <= 0
    undefined_when = "inverted"  # what an element is where psi is undefined, in words

    def __check_init__(self):
        if has_own_internal(self) and type(self).point_update is AbstractMaterial.point_update:
            raise TypeError(f"{type(self).__name__} has internal variables, but no point_update that says how they change.")

    @abc.abstractmethod
    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        """`psi(F)` [J/m^3], nil and without stress at `F = I`."""

    def is_defined(self, F: Float[Array, "3 3"]) -> Array:
        """Whether `psi` is defined at `F`, beside `det F > 0` of laws that need it: where a chain locks it is not.

        To be overridden, by a law that needs a positive volume; others are defined everywhere.
        """
        del F
        return jnp.array(True)

    def internal_ranges(self) -> Ranges:
        """What `check_range` asks of internal variables, `{name: (value, condition, words)}`; steps ask it under `jit` too.

        Conditions take the arrays of NumPy and of JAX alike. To be overridden by a law whose numbers have bounds.
        """
        return {}

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        """The internal variables of a point, by name, where it is accepted at `F`; those that are left out stay as they are.

        `self` holds those of the step before, and the time step if it declares one (`time_step()`).
        """
        del F
        return {}


def density(material: AbstractMaterial, F: Float[Array, "3 3"]) -> Scalar:
    """`psi(F)` of a law of whoever it is. Raises `TypeError` for what is not one real number: summed over points it would
    look like an energy."""
    psi: Any = material.energy_density(F)
    number = jnp.shape(psi) == () and jnp.issubdtype(jnp.result_type(psi), jnp.floating) if is_array_like(psi) else False
    if not number:
        said = f"{psi.dtype} of shape {psi.shape}" if hasattr(psi, "dtype") else f"{psi!r:.80}"
        raise TypeError(f"energy_density of {type(material).__name__} returns {said}, expected one real number")
    return psi


def has_limits(material: AbstractMaterial) -> bool:
    """Whether a law is undefined not only where volume is turned inside out."""
    return type(material).is_defined is not AbstractMaterial.is_defined
