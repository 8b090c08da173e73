"""Normals of faces, and the lengths, areas and volumes of cells of any kind, at their quadrature points."""

import jax
import jax.numpy as jnp

from .._math.safe_norm import safe_length
from .._math.small_matrix import determinant
from .._runtime.array_types import Array, Float
from .reference import ReferenceElement


def area_vectors(
    reference: ReferenceElement, x: Float[Array, "k c"], *, axisymmetric: bool = False
) -> tuple[Float[Array, "q k"], Float[Array, "q c"]]:
    """Shape functions, and the outward normal times area (or length), at the quadrature points of one face: a triangle or a
    quad in space, or an edge in the plane; of the ring that it is, where coordinates are `(r, z)`.
    """
    shapes, weights, tangents = _at_points(reference, x)
    weights = weights * _around(shapes, x, axisymmetric)
    if reference.dimension == 1:
        # A boundary runs counter-clockwise round its body, so that outward is to the right.
        normals = jnp.stack([tangents[:, 0, 1], -tangents[:, 0, 0]], axis=1)
    else:
        normals = jnp.cross(tangents[:, 0], tangents[:, 1])
    return shapes, weights[:, None] * normals


def rest_measures(
    reference: ReferenceElement, X: Float[Array, "k c"], *, axisymmetric: bool = False
) -> tuple[Float[Array, "q k"], Float[Array, " q"]]:
    """Shape functions and lengths, areas or volumes at the quadrature points of one cell, in a space of its dimension or
    more; positive whichever way round its nodes are numbered. Of the ring that it is, where coordinates are `(r, z)`.
    """
    shapes, weights, tangents = _at_points(reference, X)
    weights = weights * _around(shapes, X, axisymmetric)

    def measure(t: Float[Array, "a c"]) -> Array:
        if t.shape[0] == t.shape[1]:
            return jnp.abs(determinant(t))
        return safe_length(t[0] if t.shape[0] == 1 else jnp.cross(t[0], t[1]))

    return shapes, weights * jax.vmap(measure)(tangents)


def _around(shapes: Float[Array, "q k"], x: Float[Array, "k c"], axisymmetric: bool) -> Array | float:
    """`2 pi r` of the points."""
    return 2 * jnp.pi * (shapes @ x[:, 0]) if axisymmetric else 1.0


def _at_points(reference: ReferenceElement, x: Array) -> tuple[Array, Array, Float[Array, "q a c"]]:
    """Shape functions, weights and tangents at the quadrature points of one cell."""
    points, weights = reference.quadrature("mass")
    shapes = jnp.asarray(reference.shape(points), x.dtype)
    gradients = jnp.asarray(reference.shape_gradients(points), x.dtype)
    return shapes, jnp.asarray(weights, x.dtype), jnp.einsum("kc,qka->qac", x, gradients)
