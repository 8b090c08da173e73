"""Parts of a scene: some of its components, or it without what plays no part."""

from collections.abc import Collection

import equinox as eqx

from .._forcefield.base import AbstractEnergyForceField, goes_along, has_own_stiffness
from .number_checks import feels_gravity
from .system import System


def weightless(system: System) -> System:
    """The scene without gravity."""
    return system if system.gravity is None else eqx.tree_at(lambda s: s.gravity, system, None)


def has_direct_masses(system: System) -> bool:
    """Whether every mass is on main states, none on mapped ones. Static."""
    return all(s.state in system.main_states for mass in system.masses.values() for s in mass.on)


def has_coupled_turns(system: System) -> bool:
    """Whether a mass on main states couples frames that turn, each its own way, as that of a shell does. Static."""
    on = [stencil for mass in system.masses.values() for stencil in mass.on if stencil.state in system.main_states]
    return any(s.nodes.ndim > 1 and not system.dofs[s.state].is_vector_space for s in on)


def has_dead_torques(system: System) -> bool:
    """Whether forces act on frames that have neither an energy nor a stiffness of their own. Static."""
    return bool(dead_torques(system))


def dead_torques(system: System) -> tuple[str, ...]:
    """The names of these. Static."""
    plain = {
        name: field
        for name, field in system.force_fields.items()
        if not (isinstance(field, AbstractEnergyForceField) or has_own_stiffness(field))
    }
    return tuple(n for n, field in plain.items() if not all(system.dofs[s.state].is_vector_space for s in field.on))


def has_fixed_axes(system: System) -> bool:
    """Whether the directions in which derivatives are taken are the same everywhere: no frame turns, and no axes go along.

    Only then is the derivative of the force from place to place the matrix that is symmetric. Static.
    """
    return not has_axes_along(system) and all(system.dofs[s].is_vector_space for s in system.main_states)


def has_axes_along(system: System) -> bool:
    """Whether a law has axes that go along with its nodes. Static."""
    return any(goes_along(field) for field in system.force_fields.values())


def with_only(system: System, *, forces: Collection[str] = (), masses: Collection[str] = ()) -> System:
    """The scene with only these force fields (constraints with multipliers too) and masses; all projective constraints."""
    constraints = {n: c for n, c in system.constraints.items() if n in forces or n in system.projections}
    part = eqx.tree_at(
        lambda s: (s.forces, s.masses, s.constraints),
        system,
        (
            {n: system.forces[n] for n in sorted(forces) if n in system.forces},
            {n: system.masses[n] for n in sorted(masses)},
            constraints,
        ),
    )
    # Of masses on angles, say, beside bodies of space: gravity that none of them feels would be refused as a mistake.
    lost = system.gravity is not None and feels_gravity(system) and not feels_gravity(part)
    return weightless(part) if lost else part


def without_unloaded(system: System, *, masses: bool = True) -> System:
    """The scene without the mapped states that no force field, and no mass, acts on: they follow, at no cost.

    A state is removed together with its mapping: a state without a mapping is a main state, and would need positions.
    """
    acting = [*system.force_fields.values(), *(system.masses.values() if masses else ())]
    carrying = {s.state for component in acting for s in component.on}
    kept, unloaded = {}, set()
    for name in reversed(system.mapping_order):
        mapping = system.mappings[name]
        if mapping.child in carrying:
            carrying |= {p.state for p in mapping.parents}
            kept[name] = mapping
        else:
            unloaded.add(mapping.child)
    if not unloaded:
        return system
    dofs = {state: dof for state, dof in system.dofs.items() if state not in unloaded}
    return eqx.tree_at(lambda s: (s.dofs, s.mappings), system, (dofs, {name: kept[name] for name in sorted(kept)}))
