"""A law of one's own with memory, said by one function."""

import abc
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.internal import own_internal, time_step
from .base import AbstractMaterial


class AbstractUpdateLaw(AbstractMaterial):
    """A material with memory that one function describes: `update(F, old, dt) -> (psi, new)`.

    `F` (3, 3); `old` and `new`: the internal variables of a point by name, as they are declared (`internal()`), before and
    after the step of `dt` [s]; `psi` [J/m^3]: what the step stores and dissipates, least over the new variables, so that its
    derivative is the stress (`AbstractMaterial`). `update` is called at every iteration, and its `new` is kept where a step
    is accepted; names that are left out stay as they are. Raises `TypeError` where `update` is not defined.
    Source: M. Ortiz and L. Stainier, Comput. Methods Appl. Mech. Eng. 171, 1999, doi:10.1016/S0045-7825(98)00219-9.

    Example:

        class Softening(jm.material.AbstractUpdateLaw):  # half as stiff once it has stored more than `limit`
            stiffness: jax.Array = jm.parameter()  # [Pa]
            limit: jax.Array = jm.parameter()  # [J/m^3]
            torn: jax.Array = jm.component.internal()
            needs_positive_volume = False

            def update(self, F, old, dt):
                stored = 0.5 * self.stiffness * jnp.sum((F - jnp.eye(3)) ** 2)
                tears = stored > self.limit
                return stored * (1 - 0.5 * old["torn"]), {"torn": jnp.where(tears, 1.0, old["torn"])}

        law = Softening(stiffness=200.0, limit=0.5)
        assert law.point_update(1.1 * jnp.eye(3)) == {"torn": 1.0}  # 3 J/m^3
        assert jnp.allclose(Softening(200.0, 0.5, torn=1.0).energy_density(1.1 * jnp.eye(3)), 1.5)  # [J/m^3]
    """

    dt: Parameter = time_step()

    @abc.abstractmethod
    def update(self, F: Float[Array, "3 3"], old: Mapping[str, Array], dt: Array) -> tuple[Scalar, dict[str, Array]]:
        """`(psi, new)` of a step of `dt` [s] that ends at `F`."""

    def energy_density(self, F: Float[Array, "3 3"]) -> Scalar:
        return updated(self, F, "psi")[0]

    def point_update(self, F: Float[Array, "3 3"]) -> dict[str, Array]:
        return updated(self, F, "psi")[1]


def updated(law: Any, F: Float[Array, "3 3"], what: str) -> tuple[Array, dict[str, Array]]:
    """What `update` of a law gives: `what`, and new internal variables, as arrays. Raises `TypeError` for other things."""
    returned = law.update(F, own_internal(law), law.dt)
    if not isinstance(returned, tuple | list) or len(returned) != 2 or not isinstance(returned[1], Mapping):
        raise TypeError(f"update of {type(law).__name__} must return ({what}, new), new a dictionary, got {returned!r:.80}")
    first, new = returned
    return first, {name: jnp.asarray(value) for name, value in new.items()}
