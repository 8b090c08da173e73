"""A constraint with multipliers as what it is to forces and matrices: an energy of positions and multipliers."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from .._constraint.multiplier import AbstractMultiplierConstraint
from .._forcefield.base import AbstractEnergyForceField
from .._runtime.array_types import Array, Scalar
from .._scene.dof import AbstractDof
from .._scene.parameter import as_array
from .._scene.stencil import Stencil


def _of_arrays(constraint: AbstractMultiplierConstraint) -> AbstractMultiplierConstraint:
    """The constraint, where a plain number may have been put in the place of one of its arrays."""
    return jax.tree.map(lambda leaf: leaf if eqx.is_array(leaf) else as_array(leaf), constraint)


class MultiplierForce(AbstractEnergyForceField):
    """`E = lambda . g(x) - lambda . C lambda / 2`; the multipliers are the nodes of the last stencil."""

    constraint: AbstractMultiplierConstraint = eqx.field(converter=_of_arrays)
    multiplier: Stencil

    @property
    def on(self) -> tuple[Stencil, ...]:
        """Where the equation acts, and its multipliers."""
        return (*self.constraint.on, self.multiplier)

    def check_dofs(self, dofs: Sequence[AbstractDof]) -> None:
        self.constraint.check_dofs(dofs[:-1])

    def element_energy(self, *x: Array) -> Scalar:
        *positions, multipliers = x
        g, C = self.constraint.rows(*positions), self.constraint.element_compliance()
        return multipliers @ g - 0.5 * jnp.sum(C * multipliers**2)
