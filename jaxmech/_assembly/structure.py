"""What a matrix is made of, read off the structure of a scene: one enumeration, used by all that assembles.

`A = m M + b B + k K + g G + c C`, with `K = -df/dx`, `B = -df/dv`, `M = d2T/dv2`, the geometric stiffness `G` of mappings
and the Rayleigh damping `C = sum rK_i K_i + sum rM_i M_i`.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._forcefield.base import AbstractEnergyForceField, has_own_stiffness, stiffness_is_symmetric, tangent_is_exact
from .._forcefield.chart import Arrays, Rate, chart_force, rates, varies_with
from .._model.mapping_jacobian import geometric_mode
from .._model.system import System, force_field
from .._model.terms import Terms
from .._scene.internal import knows_time_step, remembers
from .._scene.once_per_structure import once_per_structure
from .._scene.parameter import trace_elements
from .._scene.stencil import Stencil


class MatrixKind(enum.Enum):
    """The matrices that a component may have."""

    STIFFNESS = "stiffness"
    DAMPING = "damping"
    MASS = "mass"
    GEOMETRIC = "geometric"


@dataclass(frozen=True)
class Contribution:
    """One force field's or mass's part in a matrix."""

    name: str
    kinds: tuple[MatrixKind, ...]  # of its matrices, those that are more than nothing
    symmetric: bool
    constant: bool  # its matrices, on the states that it acts on, never change in motion

    @property
    def is_mass(self) -> bool:
        """Whether it is of a mass, and not of a force field."""
        return MatrixKind.MASS in self.kinds

    @property
    def label(self) -> str:
        """Its name, with that of its family."""
        return f"{'mass' if self.is_mass else 'force'} {self.name}"

    def component(self, system: System) -> Any:
        """The component that it comes from."""
        return system.masses[self.name] if self.is_mass else force_field(system, self.name)

    def upper(self, system: System) -> tuple[int, ...]:
        """The stencils `s` of whose own matrices `[s][s]` the upper triangle is enough: symmetric, on main states."""
        if not self.symmetric:
            return ()
        on = self.component(system).on
        return tuple(i for i, s in enumerate(on) if s.state in system.main_states and s.nodes_per_element > 1)


@dataclass(frozen=True)
class Plan:
    """What a matrix is made of: contributions, mappings with geometric stiffness, and forces whose `B` is followed."""

    items: tuple[Contribution, ...]
    geometric: tuple[tuple[str, str], ...]  # mapping, form
    velocity: tuple[str, ...]
    symmetric: bool  # the matrix is, for certain
    exact: bool  # nothing of the derivatives of the forces is left out

    @classmethod
    def build(cls, system: System, terms: Terms) -> "Plan":
        """Read off the structure of the scene."""
        items = contributions(system, terms)
        curved = _curved_states(system)
        turning = tuple(
            name
            for name, field in system.force_fields.items()
            if any(s.state in curved for s in field.on) and knows_velocity(system, name)
        )
        wanted = terms.has_geometric
        curves = _geometric_mappings(system)
        forms = {name: geometric_mode(system, system.mappings[name], symmetric=terms.symmetric) for name in curves}
        geometric = tuple((name, form) for name, form in forms.items() if form != "none") if wanted else ()
        own = all(item.symmetric for item in items) and not any(form == "exact" for _, form in geometric)
        return cls(
            items,
            geometric,
            turning if wanted and not terms.symmetric else (),
            terms.symmetric or (own and not (wanted and turning)),
            terms.stiffness
            and (terms.mapped or not system.mappings)
            and (wanted or not (curves or turning))
            and all(form in ("symmetric", "exact") for form in forms.values())
            and not (terms.symmetric and not (own and not turning))
            and not approximate_tangents(system),
        )

    @property
    def is_rate_of_force(self) -> bool:
        """Whether stiffness and geometric stiffness together are minus the derivative of the force, in the charts."""
        return self.exact and all(form == "symmetric" for _, form in self.geometric)

    def divided(self, system: System) -> tuple["Plan", "Plan"]:
        """What never changes in motion, and the rest: constant matrices on states whose Jacobians are constant."""
        linear = _linearly_moving_states(system)
        constant = tuple(i for i in self.items if i.constant and all(s.state in linear for s in i.component(system).on))
        rest = tuple(item for item in self.items if item not in constant)
        return replace(self, items=constant, geometric=(), velocity=()), replace(self, items=rest)


NOTHING = Plan((), (), (), symmetric=True, exact=True)


def contributions(system: System, terms: Terms) -> tuple[Contribution, ...]:
    """Every contribution, in the one order that all share."""
    mapped = {m.child for m in system.mappings.values()}
    items = []
    for name, field in system.force_fields.items():
        if not terms.mapped and any(s.state in mapped for s in field.on):
            continue
        by_position, by_velocity = force_rates(system, name)
        stiffness, damping = by_position.exists and terms.stiffness, by_velocity.exists and terms.damping
        rayleigh = name in system.rayleigh and terms.has_rayleigh
        kinds = [MatrixKind.STIFFNESS] if stiffness or rayleigh else []
        kinds += [MatrixKind.DAMPING] if damping else []
        if kinds:
            constant = by_position.constant and by_velocity.constant and tangent_is_exact(field)
            constant = constant and name not in system.multiplier_constraints  # which have a factor of their own
            constant = constant and not (remembers(field) or knows_time_step(field))  # a step may change it
            items.append(Contribution(name, tuple(kinds), _is_symmetric(system, name), constant))
    for name, mass in system.masses.items():
        skipped = not terms.mapped and any(s.state in mapped for s in mass.on)
        if not skipped and (terms.mass or (terms.has_rayleigh and name in system.rayleigh)):
            items.append(Contribution(name, (MatrixKind.MASS,), True, _is_constant_mass(system, name)))
    return tuple(items)


def approximate_tangents(system: System) -> tuple[str, ...]:
    """The force fields whose stiffness is not the derivative of their force, or not for certain."""
    vector = {s: dof.is_vector_space for s, dof in system.dofs.items()}
    flat = {name: all(vector[s.state] for s in field.on) for name, field in system.force_fields.items()}
    return tuple(name for name, field in system.force_fields.items() if flat[name] and not tangent_is_exact(field))


def knows_velocity(system: System, name: str) -> bool:
    """Whether a force depends on velocities: of energies, without a trace of them."""
    return not is_energy_only(force_field(system, name)) and force_rates(system, name)[1].exists


def is_energy_only(field: Any) -> bool:
    """Whether a force is minus the gradient of an energy, and nothing else."""
    return isinstance(field, AbstractEnergyForceField) and not field.is_dissipative


def force_rates(system: System, name: str) -> tuple[Rate, Rate]:
    """The derivatives of a force with respect to displacements, and to velocities."""
    field = force_field(system, name)
    return _force_rates(field, [system.dofs[s.state] for s in field.on])


@once_per_structure
def _force_rates(field: Any, dofs: Sequence[Any]) -> tuple[Rate, Rate]:
    x, v = _example(dofs, field.on)

    def force(d: Arrays, v: Arrays) -> Any:
        return trace_elements(field, field.on, lambda c, x, d, v: chart_force(c, dofs, x, d, v), x, d, v)

    if is_energy_only(field):
        return rates(lambda d: force(d, v), v)[0], Rate(False, True)
    return rates(force, v, v)  # pyright: ignore[reportReturnType]


def _is_symmetric(system: System, name: str) -> bool:
    """Whether the stiffness of a force field is symmetric for certain: an energy, whose dissipation knows no position, or
    one of its own that says so."""
    field = force_field(system, name)
    if has_own_stiffness(field):
        return stiffness_is_symmetric(field) and not force_rates(system, name)[1].exists
    if not isinstance(field, AbstractEnergyForceField):
        return not any(rate.exists for rate in force_rates(system, name))
    return not field.is_dissipative or not _drag_varies(field, [system.dofs[s.state] for s in field.on])


@once_per_structure
def _drag_varies(field: Any, dofs: Sequence[Any]) -> bool:
    """Whether the force of an energy's dissipation varies with positions."""
    x, v = _example(dofs, field.on)

    def drag(x: Arrays, v: Arrays) -> Any:
        return trace_elements(field, field.on, lambda c, x, v: jax.grad(lambda u: c.element_dissipation(x, u))(v), x, v)

    return varies_with(drag, x, v)[0]


def _is_constant_mass(system: System, name: str) -> bool:
    """Whether the momentum of an element is linear in its velocities, whatever its positions."""
    mass = system.masses[name]
    return _is_linear_momentum(mass, [system.dofs[s.state] for s in mass.on])


@once_per_structure
def _is_linear_momentum(mass: Any, dofs: Sequence[Any]) -> bool:
    x, v = _example(dofs, mass.on)

    def momentum(x: Arrays, v: Arrays) -> Any:
        return trace_elements(mass, mass.on, lambda c, x, v: jax.grad(lambda u: c.element_kinetic_energy(x, u))(v), x, v)

    return rates(momentum, x, v)[1].constant


def _example(dofs: Sequence[Any], on: Sequence[Stencil]) -> tuple[Arrays, Arrays]:
    """Positions and velocities of the shapes of the elements of some stencils."""

    def example(size: str) -> Any:
        shapes = ((*s.nodes.shape, getattr(dof, size)) for s, dof in zip(on, dofs, strict=True))
        return tuple(np.zeros(shape, jnp.result_type(float)) for shape in shapes)

    return example("coord_size"), example("deriv_size")


def _linearly_moving_states(system: System) -> set[str]:
    """The states that move linearly with main ones, and with none that turns: in their charts, Jacobians are constant."""
    linear = {s for s in system.main_states if system.dofs[s].is_vector_space}
    for name in system.mapping_order:
        mapping = system.mappings[name]
        if mapping.is_linear and all(p.state in linear for p in mapping.parents):
            linear.add(mapping.child)
    return linear & {s for s, dof in system.dofs.items() if dof.is_vector_space}


def _curved_states(system: System) -> set[str]:
    """The mapped states whose positions are not linear in the main ones."""
    curved: set[str] = set()
    for name in system.mapping_order:
        mapping = system.mappings[name]
        if not mapping.is_linear or any(p.state in curved for p in mapping.parents):
            curved.add(mapping.child)
    return curved


def _geometric_mappings(system: System) -> tuple[str, ...]:
    """The non-linear mappings through which a force goes, last child first."""
    carrying = {s.state for f in system.force_fields.values() for s in f.on}
    if system.gravity is not None:
        carrying |= {s.state for m in system.masses.values() for s in m.on}
    found = []
    for name in reversed(system.mapping_order):
        mapping = system.mappings[name]
        if mapping.child in carrying:
            carrying |= {p.state for p in mapping.parents}
            if not mapping.is_linear:
                found.append(name)
    return tuple(found)
