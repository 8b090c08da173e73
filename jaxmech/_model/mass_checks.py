"""What no mass can be: negative. Constructors refuse that; `eqx.tree_at` and control go past them."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._mass.consistent import ConsistentMass
from .._mass.diagonal import DiagonalMass
from .._mass.planar_rigid import PlanarRigidMass
from .._mass.rigid import RigidMass
from .._mass.shell import ShellMass
from .._mass.uniform import UniformMass
from .._runtime.array_types import Array
from .._scene.parameter import is_concrete
from .once_per_scene import once_per_scene

_FEW = 4096  # numbers that are looked at sooner here than on their device
_POSITIVE = {  # [kg], [kg/m^3], [m], [kg m^2]
    UniformMass: ("mass",),
    DiagonalMass: ("mass",),
    ConsistentMass: ("density",),
    ShellMass: ("density", "thickness"),
    PlanarRigidMass: ("mass", "inertia"),
    RigidMass: ("mass", "inertia"),
}


@once_per_scene
def check_masses(system: Any) -> tuple[None, bool]:
    """Raise a `ValueError` naming a mass with a negative number, where it can be looked at."""
    numbers = [(name, f, getattr(mass, f)) for name, mass in system.masses.items() for f in _POSITIVE.get(type(mass), ())]
    known = [(name, field, value) for name, field, value in numbers if is_concrete(value)]
    for name, field, value in known:
        sizes = _along_axes(np.asarray(value) if np.size(value) <= _FEW else value)
        if (sizes < 0).any():
            kind, wrong = type(system.masses[name]).__name__, np.asarray(sizes[sizes < 0])[:3]
            raise ValueError(f"'{name}': {field} of {kind} must not be negative, got {wrong}.")
    return None, len(known) == len(numbers)


def any_negative(system: Any, values: Mapping[str, Any]) -> Array | None:
    """Whether numbers `{component: {field: value}}` make a mass of the scene negative; None where they make none."""
    masses = {name: mass for name, mass in system.masses.items() if name in values}
    fields = [(n, f) for n, mass in masses.items() for f in _POSITIVE.get(type(mass), ()) if f in values[n]]
    given = [_along_axes(jnp.asarray(values[n][f])) for n, f in fields]
    return jnp.stack([jnp.any(value < 0) for value in given]).any() if given else None


def _along_axes(value: Any) -> Any:
    """The moments of inertia of tensors, whose products of inertia have any sign; other numbers as they are."""
    return value.diagonal(axis1=-2, axis2=-1) if value.ndim > 1 else value
