"""What a force field is: the energy, or the force, of one element."""

import abc
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from equinox import AbstractVar

from .._runtime.array_types import Array, Scalar
from .._scene.component import Component
from .._scene.dof import AbstractDof, Vec1, Vec2, Vec3
from .._scene.parameter import check_parameters
from .._scene.stencil import Stencils

Arrays = tuple[Array, ...]


class AbstractForceField(Component):
    """A force described on **one** element; `self` holds that element's parameters.

    `on` says which nodes each element touches: one stencil per group of nodes, of the same state or of different ones
    (an interaction is not a special case). Stiffness `-df/dx` and damping `-df/dv` are derived, and so is which of them
    exists at all.
    """

    on: AbstractVar[Stencils]

    def __check_init__(self):
        check_parameters(self, self.on)

    @abc.abstractmethod
    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        """The force [N] (and torque [N m]) on the nodes of each stencil, in the shape of their velocities.

        `x`, `v`: positions and velocities, one array per stencil, `(c,)` or `(k, c)`.
        """

    def check_dofs(self, dofs: Sequence[AbstractDof]) -> None:
        """Raise `ValueError` where the degrees of freedom of the stencils are not what the law is written for."""
        del dofs

    def element_is_valid(self, *x: Array) -> Any:
        """Whether the law is defined here; `False` where, say, an inverted element has no logarithm."""
        del x
        return jnp.array(True)


class AbstractEnergyForceField(AbstractForceField):
    """A force field with an energy `E` [J], and possibly a dissipation `D` [W]: `f = -dE/dx - dD/dv` [N].

    Its stiffness is the Hessian of `E`, symmetric by construction, and its damping that of `D`. A dissipation that depends
    on positions adds `d(dD/dv)/dx` to the stiffness, which is not symmetric where nodes move.
    """

    @property
    def is_dissipative(self) -> bool:
        """Whether `element_dissipation` is more than nothing. Static; `is_dissipative = True` in a class will do."""
        return False

    @abc.abstractmethod
    def element_energy(self, *x: Array) -> Scalar:
        """The energy [J] of one element from the positions of its nodes, one array per stencil."""

    def element_dissipation(self, x: Arrays, v: Arrays) -> Scalar:
        """Rayleigh's dissipation function `D` [W]: the damping force is `-dD/dv`. Nothing unless overridden."""
        del x, v
        return jnp.zeros(())

    def element_force(self, x: Arrays, v: Arrays) -> Arrays:
        """Minus the gradient of the energy and of the dissipation, where coordinates form a vector space."""
        force = jax.tree.map(jnp.negative, self.element_gradient(*x))
        if self.is_dissipative:
            force = jax.tree.map(jnp.subtract, force, jax.grad(lambda u: self.element_dissipation(x, u))(v))
        return force

    def element_gradient(self, *x: Array) -> Arrays:
        """`dE/dx` of one element, blocks `[s]` of the shape of `x[s]`: the plain definition, see `element_hessian`."""
        return jax.grad(lambda y: self.element_energy(*y))(x)

    def element_hessian(self, *x: Array) -> tuple[Arrays, ...]:
        """`d2E/dx2` of one element, blocks `[s][t]` of shape `(*x[s].shape, *x[t].shape)`.

        The plain definition. A field whose energy has a structure worth using (a density of a deformation gradient that
        is linear in the positions) overrides it with the same matrix, computed faster.
        """
        return jax.hessian(lambda y: self.element_energy(*y))(x)

    def element_derivatives(self, *x: Array) -> tuple[Arrays, tuple[Arrays, ...]]:
        """`element_gradient` and `element_hessian`; together they may cost less than one after the other."""
        return self.element_gradient(*x), self.element_hessian(*x)


def points_only(field: AbstractForceField, dofs: Sequence[AbstractDof]) -> None:
    """Raise `ValueError` unless every degree of freedom is a point, all of the same dimension."""
    if not all(isinstance(dof, Vec1 | Vec2 | Vec3) for dof in dofs) or len({dof.coord_size for dof in dofs}) > 1:
        kinds = [type(dof).__name__ for dof in dofs]
        raise ValueError(f"{type(field).__name__} acts on points (Vec1, Vec2, Vec3) of one dimension, not on {kinds}.")
