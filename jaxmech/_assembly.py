"""What each component adds to a matrix: one enumeration, used by the symbolic phase and by the numeric one.

`A = m M + b B + k K + g G + c C`, with `K = -df/dx`, `B = -df/dv`, `M = d2T/dv2`, the geometric stiffness `G` of mappings
and the Rayleigh damping `C = sum rK_i K_i + sum rM_i M_i`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ._check import check_choice, check_flags, real_array
from ._element import trace_elements
from ._forcefield.base import AbstractEnergyForceField
from ._forcefield.chart import (
    Arrays,
    Rate,
    chart_force,
    rates,
    varies_with,
)
from ._stencil import Stencil
from ._system import System

PARTS = ("mass", "damping", "stiffness", "rayleigh", "geometric")


@dataclass(frozen=True)
class Terms:
    """Which parts a matrix has. Static: a pattern belongs to one `Terms`.

    `mapped`: what acts on mapped states; `geometric`: the geometric stiffness of mappings, there if `stiffness` is unless
    it is given; `rayleigh`: the Rayleigh damping, there if `damping` is unless it is given; `constrained`: the projective
    constraints; `symmetric`: keep only the symmetric part of each element's matrices and leave out the derivative of
    mapped velocities with respect to positions, so that symmetric solvers may be used (damped springs in motion and
    follower pressures have unsymmetric tangents).
    """

    mass: bool = True
    damping: bool = True
    stiffness: bool = True
    mapped: bool = True
    geometric: bool | None = None
    constrained: bool = True
    symmetric: bool = False
    rayleigh: bool | None = None

    def __post_init__(self):
        optional = ("geometric", "rayleigh")
        check_flags("Terms", **{n: v for n, v in vars(self).items() if not (n in optional and v is None)})

    @property
    def has_geometric(self) -> bool:
        """Whether the geometric stiffness is there."""
        return self.mapped and (self.stiffness if self.geometric is None else self.geometric)

    @property
    def has_rayleigh(self) -> bool:
        """Whether the Rayleigh damping is there."""
        return self.damping if self.rayleigh is None else self.rayleigh


class Factors(eqx.Module):
    """The numbers `(m, b, k, c, g)` of `m M + b B + k K + g G + c C`; they may be traced.

    `rayleigh`, the factor of the Rayleigh damping, is that of damping unless it is given; `geometric` is that of
    stiffness. Statics uses `(0, 0, 1, 0)`, a step `h` of implicit Euler `(1, h, h^2, h)`. Raises `ValueError` or `TypeError`
    for what is not a real number; arrays of them are batches, to be mapped over by `vmap`.
    """

    mass: Any = 1.0
    damping: Any = 1.0
    stiffness: Any = 1.0
    rayleigh: Any = None
    geometric: Any = None

    def __check_init__(self):
        for name in PARTS:
            value = getattr(self, name)
            if value is None and name in ("rayleigh", "geometric"):
                continue
            real_array("Factors", name, value)

    @classmethod
    def only(cls, *parts: str) -> "Factors":
        """One for the parts that are named, of `PARTS`, and nothing for the others: `Factors.only("mass")` is `M`."""
        for part in parts:
            check_choice("Factors.only", "part", part, PARTS)
        return cls(**{part: float(part in parts) for part in PARTS})

    def of(self, part: str) -> Any:
        """The factor of one of `PARTS`."""
        check_choice("Factors", "part", part, PARTS)
        if part == "rayleigh":
            return self.damping if self.rayleigh is None else self.rayleigh
        if part == "geometric":
            return self.stiffness if self.geometric is None else self.geometric
        return getattr(self, part)

    def has(self, part: str) -> bool:
        """Whether a part may be more than nothing: its factor is not known to be zero."""
        factor = self.of(part)
        return not (isinstance(factor, int | float) and factor == 0)


@dataclass(frozen=True)
class Contribution:
    """One component's part in a matrix, and which of its matrices are more than nothing."""

    name: str
    kind: str  # "force" or "mass"
    stiffness: bool
    damping: bool
    symmetric: bool
    steady: bool  # its matrices, on the states that it acts on, never change in motion


def component_of(system: System, item: Contribution) -> Any:
    """The component that a contribution comes from."""
    return (system.forces if item.kind == "force" else system.masses)[item.name]


def contributions(system: System, terms: Terms) -> tuple[Contribution, ...]:
    """Every contribution, in the one order that the symbolic and the numeric phase share."""
    mapped = {m.child for m in system.mappings.values()}
    items = []
    for name, field in system.forces.items():
        if not terms.mapped and any(s.state in mapped for s in field.on):
            continue
        by_position, by_velocity = force_rates(system, name)
        stiffness, damping = by_position.exists and terms.stiffness, by_velocity.exists and terms.damping
        rayleigh = name in system.rayleigh and terms.has_rayleigh
        if stiffness or damping or rayleigh:
            steady = by_position.constant and by_velocity.constant
            items.append(Contribution(name, "force", stiffness or rayleigh, damping, _is_symmetric(system, name), steady))
    for name, mass in system.masses.items():
        skipped = not terms.mapped and any(s.state in mapped for s in mass.on)
        if not skipped and (terms.mass or (terms.has_rayleigh and name in system.rayleigh)):
            items.append(Contribution(name, "mass", False, False, True, _is_steady_mass(system, name)))
    return tuple(items)


def knows_velocity(system: System, name: str) -> bool:
    """Whether a force depends on velocities: of energies, without a trace of them."""
    return not _is_energy_only(system.forces[name]) and force_rates(system, name)[1].exists


def _is_energy_only(field: Any) -> bool:
    return isinstance(field, AbstractEnergyForceField) and not field.is_dissipative


def force_rates(system: System, name: str) -> tuple[Rate, Rate]:
    """The derivatives of a force with respect to displacements, and to velocities."""
    field = system.forces[name]
    dofs, x, v = _example(system, field.on)

    def force(d: Arrays, v: Arrays) -> Any:
        return trace_elements(field, field.on, lambda c, x, d, v: chart_force(c, dofs, x, d, v), x, d, v)

    if _is_energy_only(field):
        return rates(lambda d: force(d, v), v)[0], Rate(False, True)
    return rates(force, v, v)  # pyright: ignore[reportReturnType]


def _is_symmetric(system: System, name: str) -> bool:
    """Whether the stiffness of a force field is symmetric for certain: an energy, whose dissipation knows no position."""
    field = system.forces[name]
    if not isinstance(field, AbstractEnergyForceField):
        return not any(rate.exists for rate in force_rates(system, name))
    if not field.is_dissipative:
        return True
    _, x, v = _example(system, field.on)

    def drag(x: Arrays, v: Arrays) -> Any:
        return trace_elements(field, field.on, lambda c, x, v: jax.grad(lambda u: c.element_dissipation(x, u))(v), x, v)

    return not varies_with(drag, x, v)[0]


def _is_steady_mass(system: System, name: str) -> bool:
    """Whether the momentum of an element is linear in its velocities, whatever its positions."""
    mass = system.masses[name]
    _, x, v = _example(system, mass.on)

    def momentum(x: Arrays, v: Arrays) -> Any:
        return trace_elements(mass, mass.on, lambda c, x, v: jax.grad(lambda u: c.element_kinetic_energy(x, u))(v), x, v)

    return rates(momentum, x, v)[1].constant


def _example(system: System, on: Sequence[Stencil]) -> tuple[list[Any], Arrays, Arrays]:
    """Degrees of freedom, positions and velocities of the shapes of the elements of some stencils."""
    dofs = [system.dofs[s.state] for s in on]
    x = tuple(jnp.zeros((*s.nodes.shape, dof.coord_size)) for s, dof in zip(on, dofs, strict=True))
    v = tuple(jnp.zeros((*s.nodes.shape, dof.deriv_size)) for s, dof in zip(on, dofs, strict=True))
    return dofs, x, v


def halved(system: System, item: Contribution) -> tuple[int, ...]:
    """The stencils of a contribution of whose own matrices half is evaluated: symmetric ones, on which no mapping acts."""
    if not item.symmetric:
        return ()
    on = component_of(system, item).on
    return tuple(i for i, s in enumerate(on) if s.state in system.main_states and s.nodes_per_element > 1)
