"""SOFA's springs that hold two frames together as a joint does."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.base import Arrays
from ..._math.rotation import quaternion_conjugate, quaternion_log, quaternion_product, rotation_matrix
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid3
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils
from .polynomial_springs import AbstractFrozen


class JointSprings(AbstractFrozen):
    """`f = R (k * R^T (c2 - c1 - d)) + c (v2 - v1)` and a torque `R m + c (w2 - w1)` on the first frame, which `R` turns,
    and the opposite on the second, without a lever: JointSpringForceField.

    `m` by the rotation vector `t` of the second frame as the first sees it: `s * t`, `s` being `soft` about the `free` axes
    and `hard` about the others. About the one free axis `e` of a pivot, within its limits, the other two have
    `s * a (e x M e)`, `M` the relative rotation and `a` the angle between `e` and `M e`. About a free axis beyond its
    limits, `block` times what is beyond. `along` `k` `(3,)` [N/m]; `soft`, `hard`, `block` [N m]; `damping` `c` [N s/m] and
    [N m s]; `low`, `high` `(3,)` [rad]; `gap` `d` `(3,)` [m] and `turn` `(4,)`, of the joint at rest. SOFA's stiffness is
    that of the springs alone, in the axes of the first frame.
    """

    on: Stencils = stencils()
    along: Parameter = parameter(ndim=1)
    soft: Parameter = parameter()
    hard: Parameter = parameter()
    block: Parameter = parameter()
    damping: Parameter = parameter()
    free: Parameter = parameter(ndim=1)
    low: Parameter = parameter(ndim=1)
    high: Parameter = parameter(ndim=1)
    gap: Parameter = parameter(ndim=1)
    turn: Parameter = parameter(ndim=1)
    frozen: bool = eqx.field(static=True, default=True)

    def check_dofs(self, dofs: Any) -> None:
        if not all(isinstance(dof, Rigid3) for dof in dofs):
            raise ValueError("JointSprings acts on frames (Rigid3).")

    def _moment(self, x: Arrays) -> tuple[Array, Array]:
        """`m` in the axes of the first frame, and the stiffness about each of them."""
        relative = quaternion_product(quaternion_product(quaternion_conjugate(x[0][3:]), x[1][3:]), self.turn)
        t, free = quaternion_log(relative), self.free > 0
        within = (t > self.low) & (t < self.high)
        beyond = free & ~within
        s = jnp.where(free, jnp.where(within, self.soft, self.block), self.hard)
        return jnp.where(self._is_pivot(within), self._about_pivot(relative, t, s), self._beyond(t, s, beyond)), s

    def _is_pivot(self, within: Array) -> Array:
        return (jnp.sum(self.free) == 1) & jnp.any((self.free > 0) & within)

    def _about_pivot(self, relative: Array, t: Array, s: Array) -> Array:
        e = self.free
        turned = rotation_matrix(relative) @ e
        across = jnp.cross(e, turned)
        return s * (jnp.arctan2(safe_length(across), e @ turned) * across + e * t)

    def _beyond(self, t: Array, s: Array, beyond: Array) -> Array:
        round_trip = 2 * jnp.pi
        above = jnp.where(t > 0, t - self.high, t - self.high + round_trip)
        below = jnp.where(t > 0, self.low + round_trip - t, self.low - t)
        nearest = jnp.where(above < below, self.high, self.low)
        lawful = jnp.where(self.free > 0, jnp.where(beyond, nearest, t), 0.0)
        extra = t - lawful
        size = safe_length(extra)
        half = size > jnp.pi  # the shorter way round
        extra = extra * jnp.where(half, 1 - round_trip / jnp.where(half, size, 1.0), 1.0)
        return s * jnp.where(beyond, extra, t)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        R, (m, _) = rotation_matrix(x[0][3:]), self._moment(x)
        gap = R.T @ (x[1][:3] - x[0][:3] - self.gap)
        f = jnp.concatenate([R @ (self.along * gap), R @ m]) + self.damping * (v[1] - v[0])
        return f, -f

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return self.stiffness_of_frames(x, v)
        R, (_, s) = rotation_matrix(x[0][3:]), self._moment(x)
        K = jax.scipy.linalg.block_diag((R * self.along) @ R.T, (R * s) @ R.T)
        return (K, -K), (-K, K)


class FrameSprings(AbstractFrozen):
    """`f = k (c2 + R2 a2 - c1 - R1 a1) + c (v2 - v1)` on the first frame, `-f` on the second, with the torques
    `m + R1 a1 x f + c (w2 - w1)` and `-(m + R2 a2 x f - c (w2 - w1))`, `m` `turning` times the rotation vector of the second
    as the first sees it: FrameSpringForceField.

    `along` `k` [N/m], `turning` [N m], `damping` `c` [N s/m] and [N m s], `arm1`, `arm2` `(3,)` [m]. SOFA's stiffness is
    that of a spring without arms, and its rotation vector is not turned into the world.
    """

    on: Stencils = stencils()
    along: Parameter = parameter()
    turning: Parameter = parameter()
    damping: Parameter = parameter()
    arm1: Parameter = parameter(ndim=1)
    arm2: Parameter = parameter(ndim=1)
    frozen: bool = eqx.field(static=True, default=True)

    def check_dofs(self, dofs: Any) -> None:
        if not all(isinstance(dof, Rigid3) for dof in dofs):
            raise ValueError("FrameSprings acts on frames (Rigid3).")

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        arms = [rotation_matrix(frame[3:]) @ arm for frame, arm in zip(x, (self.arm1, self.arm2), strict=True)]
        rate = v[1] - v[0]
        f = self.along * (x[1][:3] + arms[1] - x[0][:3] - arms[0]) + self.damping * rate[:3]
        m = self.turning * quaternion_log(quaternion_product(quaternion_conjugate(x[0][3:]), x[1][3:]))
        turn = self.damping * rate[3:]
        one, other = m + jnp.cross(arms[0], f) + turn, m + jnp.cross(arms[1], f) - turn
        return jnp.concatenate([f, one]), -jnp.concatenate([f, other])

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return self.stiffness_of_frames(x, v)
        K = jnp.diag(jnp.concatenate([jnp.full(3, 1.0) * self.along, jnp.full(3, 1.0) * self.turning]))
        return (K, -K), (-K, K)
