"""Motions of space as screws: the constant strain of a line between two frames."""

import jax.numpy as jnp

from .._runtime.array_types import Array, Float
from .rotation import quaternion_conjugate, quaternion_log, quaternion_product, rotate

_SMALL = 1e-2  # below this squared angle the series used here is exact to float64 rounding


def screw_between(a: Float[Array, "7"], b: Float[Array, "7"]) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
    """`(u, w)` in the axes of `a`, both constant along the way: the frame that moves with `u` and spins with `w` for a time
    of one gets from `a` to `b`. The logarithm of rigid motions, for turns of less than pi.

    `u = V(w)^-1 R_a^T (c_b - c_a)` with `V^-1 = 1 - w/2 x + (1 - |w|/2 cot(|w|/2)) / |w|^2 w x w x`.
    Source: V. Sonneville, A. Cardona, O. Bruels, Comput. Methods Appl. Mech. Eng. 268 (2014) 451,
    doi:10.1016/j.cma.2013.10.008.
    """
    back = quaternion_conjugate(a[3:])
    w = quaternion_log(quaternion_product(back, b[3:]))
    d = rotate(back, b[:3] - a[:3])
    once = jnp.cross(w, d)
    return d - 0.5 * once + _factor(w @ w) * jnp.cross(w, once), w


def _factor(square: Array) -> Array:
    """`(1 - y cot y) / (4 y^2)`, `y = |w| / 2`, of `|w|^2`."""
    small = square < _SMALL
    half = 0.5 * jnp.sqrt(jnp.where(small, 1.0, square))
    exact = (1 - half / jnp.tan(half)) / (4 * half**2)
    t = square
    return jnp.where(small, 1 / 12 + t * (1 / 720 + t * (1 / 30240 + t * (1 / 1209600 + t / 47900160))), exact)
