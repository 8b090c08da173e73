"""Points that follow several lines of frames at once."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from .._runtime.argument_checks import check_counts, plain
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_parameters, check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .beam import nearest_segments
from .frame import seen_from_each, turned
from .points import check_frames
from .rest import frame_numbers, rest_frames, rest_points


class LineSetSkinningMapping(AbstractMapping):
    """`p = sum_l w_l ((1 - t_l) c_a + t_l c_b + R_a r_l)`: skinning by `k` lines, each between two frames `a`, `b`.

    `parents=((state, frames a (n, k)), (state, frames b (n, k)))`; `weights` `(n, k)` of sum 1; `place` `t` `(n, k)` of the
    nearest point of each line; `local` `(n, k, d)` [m]: the offset from it in the axes of `a`. Raises `ValueError` for
    other shapes or states, and for weights of another sum.
    Source: SOFA's LineSetSkinningMapping; N. Magnenat-Thalmann, R. Laperriere, D. Thalmann, "Joint-dependent local
    deformations for hand animation and object grasping", Graphics Interface 1988.

    Example:

        frames = jnp.array([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0]])  # one line, of 4 m
        skin = jm.mapping.LineSetSkinningMapping.from_rest("flat", "p", [[0, 1]], frames, [[1.0, 0.5]], nearest=1)
        scene = jm.System({"flat": jm.Rigid2(), "p": jm.Vec2()}, mappings={"skin": skin})
        longer = frames.at[1, 0].set(8.0)
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"flat": longer}))["p"], jnp.array([[2.0, 0.5]]))  # [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    weights: Parameter = parameter(ndim=1)
    place: Parameter = parameter(ndim=1)
    local: Parameter = parameter(ndim=2)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        check_parameters(self, self.parents)
        if len(self.parents) != 2 or any(s.nodes.ndim != 2 for s in self.parents):
            raise ValueError("LineSetSkinningMapping: parents must be ((state, frames a), (state, frames b)), each (n, k).")
        k = self.parents[0].nodes_per_element
        if {self.parents[1].nodes_per_element, self.weights.shape[-1], self.place.shape[-1], self.local.shape[-2]} != {k}:
            raise ValueError(
                f"LineSetSkinningMapping: the second parent, weights {self.weights.shape}, place {self.place.shape} and "
                f"local {self.local.shape} must be of {k} lines each."
            )
        check_range(self, weights=(self.weights, lambda w: np.abs(w.sum(-1) - 1) < 1e-4, "of sum 1 for each point"))

    @classmethod
    def from_rest(
        cls, state: str, child: str, lines: Any, coordinates: Any, points: Any, *, nearest: int = 2
    ) -> "LineSetSkinningMapping":
        """Points `(n, d)` at rest by the `nearest` of the `lines` `(m, 2)`; weights fall with the square of the distance."""
        nearest = plain(nearest)
        check_counts("LineSetSkinningMapping", nearest=nearest)
        frames = np.asarray(rest_frames("LineSetSkinningMapping.from_rest", coordinates))
        points = np.asarray(rest_points("LineSetSkinningMapping.from_rest", points, frames))
        lines = frame_numbers("LineSetSkinningMapping.from_rest", "lines", lines, frames, (None, 2))
        if not len(lines):
            raise ValueError("LineSetSkinningMapping.from_rest: lines is empty, at least one is needed.")
        d = points.shape[1]
        which, place = nearest_segments(frames[:, :d], lines, points, min(nearest, lines.shape[0]))
        a, b = lines[which, 0], lines[which, 1]
        foot = (1 - place[..., None]) * frames[a, :d] + place[..., None] * frames[b, :d]
        distance = np.linalg.norm(points[:, None] - foot, axis=-1)
        strength = 1 / np.maximum(distance, 1e-9 * max(np.ptp(frames), 1e-300)) ** 2
        # The offset from the foot in the axes of `a` is the point seen from that frame, had it stood at the foot.
        moved = points[:, None] - (foot - frames[a, :d])
        local = seen_from_each(frames[a], moved)
        return cls(((state, a), (state, b)), child, strength / strength.sum(axis=1, keepdims=True), place, local)

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_frames(self, parents, child)
        if self.local.shape[-1] != child.coord_size:
            raise ValueError(f"local has shape {self.local.shape}, expected (n, k, {child.coord_size}).")

    def element_apply(self, a: Array, b: Array) -> Array:
        d = self.local.shape[-1]
        along = (1 - self.place[:, None]) * a[:, :d] + self.place[:, None] * b[:, :d]
        return self.weights @ (along + jax.vmap(turned)(a, self.local))
