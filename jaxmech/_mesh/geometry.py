"""What a reference element becomes in space: shape functions, their gradients, and lengths, areas or volumes."""

import jax
import jax.numpy as jnp
import numpy as np

from .._math.safe_norm import safe_length
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


def field_geometry(
    reference: ReferenceElement, rest: Float[Array, "k d"], rule: int | str
) -> tuple[Float[Array, "q k"], Float[Array, "q k d"], Float[Array, " q"]]:
    """`(N, dN/dX, w |dX/dxi|)` at the points of a quadrature rule, for a cell in a space of its dimension or more.

    Gradients [1/m] of a line or a surface lie in it; measures are positive whichever way round the nodes are numbered.
    """
    points, weights = reference.quadrature(rule)
    shapes = jnp.asarray(reference.shape(points), rest.dtype)
    return shapes, *gradients_at(reference, rest, points, weights)


def gradients_at(
    reference: ReferenceElement,
    rest: Float[Array, "k d"],
    points: Float[np.ndarray, "q r"],
    weights: Float[np.ndarray, " q"],
) -> tuple[Float[Array, "q k d"], Float[Array, " q"]]:
    """`(dN/dX, w |dX/dxi|)` at `points`, as `field_geometry` has them."""
    local = jnp.asarray(reference.shape_gradients(points), rest.dtype)

    def at_point(dN: Array, w: Array) -> tuple[Array, Array]:
        jacobian = rest.T @ dN
        if jacobian.shape[0] == jacobian.shape[1]:
            return dN @ inverse(jacobian), w * jnp.abs(determinant(jacobian))
        size = safe_length(jacobian[:, 0] if dN.shape[1] == 1 else jnp.cross(jacobian[:, 0], jacobian[:, 1]))
        return dN @ inverse(jacobian.T @ jacobian) @ jacobian.T, w * size

    return jax.vmap(at_point)(local, jnp.asarray(weights, rest.dtype))
