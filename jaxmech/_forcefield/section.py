"""Cross-sections of beams and rods."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from .._runtime.argument_checks import check_real
from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._runtime.precision import in_one_program
from .._scene.component import Component
from .._scene.parameter import as_array, check_parameters, check_range, is_concrete, parameter

Stiffnesses = tuple[Array, Array, Array, Array]  # axial, shear, torsion, bending
_REST_OF_SERIES = 31 / 32 * 1.0369277551433699 - 1 - 1 / 243  # sum of 1/n^5 of odd n from 5 on; their tanh is one


class Section(Component):
    """What a cross-section resists with: `EA`, `GA_y` and `GA_z` [N], `GJ`, `EI_y` and `EI_z` [N m^2].

    x is along the beam, y and z are principal axes of the section; `EI_y` resists turns about y. `axial`, `torsion`: shared,
    or one per element `(e,)`; `shear`, `bending`: `(2,)` or `(e, 2)`, of y and z. `circle`, `rectangle`, `tube` and
    `i_beam` make them of sizes. Differentiable leaves. Raises `ValueError` for numbers that are not positive.
    Source: G. R. Cowper, J. Appl. Mech. 33 (1966) 335, doi:10.1115/1.3625046 (shear coefficients); S. P. Timoshenko and J.
    N. Goodier, *Theory of Elasticity*, 3rd ed., 1970, section 109 (torsion).

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
        return cls(*_circle(*_sizes(radius=radius, young=young, poisson=poisson)))

    @classmethod
    def rectangle(cls, width: Any, height: Any, young: Any, poisson: Any) -> "Section":
        """A rectangle, `width` [m] along y and `height` [m] along z; its torsion by Saint-Venant's series."""
        return cls(*_rectangle(*_sizes(width=width, height=height, young=young, poisson=poisson)))

    @classmethod
    def tube(cls, outer: Any, inner: Any, young: Any, poisson: Any) -> "Section":
        """A ring between the radii `inner` and `outer` [m]."""
        outer, inner, young, poisson = _sizes(outer=outer, inner=inner, young=young, poisson=poisson)
        if is_concrete(outer, inner) and not (np.asarray(inner) < np.asarray(outer)).all():
            raise ValueError(f"Section: inner must be less than outer, got {np.asarray(inner)!r:.80}.")
        return cls(*_tube(outer, inner, young, poisson))

    @classmethod
    def i_beam(cls, width: Any, height: Any, flange: Any, web: Any, young: Any, poisson: Any) -> "Section":
        """Two flanges of `width` along y, `height` along z from face to face, and their thicknesses `flange` and `web` [m].

        Thin-walled in shear and torsion, and free to warp.
        """
        sizes = {"width": width, "height": height, "flange": flange, "web": web, "young": young, "poisson": poisson}
        b, h, f, w, young, poisson = _sizes(**sizes)
        if is_concrete(f, h) and not (2 * np.asarray(f) < np.asarray(h)).all():
            raise ValueError(f"Section: flange must be less than half the height, got {np.asarray(f)!r:.80}.")
        if is_concrete(w, b) and not (np.asarray(w) <= np.asarray(b)).all():
            raise ValueError(f"Section: web must be at most the width, got {np.asarray(w)!r:.80}.")
        return cls(*_i_beam(b, h, f, w, young, poisson))


@in_one_program
def _circle(radius: Array, young: Array, poisson: Array) -> Stiffnesses:
    area, inertia = np.pi * radius**2, np.pi * radius**4 / 4
    shear = young / (2 * (1 + poisson))
    reduced = shear * area * 6 * (1 + poisson) / (7 + 6 * poisson)
    return young * area, _pair(reduced, reduced), 2 * shear * inertia, _pair(young * inertia, young * inertia)


@in_one_program
def _rectangle(width: Array, height: Array, young: Array, poisson: Array) -> Stiffnesses:
    shear = young / (2 * (1 + poisson))
    a, b = jnp.maximum(width, height), jnp.minimum(width, height)
    series = sum(jnp.tanh(0.5 * n * jnp.pi * a / b) / n**5 for n in (1, 3)) + _REST_OF_SERIES
    torsion = a * b**3 * (1 / 3 - 64 / jnp.pi**5 * b / a * series)
    reduced = shear * width * height * 10 * (1 + poisson) / (12 + 11 * poisson)
    bending = _pair(young * width * height**3 / 12, young * height * width**3 / 12)
    return young * width * height, _pair(reduced, reduced), shear * torsion, bending


@in_one_program
def _tube(outer: Array, inner: Array, young: Array, poisson: Array) -> Stiffnesses:
    area, inertia = np.pi * (outer**2 - inner**2), np.pi * (outer**4 - inner**4) / 4
    shear, m = young / (2 * (1 + poisson)), (inner / outer) ** 2
    whole = (1 + m) ** 2
    reduced = shear * area * 6 * (1 + poisson) * whole / ((7 + 6 * poisson) * whole + (20 + 12 * poisson) * m)
    return young * area, _pair(reduced, reduced), 2 * shear * inertia, _pair(young * inertia, young * inertia)


@in_one_program
def _i_beam(b: Array, h: Array, f: Array, w: Array, young: Array, poisson: Array) -> Stiffnesses:
    inside, between, nu = h - 2 * f, h - f, poisson
    area = 2 * b * f + inside * w
    bending = _pair(young * (b * h**3 - (b - w) * inside**3) / 12, young * (2 * f * b**3 + inside * w**3) / 12)
    shear, m, n = young / (2 * (1 + nu)), 2 * b * f / (between * w), b / between
    part = 12 + 72 * m + 150 * m**2 + 90 * m**3 + nu * (11 + 66 * m + 135 * m**2 + 90 * m**3)
    part += 30 * n**2 * (m + m**2) + 5 * nu * n**2 * (8 * m + 9 * m**2)
    along_web = shear * area * 10 * (1 + nu) * (1 + 3 * m) ** 2 / part
    along_flanges = shear * 2 * b * f * 10 * (1 + nu) / (12 + 11 * nu)
    torsion = shear * (2 * b * f**3 + between * w**3) / 3
    return young * area, _pair(along_flanges, along_web), torsion, bending


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
