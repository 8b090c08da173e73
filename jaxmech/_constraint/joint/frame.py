"""Where a joint stands in a body."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._runtime.argument_checks import real_array
from ..._runtime.array_types import Array
from ..._runtime.precision import in_one_program
from ..._scene.parameter import is_concrete


def frame(point: Any, axis: Any = (0.0, 0.0, 1.0)) -> Array:
    """A frame `(7,)` at a point whose `z` axis is along `axis`: where a joint stands in a body.

    `point` `(3,)` [m] and `axis` `(3,)`, of any length but nil, in the axes of the body: `c + R p` of them is where the
    joint is in the world. Differentiable. Raises `ValueError` for other shapes and an axis of no length.
    Source: the half-way quaternion, J. Sola, arXiv:1711.02508, 2017.

    Example:

        eye = jm.constraint.frame([0.0, 0.0, 0.5], axis=[1.0, 0.0, 0.0])  # about x, at half a metre along z
        assert jnp.allclose(eye, jnp.array([0.0, 0.0, 0.5, 0.0, np.sqrt(0.5), 0.0, np.sqrt(0.5)]))
    """
    point, axis = (real_array("frame", n, a, (3,)) for n, a in (("point", point), ("axis", axis)))
    if is_concrete(axis) and not np.linalg.norm(axis) > 0:
        raise ValueError(f"frame: axis must have a length, got {np.asarray(axis)}.")
    return _upright(point, axis)


@in_one_program
def _upright(point: Array, axis: Array) -> Array:
    """The frame at the point whose `z` is along the axis."""
    z = axis / jnp.sqrt(axis @ axis)
    # The turn from z to the axis about the bisector; opposite to z, about x.
    flipped = z[2] < -1 + 1e-12
    q = jnp.stack([-z[1], z[0], jnp.zeros_like(z[0]), 1 + z[2]])
    q = jnp.where(flipped, jnp.asarray([1.0, 0.0, 0.0, 0.0], q.dtype), q)
    return jnp.concatenate([point, q / jnp.sqrt(q @ q)])
