"""What no mass can be: negative. Constructors refuse that; `eqx.tree_at` and control go past them."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array
from .._scene.parameter import is_concrete

_SIZES = ("mass", "density", "thickness", "inertia")  # [kg], [kg/m^3], [m], [kg m^2]


def check_masses(system: Any) -> None:
    """Raise a `ValueError` naming a mass with a negative number, where it can be looked at."""
    for name, mass in system.masses.items():
        for field in _SIZES:
            value = getattr(mass, field, None)
            if not isinstance(value, jax.Array | np.ndarray) or not is_concrete(value):
                continue
            numbers = _along_axes(np.asarray(value))
            if np.any(numbers < 0):
                wrong = numbers[numbers < 0].ravel()[:3]
                raise ValueError(f"'{name}': {field} of {type(mass).__name__} must not be negative, got {wrong}.")


def any_negative(system: Any, values: Mapping[str, Any]) -> Array | None:
    """Whether numbers `{component: {field: value}}` make a mass of the scene negative; None where they make none."""
    given = [_along_axes(jnp.asarray(values[n][f])) for n in values if n in system.masses for f in _SIZES if f in values[n]]
    return jnp.stack([jnp.any(value < 0) for value in given]).any() if given else None


def _along_axes(value: Any) -> Any:
    """The moments of inertia of tensors, whose products of inertia have any sign; other numbers as they are."""
    return value.diagonal(axis1=-2, axis2=-1) if value.ndim > 1 else value
