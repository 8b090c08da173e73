"""Frames carried by tetrahedra."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.spatial.transform import Rotation

from ..._mapping.base import AbstractMapping
from ..._runtime.array_types import Array, Float
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid3, Vec3
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils
from .frames import orthogonal_factor


class CarriedFrames(AbstractMapping):
    """Origins `sum_a w_a q_a` over the corners of a tetrahedron, turned by the orthogonal factor of `E axes`.

    `E`: the edges that leave the first corner, as columns; `axes` `(n, 3, 3)`: the axes of each frame at the start in the
    basis `E`, each made of unit length there, as SOFA's BarycentricMapping to Rigid3 has them. Cells must not be inverted.
    """

    parents: Stencils = stencils()
    child: str = eqx.field(static=True)
    weights: Parameter = parameter(ndim=1)
    axes: Parameter = parameter(ndim=2)
    is_linear: ClassVar[bool] = False

    @classmethod
    def of(cls, state: str, child: str, rest: np.ndarray, cells: np.ndarray, frames: np.ndarray) -> "CarriedFrames":
        """Frames `(n, 7)` in the tetrahedra `cells` of the points `rest`: each in the one that it lies deepest in, or of all
        in the one whose centre is nearest, outside of them."""
        corners = rest[cells]
        inverse = np.linalg.inv(np.swapaxes(corners[:, 1:] - corners[:, :1], 1, 2))
        chosen, weights = [], []
        for point in frames[:, :3]:
            inside = np.einsum("tij,tj->ti", inverse, point - corners[:, 0])
            depth = np.maximum((-inside).max(1), inside.sum(1) - 1)
            away = np.sum((corners.mean(1) - point) ** 2, axis=1)
            best = int(np.argmin(np.where(depth > 0, away, depth)))
            chosen.append(best)
            weights.append([1 - inside[best].sum(), *inside[best]])
        axes = inverse[chosen] @ Rotation.from_quat(frames[:, 3:]).as_matrix()
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        return cls((state, cells[chosen]), child, np.array(weights), axes)

    def check_dofs(self, parents: Any, child: Any) -> None:
        if type(parents[0]) is not Vec3 or type(child) is not Rigid3:
            raise ValueError("CarriedFrames carries frames of space by points.")

    def element_apply(self, q: Array) -> Array:
        turn = orthogonal_factor((q[1:] - q[0]).T @ self.axes)
        return jnp.concatenate([self.weights @ q, quaternion_of(turn)])


def quaternion_of(R: Float[Array, "3 3"]) -> Float[Array, "4"]:
    """The quaternion `(x, y, z, w)` of a rotation, from the row of `4 q q^T` whose diagonal is largest.

    With that of `jax.scipy.spatial.transform` a scene of such frames takes 1.4 times as long to compile.
    """
    (a, b, c), (d, e, f), (g, h, i) = R
    rows = jnp.stack(
        [
            jnp.stack([1 + a - e - i, b + d, c + g, h - f]),
            jnp.stack([b + d, 1 - a + e - i, f + h, c - g]),
            jnp.stack([c + g, f + h, 1 - a - e + i, d - b]),
            jnp.stack([h - f, c - g, d - b, 1 + a + e + i]),
        ]
    )
    largest = jnp.arange(4) == jnp.argmax(jnp.diagonal(rows))
    row = jnp.sum(jnp.where(largest[:, None], rows, 0.0), axis=0)
    return row / (2 * jnp.sqrt(jnp.sum(jnp.where(largest, row, 0.0))))
