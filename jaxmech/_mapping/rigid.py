"""Points and frames fixed to rigid frames."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._dof import Rigid2, Rigid3
from .._element import check_range, parameter
from .._stencil import Stencil, stencils
from .._typing import Array
from .base import AbstractMapping
from .frame import carried, carried_frame, frame_seen_from, seen_from
from .points import POINTS_ON


class RigidMapping(AbstractMapping):
    """`p = c + R p_local`: points of `Vec3` on frames of `Rigid3`, or of `Vec2` on `Rigid2`; or frames on frames.

    `parents=(state, frame of each child (n,))`; `local` [m]: the points in the axes of their frames `(n, d)`, or the child
    frames `(n, 7)` or `(n, 3)`. Its geometric stiffness is what makes a hanging body stable and a standing one not.
    Raises `ValueError` for other states or shapes, and for quaternions that are not of unit length.
    """

    parents: tuple[Stencil, ...] = stencils()
    child: str = eqx.field(static=True)
    local: Array = parameter(ndim=1)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("RigidMapping: parents must be (state, frames), frame numbers of shape (n,).")
        if getattr(self.local, "shape", ())[-1:] == (7,):
            check_range(self, local=(self.local, _has_unit_quaternion, "frames with quaternions of unit length"))

    @classmethod
    def from_global(cls, state: str, child: str, frames: Any, coordinates: Any, points: Any) -> "RigidMapping":
        """Points `(n, d)`, or frames `(n, 7)`, given in the world, each on frame `frames[i]` of those at `coordinates`.

        Frames of the plane `(n, 3)` on frames of the plane are told from points of space by the coordinates `(frames, 3)`.
        """
        frames, points, coordinates = jnp.asarray(frames), jnp.asarray(points), jnp.asarray(coordinates)
        on_points = points.shape[-1] == {7: 3, 3: 2}.get(coordinates.shape[-1])
        local = jax.vmap(seen_from if on_points else frame_seen_from)(coordinates[frames], points)
        return cls((state, frames), child, local)

    def check_dofs(self, parents: Any, child: Any) -> None:
        frame, made = type(parents[0]), type(child)
        if frame not in (Rigid2, Rigid3) or made not in (POINTS_ON[frame], frame):
            raise ValueError(
                "RigidMapping maps Rigid3 to Vec3 or Rigid3, or Rigid2 to Vec2 or Rigid2, not "
                f"{[frame.__name__, made.__name__]}."
            )
        if self.local.shape[-1] != child.coord_size:
            raise ValueError(f"local has shape {self.local.shape}, expected (n, {child.coord_size}).")

    def element_apply(self, q: Array) -> Array:
        frames_too = self.local.shape[0] == q.shape[0]
        return carried_frame(q, self.local) if frames_too else carried(q, self.local)


def _has_unit_quaternion(local: np.ndarray) -> np.ndarray:
    good = np.abs(np.sum(local[..., 3:] ** 2, axis=-1, keepdims=True) - 1) < 1e-5
    return np.broadcast_to(good, local.shape)
