"""Positions, velocities, energies and forces of a scene, all from the element functions of its components.

Displacements are taken in the chart of every state. With `p = p(q)` the positions of all states and `f` the forces on
each, the force on the main states is `J^T f`; it is written as a function of a displacement `d` of the main states, so
that one Jacobian-vector product gives the whole tangent, geometric stiffness included.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import map_elements
from .._forcefield.base import AbstractEnergyForceField, AbstractForceField
from .._forcefield.chart import chart_force, no_displacement
from .._mapping.base import AbstractMapping
from .._mass.base import AbstractMass
from .._runtime.array_types import Array, Scalar
from .._runtime.precision import full_precision, in_one_program
from .._runtime.results import is_traced
from .._scene.alike import over_alike
from .._scene.dof import AbstractDof
from .._scene.nodal_sums import Given, given_by, given_over_alike
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes, gathered
from . import mapped_node
from .internal import with_internal
from .mapped_node import of_mapping
from .number_checks import check_gravity
from .on_main_states import on_main_states
from .scene_checks import check_forces
from .subsystem import with_only, without_unloaded
from .system import State, System
from .validity import check_one_number, raise_undefined

Fields = dict[str, Array]  # an array of nodal values for each state


def retract(dofs: Mapping[str, AbstractDof], x: Mapping[str, Array], d: Mapping[str, Array]) -> Fields:
    """Every state of `x` moved by `d`."""
    return {s: a + d[s] if dofs[s].is_vector_space else map_elements(dofs[s].retract, 0, a, d[s]) for s, a in x.items()}


def retract_near(dofs: Mapping[str, AbstractDof], x: Mapping[str, Array], d: Mapping[str, Array]) -> Fields:
    """`retract` for derivatives at `d = 0` only."""
    return {s: a + d[s] if dofs[s].is_vector_space else map_elements(dofs[s].retract_near, 0, a, d[s]) for s, a in x.items()}


def local_near(dofs: Mapping[str, AbstractDof], x0: Mapping[str, Array], x1: Mapping[str, Array]) -> Fields:
    """The displacements that take `x0` to `x1`, for derivatives at `x1 = x0` only."""
    return {
        s: x1[s] - a if dofs[s].is_vector_space else map_elements(dofs[s].local_near, 0, a, x1[s]) for s, a in x0.items()
    }


def kinematics(system: System, position: Mapping[str, Array]) -> Fields:
    """The positions `(nodes, coord_size)` of every state, mapped ones included, from those of the main states."""
    return _mapped(system, position) if system.mappings else dict(position)


@in_one_program
def _mapped(system: System, position: Mapping[str, Array]) -> Fields:
    x = dict(position)
    for name in system.mapping_order:
        mapping = system.mappings[name]
        x[mapping.child] = over_elements(
            mapping, mapping.parents, lambda m, *a: m.element_apply(*a), *at_nodes(mapping.parents, x)
        )
    return x


def map_velocity(mapping: AbstractMapping, dofs: Mapping[str, AbstractDof], x: Fields, v: Fields) -> Array:
    """`J v`: the velocities of the child of a mapping."""
    of_node, on = of_mapping(mapped_node.velocity, mapping, dofs), mapping.parents
    return over_elements(mapping, on, of_node, at_nodes(on, x), at_nodes(on, v))


@in_one_program
def velocities(system: System, x: Fields, velocity: Mapping[str, Array]) -> Fields:
    """The velocities `(nodes, deriv_size)` of every state at the positions `x` of all, from those of the main states."""
    v = dict(velocity)
    for name in system.mapping_order:
        v[system.mappings[name].child] = map_velocity(system.mappings[name], system.dofs, x, v)
    return v


def zero_forces(system: System, x: Mapping[str, Array]) -> Fields:
    """A zero force on every node of the states of `x`."""
    return {s: jnp.zeros((a.shape[0], system.dofs[s].deriv_size), a.dtype) for s, a in x.items()}


def field_forces(
    system: System, fields: Mapping[str, AbstractForceField], x: Fields, d: Fields | None, v: Fields
) -> dict[str, tuple[Array, ...]]:
    """The forces of every element of force fields at `retract(x, d)`, one array per stencil; `d` of None is nil, as the
    program of an element then knows."""
    return _over(over_alike, system, fields, x, d, v)


def given_forces(
    system: System, fields: Mapping[str, AbstractForceField], x: Fields, d: Fields | None, v: Fields
) -> dict[str, Given]:
    """What these forces come to at the nodes."""
    return {name: Given(*found) for name, found in _over(given_over_alike, system, fields, x, d, v).items()}


def _over(
    over: Callable[..., dict[str, Any]],
    system: System,
    fields: Mapping[str, AbstractForceField],
    x: Fields,
    d: Fields | None,
    v: Fields,
) -> dict[str, Any]:
    check_forces(system, fields)
    if d is None:
        return over(
            fields, system.dofs, lambda _, dofs: lambda c, x, v: chart_force(c, dofs, x, no_displacement(dofs, x), v), x, v
        )
    return over(fields, system.dofs, lambda _, dofs: lambda c, *a: chart_force(c, dofs, *a), x, d, v)


def field_force(system: System, field: AbstractForceField, x: Fields, d: Fields | None, v: Fields) -> tuple[Array, ...]:
    """Those of one."""
    return field_forces(system, {"": field}, x, d, v)[""]


def weight_direction(system: System, x: Mapping[str, Array]) -> Fields:
    """The acceleration of gravity as a velocity-like field: translations of the states of its dimension."""
    field = zero_forces(system, x)
    if system.gravity is None:
        return field
    check_gravity(system)  # it may have been replaced
    size = system.gravity.shape[0]
    for state, a in field.items():
        if system.dofs[state].space_size == size:
            field[state] = a.at[:, :size].set(system.gravity.astype(a.dtype))
    return field


def element_momentum(system: System, name: str, x: Fields, v: Fields) -> tuple[Array, ...]:
    """`dT/dv` of every element of one mass, one array per stencil."""
    mass = system.masses[name]
    return over_elements(mass, mass.on, _momentum_of_one, at_nodes(mass.on, x), at_nodes(mass.on, v))


def _momentum_of_one(mass: AbstractMass, x: Any, v: Any) -> Any:
    return jax.grad(lambda u: mass.element_kinetic_energy(x, u))(v)


def _with_momentum(total: Fields, mass: AbstractMass, x: Fields, v: Fields) -> Fields:
    """`total` with `dT/dv` of one mass."""
    return Given(*given_by(mass, _momentum_of_one, x, v)).onto(total, mass.on)


def applied_forces(
    system: System, x: Fields, d: Fields | None, v: Fields, known: Mapping[str, Given] | None = None
) -> Fields:
    """The forces that act directly on each state, mapped ones included: force fields, and gravity through the masses.

    `known`: what `given_forces` gives of some force fields, where it is known already.
    """
    total, known = zero_forces(system, x), known or {}
    fields = system.force_fields
    forces = {**known, **given_forces(system, {n: f for n, f in fields.items() if n not in known}, x, d, v)}
    for name, field in fields.items():
        total = forces[name].onto(total, field.on)
    if system.gravity is not None:
        moved = x if d is None else retract_near(system.dofs, x, d)
        for mass in system.masses.values():
            total = _with_momentum(total, mass, moved, weight_direction(system, x))
    return total


def pull_back(system: System, x: Fields, d: Mapping[str, Array], forces: Any) -> Fields:
    """`J^T f` at the displacement `d` of the main states from `x`; `forces(displacements of all states)` gives `f`."""
    main = {s: x[s] for s in d}
    displacement, transposed = jax.vjp(
        lambda e: local_near(system.dofs, x, kinematics(system, retract_near(system.dofs, main, e))), dict(d)
    )
    return transposed(forces(displacement))[0]


def force_at(system: System, state: State, d: Mapping[str, Array] | None, velocity: Mapping[str, Array]) -> Fields:
    """The force on the main states at the displacement `d` from `state`, or at none, with other velocities."""
    system = without_unloaded(with_internal(system, state), masses=system.gravity is not None)
    if not system.mappings:
        return applied_forces(system, dict(state.position), None if d is None else dict(d), dict(velocity))
    x = kinematics(system, state.position)
    if d is None:
        acting = applied_forces(system, x, None, velocities(system, x, velocity))
        return on_main_states(system, x, acting)
    moved = kinematics(system, retract_near(system.dofs, state.position, d))

    def forces(displacement: Fields) -> Fields:
        v = velocities(system, moved, velocity)
        return applied_forces(system, x, displacement, v)

    return pull_back(system, x, d, forces)


@full_precision
def total_force(system: System, state: State) -> Fields:
    """The force [N, N m] on the main states: force fields and weights, pulled back through the mappings by `J^T`.

    `{state: (nodes, deriv_size)}`. Constraints are not applied, and Rayleigh damping, which belongs to a step, is not in it.
    Raises `FailedComputation`, as `energy` does, for a force that is not finite.

    Example:

        f = jm.total_force(arm, arm_state)["frame"]
        assert jnp.allclose(f, jnp.array([[0.0, 0.0, -10.0, 0.0, 10.0, 0.0]]))  # the load on the tip, and its torque r x f
    """
    force = _force(system, state)
    if not is_traced(force) and not all(np.isfinite(np.asarray(f)).all() for f in force.values()):
        system, x = with_internal(system, state), kinematics(system, state.position)
        forces = field_forces(system, system.force_fields, x, None, velocities(system, x, state.velocity))
        raise_undefined("total_force", system, x, forces)
    return force


@in_one_program
def _force(system: System, state: State) -> Fields:
    return force_at(system, state, None, state.velocity)


def energy(system: System, state: State, *, raises: bool = True) -> Scalar:
    """See `public_functions`. `raises`: where values can be looked at."""
    total, x, values = _energy(system, state)
    if raises:
        raise_undefined("energy", with_internal(system, state), x, values)
    return total


@in_one_program
def _energy(system: System, state: State) -> tuple[Scalar, Fields, dict[str, Array]]:
    """The energy, the positions of every state, and the energies of the elements of every force field that has some."""
    system = with_internal(system, state)
    x = kinematics(system, state.position)
    with_energy = {n: f for n, f in system.force_fields.items() if isinstance(f, AbstractEnergyForceField)}
    check_forces(system, with_energy)
    values = over_alike(with_energy, system.dofs, lambda *_: lambda c, x: c.element_energy(*x), x)
    check_one_number(with_energy, values)
    total = sum((jnp.sum(each) for each in values.values()), jnp.zeros((), jnp.result_type(*x.values())))
    if system.gravity is not None:
        total = total + energy_of_weights(system, x)
    return total, x, values


def energy_of_weights(system: System, x: Fields) -> Scalar:
    """That of gravity, of the positions of every state."""
    total = jnp.zeros((), jnp.result_type(*x.values()))
    for name, mass in system.masses.items():
        weights = element_momentum(system, name, x, weight_direction(system, x))
        for stencil, weight, a in zip(mass.on, weights, gathered(mass.on, x), strict=True):
            size = system.dofs[stencil.state].space_size
            total = total - jnp.sum(weight[..., :size] * a[..., :size])
    return total


@in_one_program
def kinetic_energy(system: System, position: Mapping[str, Array], velocity: Mapping[str, Array]) -> Scalar:
    """The kinetic energy [J] as a function of the positions and velocities of the main states, mapped masses included."""
    system = without_unloaded(with_only(system, masses=system.masses))
    x = kinematics(system, position)
    return energy_of_motion(system, x, velocities(system, x, velocity))


def energy_of_motion(system: System, x: Fields, v: Fields) -> Scalar:
    """That of the masses, of the positions and velocities of every state."""
    total = jnp.zeros((), jnp.result_type(*x.values()))
    for mass in system.masses.values():
        values = over_elements(
            mass,
            mass.on,
            lambda c, x, v: c.element_kinetic_energy(x, v),
            at_nodes(mass.on, x),
            at_nodes(mass.on, v),
        )
        total = total + jnp.sum(values)
    return total


@in_one_program
def momentum(system: System, position: Mapping[str, Array], velocity: Mapping[str, Array]) -> Fields:
    """The momentum `M v = dT/dv` [kg m/s, kg m^2/s] of the main states, mapped masses included: `J^T M J v`."""
    system = without_unloaded(with_only(system, masses=system.masses))
    x = kinematics(system, position)
    return on_main_states(system, x, own_momenta(system, x, velocities(system, x, velocity)))


def own_momenta(system: System, x: Fields, v: Fields) -> Fields:
    """The momentum of every state's own masses, of the positions and velocities of every state."""
    total = zero_forces(system, x)
    for mass in system.masses.values():
        total = _with_momentum(total, mass, x, v)
    return total
