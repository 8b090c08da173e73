"""The skin of a tube around a curve of frames."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_counts, plain
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range, parameter
from .._scene.stencil import Stencils, stencils
from .base import AbstractMapping
from .frame import carried
from .points import check_frames


class TubularMapping(AbstractMapping):
    """`p = c + R (0, r cos a, r sin a)`: rings of points around the x axes of the frames of a curve.

    `parents=(state, frame of each point (n,))`; `angle` `a` [rad]; `radius` `r` [m], shared or one per point, and like
    every number here a leaf to differentiate by. `TubularMapping.of(...)` makes whole rings, `edges_to_quads` the quads
    between them. Raises `ValueError` for other shapes, states other than `Rigid3` and `Vec3`, negative radii.
    Source: SOFA's TubularMapping.

    Example:

        ring = jm.mapping.TubularMapping.of("frame", "skin", frames=1, around=4, radius=0.5)
        scene = jm.System({"frame": jm.Rigid3(), "skin": jm.Vec3()}, mappings={"ring": ring})
        skin = jm.kinematics(scene, arm_state)["skin"]
        assert skin.shape == (4, 3) and jnp.allclose(skin[0], jnp.array([0.0, 0.5, 0.0]))  # [m]
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    angle: Parameter = parameter()
    radius: Parameter = parameter()
    is_linear: ClassVar[bool] = False

    def __check_init__(self):
        if len(self.parents) != 1 or self.parents[0].nodes.ndim != 1:
            raise ValueError("TubularMapping: parents must be (state, frames), frame numbers of shape (n,).")
        check_range(self, radius=(self.radius, lambda r: r >= 0, "at least 0"))

    @classmethod
    def of(cls, state: str, child: str, *, frames: int, around: int, radius: Any) -> "TubularMapping":
        """`around` points on the ring of each of `frames` frames; point `i * around + j` is number `j` of frame `i`."""
        frames, around = map(plain, (frames, around))
        check_counts("TubularMapping", frames=frames, around=around)
        angle = np.tile(2 * np.pi * np.arange(around) / around, frames)
        return cls((state, np.repeat(np.arange(frames), around)), child, angle, radius)

    def check_dofs(self, parents: Any, child: Any) -> None:
        check_frames(self, parents, child)
        if child.coord_size != 3:
            raise ValueError("TubularMapping makes points of Vec3 on frames of Rigid3.")

    def element_apply(self, q: Array) -> Array:
        ring = jnp.stack([jnp.zeros_like(self.angle), jnp.cos(self.angle), jnp.sin(self.angle)])
        return carried(q, self.radius * ring)
