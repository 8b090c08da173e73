"""Determinants and inverses of 1 x 1, 2 x 2 and 3 x 3 matrices in closed form.

Plain products instead of LAPACK: a batch of them is one fused loop, and every derivative exists.
"""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float, Scalar


def adjugate(A: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """The matrix with `A adj(A) = det(A) I`."""
    if A.shape[0] == 1:
        return jnp.ones_like(A)
    if A.shape[0] == 2:
        return jnp.array([[A[1, 1], -A[0, 1]], [-A[1, 0], A[0, 0]]])
    columns = A[:, 0], A[:, 1], A[:, 2]
    return jnp.stack([jnp.cross(columns[(i + 1) % 3], columns[(i + 2) % 3]) for i in range(3)])


def determinant(A: Float[Array, "d d"]) -> Scalar:
    """`det A`."""
    return adjugate(A)[0] @ A[:, 0]


def inverse(A: Float[Array, "d d"]) -> Float[Array, "d d"]:
    """`A^-1`; infinite where `A` is singular."""
    adjoint = adjugate(A)
    return adjoint / (adjoint[0] @ A[:, 0])
