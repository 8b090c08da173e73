"""How every state moves, by one pass through the mappings, and what its inertia does."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax

from .._forcefield.chart import Arrays, no_displacement, retract_each
from .._mass.base import AbstractMass
from .._runtime.array_types import Array
from .._scene.dof import AbstractDof
from .._scene.nodal_sums import sums_at_nodes, with_sums
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes
from . import mapped_node
from .dynamics import Fields, zero_forces
from .mapped_node import Some, at_some_nodes, faster, moved, of_mapping, with_rate
from .system import System


class Motion(NamedTuple):
    """Positions, velocities `J v` and accelerations `J a + dJ/dt v` of every state; what has no acceleration keeps its
    velocity."""

    x: Fields
    v: Fields
    a: Fields


def motion_of_each(
    system: System,
    position: Mapping[str, Array],
    velocity: Mapping[str, Array],
    acceleration: Mapping[str, Array] | None = None,
) -> Motion:
    """That of every state, from that of the main states."""
    x, v, a = dict(position), dict(velocity), dict(acceleration or {})
    for name in system.mapping_order:
        mapping = system.mappings[name]
        of_node, on = of_mapping(mapped_node.motion, mapping, system.dofs), mapping.parents
        found = over_elements(mapping, on, of_node, at_nodes(on, x), at_nodes(on, v), at_some_nodes(on, a))
        x[mapping.child], v[mapping.child], a[mapping.child] = found
    return Motion(x, v, a)


def inertial_forces(system: System, motion: Motion) -> Fields:
    """`dT/dx + coadjoint(v, p) - dp/dt` of every state's own masses, `p = dT/dv`: what inertia adds to the forces there."""
    total = zero_forces(system, motion.x)
    for mass in system.masses.values():
        on, of_element = mass.on, partial(_inertia_of_element, tuple(system.dofs[s.state] for s in mass.on))
        moving = at_nodes(on, motion.x), at_nodes(on, motion.v), at_some_nodes(on, motion.a)
        total = with_sums(total, on, over_elements(mass, on, of_element, *moving, sums=sums_at_nodes(on, total)))
    return total


def _inertia_of_element(dofs: Sequence[AbstractDof], mass: AbstractMass, x: Arrays, v: Arrays, a: Some) -> Arrays:
    def momentum(t: Array) -> Arrays:
        there = moved(dofs, x, v, t)
        return jax.grad(lambda u: mass.element_kinetic_energy(there, u))(faster(v, a, t))

    p, rate = with_rate(momentum, x)
    slope = jax.grad(lambda d: mass.element_kinetic_energy(retract_each(dofs, x, d), v))(no_displacement(dofs, x))

    def each(dof: AbstractDof, v: Array, p: Array, slope: Array, rate: Array) -> Array:
        turned = dof.coadjoint(v, p) if v.ndim == 1 else jax.vmap(dof.coadjoint)(v, p)
        return slope + turned - rate

    return tuple(map(each, dofs, v, p, slope, rate))
