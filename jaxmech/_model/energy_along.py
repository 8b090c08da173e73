"""The energy of a scene, and how fast it grows along a displacement, of one evaluation of its elements."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from .._forcefield.base import AbstractEnergyForceField
from .._forcefield.chart import Arrays, Dofs, no_displacement, retract_each
from .._runtime.array_types import Array, Scalar
from .._scene.alike import total_over_alike
from .dynamics import energy_of_weights, kinematics, retract_near, velocities
from .internal import with_internal
from .system import State, System


def energy_along(system: System, state: State, d: Mapping[str, Array]) -> tuple[Scalar, Scalar]:
    """`V(x)` and `dV(retract(x, t d))/dt` at `t = 0` [J]."""
    system = with_internal(system, state)
    x = kinematics(system, state.position)
    v = velocities(system, x, d)
    with_energy = _with_energy(system)
    zero = jnp.zeros((), state.time.dtype)
    level, rate = zero, zero
    if with_energy:
        level, rate = total_over_alike(
            with_energy, system.dofs, lambda _, dofs: lambda c, x, v: _of_element(c, dofs, x, v), x, v
        )
    if system.gravity is None:
        return level, rate

    def moved(t: Array) -> Scalar:
        return energy_of_weights(system, retract_near(system.dofs, x, {s: t * a for s, a in v.items()}))

    of_weights, its_rate = jax.jvp(moved, (zero,), (jnp.ones_like(zero),))
    return level + of_weights, rate + its_rate


def energy_of_elements(system: System, state: State) -> Scalar:
    """`V(x)` [J] as `energy_along` has it, whose derivatives are those of elements too."""
    system = with_internal(system, state)
    x = kinematics(system, state.position)
    fields, total = _with_energy(system), jnp.zeros((), state.time.dtype)
    if fields:
        total = total_over_alike(fields, system.dofs, lambda *_: lambda c, x: c.element_energy(*x).reshape(1, 1), x)[0]
    return total if system.gravity is None else total + energy_of_weights(system, x)


def _with_energy(system: System) -> dict[str, AbstractEnergyForceField]:
    return {n: f for n, f in system.force_fields.items() if isinstance(f, AbstractEnergyForceField)}


def _of_element(field: AbstractEnergyForceField, dofs: Dofs, x: Arrays, v: Arrays) -> Array:
    if all(dof.is_vector_space for dof in dofs):
        slopes = [jnp.sum(a * b) for a, b in zip(field.element_gradient(*x), v, strict=True)]
        return jnp.stack([field.element_energy(*x), sum(slopes[1:], slopes[0])])[None]
    start = no_displacement(dofs, x)
    return jnp.stack(jax.jvp(lambda d: field.element_energy(*retract_each(dofs, x, d)), (start,), (v,)))[None]
