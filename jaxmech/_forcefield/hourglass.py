"""One point of integration in quads and hexahedra, and the stiffness against the shapes that it does not see."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._mesh.geometry import rest_geometry
from .._mesh.reference import ReferenceElement
from .._runtime.array_types import Array, Float, Scalar
from .._scene.parameter import point_axes

# Signs at the nodes, in the order of VTK: xi eta of quads; eta zeta, zeta xi, xi eta, xi eta zeta of hexahedra.
SHAPES = {
    "quad": ((0, 1),),
    "hexahedron": ((1, 2), (2, 0), (0, 1), (0, 1, 2)),
}


def mean_geometry(
    reference: ReferenceElement, rest: Float[Array, "k d"]
) -> tuple[Float[Array, "1 k d"], Float[Array, " 1"]]:
    """The mean of the gradients over the cell, by which distorted cells pass the patch test, and the volume."""
    gradients, volumes = rest_geometry(reference, rest)
    total = jnp.sum(volumes)
    return (jnp.einsum("q,qka->ka", volumes, gradients) / total)[None], total[None]


def hourglass_stiffness(solid: Any) -> Float[Array, "k k"]:
    """`K` of `E = 1/2 K_ab x_a . x_b`: `c mu V |b|^2 / k sum of gamma gamma^T` of `k` corners, which affine
    motions do not feel.

    `gamma = h - b (X^T h)` with the signs `h` and the mean gradients `b`; `mu` is the shear modulus of the material at rest.
    """
    gradients, volumes = solid.geometry()
    b, X = gradients[0], solid.rest
    corners = np.asarray(solid.reference.vertices)
    signs = jnp.asarray(np.stack([corners[:, axes].prod(1) for axes in map(list, SHAPES[solid.kind])]), X.dtype)
    gamma = signs - (signs @ X) @ b.T
    scale = solid.hourglass * solid.thickness * _shear_modulus(solid, X.dtype) * volumes[0] * jnp.sum(b * b)
    return scale / len(corners) * gamma.T @ gamma


def _shear_modulus(solid: Any, dtype: jnp.dtype) -> Scalar:
    """`d2 psi / dF12^2` where nothing is deformed."""

    def of_point(solid: Any, rest: Array) -> Scalar:
        sheared = lambda g: solid.material.energy_density(rest.at[0, 1].set(g))  # noqa: E731
        return jax.grad(jax.grad(sheared))(jnp.zeros((), rest.dtype))

    return jax.vmap(of_point, (point_axes(solid), 0))(solid, jnp.eye(3, dtype=dtype)[None])[0]
