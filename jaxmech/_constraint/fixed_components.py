"""Nodes of which some components do not move."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._scene.dof import AbstractDof
from .._scene.stencil import Stencils, stencils
from .base import AbstractProjectiveConstraint


def as_components(components: Sequence[bool]) -> tuple[bool, ...]:
    """A tuple of True and False, one for each component."""
    values = tuple(components) if isinstance(components, tuple | list) else ()
    if not values or not all(isinstance(c, bool) for c in values):
        raise TypeError(f"components must be a tuple of True and False, one for each component, got {components!r}.")
    return values


class FixedComponents(AbstractProjectiveConstraint):
    """Fixes the components marked True, `components=(True, False, False)` say; of a frame, spins included (6).

    `P = diag(not fixed)`. Raises `ValueError` where their number is not that of the state's components.
    Displacements [m, rad] in these directions are zero.
    Source: K.-J. Bathe, *Finite Element Procedures*, 2nd ed., 2014, ISBN 978-0-9790049-5-7, chapter 4 (boundary conditions).

    Example:

        roller = jm.constraint.FixedComponents(("p", [0]), (False, True))
        assert jnp.allclose(roller.element_projector(jm.Vec2()), jnp.diag(jnp.array([1.0, 0.0])))  # free along x
    """

    on: Stencils = stencils()
    components: tuple[bool, ...] = eqx.field(static=True, converter=as_components)

    def check_dofs(self, dofs: Any) -> None:
        if len(self.components) != dofs[0].deriv_size:
            raise ValueError(f"components has {len(self.components)} entries, expected {dofs[0].deriv_size}.")

    def element_projector(self, dof: AbstractDof) -> Array:
        return jnp.diag(jnp.array([0.0 if constrained else 1.0 for constrained in self.components]))

    def free_components(self, dof: AbstractDof) -> tuple[bool, ...]:
        return tuple(not constrained for constrained in self.components)
