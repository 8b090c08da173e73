"""The acceptance of a step: the one place where internal variables change."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._scene.internal import remembers
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes
from .dynamics import kinematics, velocities
from .internal import checked_update, has_memory, told_time_step, with_internal
from .system import State, System


def in_step(system: System, state: State, dt: Any) -> System:
    """The scene as it is within a step of `dt` [s] from `state`: its laws know what is remembered there, and the time step.

    What a scheme evaluates within the step (`total_force`, the matrices of a linear system) it asks of this scene; `accepted`
    ends the step. The scene itself where no law has a memory or a rate. `dt` None: no time passes. Raises `ValueError` or
    `TypeError` for what is not a state of this system.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, chapter 1.

    Example:

        law = jm.material.Viscoelastic(jm.material.NeoHookean(1e6, 0.3), [5e5], [0.1])  # a branch of 0.5 MPa and 0.1 s
        cube = jm.System({"cube": jm.Vec3()}, forces={"solid": jm.force.TetrahedronFEM.from_mesh("cube", mesh, law)})
        start = cube.at_rest({"cube": mesh.points})
        longer = dataclasses.replace(start, position={"cube": mesh.points * jnp.array([1.1, 1.0, 1.0])})
        at_once, later = (jm.integrator.in_step(cube, start, dt) for dt in (0.0, 1.0))
        assert jm.energy(at_once, longer) > jm.energy(later, longer)  # the branch has flowed meanwhile [J]
    """
    return told_time_step(with_internal(system, state), dt)


def accepted(system: System, start: State, end: State, dt: Any = None) -> State:
    """`end`, with the internal variables that a step of `dt` [s] from `start` to there makes of those of `start`.

    Every scheme calls it once at the end of a step, and no function that iterates does: within a step they stay what they
    were. Differentiable by all arguments. `dt` None: no time passes. Raises `ValueError` or `TypeError` for what is not a
    state of this system, and for an `element_update` or `point_update` that returns other names or shapes.
    Source: J. C. Simo and T. J. R. Hughes, *Computational Inelasticity*, 1998, doi:10.1007/b98904, chapter 1.

    Example:

        law = jm.material.J2Plasticity(1e6, 0.3, yield_stress=1e3, hardening=1e4)  # [Pa]
        cube = jm.System({"cube": jm.Vec3()}, forces={"solid": jm.force.TetrahedronFEM.from_mesh("cube", mesh, law)})
        start = cube.at_rest({"cube": mesh.points})
        pulled = dataclasses.replace(start, position={"cube": mesh.points * jnp.array([1.01, 1.0, 1.0])})
        end = jm.integrator.accepted(cube, start, pulled)
        assert end.internal["solid"]["material.accumulated"].shape == (6, 1)  # of every tetrahedron and Gauss point
        assert jnp.all(end.internal["solid"]["material.accumulated"] > 0.0)
    """
    if not has_memory(system):
        return end
    system = in_step(system, start, dt)
    x = kinematics(system, end.position)
    v = velocities(system, x, end.velocity)
    internal = {}
    for name, field in system.forces.items():
        if remembers(field):
            rows = at_nodes(field.on, x), at_nodes(field.on, v)
            new = over_elements(field, field.on, lambda c, x, v: c.element_update(x, v), *rows)
            internal[name] = checked_update(name, field, new, start.internal[name], 1)
    return dataclasses.replace(end, internal=internal)


def unless_failed(failed: Array, start: State, end: State) -> State:
    """`end`; where the step failed, with the internal variables of its start."""
    kept = jax.tree.map(lambda old, new: jnp.where(failed, old, new), start.internal, end.internal)
    return dataclasses.replace(end, internal=kept) if kept else end
