"""What frames of the plane and of space do to points and to other frames.

A frame of space is `(x, y, z, qx, qy, qz, qw)`, one of the plane `(x, y, angle)`; both functions tell them by their size.
"""

import jax.numpy as jnp

from .._math.rotation import quaternion_conjugate, quaternion_product, rotate
from .._runtime.array_types import Array
from .._runtime.precision import in_one_program


def turned(frame: Array, p: Array) -> Array:
    """`R p`: a vector in the axes of the frame, in those of the world."""
    if frame.shape[0] == 7:
        return rotate(frame[3:], p)
    c, s = jnp.cos(frame[2]), jnp.sin(frame[2])
    return jnp.stack([c * p[0] - s * p[1], s * p[0] + c * p[1]])


def carried(frame: Array, p: Array) -> Array:
    """`c + R p`: the place in the world of a point that is fixed to the frame."""
    return frame[: p.shape[0]] + turned(frame, p)


def carried_frame(frame: Array, local: Array) -> Array:
    """The frame in the world of one that is fixed to another."""
    if frame.shape[0] == 7:
        return jnp.concatenate([carried(frame, local[:3]), quaternion_product(frame[3:], local[3:])])
    return jnp.append(carried(frame, local[:2]), frame[2] + local[2])


def seen_from(frame: Array, p: Array) -> Array:
    """`R^T (p - c)`: the inverse of `carried`."""
    if frame.shape[0] == 7:
        return rotate(quaternion_conjugate(frame[3:]), p - frame[:3])
    return turned(jnp.stack([frame[0], frame[1], -frame[2]]), p - frame[:2])


@in_one_program
def seen_from_each(frames: Array, points: Array) -> Array:
    """`seen_from` of frames `(..., c)` and points `(..., d)`: where a scene is made its operations would be programs."""
    return jnp.vectorize(seen_from, signature="(c),(d)->(d)")(frames, points)


def frame_seen_from(frame: Array, other: Array) -> Array:
    """The inverse of `carried_frame`."""
    if frame.shape[0] == 7:
        turn = quaternion_product(quaternion_conjugate(frame[3:]), other[3:])
        return jnp.concatenate([seen_from(frame, other[:3]), turn])
    return jnp.append(seen_from(frame, other[:2]), other[2] - frame[2])


@in_one_program
def frames_seen_from_each(frames: Array, others: Array) -> Array:
    """`frame_seen_from` of frames `(..., c)` and others `(..., c)`."""
    return jnp.vectorize(frame_seen_from, signature="(c),(c)->(c)")(frames, others)
