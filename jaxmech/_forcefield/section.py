"""Cross-sections of beams and rods."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_real
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.component import Component
from .._scene.parameter import as_array, check_parameters, check_range, is_concrete, parameter


class Section(Component):
    """What a cross-section resists with: `EA`, `GA_y` and `GA_z` [N], `GJ`, `EI_y` and `EI_z` [N m^2].

    x is along the beam, y and z are principal axes of the section; `EI_y` resists turns about y. `axial`, `torsion`: shared,
    or one per element `(e,)`; `shear`, `bending`: `(2,)` or `(e, 2)`, of y and z. `circle` and `rectangle` make them of
    sizes. Differentiable leaves. Raises `ValueError` for numbers that are not positive.
    Source: G. R. Cowper, J. Appl. Mech. 33 (1966) 335, doi:10.1115/1.3625046 (shear coefficients).

    Example:

        wire = jm.force.Section.circle(radius=0.001, young=200e9, poisson=0.3)
        assert jnp.allclose(wire.bending, 200e9 * np.pi * 0.001**4 / 4)  # [N m^2]
        assert jnp.allclose(wire.torsion, 200e9 / 2.6 * np.pi * 0.001**4 / 2)
    """

    axial: Parameter = parameter()
    shear: Parameter = parameter(ndim=1)
    torsion: Parameter = parameter()
    bending: Parameter = parameter(ndim=1)

    def __check_init__(self):
        check_parameters(self, ())
        for name in ("shear", "bending"):
            value = getattr(self, name)
            if value.shape[-1:] != (2,):
                raise ValueError(f"Section: {name} has shape {value.shape}, expected 2 numbers, of y and z.")
        check_range(self, **{n: (getattr(self, n), lambda k: k > 0, "positive") for n in self.__dataclass_fields__})

    @classmethod
    def circle(cls, radius: Any, young: Any, poisson: Any) -> "Section":
        """A full circle of `radius` [m], of a material of `young` [Pa] and `poisson`."""
        radius, young, poisson = _sizes(radius=radius, young=young, poisson=poisson)
        area, inertia = np.pi * radius**2, np.pi * radius**4 / 4
        shear = young / (2 * (1 + poisson))
        reduced = shear * area * 6 * (1 + poisson) / (7 + 6 * poisson)
        return cls(young * area, _pair(reduced, reduced), 2 * shear * inertia, _pair(young * inertia, young * inertia))

    @classmethod
    def rectangle(cls, width: Any, height: Any, young: Any, poisson: Any) -> "Section":
        """A rectangle, `width` [m] along y and `height` [m] along z; its torsion to 0.5 %."""
        width, height, young, poisson = _sizes(width=width, height=height, young=young, poisson=poisson)
        shear = young / (2 * (1 + poisson))
        a, b = jnp.maximum(width, height), jnp.minimum(width, height)
        torsion = a * b**3 * (1 / 3 - 0.21 * b / a * (1 - (b / a) ** 4 / 12))
        reduced = shear * width * height * 10 * (1 + poisson) / (12 + 11 * poisson)
        bending = _pair(young * width * height**3 / 12, young * height * width**3 / 12)
        return cls(young * width * height, _pair(reduced, reduced), shear * torsion, bending)


def _sizes(**values: Any) -> list[Array]:
    found = []
    for name, value in values.items():
        check_real("Section", name, value := as_array(value))
        if value.ndim > 1:
            raise ValueError(f"Section: {name} has shape {value.shape}, expected a number, or one per element (e,).")
        if is_concrete(value) and not (np.asarray(value) > (-1 if name == "poisson" else 0)).all():
            raise ValueError(f"Section: {name} must be positive, got {np.asarray(value)!r:.80}.")
        if is_concrete(value) and name == "poisson" and not (np.asarray(value) <= 0.5).all():
            raise ValueError(f"Section: poisson must be in (-1, 1/2], got {np.asarray(value)!r:.80}.")
        found.append(value)
    return found


def _pair(y: Array, z: Array) -> Array:
    return jnp.stack(jnp.broadcast_arrays(y, z), axis=-1)
