"""Solids of revolution: the half plane `(r, z)` that turns about the axis `r = 0`."""

import jax.numpy as jnp

from .._mesh.reference import ReferenceElement
from .._runtime.array_types import Array, Float


def turned(
    reference: ReferenceElement,
    rule: int | str,
    rest: Float[Array, "k 2"],
    gradients: Float[Array, "q k 2"],
    areas: Float[Array, " q"],
) -> tuple[Float[Array, "q k 3"], Float[Array, " q"]]:
    """The same with a third gradient `N_a / R`, by which `F_r3 = r / R` is the stretch around, and volumes `2 pi R w`."""
    shapes = jnp.asarray(reference.shape(reference.quadrature(rule)[0]), rest.dtype)
    radii = shapes @ rest[:, 0]
    return jnp.concatenate([gradients, (shapes / radii[:, None])[:, :, None]], axis=2), 2 * jnp.pi * radii * areas


def around_the_axis(F: Float[Array, "2 3"]) -> Float[Array, "3 3"]:
    """`diag(F of the half plane, r / R)`."""
    return jnp.zeros((3, 3), F.dtype).at[:2, :2].set(F[:, :2]).at[2, 2].set(F[0, 2])
