"""A law of one's own that says its stress, and need not have an energy."""

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING

import jax.numpy as jnp

from .._runtime.array_types import Array, Float
from .._runtime.field_types import Parameter
from .._scene.component import Component
from .._scene.internal import time_step
from .._scene.parameter import Ranges
from .update_law import updated

if TYPE_CHECKING:  # under Equinox's name, checkers take it for a field
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar


class AbstractStressLaw(Component):
    """A material that one function describes: `update(F, old, dt) -> (P, new)`, for `StressSolidFEM`.

    `F` (3, 3): the deformation gradient at the end of a step of `dt` [s]; `old` and `new`: the internal variables of a point
    by name, as they are declared (`internal()`), before and after it; `P` (3, 3): the first Piola stress [Pa]. The tangent
    is its derivative, and need not be symmetric: friction, non-associated flow, hypoelastic rates, a measured table.
    `update` is called at every iteration, and its `new` is kept where a step is accepted; names left out stay as they are.
    `needs_positive_volume`: whether the law is undefined where `det F <= 0`. Where there is an energy, `AbstractUpdateLaw`
    is better: symmetric matrices, line searches, plane stress, all formulations. Raises `TypeError` where `update` is not
    defined.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, chapter 8.

    Example:

        class Dragging(jm.material.AbstractStressLaw):  # a stress of 3 MPa s against the rate, beside a stiffness
            stiffness: jax.Array = jm.parameter()  # [Pa]
            before: jax.Array = jm.component.internal(np.eye(3))
            needs_positive_volume = False

            def update(self, F, old, dt):
                rate = (F - old["before"]) / jnp.where(dt > 0, dt, 1.0)
                return self.stiffness * (F - jnp.eye(3)) + 3e6 * rate, {"before": F}

        P, new = Dragging(1e6).update(1.1 * jnp.eye(3), {"before": jnp.eye(3)}, jnp.asarray(0.5))
        assert jnp.allclose(P, 7e5 * jnp.eye(3)) and jnp.allclose(new["before"], 1.1 * jnp.eye(3))
    """

    needs_positive_volume: AbstractClassVar[bool]
    dt: Parameter = time_step()

    @abc.abstractmethod
    def update(
        self, F: Float[Array, "3 3"], old: Mapping[str, Array], dt: Array
    ) -> tuple[Float[Array, "3 3"], dict[str, Array]]:
        """`(P, new)` of a step of `dt` [s] that ends at `F`."""

    def internal_ranges(self) -> Ranges:
        """As that of `AbstractMaterial`."""
        return {}

    def stress(self, F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
        """`P` [Pa] of the step that ends at `F`."""
        P, _ = updated(self, F, "P")
        if jnp.shape(P) != (3, 3):
            raise TypeError(f"update of {type(self).__name__} returns a stress of shape {jnp.shape(P)}, expected (3, 3)")
        return P

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        """The internal variables of a point, by name, where it is accepted at `F`."""
        return updated(self, F, "P")[1]
