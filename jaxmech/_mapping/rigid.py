"""Points and frames fixed to rigid frames."""

from typing import Any, ClassVar

import equinox as eqx

from .._math.rotation import have_unit_quaternions
from .._runtime.argument_checks import real_array
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.dof import Rigid2, Rigid3
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .frame import carried, carried_frame, frames_seen_from_each, seen_from_each
from .points import POINTS_ON
from .rest import frame_numbers, rest_frames, rest_points


class RigidMapping(AbstractMapping):
    """`p = c + R p_local`: points of `Vec3` on frames of `Rigid3`, or of `Vec2` on `Rigid2`; or frames on frames.

    `parents=(state, frame of each child (n,))`; `local` [m]: the points in the axes of their frames `(n, d)`, or the child
    frames `(n, 7)` or `(n, 3)`. Its geometric stiffness is what makes a hanging body stable and a standing one not.
    Raises `ValueError` for other states or shapes, and for quaternions that are not of unit length.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 2.

    Example:

        tip = jm.mapping.RigidMapping(("frame", [0]), "tip", [[1.0, 0.0, 0.0]])
        scene = jm.System({"frame": jm.Rigid3(), "tip": jm.Vec3()}, mappings={"tip": tip})
        frame = jnp.array([[0.0, 0.0, 5.0, 0.0, 0.0, np.sqrt(0.5), np.sqrt(0.5)]])  # turned by 90 degrees about z
        x = jm.kinematics(scene, scene.at_rest({"frame": frame}))
        assert jnp.allclose(x["tip"], jnp.array([[0.0, 1.0, 5.0]]), atol=1e-6)
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    local: Parameter = parameter(ndim=1)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("RigidMapping: parents must be (state, frames), frame numbers of shape (n,).")
        if getattr(self.local, "shape", ())[-1:] == (7,):
            check_range(self, local=(self.local, have_unit_quaternions, "frames with quaternions of unit length"))

    @classmethod
    def from_global(cls, state: str, child: str, frames: Any, coordinates: Any, points: Any) -> "RigidMapping":
        """Points `(n, d)`, or frames `(n, 7)`, given in the world, each on frame `frames[i]` of those at `coordinates`.

        Frames of the plane `(n, 3)` on frames of the plane are told from points of space by the coordinates `(frames, 3)`.
        Host work. Raises `ValueError` or `TypeError` for other shapes, numbers of no frame, and quaternions that are not of
        unit length.
        """
        coordinates = rest_frames("RigidMapping.from_global", coordinates)
        numbers = frame_numbers("RigidMapping.from_global", "frames", frames, coordinates, (None,))
        points = real_array("RigidMapping.from_global", "points", points)
        on_frames = points.ndim == 2 and points.shape[1] == coordinates.shape[1]
        if on_frames:
            points = rest_frames("RigidMapping.from_global", points, name="points")
        else:
            points = rest_points("RigidMapping.from_global", points, coordinates)
        if len(points) != len(numbers):
            raise ValueError(
                f"RigidMapping.from_global: {len(points)} points and {len(numbers)} frames, one each is needed."
            )
        seen = frames_seen_from_each if on_frames else seen_from_each
        local = seen(coordinates[numbers], points)
        return cls((state, numbers), child, local)

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
