"""The force on the main states to first order in a displacement and in velocities."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from .._forcefield.chart import chart_force_ahead, chart_forces_ahead
from .._runtime.array_types import Array
from .._scene.nodal_sums import Given, given_by, given_over_alike
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes
from .dynamics import Fields, weight_direction, zero_forces
from .internal import with_internal
from .mapped_node import motion_ahead, moved, of_mapping, with_rate
from .motion import Motion, inertial_forces
from .on_main_states import ahead_on_main_states
from .scene_checks import check_forces
from .subsystem import without_unloaded
from .system import State, System


def force_ahead(system: System, state: State, d: Mapping[str, Array], u: Mapping[str, Array]) -> Fields:
    """`f + df/dx d + df/dv u`: the force on the main states to first order, displaced by `d` and faster by `u`.

    It is a function of every element and of every mapped node, and so is its transpose: what the force and its rate have in
    common is computed once.
    """
    if system.mappings:
        return forces_ahead(system, state, d, u)[1]
    system = with_internal(system, state)
    given = state.position, state.velocity, d, u
    return _with_weights(system, state.position, d, _of_fields(system, *given, both=False))[0]


def forces_ahead(
    system: System,
    state: State,
    d: Mapping[str, Array],
    u: Mapping[str, Array],
    acceleration: Mapping[str, Array] | None = None,
) -> tuple[Fields, Fields]:
    """The force, and `force_ahead`; with an acceleration the latter has what inertia adds, and less `M a`."""
    system = without_unloaded(with_internal(system, state), masses=bool(system.gravity is not None or acceleration))
    x, v, d, u, a = dict(state.position), dict(state.velocity), dict(d), dict(u), dict(acceleration or {})
    for name in system.mapping_order:
        mapping = system.mappings[name]
        on, child, of_node = mapping.parents, mapping.child, of_mapping(motion_ahead, mapping, system.dofs)
        fields = (x, v, d, u, a) if a else (x, v, d, u)
        found = over_elements(mapping, on, of_node, *(at_nodes(on, field) for field in fields))
        for field, of_child in zip(fields, found, strict=True):
            field[child] = of_child
    force, ahead = _with_weights(system, x, d, _of_fields(system, x, v, d, u, both=True))
    if a:
        inertial = inertial_forces(system, Motion(x, v, a))
        ahead = {s: ahead[s] + inertial[s] for s in ahead}
    return ahead_on_main_states(system, x, d, force, ahead)


def _of_fields(system: System, x: Fields, v: Fields, d: Fields, u: Fields, *, both: bool) -> list[Fields]:
    """What force fields give every state, and what to first order; the latter alone, unless `both` are asked for."""
    of_element = chart_forces_ahead if both else lambda *a: (chart_force_ahead(*a),)
    fields = system.force_fields
    check_forces(system, fields)
    totals = [zero_forces(system, x) for _ in range(2 if both else 1)]
    of_field, times = lambda _, dofs: lambda c, *a: of_element(c, dofs, *a), len(totals)
    forces = given_over_alike(fields, system.dofs, of_field, x, v, d, u, times=times)
    for name, field in fields.items():
        found, are_sums = forces[name]
        totals = [Given(each, are_sums).onto(total, field.on) for total, each in zip(totals, found, strict=True)]
    return totals


def _with_weights(system: System, x: Fields, d: Fields, totals: list[Fields]) -> list[Fields]:
    """With the weights, and these to first order."""
    if system.gravity is None:
        return totals
    g, wanted = weight_direction(system, x), len(totals)
    for mass in system.masses.values():
        dofs = [system.dofs[s.state] for s in mass.on]

        def of_element(m, x, g, d, dofs=dofs):
            def weight(t: Array):
                there = moved(dofs, x, d, t)
                return jax.grad(lambda u: m.element_kinetic_energy(there, u))(g)

            now, rate = with_rate(weight, x)
            return (now, jax.tree.map(jnp.add, now, rate))[-wanted:]

        weights, are_sums = given_by(mass, of_element, x, g, d, times=wanted)
        totals = [Given(each, are_sums).onto(total, mass.on) for total, each in zip(totals, weights, strict=True)]
    return totals
