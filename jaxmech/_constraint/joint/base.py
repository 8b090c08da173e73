"""What joints between rigid bodies share: a frame in each body, and how one stands in the other."""

from typing import Any

import jax.numpy as jnp
from equinox import AbstractVar

from ..._math.rotation import have_unit_quaternions, quaternion_conjugate, quaternion_product, rotate
from ..._runtime.array_types import Array
from ..._runtime.field_types import OptionalParameter
from ..._scene.dof import Rigid3
from ..._scene.parameter import check_range
from ..multiplier import AbstractMultiplierConstraint
from ..points import check_single_nodes


class AbstractJoint(AbstractMultiplierConstraint):
    """A joint of a body `a` and a body `b`, `Rigid3` states, or of the world and `b`.

    `frame_a`, `frame_b`: the joint's frame in the axes of either body, `(7,)` or `(e, 7)`, the body's own unless given;
    with one stencil, `on=(state, nodes b (e,))`, `a` is the world. A subclass says what is nil of the place `p` of frame
    `b` in the axes of frame `a` [m], and of its orientation there.
    """

    frame_a: AbstractVar[OptionalParameter]
    frame_b: AbstractVar[OptionalParameter]

    def __check_init__(self):
        check_single_nodes(self, 1, 2)
        for name in ("frame_a", "frame_b"):
            value = getattr(self, name)
            if value is not None and getattr(value, "shape", ())[-1:] != (7,):
                raise ValueError(f"{type(self).__name__}: {name} must be (7,) or (e, 7), a point and a quaternion.")
            check_range(self, **{name: (value, have_unit_quaternions, "frames with quaternions of unit length")})

        rows = len(self.units)
        for name in ("compliance", "relaxation"):
            shape = getattr(getattr(self, name), "shape", ())
            if shape and shape[-1] not in (1, rows):
                raise ValueError(
                    f"{type(self).__name__}: {name} has shape {shape}, expected 1 or {rows} numbers of its rows."
                )

    def check_dofs(self, dofs: Any) -> None:
        if not all(isinstance(dof, Rigid3) for dof in dofs):
            kinds = [type(dof).__name__ for dof in dofs]
            raise ValueError(f"{type(self).__name__} joins bodies (Rigid3), not {kinds}.")

    def relative(self, x: tuple[Array, ...]) -> tuple[Array, Array]:
        """`(p, q)`: where frame `b` is in the axes of frame `a` [m], and its orientation there, a quaternion."""
        b = placed(x[-1], self.frame_b)
        if len(x) == 1:
            if self.frame_a is None:
                return b[:3], b[3:]
            a = self.frame_a
        else:
            a = placed(x[0], self.frame_a)
        back = quaternion_conjugate(a[3:])
        return rotate(back, b[:3] - a[:3]), quaternion_product(back, b[3:])


def placed(body: Array, frame: Array | None) -> Array:
    """A frame that is fixed to a body, in the world."""
    if frame is None:
        return body
    return jnp.concatenate([body[:3] + rotate(body[3:], frame[:3]), quaternion_product(body[3:], frame[3:])])


def turn(q: Array) -> Array:
    """`(3,)` [rad], nil where a quaternion is no rotation, and there to first order its rotation vector."""
    return jnp.where(q[3] < 0, -2.0, 2.0) * q[:3]


def tilt(q: Array) -> Array:
    """`(2,)` [rad], nil where a rotation leaves the axis `z`, and to first order how it tilts it about `x` and `y`.

    `2 sin(a / 2)` long where the axis is tilted by `a`: longest at half a turn, and only there without a direction.
    """
    x, y, z, w = q
    square = z * z + w * w
    upside_down = square < (16 * jnp.finfo(q.dtype).eps) ** 2
    length = jnp.sqrt(jnp.where(upside_down, 1.0, square))  # of the turn about z, which is taken off
    sine, cosine = jnp.where(upside_down, 0.0, z / length), jnp.where(upside_down, 1.0, w / length)
    return 2.0 * jnp.stack([cosine * x - sine * y, cosine * y + sine * x])
