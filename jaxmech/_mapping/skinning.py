"""Points that follow several frames at once."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from .._runtime.argument_checks import check_counts, plain, real_array
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_parameters, check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .frame import carried, seen_from_each
from .points import check_frames
from .rest import rest_frames, rest_points


class SkinningMapping(AbstractMapping):
    """`p = sum_j w_j (c_j + R_j p_j)`: linear blend skinning of points by `k` frames each.

    `parents=(state, frames of each point (n, k))`; `weights` `(n, k)` of sum 1; `local` `(n, k, d)` [m]: the point in the
    axes of each of its frames. Raises `ValueError` for other shapes or states, and for weights of another sum.
    Source: N. Magnenat-Thalmann, R. Laperriere, D. Thalmann, "Joint-dependent local deformations for hand animation and
    object grasping", Graphics Interface 1988.

    Example:

        skin = jm.mapping.SkinningMapping(("flat", [[0, 1]]), "p", weights=[[0.5, 0.5]], local=np.zeros((1, 2, 2)))
        scene = jm.System({"flat": jm.Rigid2(), "p": jm.Vec2()}, mappings={"skin": skin})
        frames = jnp.array([[0.0, 0.0, 0.0], [4.0, 2.0, 1.0]])
        assert jnp.allclose(jm.kinematics(scene, scene.at_rest({"flat": frames}))["p"], jnp.array([[2.0, 1.0]]))  # half way
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    weights: Parameter = parameter(ndim=1)
    local: Parameter = parameter(ndim=2)
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        check_parameters(self, self.parents)
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 2:
            raise ValueError("SkinningMapping: parents must be (state, frames) with frame numbers of shape (n, k).")
        k = self.parents[0].nodes_per_element
        if self.weights.shape[-1] != k or self.local.shape[-2] != k:
            raise ValueError(
                f"SkinningMapping: weights {self.weights.shape} and local {self.local.shape} must be of {k} frames each."
            )
        check_range(self, weights=(self.weights, lambda w: np.abs(w.sum(-1) - 1) < 1e-4, "of sum 1 for each point"))

    @classmethod
    def from_rest(
        cls, state: str, child: str, coordinates: Any, points: Any, *, weights: Any = None, nearest: int = 4
    ) -> "SkinningMapping":
        """The points `(n, d)` at rest on the frames at `coordinates` `(frames, c)`.

        Each follows its `nearest` frames, with weights that fall with the square of the distance; or all frames with the
        given `weights` `(n, frames)`.
        """
        frames = np.asarray(rest_frames("SkinningMapping.from_rest", coordinates))
        points = np.asarray(rest_points("SkinningMapping.from_rest", points, frames))
        nearest = plain(nearest)
        check_counts("SkinningMapping.from_rest", nearest=nearest)
        if weights is None:
            distance = np.linalg.norm(points[:, None] - frames[None, :, : points.shape[1]], axis=-1)
            who = np.argsort(distance, axis=1, kind="stable")[:, : min(nearest, frames.shape[0])]
            strength = 1 / np.maximum(np.take_along_axis(distance, who, axis=1), 1e-9 * max(np.ptp(frames), 1e-300)) ** 2
            weights = strength / strength.sum(axis=1, keepdims=True)
        else:
            weights = real_array("SkinningMapping.from_rest", "weights", weights, (len(points), len(frames)))
            who = np.broadcast_to(np.arange(frames.shape[0]), (points.shape[0], frames.shape[0]))
        local = seen_from_each(frames[who], points[:, None])
        return cls((state, who), child, weights, local)

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_frames(self, parents, child)
        if self.local.shape[-1] != child.coord_size:
            raise ValueError(f"local has shape {self.local.shape}, expected (n, k, {child.coord_size}).")

    def element_apply(self, q: Array) -> Array:
        return self.weights @ jax.vmap(carried)(q, self.local)
