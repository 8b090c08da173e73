"""Points on and in beams whose ends are frames."""

from typing import Any, ClassVar

import equinox as eqx
import numpy as np

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .frame import carried, seen_from_each
from .points import check_frames
from .rest import frame_numbers, rest_frames, rest_points


class BeamMapping(AbstractMapping):
    """`p = (1 - h) (c_a + R_a p_a) + h (c_b + R_b p_b)` with `h(s) = 3 s^2 - 2 s^3`: cubic between two frames.

    Each end predicts where the point is as if the whole beam turned with it; the blend is a cubic in `s`, passes through
    both ends, and is tangent there to what each predicts. `parents=((state, frames a (n,)), (state, frames b (n,)))`;
    `place` `s` in [0, 1]; `local_a`, `local_b` `(n, d)` [m]: the point at rest in the axes of either end. Raises
    `ValueError` for other shapes or states.
    Source: J. S. Przemieniecki, *Theory of Matrix Structural Analysis*, 1968 (cubic shape functions of beams).

    Example:

        frames = jnp.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0]])
        beam = jm.mapping.BeamMapping.from_rest("flat", "p", [[0, 1]], frames, [[2.0, 0.0]])
        scene = jm.System({"flat": jm.Rigid2(), "p": jm.Vec2()}, mappings={"beam": beam})
        bent = frames.at[:, 2].set(jnp.array([-0.1, 0.1]))  # [rad], both ends downwards
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"flat": bent}))["p"][0, 1], -2 * np.sin(0.1))  # [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    place: Parameter = parameter()
    local_a: Parameter = parameter(ndim=1)
    local_b: Parameter = parameter(ndim=1)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 2 or any(s.nodes.ndim != 1 for s in self.parents):
            raise ValueError("BeamMapping: parents must be ((state, frames a), (state, frames b)), of shape (n,).")
        check_range(self, place=(self.place, lambda s: (s >= 0) & (s <= 1), "between 0 and 1"))

    @classmethod
    def from_rest(cls, state: str, child: str, beams: Any, coordinates: Any, points: Any) -> "BeamMapping":
        """Points `(n, d)` at rest, each on the nearest of the `beams` `(m, 2)` between the frames at `coordinates`."""
        frames = np.asarray(rest_frames("BeamMapping.from_rest", coordinates))
        points = np.asarray(rest_points("BeamMapping.from_rest", points, frames))
        beams = frame_numbers("BeamMapping.from_rest", "beams", beams, frames, (None, 2))
        if not len(beams):
            raise ValueError("BeamMapping.from_rest: beams is empty, at least one is needed.")
        beam, place = nearest_segments(frames[:, : points.shape[1]], beams, points, 1)
        a, b = beams[beam[:, 0], 0], beams[beam[:, 0], 1]
        local_a, local_b = (seen_from_each(frames[end], points) for end in (a, b))
        return cls(((state, a), (state, b)), child, place[:, 0], local_a, local_b)

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_frames(self, parents, child)
        if {self.local_a.shape[-1], self.local_b.shape[-1]} != {child.coord_size}:
            raise ValueError(
                f"local_a and local_b have shapes {self.local_a.shape} and {self.local_b.shape}, expected "
                f"(n, {child.coord_size})."
            )

    def element_apply(self, a: Array, b: Array) -> Array:
        h = self.place**2 * (3 - 2 * self.place)
        return (1 - h) * carried(a, self.local_a) + h * carried(b, self.local_b)


def nearest_segments(
    ends: np.ndarray, segments: np.ndarray, points: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """For every point the nearest segments `(n, count)`, and where in [0, 1] on each the nearest place is."""
    a, b = ends[segments[:, 0]], ends[segments[:, 1]]
    axis = b - a
    place = np.einsum("nmd,md->nm", points[:, None] - a, axis) / np.maximum(np.sum(axis**2, axis=1), 1e-300)
    place = np.clip(place, 0.0, 1.0)
    distance = np.linalg.norm(points[:, None] - a - place[..., None] * axis, axis=-1)
    order = np.argsort(distance, axis=1, kind="stable")[:, :count]
    return order, np.take_along_axis(place, order, axis=1)
