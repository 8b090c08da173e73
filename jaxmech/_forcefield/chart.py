"""Force, stiffness and damping of one element in the chart of its degrees of freedom.

With `x = retract(x0, d)`, the force of an energy is `-dE/dd` and its stiffness `d2E/dd2`, both at `d = 0`: for points the
usual gradient and Hessian, for rigid frames the gradient in world axes and the symmetric chart Hessian; what axes an energy
carries along are carried to `x0` first (`element_at`). A force given as such is differentiated as it stands, `-df/dd`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.jax_internals import without_unused
from .._scene.dof import AbstractDof
from .base import AbstractEnergyForceField, AbstractForceField, Arrays, has_own_stiffness

Dofs = Sequence[AbstractDof]


def retract_each(dofs: Dofs, x: Arrays, d: Arrays) -> Arrays:
    """The nodes of every stencil, `(c,)` or `(k, c)`, moved by `d`; for derivatives at `d = 0`."""

    def moved(dof: AbstractDof, a: Array, b: Array) -> Array:
        return dof.retract_near(a, b) if a.ndim == 1 else jax.vmap(dof.retract_near)(a, b)

    return tuple(moved(dof, a, b) for dof, a, b in zip(dofs, x, d, strict=True))


def no_displacement(dofs: Dofs, x: Arrays) -> Arrays:
    """Zero displacements of the nodes of every stencil."""
    return tuple(jnp.zeros((*a.shape[:-1], dof.deriv_size), a.dtype) for dof, a in zip(dofs, x, strict=True))


def chart_force(field: AbstractForceField, dofs: Dofs, x: Arrays, d: Arrays, v: Arrays) -> Arrays:
    """The force at `retract(x, d)`; of an energy, the covector of the chart at `x`."""
    if not isinstance(field, AbstractEnergyForceField):
        return field.element_force(retract_each(dofs, x, d), v)
    field = field.element_at(*x)
    if all(dof.is_vector_space for dof in dofs):
        force = field.element_gradient(*retract_each(dofs, x, d))
    else:
        force = jax.grad(lambda d: field.element_energy(*retract_each(dofs, x, d)))(d)
    if field.is_dissipative:
        moved = retract_each(dofs, x, d)
        force = jax.tree.map(jnp.add, force, jax.grad(lambda u: field.element_dissipation(moved, u))(v))
    return jax.tree.map(jnp.negative, force)


def chart_force_ahead(field: AbstractForceField, dofs: Dofs, x: Arrays, v: Arrays, d: Arrays, u: Arrays) -> Arrays:
    """`f + df/dd d + df/dv u`: the force to first order at the displacements `d` and the velocities `v + u`."""
    return chart_forces_ahead(field, dofs, x, v, d, u)[1]


def chart_forces_ahead(
    field: AbstractForceField, dofs: Dofs, x: Arrays, v: Arrays, d: Arrays, u: Arrays
) -> tuple[Arrays, Arrays]:
    """The force, and `chart_force_ahead`."""
    start = no_displacement(dofs, x), v
    force, rate = jax.jvp(lambda d, v: chart_force(field, dofs, x, d, v), start, (d, u))
    return force, jax.tree.map(jnp.add, force, rate)


def chart_stiffness(field: AbstractForceField, dofs: Dofs, x: Arrays, v: Arrays) -> tuple[Arrays, ...]:
    """`-df/dd`, blocks `[s][t]` of shape `(*d[s].shape, *d[t].shape)`."""
    if isinstance(field, AbstractEnergyForceField):
        field = field.element_at(*x)
    if all(dof.is_vector_space for dof in dofs) or has_own_stiffness(field):
        return field.element_stiffness(x, v)
    d = no_displacement(dofs, x)
    if not isinstance(field, AbstractEnergyForceField):
        return _minus_jacobian(lambda d: field.element_force(retract_each(dofs, x, d), v), d)
    stiffness = jax.hessian(lambda d: field.element_energy(*retract_each(dofs, x, d)))(d)
    if field.is_dissipative:
        drag = jax.jacfwd(lambda d: jax.grad(lambda u: field.element_dissipation(retract_each(dofs, x, d), u))(v))
        stiffness = jax.tree.map(jnp.add, stiffness, drag(d))
    return stiffness


def chart_stiffness_and_force(
    field: AbstractForceField, dofs: Dofs, x: Arrays, v: Arrays
) -> tuple[tuple[Arrays, ...], Arrays]:
    """`chart_stiffness`, and `chart_force` where nothing is displaced: most of their work is the same."""
    flat = all(dof.is_vector_space for dof in dofs)
    if flat and isinstance(field, AbstractEnergyForceField) and not (field.is_dissipative or has_own_stiffness(field)):
        gradient, hessian = field.element_at(*x).element_derivatives(*x)
        return hessian, jax.tree.map(jnp.negative, gradient)
    return chart_stiffness(field, dofs, x, v), chart_force(field, dofs, x, no_displacement(dofs, x), v)


def chart_damping(field: AbstractForceField, dofs: Dofs, x: Arrays, v: Arrays) -> tuple[Arrays, ...]:
    """`-df/dv`, blocks `[s][t]` of shape `(*v[s].shape, *v[t].shape)`."""
    if isinstance(field, AbstractEnergyForceField):
        return jax.hessian(lambda u: field.element_dissipation(x, u))(v)
    return _minus_jacobian(lambda u: field.element_force(x, u), v)


def _minus_jacobian(function: Callable[[Arrays], Arrays], at: Arrays) -> tuple[Arrays, ...]:
    return jax.tree.map(jnp.negative, jax.jacfwd(function)(at))


class Rate(NamedTuple):
    """The derivative of a function with respect to one argument: whether there is one, and whether it is a constant."""

    exists: bool
    constant: bool


def rates(function: Callable, *arguments: Any) -> tuple[Rate, ...]:
    """The derivative of `function` with respect to each argument (an array or a tree).

    Read from its trace: structure is derived, not declared. A force whose derivative no trace ties to the velocities has
    no damping matrix, one whose derivative no trace ties to any argument has a constant matrix, and a comparison (inside
    or outside of a plane) is no dependence.
    """
    count = len(jax.tree.leaves(arguments))

    def of(number: int) -> Rate:
        def rate(arguments: Any, tangent: Any) -> Any:
            before, after = arguments[:number], arguments[number + 1 :]
            return jax.jvp(lambda a: function(*before, a, *after), (arguments[number],), (tangent,))[1]

        jaxpr = jax.make_jaxpr(rate)(arguments, arguments[number]).jaxpr
        used = without_unused(jaxpr, [True] * len(jaxpr.outvars))[1]
        return Rate(any(used[count:]), not any(used[:count]))

    return tuple(of(number) for number in range(len(arguments)))


def varies_with(function: Callable, *arguments: Any) -> tuple[bool, ...]:
    """For each argument: whether `function` has a derivative with respect to it at all."""
    return tuple(rate.exists for rate in rates(function, *arguments))
