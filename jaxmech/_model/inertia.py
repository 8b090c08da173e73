"""What inertia itself adds to the forces of a motion, where masses vary with positions."""

from collections.abc import Mapping

import jax

from .._forcefield.chart import no_displacement, retract_each, varies_with
from .._runtime.array_types import Array
from .._runtime.precision import full_precision, in_one_program
from .._scene.nodal_sums import sums_at_nodes, with_sums
from .._scene.parameter import over_elements
from .._scene.stencil import at_nodes
from .dynamics import Fields, applied_forces, force_at, kinematics, momentum, velocities, zero_forces
from .internal import with_internal
from .motion import inertial_forces, motion_of_each
from .on_main_states import momenta_on_main_states, on_main_states
from .subsystem import with_only, without_unloaded
from .system import State, System


def momentum_supply(system: System, position: Mapping[str, Array], velocity: Mapping[str, Array]) -> Fields:
    """`dT/dx + coadjoint(v, dT/dv)`: what inertia itself adds to the rate of the momentum (Euler-Poincare)."""
    part = without_unloaded(with_only(system, masses=system.masses))
    x = kinematics(part, position)
    v = velocities(part, x, velocity)
    p, slope = momenta_on_main_states(part, x, v, *_momenta(part, x, v))
    return {s: slope[s] + jax.vmap(part.dofs[s].coadjoint)(velocity[s], p[s]) for s in slope}


def _momenta(system: System, x: Fields, v: Fields) -> tuple[Fields, Fields]:
    """`dT/dv` and `dT/dx` of every state's own masses."""
    momenta = slopes = zero_forces(system, x)
    for mass in system.masses.values():
        on, dofs = mass.on, tuple(system.dofs[s.state] for s in mass.on)

        def of_element(m, x, v, dofs=dofs):
            def energy(d, u):
                return m.element_kinetic_energy(retract_each(dofs, x, d), u)

            return jax.grad(energy, argnums=(1, 0))(no_displacement(dofs, x), v)

        found = over_elements(mass, on, of_element, at_nodes(on, x), at_nodes(on, v), sums=sums_at_nodes(on, x, times=2))
        momenta, slopes = (with_sums(total, on, part) for total, part in zip((momenta, slopes), found, strict=True))
    return momenta, slopes


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
    motion = motion_of_each(part, state.position, state.velocity)
    return on_main_states(part, motion.x, inertial_forces(part, motion))


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
    motion = motion_of_each(loaded, state.position, state.velocity, acceleration)
    own = inertial_forces(with_only(loaded, masses=masses), motion)
    acting = applied_forces(loaded, motion.x, None, motion.v)
    return on_main_states(loaded, motion.x, {s: own[s] + acting[s] for s in acting})


def varying_masses(system: System, state: State) -> tuple[str, ...]:
    """The masses whose matrix, seen from the main states, depends on positions; read from the trace of the momentum."""

    def varies(name: str) -> bool:
        part = with_only(system, masses=(name,))
        return varies_with(lambda x, v: momentum(part, x, v), state.position, state.velocity)[0]

    return tuple(name for name in system.masses if varies(name))
