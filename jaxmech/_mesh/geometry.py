"""What a reference element becomes in space: gradients of shape functions, and volumes."""

import jax
import jax.numpy as jnp

from .._math.small_matrix import determinant, inverse
from .._runtime.array_types import Array, Float
from .reference import ReferenceElement


def rest_geometry(
    reference: ReferenceElement, rest: Float[Array, "k d"], rule: int | str = "stiffness"
) -> tuple[Float[Array, "q k d"], Float[Array, " q"]]:
    """`(dN/dX, w det(dX/dxi))` at the points of a quadrature rule: rest gradients [1/m] and volumes."""
    points, weights = reference.quadrature(rule)
    local = jnp.asarray(reference.shape_gradients(points), rest.dtype)

    def at_point(dN: Array, w: Array) -> tuple[Array, Array]:
        jacobian = rest.T @ dN
        return dN @ inverse(jacobian), w * determinant(jacobian)

    return jax.vmap(at_point)(local, jnp.asarray(weights, rest.dtype))
