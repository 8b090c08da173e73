"""Whether every law of a scene is defined where its elements are."""

from typing import Any

import jax.numpy as jnp

from ._dynamics import Fields
from ._element import over_elements
from ._forcefield.base import AbstractForceField
from ._stencil import gathered
from ._system import System
from ._typing import Array


def limited(system: System) -> list[str]:
    """The force fields whose laws are not defined everywhere."""
    plain = AbstractForceField.element_is_valid
    return [name for name, field in system.forces.items() if type(field).element_is_valid is not plain]


def element_validity(system: System, x: Fields) -> dict[str, Array]:
    """For every force field with limits: of each element, whether its law is defined at the positions `x`."""

    def of(field: Any) -> Array:
        return over_elements(field, field.on, lambda c, *a: c.element_is_valid(*a), *gathered(field.on, x))

    return {name: of(system.forces[name]) for name in limited(system)}


def laws_hold(system: System, x: Fields) -> Array:
    """Whether all of them are."""
    valid = jnp.array(True)
    for each in element_validity(system, x).values():
        valid &= jnp.all(each)
    return valid
