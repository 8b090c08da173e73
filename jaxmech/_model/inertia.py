"""What inertia itself adds to the forces of a motion, where masses vary with positions."""

from collections.abc import Mapping

import jax

from .._forcefield.chart import varies_with
from .._runtime.array_types import Array
from .._runtime.precision import full_precision, in_one_program
from .dynamics import (
    Fields,
    applied_forces,
    energy_of_motion,
    force_at,
    kinematics,
    kinetic_energy,
    momentum,
    own_momenta,
    pull_back,
    retract_near,
    velocities,
    zero_forces,
)
from .internal import with_internal
from .subsystem import with_only, without_unloaded
from .system import State, System


def momentum_supply(system: System, position: Mapping[str, Array], velocity: Mapping[str, Array]) -> Fields:
    """`dT/dx + coadjoint(v, dT/dv)`: what inertia itself adds to the rate of the momentum (Euler-Poincare)."""
    zero = zero_forces(system, position)
    supply = jax.grad(lambda d: kinetic_energy(system, retract_near(system.dofs, position, d), velocity))(zero)
    p = momentum(system, position, velocity)
    return {s: supply[s] + jax.vmap(system.dofs[s].coadjoint)(velocity[s], p[s]) for s in supply}


@in_one_program
def inertial_force(system: System, state: State) -> Fields:
    """`-(dM/dt) v + dT/dx + coadjoint`: gyroscopic and centrifugal forces, and `-J^T M dJ/dt v` of mapped masses.

    Computed of every state at its own velocities, `J v` of mapped ones, and pulled back: that of a mapped mass by `J^T`.

    `{state: (nodes, deriv_size)}` [N, N m], at the velocities of `state`. Raises `ValueError` or `TypeError` that names the
    state, for one that is missing or unknown and for other shapes.
    Source: J. E. Marsden and T. S. Ratiu, *Introduction to Mechanics and Symmetry*, 2nd ed., 1999,
    doi:10.1007/978-0-387-21792-5, chapter 13 (Euler-Poincare equations).

    Example:

        body = jm.mass.RigidMass(("frame", [0]), 1.0, np.diag([1.0, 2.0, 3.0]))
        disc = jm.System({"frame": jm.Rigid3()}, masses={"body": body})
        spin = jnp.array([[0.0, 0.0, 0.0, 1.0, 1.0, 0.0]])  # [rad/s]
        f = jm.mass.inertial_force(disc, jm.State(arm_state.position, {"frame": spin}, jnp.zeros(())))
        assert jnp.allclose(f["frame"][0, 3:], jnp.array([0.0, 0.0, -1.0]))  # -w x I w [N m]
    """
    varying = varying_masses(system, state)
    if not varying:
        return zero_forces(system, state.position)
    part = without_unloaded(with_only(system, masses=varying))
    x, _, own = _inertia_of_each(part, state)
    return pull_back(part, x, zero_forces(part, state.position), lambda _: own) if part.mappings else own


@full_precision
@in_one_program
def force_in_motion(system: System, state: State, acceleration: Fields | None = None) -> Fields:
    """`total_force + inertial_force`, less `M a` of an acceleration: the motion goes through the mappings once, and all
    forces back together."""
    varying = varying_masses(system, state)
    if not (varying and system.mappings):
        f, inertial = force_at(system, state, None, state.velocity), inertial_force(system, state)
        total = {s: f[s] + inertial[s] for s in f}
        if acceleration is None:
            return total
        p = momentum(system, state.position, acceleration)
        return {s: total[s] - p[s] for s in total}
    loaded = without_unloaded(with_internal(system, state))
    masses = varying if acceleration is None else loaded.masses
    x, v, own = _inertia_of_each(with_only(loaded, masses=masses), state, acceleration)
    acting = applied_forces(loaded, x, None, v)
    return pull_back(loaded, x, zero_forces(loaded, state.position), lambda _: {s: own[s] + acting[s] for s in x})


def _inertia_of_each(system: System, state: State, acceleration: Fields | None = None) -> tuple[Fields, Fields, Fields]:
    """The positions and velocities of every state, and what inertia adds to the forces on each, those on main states kept at
    their velocities or at an acceleration."""
    main, still = dict(state.position), zero_forces(system, state.position)

    def at(d: Fields, faster: Fields) -> tuple[Fields, tuple[Fields, Fields]]:
        x = kinematics(system, retract_near(system.dofs, main, d))
        v = velocities(system, x, {s: u + faster[s] for s, u in state.velocity.items()})
        return own_momenta(system, x, v), (x, v)

    if acceleration is None:
        p, rate, (x, v) = jax.jvp(lambda d: at(d, still), (still,), (dict(state.velocity),), has_aux=True)
    else:
        p, rate, (x, v) = jax.jvp(at, (still, still), (dict(state.velocity), acceleration), has_aux=True)
    supply = jax.grad(lambda d: energy_of_motion(system, retract_near(system.dofs, x, d), v))(zero_forces(system, x))
    return x, v, {s: supply[s] + jax.vmap(system.dofs[s].coadjoint)(v[s], p[s]) - rate[s] for s in x}


def varying_masses(system: System, state: State) -> tuple[str, ...]:
    """The masses whose matrix, seen from the main states, depends on positions; read from the trace of the momentum."""

    def varies(name: str) -> bool:
        part = with_only(system, masses=(name,))
        return varies_with(lambda x, v: momentum(part, x, v), state.position, state.velocity)[0]

    return tuple(name for name in system.masses if varies(name))
