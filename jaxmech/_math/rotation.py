"""Rotations as unit quaternions (x, y, z, w), and the maps between them and rotation vectors.

Formulas: J. Sola, "Quaternion kinematics for the error-state Kalman filter", arXiv:1711.02508, 2017. Every function is
smooth at the zero rotation: a series stands in where a quotient would be 0/0, behind a `where` with a safe argument.

Products are written as constant matrices on outer products: a handful of operations however often they are differentiated,
where vector products written out by components would be dozens, and all of them compiled again in every derivative.
"""

import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Float

UNIT_LENGTH = 1e-5  # how far from 1 the length of a quaternion may be that is given as a rotation
_SMALL = 1e-2  # below this squared angle the series used here are exact to float64 rounding


def _product_table() -> np.ndarray:
    """`(4, 16)`: the product of quaternions as a linear function of the outer product of the two."""
    table = np.zeros((4, 4, 4))
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        table[i, 3, i] = table[i, i, 3] = table[i, j, k] = 1.0
        table[i, k, j] = table[3, i, i] = -1.0
    table[3, 3, 3] = 1.0
    return table.reshape(4, 16)


def _rotation_table() -> np.ndarray:
    """`(9, 16)`: `R - I = 2 w [v]x + 2 [v]x [v]x` of the quaternion `(v, w)` as a linear function of its outer square."""
    skew = np.zeros((3, 3, 3))  # [v]x = skew @ v
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        skew[i, k, j], skew[i, j, k] = 1.0, -1.0
    table = np.zeros((3, 3, 4, 4))
    table[:, :, 3, :3] = 2 * skew
    table[:, :, :3, :3] = 2 * np.einsum("abi,bcj->acij", skew, skew)
    return table.reshape(9, 16)


_PRODUCT, _ROTATION = _product_table(), _rotation_table()
_CONJUGATE, _IDENTITY = np.array([-1.0, -1.0, -1.0, 1.0]), np.eye(3)


def _outer(a: Array, b: Array) -> Array:
    return (a[:, None] * b).reshape(-1)


def quaternion_product(a: Float[Array, "4"], b: Float[Array, "4"]) -> Float[Array, "4"]:
    """The rotation `a` after the rotation `b`."""
    return jnp.asarray(_PRODUCT, a.dtype) @ _outer(a, b)


def quaternion_conjugate(q: Float[Array, "4"]) -> Float[Array, "4"]:
    """The inverse rotation."""
    return q * jnp.asarray(_CONJUGATE, q.dtype)


def quaternion_exp(w: Float[Array, "3"]) -> Float[Array, "4"]:
    """The unit quaternion of the rotation vector `w` [rad]: `(sin(|w|/2) w/|w|, cos(|w|/2))`."""
    square = 0.25 * (w @ w)
    small = square < _SMALL
    half = jnp.sqrt(jnp.where(small, 1.0, square))
    sinc_series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42 * (1 - square / 72 * (1 - square / 110))))
    cos_series = 1 - square / 2 * (1 - square / 12 * (1 - square / 30 * (1 - square / 56 * (1 - square / 90))))
    sinc = jnp.where(small, sinc_series, jnp.sin(half) / half)
    cosine = jnp.where(small, cos_series, jnp.cos(half))
    return jnp.concatenate([0.5 * sinc * w, cosine[None]])


def quaternion_exp_near(w: Float[Array, "3"]) -> Float[Array, "4"]:
    """`quaternion_exp(w)` to the fourth order in `w` [rad]: at `w = 0`, all derivatives that mechanics takes, cheaply."""
    square = w @ w
    return jnp.concatenate([(0.5 - square / 48) * w, (1 - square * (0.125 - square / 384))[None]])


def quaternion_log_near(q: Float[Array, "4"]) -> Float[Array, "3"]:
    """`quaternion_log(q)` to the fourth order in the angle, for unit quaternions near `(0, 0, 0, 1)`."""
    return 2 * (1 + q[:3] @ q[:3] / 6) * q[:3]


def quaternion_log(q: Float[Array, "4"]) -> Float[Array, "3"]:
    """The rotation vector [rad], of length at most pi, of the unit quaternion `q`."""
    q = jnp.where(q[3] < 0, -q, q)
    square = q[:3] @ q[:3]
    small = square < _SMALL
    sine = jnp.sqrt(jnp.where(small, 1.0, square))
    # asin(s)/s from its series; 2 atan2(s, c)/s elsewhere. Both hold for a unit quaternion.
    t = square
    series = 1 + t * (1 / 6 + t * (3 / 40 + t * (5 / 112 + t * (35 / 1152 + t * (63 / 2816 + t * (231 / 13312))))))
    angle = jnp.where(small, series, jnp.arctan2(sine, jnp.where(small, 1.0, q[3])) / sine)
    return 2 * angle * q[:3]


def rotation_matrix(q: Float[Array, "4"]) -> Float[Array, "3 3"]:
    """The matrix `R` of the unit quaternion `q`, so that a body vector `p` is `R p` in the world."""
    return jnp.asarray(_IDENTITY, q.dtype) + (jnp.asarray(_ROTATION, q.dtype) @ _outer(q, q)).reshape(3, 3)


def rotate(q: Float[Array, "4"], p: Float[Array, "3"]) -> Float[Array, "3"]:
    """The body vector `p` in world axes: `R(q) p`."""
    return jnp.sum(rotation_matrix(q) * p, axis=1)


def are_of_unit_length(vectors: np.ndarray) -> np.ndarray:
    """Whether host vectors `(..., d)`, quaternions or directions, are of length 1, said of every coordinate."""
    return np.broadcast_to(np.abs(np.linalg.norm(vectors, axis=-1, keepdims=True) - 1) <= UNIT_LENGTH, vectors.shape)


def have_unit_quaternions(frames: np.ndarray) -> np.ndarray:
    """The same of the quaternions of host frames `(..., 7)`."""
    return np.broadcast_to(are_of_unit_length(frames[..., 3:])[..., :1], frames.shape)


def normalised(q: Float[Array, "4"]) -> Float[Array, "4"]:
    """`q` back on the unit sphere, to second order in the defect: a Newton step, cheap and smooth everywhere."""
    return q * (1.5 - 0.5 * (q @ q))
