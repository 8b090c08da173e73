"""What is read off a stress or a strain: invariants, principal values, logarithms."""

import jax
import jax.numpy as jnp

from .._math.small_matmul import times_blocks
from .._math.small_matrix import inverse
from .._runtime.array_types import Array, Float

_HALVINGS = 5  # of the logarithm: then a stretch of 100 is one of 1.15
_NEWTON = 12  # steps for each root, from a stretch of 100
_TERMS = 11  # of the series that remains: 0.15^22 is rounding


def von_mises(stress: Float[Array, "... 3 3"]) -> Float[Array, "..."]:
    """`sqrt(3/2 s:s)`, `s` the deviator; its derivative is 0 where it is 0."""
    mean = jnp.trace(stress, axis1=-2, axis2=-1) / 3
    deviator = stress - mean[..., None, None] * jnp.eye(3, dtype=stress.dtype)
    squared = 1.5 * jnp.sum(deviator * deviator, axis=(-2, -1))
    sheared = squared > 0
    return jnp.where(sheared, jnp.sqrt(jnp.where(sheared, squared, 1)), 0)


def principal_values(tensor: Float[Array, "... 3 3"]) -> Float[Array, "... 3"]:
    """The eigenvalues of a symmetric tensor, the largest first. Of equal ones, only their sum has a derivative."""
    return jnp.linalg.eigvalsh(tensor)[..., ::-1]


def half_logarithm(C: Float[Array, "... 3 3"]) -> Float[Array, "... 3 3"]:
    """`ln(C)/2` of positive definite `C`, by roots and the series of `ln((1 + y)/(1 - y))`: no eigenvector has a derivative.

    N. J. Higham, *Functions of Matrices*, 2008, doi:10.1137/1.9780898717778, chapters 6 (the iteration of Denman and Beavers
    in product form) and 11.
    """
    eye = jnp.eye(3, dtype=C.dtype)
    invert = jnp.vectorize(inverse, signature="(n,n)->(n,n)")

    def newton(_, pair):
        product, X = pair
        back = invert(product)
        return 0.5 * (eye + 0.5 * (product + back)), 0.5 * times_blocks(X, eye + back)

    def halved(_, A):
        return jax.lax.fori_loop(0, _NEWTON, newton, (A, A))[1]

    root = jax.lax.fori_loop(0, _HALVINGS, halved, C)  # loops, whose derivatives compile once for all steps
    y = times_blocks(root - eye, invert(root + eye))
    square = times_blocks(y, y)

    def term(i, total):
        return times_blocks(square, total) + eye / (2 * (_TERMS - 1 - i) + 1)

    total = jax.lax.fori_loop(0, _TERMS, term, jnp.zeros_like(y))
    return 2.0**_HALVINGS * times_blocks(y, total)
