"""Measures of strain that stay accurate where the strain is small.

With `H = F - I`, an energy written as `mu/2 (I1 - 3) - mu ln J` has a stress `mu F - mu F^-T`: two numbers of
size `mu` whose difference, of size `mu H`, keeps the rounding error of the first. The functions below cancel
the constants and the terms linear in `H` by hand, so that every term of an energy is of second order in `H`,
and every term of its stress of first order: the relative error of the stress is then that of the arithmetic,
however small the strain.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float, Scalar

_SERIES_BELOW = 0.05  # there the closed form of `_defect` has lost about one digit out of sixteen
_SERIES_ORDER = 13  # 0.05^12 / 13 is below float64 rounding


def displacement_gradient(F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """`H = F - I`; exact in floating point wherever the diagonal of `F` is between 1/2 and 2."""
    return F - jnp.eye(3, dtype=F.dtype)


def quadratic_invariant(A: Float[Array, "3 3"]) -> Scalar:
    """The second invariant `(tr(A)^2 - tr(A^2)) / 2`, as the sum of the principal minors."""
    return (
        (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0])
        + (A[1, 1] * A[2, 2] - A[1, 2] * A[2, 1])
        + (A[0, 0] * A[2, 2] - A[0, 2] * A[2, 0])
    )


def determinant(A: Float[Array, "3 3"]) -> Scalar:
    """`det A`: plain products, so that a batch is one fused loop and a singular matrix has derivatives."""
    return (
        A[0, 0] * (A[1, 1] * A[2, 2] - A[1, 2] * A[2, 1])
        + A[0, 1] * (A[1, 2] * A[2, 0] - A[1, 0] * A[2, 2])
        + A[0, 2] * (A[1, 0] * A[2, 1] - A[1, 1] * A[2, 0])
    )


def determinants(A: Any) -> Any:
    """`det A` of every `(3, 3)` at the end of an array, of NumPy or JAX."""
    a, b, c = (A[..., :, j] for j in range(3))
    x, y, z = (b[..., i] * c[..., k] - b[..., k] * c[..., i] for i, k in ((1, 2), (2, 0), (0, 1)))
    return a[..., 0] * x + a[..., 1] * y + a[..., 2] * z


def cofactor(A: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """`det(A) A^-T`, defined for every matrix."""
    # Periodic in both directions, every minor is a product of shifted views.
    rows = jnp.concatenate([A, A[:2]])
    around = jnp.concatenate([rows, rows[:, :2]], axis=1)
    return around[1:4, 1:4] * around[2:5, 2:5] - around[1:4, 2:5] * around[2:5, 1:4]


def trace(A: Float[Array, "3 3"]) -> Scalar:
    """`tr A`."""
    return A[0, 0] + A[1, 1] + A[2, 2]


def green_lagrange(F: Float[Array, "3 3"]) -> Float[Array, "3 3"]:
    """`E = (F^T F - I)/2`, from `H`, where the identity cannot hide it; by outer products, as GPUs round "@" to TF32."""
    H = displacement_gradient(F)
    return 0.5 * (H + H.T + sum(jnp.outer(row, row) for row in H))


def shear_terms(F: Float[Array, "3 3"]) -> tuple[Scalar, Scalar]:
    """`((I1 - 3)/2 - (J - 1), J - 1)`: the first has no term linear in `H`, the second is `det F - 1`."""
    H = displacement_gradient(F)
    beyond = quadratic_invariant(H) + determinant(H)
    return 0.5 * jnp.sum(H * H) - beyond, trace(H) + beyond


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _defect(x: Scalar, p: float) -> Scalar:
    """`x - ((1 + x)^p - 1)/p`, and `x - ln(1 + x)` for `p = 0`: what a power lacks to be linear, of order
    `x^2`.

    The derivative `1 - (1 + x)^(p-1)` is given below in a form without cancellation: that is the whole point.
    """
    log = jnp.log1p(x)
    closed = x - (jnp.expm1(p * log) / p if p else log)
    orders = np.arange(2, _SERIES_ORDER + 1)
    coefficients = -np.cumprod((p - orders + 1) / orders)  # binomial series, divided by p
    series = functools.reduce(lambda total, c: total * x + float(c), coefficients[::-1], jnp.zeros_like(x))
    return jnp.where(jnp.abs(x) < _SERIES_BELOW, x * x * series, closed)


@_defect.defjvp
def _defect_jvp(p, primals, tangents):
    (x,), (dx,) = primals, tangents
    slope = x / (1 + x) if p == 0 else -jnp.expm1((p - 1) * jnp.log1p(x))
    return _defect(x, p), slope * dx


def log_defect(x: Scalar) -> Scalar:
    """`x - ln(1 + x)`, with derivative `x/(1 + x)`."""
    return _defect(x, 0.0)


def isochoric_invariants(F: Float[Array, "3 3"]) -> tuple[Scalar, Scalar, Scalar]:
    """`(J^(-2/3) I1 - 3, J^(-4/3) I2 - 3, ln J)`, with `I1 = |F|^2`, `I2 = |cof F|^2`; NaN where `J < 0`.

    With `j = J - 1` and `K = cof F - I`, the terms linear in `H` cancel: `I1 - 3 J^(2/3) = 2 shear + 2
    defect(j, 2/3)` and `I2 - 3 J^(4/3) = K:K - 2 q(H) - 4 det H + 4 defect(j, 4/3)`, `q` the second
    invariant.
    """
    H = displacement_gradient(F)
    q, d, t = quadratic_invariant(H), determinant(H), trace(H)
    j = t + (q + d)
    K = cofactor(H) - H.T + t * jnp.eye(3, dtype=F.dtype)
    shear, complement = 0.5 * jnp.sum(H * H) - (q + d), jnp.sum(K * K) - (2 * q + 4 * d)
    # Without this barrier XLA (CPU, 0.10) computes the matrices again for every scalar that uses them
    j, shear, complement = jax.lax.optimization_barrier((j, shear, complement))
    log_j = jnp.log1p(j)
    first = jnp.exp(-2 / 3 * log_j) * 2 * (shear + _defect(j, 2 / 3))
    second = jnp.exp(-4 / 3 * log_j) * (complement + 4 * _defect(j, 4 / 3))
    return first, second, log_j
