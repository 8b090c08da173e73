"""What each component adds to a matrix: one enumeration, used by the symbolic phase and by the numeric one.

`A = m M + b B + k K + g G + c C`, with `K = -df/dx`, `B = -df/dv`, `M = d2T/dv2`, the geometric stiffness `G` of mappings
and the Rayleigh damping `C = sum rK_i K_i + sum rM_i M_i`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._forcefield.base import AbstractEnergyForceField
from .._forcefield.chart import (
    Arrays,
    Rate,
    chart_force,
    rates,
    varies_with,
)
from .._model.system import System
from .._model.terms import Terms
from .._scene.parameter import trace_elements
from .._scene.stencil import Stencil


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

    def example(size: str) -> Any:
        shapes = ((*s.nodes.shape, getattr(dof, size)) for s, dof in zip(on, dofs, strict=True))
        return tuple(np.zeros(shape, jnp.result_type(float)) for shape in shapes)

    return dofs, example("coord_size"), example("deriv_size")


def halved(system: System, item: Contribution) -> tuple[int, ...]:
    """The stencils of a contribution of whose own matrices half is evaluated: symmetric ones, on which no mapping acts."""
    if not item.symmetric:
        return ()
    on = component_of(system, item).on
    return tuple(i for i, s in enumerate(on) if s.state in system.main_states and s.nodes_per_element > 1)
