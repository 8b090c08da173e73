"""The logarithm and the exponential of symmetric tensors, without eigenvectors, which may have no derivative."""

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array, Float
from .small_matmul import times_blocks
from .small_matrix import inverse

_HALVINGS = 5  # of the logarithm: then a stretch of 100 is one of 1.15
_NEWTON = 12  # steps for each root, from a stretch of 100
_TERMS = 11  # of the series that remains: 0.15^22 is rounding
_SQUARINGS, _ORDER = 5, 11  # of the exponential: numbers up to 4 become 1/8, whose 12th power over 12! is rounding


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


def exponential(A: Float[Array, "... 3 3"]) -> Float[Array, "... 3 3"]:
    """`exp(A)`, accurate for eigenvalues up to 4 in magnitude: a Taylor series, squared."""
    eye, small = jnp.eye(3, dtype=A.dtype), A / 2.0**_SQUARINGS

    def term(i, total):
        return eye + times_blocks(small, total) / (_ORDER - i)

    total = jax.lax.fori_loop(0, _ORDER, term, jnp.zeros_like(A) + eye)
    return jax.lax.fori_loop(0, _SQUARINGS, lambda _, B: times_blocks(B, B), total)
