"""SOFA's springs whose force is a polynomial of the strain, springs of vectors, and springs between orientations."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.base import AbstractForceField, Arrays, points_only
from ..._forcefield.chart import no_displacement, retract_each
from ..._math.rotation import quaternion_conjugate, quaternion_log, quaternion_product
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array
from ..._runtime.field_types import Parameter
from ..._scene.dof import Rigid3
from ..._scene.parameter import parameter
from ..._scene.stencil import Stencils, stencils

_SHORTEST = 1e-30  # [m]: nodes in one place have no direction


class AbstractFrozen(AbstractForceField):
    """A force with SOFA's stiffness where `frozen`, and else with its derivative."""

    frozen: eqx.AbstractVar[bool]

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.frozen

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def stiffness_of_frames(self, x: Arrays, v: Arrays) -> Any:
        """The derivative of a force on frames of space, in their chart."""
        dofs = (Rigid3(),) * len(x)
        d = no_displacement(dofs, x)
        return jax.tree.map(jnp.negative, jax.jacfwd(lambda d: self.element_force(retract_each(dofs, x, d), v))(d))


def _polynomial(coefficients: Array, strain: Array) -> tuple[Array, Array]:
    """`P = sum_i c_i s^i`, `i = 1, 2, ...`, and its derivative."""
    powers = jnp.arange(1, coefficients.shape[0] + 1)
    value = jnp.zeros_like(strain)
    slope = jnp.zeros_like(strain)
    for i in range(coefficients.shape[0] - 1, -1, -1):
        value = (value + coefficients[i]) * strain
        slope = slope * strain + powers[i] * coefficients[i]
    return value, slope


class PolynomialSprings(AbstractFrozen):
    """`F = P(|l - L| / L)` along the spring: PolynomialSpringsForceField.

    `coefficients` [N]: those of the strain, its square, ...; `rest_length` `L` [m]. A spring that is shorter pushes where
    `compressible`, and else does nothing. SOFA's stiffness `(P'/L - P/l) u u^T + P/l I` does not ask which.
    """

    on: Stencils = stencils()
    coefficients: Parameter = parameter(ndim=1)
    rest_length: Parameter = parameter()
    compressible: bool = eqx.field(static=True)
    frozen: bool = eqx.field(static=True)

    def _spring(self, x: Arrays) -> tuple[Array, Array, Array, Array, Array]:
        d = x[1] - x[0]
        length = jnp.maximum(safe_length(d), _SHORTEST)
        gap = length - self.rest_length
        P, slope = _polynomial(self.coefficients, jnp.abs(gap) / self.rest_length)
        sign = jnp.where(gap >= 0, 1.0, -1.0 if self.compressible else 0.0)
        return d / length, length, P, slope, sign

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        u, _, P, _, sign = self._spring(x)
        return sign * P * u, -sign * P * u

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return super().element_stiffness(x, v)
        u, length, P, slope, _ = self._spring(x)
        K = (slope / self.rest_length - P / length) * jnp.outer(u, u) + P / length * jnp.eye(u.shape[0], dtype=u.dtype)
        return (K, -K), (-K, K)


class PolynomialAnchors(AbstractFrozen):
    """`f = -P(|d| / L) d / n`, `n^2 = d^2 + exp(shift - scale d^2)`, `d` from the anchor: PolynomialRestShapeSprings.

    `coefficients` [N], `length` `L` [m], `shift` (of squared metres), `scale` [1/m^2]. SOFA's stiffness is a diagonal.
    """

    on: Stencils = stencils()
    coefficients: Parameter = parameter(ndim=1)
    length: Parameter = parameter()
    anchor: Parameter = parameter(ndim=1)
    shift: Parameter = parameter(default=0.0)
    scale: Parameter = parameter(default=1.0)
    frozen: bool = eqx.field(static=True, default=True)

    def _spring(self, x: Array) -> tuple[Array, Array, Array, Array, Array]:
        d = x - self.anchor
        smooth = jnp.exp(self.shift - self.scale * (d @ d))
        P, slope = _polynomial(self.coefficients, safe_length(d) / self.length)
        n = jnp.sqrt(d @ d + smooth)
        return d / n, n, P, slope, smooth

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        u, _, P, _, _ = self._spring(x[0])
        return (-P * u,)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return super().element_stiffness(x, v)
        u, n, P, slope, smooth = self._spring(x[0])
        diagonal = (slope / self.length - P / n) * (1 - self.scale * smooth) * u**2 + P / n
        return ((jnp.diag(diagonal),),)


class VectorSprings(AbstractForceField):
    """`f = k (b - a - r) + c (vb - va)` on the first node: VectorSpringForceField.

    `stiffness` [N/m], `damping` [N s/m], `rest` `r` [m].
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    damping: Parameter = parameter()
    rest: Parameter = parameter(ndim=1)

    def check_dofs(self, dofs: Any) -> None:
        points_only(self, dofs)

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        f = self.stiffness * (x[1] - x[0] - self.rest) + self.damping * (v[1] - v[0])
        return f, -f


class AngularSprings(AbstractFrozen):
    """A torque `-k theta` on a frame, `theta` its rotation vector from another: AngularSpringForceField.

    The other feels nothing, as in SOFA. `stiffness` [N m]; `held`: 1, or 0 for a frame that has a stiffness and no torque.
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    held: Parameter = parameter(default=1.0)
    frozen: bool = eqx.field(static=True, default=True)

    def check_dofs(self, dofs: Any) -> None:
        if not all(isinstance(dof, Rigid3) for dof in dofs):
            raise ValueError("AngularSprings acts on frames.")

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        turn = quaternion_log(quaternion_product(x[0][3:], quaternion_conjugate(x[1][3:])))
        torque = jnp.concatenate([jnp.zeros(3, turn.dtype), -self.stiffness * self.held * turn])
        return torque, jnp.zeros_like(torque)

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if not self.frozen:
            return self.stiffness_of_frames(x, v)
        K = jnp.diag(jnp.array([0.0, 0, 0, 1, 1, 1], x[0].dtype)) * self.stiffness
        none = jnp.zeros_like(K)
        return (K, none), (none, none)
