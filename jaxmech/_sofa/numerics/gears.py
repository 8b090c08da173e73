"""SOFA's springs between gears."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.base import Arrays
from ..._math.rotation import rotation_matrix
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid3
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils
from .polynomial_springs import AbstractFrozen


class GearSprings(AbstractFrozen):
    """Two gears, each on a pivot of its support, that turn against one another: GearSpringForceField.

    `on`: gear 1, its support, gear 2, its support. A pivot pulls by `k (cs - c) + d (vs - v)` and turns by `h t + d
    (ws - w)`, `t` the shortest turn that takes the axis of the gear onto that of its support, which feels the
    opposite; the teeth turn gear 1 by `g` and gear 2 by `g / ratio` about their axes, `g = -s (ratio a1 + a2)`, and
    support nothing. `a` is how far a gear has turned on its support, within half a turn: the mean of the angles
    between the other two axes of both. `along` `k` [N/m], `hard` `h` and `soft` `s` [N m], `damping` `d` [N s/m] and
    [N m s], `axis1`, `axis2` `(3,)` of the gears. Where a gear is its own support (`alone1`, `alone2`: 1), that is
    the frame `start1`, `start2` `(7,)`. SOFA's stiffness is that of the springs alone, in the axes of the supports.
    """

    on: Stencils = stencils()
    along: Parameter = parameter()
    soft: Parameter = parameter()
    hard: Parameter = parameter()
    damping: Parameter = parameter()
    ratio: Parameter = parameter()
    axis1: Parameter = parameter(ndim=1)
    axis2: Parameter = parameter(ndim=1)
    alone1: Parameter = parameter()
    alone2: Parameter = parameter()
    start1: Parameter = parameter(ndim=1)
    start2: Parameter = parameter(ndim=1)
    frozen: bool = eqx.field(static=True, default=True)

    def check_dofs(self, dofs: Any) -> None:
        if not all(isinstance(dof, Rigid3) for dof in dofs):
            raise ValueError("GearSprings acts on frames (Rigid3).")

    def _supports(self, x: Arrays) -> tuple[Array, Array]:
        return jnp.where(self.alone1 > 0, self.start1, x[1]), jnp.where(self.alone2 > 0, self.start2, x[3])

    def _pivot(self, gear: Array, support: Array, rate: Array, axis: Array) -> tuple[Array, Array, Array]:
        """The force and torque of a pivot on its gear, the axis of the gear, and how far it has turned."""
        R, S = rotation_matrix(gear[3:]), rotation_matrix(support[3:])
        turn = self.hard * _turn(R @ axis, S @ axis)
        force = jnp.concatenate([self.along * (support[:3] - gear[:3]), turn]) + self.damping * rate
        angles = jnp.stack([_angle(S[:, i], R[:, i], S @ axis) for i in range(3)])
        return force, R @ axis, jnp.sum((1 - axis) * angles) / 2

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        held = (1 - self.alone1, 1 - self.alone2)
        one, other = self._supports(x)
        f1, e1, a1 = self._pivot(x[0], one, held[0] * v[1] - v[0], self.axis1)
        f2, e2, a2 = self._pivot(x[2], other, held[1] * v[3] - v[2], self.axis2)
        g = -self.soft * (self.ratio * a1 + a2)
        teeth = (jnp.concatenate([jnp.zeros(3), g * e1]), jnp.concatenate([jnp.zeros(3), g / self.ratio * e2]))
        return f1 + teeth[0], -held[0] * f1, f2 + teeth[1], -held[1] * f2

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return self.stiffness_of_frames(x, v)
        K = [[jnp.zeros((6, 6), x[0].dtype) for _ in range(4)] for _ in range(4)]
        turned = []
        for i, (support, axis, held) in enumerate(
            zip(self._supports(x), (self.axis1, self.axis2), (1 - self.alone1, 1 - self.alone2), strict=True)
        ):
            S, (gear, base) = rotation_matrix(support[3:]), (2 * i, 2 * i + 1)
            pivot = jax.scipy.linalg.block_diag(self.along * jnp.eye(3), (S * (self.hard * (1 - axis))) @ S.T)
            turned.append(jnp.concatenate([jnp.zeros(3), S @ axis]))
            K[gear][gear], K[base][base] = pivot, held * pivot
            K[gear][base] = K[base][gear] = -held * pivot
        e1, e2 = turned
        teeth = [[self.ratio * jnp.outer(e1, e1), jnp.outer(e1, e2)], [jnp.outer(e2, e1), jnp.outer(e2, e2) / self.ratio]]
        for i in range(2):
            for j in range(2):
                K[2 * i][2 * j] = K[2 * i][2 * j] + self.soft * teeth[i][j]
        return tuple(tuple(row) for row in K)


def _turn(u: Array, v: Array) -> Array:
    """The shortest rotation vector that takes one direction onto another."""
    across = jnp.cross(u, v)
    sine = safe_length(across)
    apart = sine > 0
    return across * jnp.where(apart, jnp.arctan2(sine, u @ v) / jnp.where(apart, sine, 1.0), 1.0)


def _angle(u: Array, v: Array, axis: Array) -> Array:
    """The angle between two directions, of the sign of the turn about `axis` that takes one onto the other."""
    across = jnp.cross(u, v)
    sine, about = safe_length(across), across @ axis
    return jnp.arctan2(jnp.where(sine > 0, jnp.where(about < 0, -sine, sine), about), u @ v)
