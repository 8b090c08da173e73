"""SOFA's springs, and its springs against bending."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.base import AbstractEnergyForceField, AbstractForceField, Arrays
from ..._math.safe_norm import safe_length
from ..._runtime.array_types import Array, Scalar
from ..._runtime.field_types import Parameter
from ..._scene.parameter import nodal_parameter, parameter
from ..._scene.stencil import Stencils, stencils

_SHORTEST = 1e-9  # [m]: below, SOFA's springs do nothing
_NO_LENGTH = 2.3e-16  # [m]: at rest, where stiffness is not divided by it


class LinearisedSprings(AbstractForceField):
    """`F = ks (l - L) + kd u . (vb - va)` along `u`, with the stiffness `(ks - F/l) u u^T + F/l I` and no damping matrix.

    SOFA's SpringForceField: the rate of the direction is in the stiffness, that of the damping is not. `stiffness` [N/m],
    `damping` [N s/m], `rest_length` [m], one or one per spring; nothing below 1e-9 m. `per_length`: both are those of a
    spring of unit length, `ks = stiffness / rest_length` [N]: SOFA's MeshSpringForceField. `pulls`: 1 for springs
    that do nothing while they are shorter than at rest. `frozen=False`: the stiffness and the damping are the derivatives of
    the force. Between frames they act at the origins.
    Source: D. Baraff and A. Witkin, "Large steps in cloth simulation", SIGGRAPH 1998, doi:10.1145/280814.280821.
    """

    on: Stencils = stencils()
    stiffness: Parameter = parameter()
    damping: Parameter = parameter()
    rest_length: Parameter = parameter()
    pulls: Parameter = parameter(default=0.0)
    per_length: bool = eqx.field(static=True, default=False)
    frozen: bool = eqx.field(static=True, default=True)

    @property
    def tangent_is_exact(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.frozen

    def _rates(self) -> tuple[Array, Array]:
        """Stiffness and damping of the spring, in numbers per extension."""
        if not self.per_length:
            return self.stiffness, self.damping
        length = jnp.where(self.rest_length > _NO_LENGTH, self.rest_length, 1.0)
        return self.stiffness / length, self.damping / length

    def _pull(self, x: Arrays, v: Arrays) -> tuple[Array, Array, Array, Array]:
        """Of points, or of the origins of frames: the force, the direction, the length, and whether there is a force."""
        d = x[1][:3] - x[0][:3]
        length = safe_length(d)
        there = (length > _SHORTEST) & ((self.pulls == 0) | (length > self.rest_length))
        length = jnp.where(there, length, 1.0)
        u = d / length
        k, c = self._rates()
        F = k * (length - self.rest_length) + c * (u @ (v[1][:3] - v[0][:3]))
        return jnp.where(there, F, 0.0), u, length, there

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        F, u, _, _ = self._pull(x, v)
        f = jnp.pad(F * u, (0, v[0].shape[0] - u.shape[0]))
        return f, -f

    def element_stiffness(self, x: Arrays, v: Arrays) -> Any:
        if self.frozen:
            F, u, length, there = self._pull(x, v)
            lateral = F / length
            K = (self._rates()[0] - lateral) * jnp.outer(u, u) + lateral * jnp.eye(u.shape[0], dtype=u.dtype)
            K = jnp.where(there, K, 0.0)
        else:
            K = jax.jacfwd(lambda a: -self.element_force((a, x[1]), v)[0][: a.shape[0]])(x[0][:3])
        K = jnp.pad(K, (0, v[0].shape[0] - K.shape[0]))
        return (K, -K), (-K, K)


class FastBendingSprings(AbstractEnergyForceField):
    """`E = lambda/2 |sum_i a_i x_i|^2` over the two triangles at an edge: a bending that is linear in positions.

    `on=(state, (a, b, c, d))`: the nodes across the edge, and those of it. `a_i` from the rest shape, and
    `lambda = 2/3 (ha + hb) / (ha hb)^2 l k`, `ha`, `hb` the heights and `l` the length of the edge [m];
    `bending_stiffness` `k` [N m].
    Source: P. Volino and N. Magnenat-Thalmann, "Simple linear bending stiffness in particle systems", SCA 2006,
    doi:10.2312/SCA/SCA06/101-105.
    """

    on: Stencils = stencils()
    rest: Parameter = nodal_parameter(ndim=1)
    bending_stiffness: Parameter = parameter()

    def element_energy(self, x: Array) -> Scalar:
        a, b, c, d = self.rest
        normals = jnp.cross(a - c, a - d), jnp.cross(b - d, b - c), jnp.cross(c - b, c - a), jnp.cross(d - a, d - b)
        na, nb, nc, nd = (jnp.sqrt(n @ n) for n in normals)
        alpha = jnp.stack([nb / (na + nb), na / (na + nb), -nd / (nc + nd), -nc / (nc + nd)])
        length = jnp.sqrt((c - d) @ (c - d))
        ha, hb = na / length, nb / length
        factor = 2 / 3 * (ha + hb) / (ha * hb) ** 2 * length * self.bending_stiffness
        bent = alpha @ x
        return 0.5 * factor * (bent @ bent)
