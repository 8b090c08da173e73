"""Areas and normals of faces: triangles and quads in space, edges in the plane."""

import jax.numpy as jnp

from .._typing import Array, Float
from .reference import ReferenceElement


def area_vectors(reference: ReferenceElement, x: Float[Array, "k c"]) -> tuple[Float[Array, "q k"], Float[Array, "q c"]]:
    """Shape functions, and the outward normal times area (or length), at the quadrature points of one face."""
    points, weights = reference.quadrature("mass")
    shapes = jnp.asarray(reference.shape(points), x.dtype)
    gradients = jnp.asarray(reference.shape_gradients(points), x.dtype)
    tangents = jnp.einsum("kc,qka->qac", x, gradients)
    if reference.dimension == 1:
        # A boundary runs counter-clockwise round its body, so that outward is to the right.
        normals = jnp.stack([tangents[:, 0, 1], -tangents[:, 0, 0]], axis=1)
    else:
        normals = jnp.cross(tangents[:, 0], tangents[:, 1])
    return shapes, jnp.asarray(weights, x.dtype)[:, None] * normals


def rest_areas(reference: ReferenceElement, X: Float[Array, "k c"]) -> tuple[Float[Array, "q k"], Float[Array, " q"]]:
    """Shape functions and areas (or lengths) at the quadrature points of one face."""
    shapes, normals = area_vectors(reference, X)
    return shapes, jnp.sqrt(jnp.sum(normals**2, axis=1))
