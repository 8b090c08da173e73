"""Plane solids: how a deformation gradient of the plane becomes one of space."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from equinox import AbstractVar

from .._material.base import AbstractMaterial, density
from .._runtime.argument_checks import check_choice
from .._runtime.array_types import Array, Float, Scalar
from .._runtime.field_types import Parameter
from .._scene.parameter import check_range
from .chart import rates
from .solid import AbstractSolid, check_rest

# For the free stretch. Five are enough for strains of a tenth; all of them, none of more than a half, for a thickness that
# becomes a hundred times what it was.
_STEPS, _MORE_STEPS = 5, 12
PLANES = ("strain", "stress")


def with_thickness_stretch(F: Float[Array, "2 2"], stretch: Array) -> Float[Array, "3 3"]:
    """`diag(F, stretch)`."""
    return jnp.zeros((3, 3), F.dtype).at[:2, :2].set(F).at[2, 2].set(stretch)


def is_linear_law(material: AbstractMaterial, dtype: Any) -> bool:
    """Whether the stress of a material is linear in `F`: its derivative is a constant, as its trace tells."""
    leaves, structure = jax.tree.flatten(material)
    return _is_linear(structure, *(jax.ShapeDtypeStruct(a.shape, a.dtype) if eqx.is_array(a) else a for a in leaves), dtype)


@functools.cache  # a trace takes up to 0.2 s, and every program of a scene asks several times
def _is_linear(structure: Any, *described: Any) -> bool:
    *leaves, dtype = described
    numbers = [np.ones(a.shape, a.dtype) if isinstance(a, jax.ShapeDtypeStruct) else a for a in leaves]
    material = jax.tree.unflatten(structure, numbers)
    return rates(jax.grad(material.energy_density), jnp.eye(3, dtype=dtype))[0].constant


def linear_stretch(material: AbstractMaterial, F: Float[Array, "2 2"]) -> Array:
    """The `s` at which the stress `dpsi/ds (diag(F, s))` of a linear law is nil: one equation, linear in `s`.

    It may be negative, as every length may under a law of small strains that is taken beyond them.
    """
    stress = jax.grad(lambda s: material.energy_density(with_thickness_stretch(F, s)))
    one = jnp.ones((), F.dtype)
    return 1 - stress(one) / jax.grad(stress)(one)


def stretched_density(material: AbstractMaterial, F: Float[Array, "2 2"], log_stretch: Array) -> Scalar:
    """`psi(diag(F, exp(log_stretch)))`."""
    return density(material, with_thickness_stretch(F, jnp.exp(log_stretch)))


_slope = jax.grad(stretched_density, argnums=2)
_curvature = jax.grad(_slope, argnums=2)


@eqx.filter_custom_jvp
def free_log_stretch(material: AbstractMaterial, F: Float[Array, "2 2"]) -> Array:
    """The `t` at which `dpsi/dt (diag(F, exp t)) = 0`, by Newton's method: a stretch that stays positive."""

    def guarded(_: Any, at: tuple[Array, Array]) -> tuple[Array, Array]:
        # A bounded step, so that a far start cannot leave the range where the law is defined.
        step = jnp.clip(_slope(material, F, at[0]) / _curvature(material, F, at[0]), -0.5, 0.5)
        return at[0] - step, step

    nil = jnp.zeros((), F.dtype)
    t, step = jax.lax.fori_loop(0, _STEPS, guarded, (nil, nil))
    # What is left after a step is of the order of its square.
    is_near = jnp.abs(step) <= 0.1 * jnp.finfo(F.dtype).eps ** 0.5
    return jax.lax.cond(~is_near, lambda t: jax.lax.fori_loop(0, _MORE_STEPS, guarded, (t, nil))[0], lambda t: t, t)


@free_log_stretch.def_jvp
def _free_log_stretch_jvp(primals: Any, tangents: Any) -> tuple[Array, Array]:
    """The implicit function theorem, of which every derivative is right."""
    t = free_log_stretch(*primals)
    rate = eqx.filter_jvp(lambda material, F: _slope(material, F, t), primals, tangents)[1]
    return t, -rate / _curvature(*primals, t)


@eqx.filter_custom_jvp
def relaxed_density(material: AbstractMaterial, F: Float[Array, "2 2"]) -> Scalar:
    """`min over s of psi(diag(F, s))`: the density of plane stress, where `dpsi/ds = P33 = 0`."""
    return stretched_density(material, F, free_log_stretch(material, F))


@relaxed_density.def_jvp
def _relaxed_density_jvp(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
    """The envelope theorem: a minimum does not feel its minimiser move, to first order. The next order does, through `t`.

    Left to automatic differentiation, the term that is nil is differentiated again and again: with it, the tangent of a
    neo-Hookean point took ten times as long to compile.
    """
    t = free_log_stretch(*primals)
    return eqx.filter_jvp(lambda material, F: stretched_density(material, F, t), primals, tangents)


def in_plane_density(material: AbstractMaterial, plane: str, F: Float[Array, "2 2"]) -> Scalar:
    """`psi` of a deformation gradient of the plane, in plane strain or in plane stress [J/m^3]."""
    if plane == "stress" and not is_linear_law(material, F.dtype):
        return relaxed_density(material, F)
    return density(material, in_space(material, plane, F))


def in_space(material: AbstractMaterial, plane: str, F: Float[Array, "2 2"]) -> Float[Array, "3 3"]:
    """The deformation gradient of space in plane strain, or in plane stress."""
    if plane == "strain":
        return with_thickness_stretch(F, jnp.ones((), F.dtype))
    if is_linear_law(material, F.dtype):
        return with_thickness_stretch(F, linear_stretch(material, F))
    return with_thickness_stretch(F, jnp.exp(free_log_stretch(material, F)))


class AbstractPlaneSolid(AbstractSolid):
    """A solid in the plane, of some thickness, in plane strain or plane stress."""

    thickness: AbstractVar[Parameter]
    plane: AbstractVar[str]

    def __check_init__(self):
        check_choice(type(self).__name__, "plane", self.plane, PLANES)
        check_range(self, thickness=(self.thickness, lambda t: t > 0, "positive"))
        check_rest(self)

    @property
    def depth(self) -> Any:
        return self.thickness

    def in_space(self, F: Float[Array, "2 2"]) -> Float[Array, "3 3"]:
        return in_space(self.material, self.plane, F)

    def in_plane_density(self, F: Float[Array, "2 2"]) -> Any:
        return self.thickness * in_plane_density(self.material, self.plane, F)
