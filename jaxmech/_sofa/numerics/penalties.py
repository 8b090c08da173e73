"""SOFA's planes, spheres, ellipsoids and cones that push back what has crossed them.

Their damping is `-c |d| v` with the depth `d`, unless said otherwise: it grows with the depth, and is in no matrix.
`frozen`: the stiffness is SOFA's, without the damping and most of how the direction changes; else that of the force.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.base import AbstractEnergyForceField, AbstractForceField, Arrays, points_only
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array, Scalar
from ..._runtime.field_types import Parameter
from ..._scene.parameter import check_range, parameter
from ..._scene.stencil import Stencil, Stencils, stencils

_NEAREST = 1e-30  # [m], or in radii: at a centre there is no direction


class AbstractClosing(AbstractForceField):
    """A force on each node by itself, of which it is known how stiff it is at most."""

    damping: eqx.AbstractVar[Parameter]

    @abc.abstractmethod
    def closed(self, x: Array) -> Scalar:
        """`x . K x`, `K` the stiffness that is not less than that of any place."""

    @abc.abstractmethod
    def depth(self, x: Array) -> Scalar:
        """How deep a node is, 0 outside, in the unit of `damping`: its velocity is damped by that at most."""

    def stiffest(self) -> "ClosedPenalty":
        return ClosedPenalty(self)


class ClosedPenalty(AbstractEnergyForceField):
    """`E = x . K x / 2`, `D = c |d| v . v / 2`: what has crossed everywhere, is as stiff as anywhere, and damped as deep as
    it is, for how deep it may come nobody knows."""

    field: AbstractClosing

    is_dissipative = True  # pyright: ignore[reportAssignmentType]

    @property
    def on(self) -> tuple[Stencil, ...]:
        return self.field.on

    def element_energy(self, x: Array) -> Scalar:
        return 0.5 * self.field.closed(x)

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        depth = jax.lax.stop_gradient(self.field.depth(x[0]))  # which is no stiffness
        return 0.5 * self.field.damping * depth * (v[0] @ v[0])


class AbstractPenalty(AbstractClosing):
    """A stiffness that is SOFA's where `frozen`. In round shapes, no direction is stiffer than that of the force."""

    stiffness: eqx.AbstractVar[Parameter]
    frozen: eqx.AbstractVar[bool]

    def closed(self, x: Array) -> Scalar:
        return self.stiffness * (x @ x)

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.frozen

    @abc.abstractmethod
    def force_at(self, x: Array, v: Array) -> Array:
        """The force on a node."""

    @abc.abstractmethod
    def frozen_stiffness(self, x: Array) -> Array:
        """SOFA's stiffness of a node."""

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        return (self.force_at(x[0], v[0]),)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return super().element_stiffness(x, v)
        return ((self.frozen_stiffness(x[0]),),)


class SofaPlane(AbstractPenalty):
    """`f = -k d n + c d v` below a plane, `d = n . x - offset < 0`: PlaneForceField. `normal` is taken as it is given.

    `bilateral`: on both sides. `largest` [N]: the force is at most that, unless it is 0.
    """

    on: Stencils = stencils()
    normal: Parameter = parameter(ndim=1)
    offset: Parameter = parameter()
    stiffness: Parameter = parameter()
    damping: Parameter = parameter()
    largest: Parameter = parameter(default=0.0)
    bilateral: bool = eqx.field(static=True, default=False)
    frozen: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        positive = (lambda k: k >= 0, "at least 0")
        check_range(self, stiffness=(self.stiffness, *positive), damping=(self.damping, *positive))

    def _depth(self, x: Array) -> tuple[Scalar, Any]:
        d = self.normal @ x - self.offset
        return d, jnp.array(True) if self.bilateral else d < 0

    def force_at(self, x: Array, v: Array) -> Array:
        d, inside = self._depth(x)
        f = jnp.where(inside, d * (self.damping * v - self.stiffness * self.normal), 0.0)
        size = safe_length(f)
        too_large = (self.largest > 0) & (size > self.largest)
        return f * jnp.where(too_large, self.largest / jnp.where(too_large, size, 1.0), 1.0)

    def frozen_stiffness(self, x: Array) -> Array:
        return jnp.where(self._depth(x)[1], self.stiffness, 0.0) * jnp.outer(self.normal, self.normal)

    def closed(self, x: Array) -> Scalar:
        return self.stiffness * (self.normal @ x) ** 2

    def depth(self, x: Array) -> Scalar:
        d, inside = self._depth(x)
        return jnp.where(inside, jnp.abs(d), 0.0)


class SofaSphere(AbstractPenalty):
    """`f = -k d n + c d v` in a ball, `d = |x - center| - radius < 0`: SphereForceField. `bilateral`: outside too."""

    on: Stencils = stencils()
    center: Parameter = parameter(ndim=1)
    radius: Parameter = parameter()
    stiffness: Parameter = parameter()
    damping: Parameter = parameter()
    bilateral: bool = eqx.field(static=True, default=False)
    frozen: bool = eqx.field(static=True, default=True)

    def __check_init__(self):
        check_range(self, radius=(self.radius, lambda r: r > 0, "positive"))

    def _depth(self, x: Array) -> tuple[Array, Scalar, Any]:
        length = jnp.maximum(safe_length(x - self.center), _NEAREST)
        return (x - self.center) / length, length, jnp.array(True) if self.bilateral else length < self.radius

    def force_at(self, x: Array, v: Array) -> Array:
        n, length, inside = self._depth(x)
        return jnp.where(inside, (length - self.radius) * (self.damping * v - self.stiffness * n), 0.0)

    def frozen_stiffness(self, x: Array) -> Array:
        n, length, inside = self._depth(x)
        ratio = self.radius / length
        K = self.stiffness * (ratio * jnp.outer(n, n) + (1 - ratio) * jnp.eye(len(n), dtype=x.dtype))
        return jnp.where(inside, K, 0.0)

    def depth(self, x: Array) -> Scalar:
        _, length, inside = self._depth(x)
        return jnp.where(inside, jnp.abs(length - self.radius), 0.0)


class SofaEllipsoid(AbstractClosing):
    """`f = -|k| d n - c |d| v` where `k d < 0`, `d = sqrt(sum y_i^2 / r_i^2) - 1`, `n` along its gradient, `y = x - center`.

    EllipsoidForceField: nodes inside are pushed out (`k > 0`), or those outside pulled in (`k < 0`).
    """

    on: Stencils = stencils()
    center: Parameter = parameter(ndim=1)
    radii: Parameter = parameter(ndim=1)
    stiffness: Parameter = parameter()
    damping: Parameter = parameter()

    def __check_init__(self):
        check_range(self, radii=(self.radii, lambda r: (r > 0).all(-1), "positive"))

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def _depth(self, x: Array) -> Scalar:
        return jnp.maximum(safe_length((x - self.center) / self.radii), _NEAREST) - 1

    def depth(self, x: Array) -> Scalar:
        d = self._depth(x)
        return jnp.where(d * self.stiffness < 0, jnp.abs(d), 0.0)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        d = self._depth(x[0])
        g = (x[0] - self.center) / self.radii**2
        f = -jnp.abs(self.stiffness) * d * g / jnp.maximum(safe_length(g), _NEAREST) - self.damping * jnp.abs(d) * v[0]
        return (jnp.where(d * self.stiffness < 0, f, 0.0),)

    def closed(self, x: Array) -> Scalar:
        """Along the normal `|k| / r_min`; from outside, at the tip of the longest axis, across it `|k| r_max / r_min^2`."""
        least, most = jnp.min(self.radii), jnp.max(self.radii)
        return jnp.abs(self.stiffness) / least * jnp.where(self.stiffness < 0, most / least, 1.0) * (x @ x)


class SofaCone(AbstractPenalty):
    """Nodes are kept in a cone of a top, an axis and half an angle, closed by a ball about the top: ConicalForceField.

    Further from the top than the height, `f = -k d n + c d v` with the depth `d` and the direction `n` from the top. Else,
    beside the cone, `f = k d m - c (m . v) m`, `m` the direction to the nearest point of its side, `d` the distance; behind
    the top, the same towards the top. SOFA's stiffness is `k n n^T`.
    """

    on: Stencils = stencils()
    top: Parameter = parameter(ndim=1)
    height: Parameter = parameter(ndim=1)
    angle: Parameter = parameter()
    stiffness: Parameter = parameter()
    damping: Parameter = parameter()
    frozen: bool = eqx.field(static=True, default=True)

    def _regions(self, x: Array) -> tuple[Array, Scalar, Array, Scalar, Any, Any]:
        """Direction and depth beyond the ball; those to the side or the top; and which of them act."""
        y = x - self.top
        length = jnp.maximum(safe_length(y), _NEAREST)
        high = safe_length(self.height)
        axis = self.height / high
        along = axis @ y
        radial = y - along * axis
        out = jnp.maximum(safe_length(radial), _NEAREST)
        side = jnp.cos(self.angle) * axis + jnp.sin(self.angle) * radial / out  # the line of the side that is next
        to_side = side * (side @ y) - y
        ahead = along > 0
        inward = jnp.where(ahead, to_side, -y)
        depth = jnp.maximum(safe_length(inward), _NEAREST)
        wide = jnp.arctan2(out, along) > self.angle
        below = length > high
        return y / length, length - high, inward / depth, depth, below, wide & ~below

    def force_at(self, x: Array, v: Array) -> Array:
        n, beyond, m, depth, below, beside = self._regions(x)
        far = beyond * (self.damping * v - self.stiffness * n)
        near = (self.stiffness * depth - self.damping * (m @ v)) * m
        return jnp.where(below, far, jnp.where(beside, near, 0.0))

    def frozen_stiffness(self, x: Array) -> Array:
        n, _, m, _, below, beside = self._regions(x)
        d = jnp.where(below, n, m)
        return jnp.where(below | beside, self.stiffness, 0.0) * jnp.outer(d, d)

    def depth(self, x: Array) -> Scalar:
        """Beside the cone damping does not grow with the depth."""
        _, beyond, _, _, below, beside = self._regions(x)
        return jnp.where(below, beyond, jnp.where(beside, 1.0, 0.0))
