"""The functions of a scene as users call them, all of a system and a state; jaxmech itself calls the ones within."""

from .._model import dynamics as _dynamics
from .._model import mapping_operators as _mapping_operations
from .._model.arguments import checked
from .._model.constraint_projection import project as _project
from .._model.former_signatures import formerly_of
from .._model.system import State, System
from .._runtime.array_types import Array, Scalar
from .._runtime.precision import full_precision
from . import component_matrix as _component_matrices

energy = checked(_dynamics.energy)
inertial_force = checked(_dynamics.inertial_force)
total_force = checked(_dynamics.total_force)

accelerations = formerly_of("x", "velocity")(checked(_mapping_operations.accelerations))
geometric_product = checked(_mapping_operations.geometric_product)
jacobian = formerly_of("position")(checked(_mapping_operations.jacobian))
pull_back = formerly_of("position")(checked(_mapping_operations.pull_back))
pull_back_rows = formerly_of("position")(checked(_mapping_operations.pull_back_rows))

component_matrix = checked(_component_matrices.component_matrix)


@checked
@full_precision
def retract(system: System, position: _dynamics.Fields, u: _dynamics.Fields) -> _dynamics.Fields:
    """The positions of the main states moved by `u` [m, rad] in their charts: `x + u`; `(c + u, exp(w) q)` of frames.

    `position`: `{state: (nodes, coord_size)}`; `u`: `{state: (nodes, deriv_size)}`, `h v` of a step, say. Differentiable.
    Raises `ValueError` or `TypeError` for what does not fit the system.
    Source: P.-A. Absil, R. Mahony, R. Sepulchre, *Optimization Algorithms on Matrix Manifolds*, 2008, section 4.1.

    Example:

        lifted = jm.integrator.retract(system, state.position, {"cube": jnp.tile(jnp.array([0.0, 0.0, 2.0]), (8, 1))})
        assert jnp.allclose(lifted["cube"] - state.position["cube"], jnp.array([0.0, 0.0, 2.0]))  # [m]
    """
    return _dynamics.retract(system.dofs, position, u)


@checked
@full_precision
def project(system: System, u: _dynamics.Fields) -> _dynamics.Fields:
    """`P u`: what projective constraints leave of velocities, displacements or forces of the main states [m/s, m, N].

    `u`: `{state: (nodes, deriv_size)}`. Raises `ValueError` or `TypeError` for what does not fit the system.
    Source: D. Baraff and A. Witkin, "Large steps in cloth simulation", SIGGRAPH 1998, doi:10.1145/280814.280821.

    Example:

        free = jm.integrator.project(system, {"cube": jnp.ones((8, 3))})["cube"]
        assert jnp.allclose(jm.integrator.project(system, {"cube": free})["cube"], free)
    """
    return _project(system, u)


@formerly_of("position")
@checked
def kinematics(system: System, state: State) -> dict[str, Array]:
    """The positions `{state: (nodes, coord_size)}` of every state, mapped ones included [m; unit quaternions].

    Mappings are applied from parents to children: `p = p(q)`. Differentiable by `system` and `state`. Raises `ValueError` or
    `TypeError` for what is not a state of this system.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 2.

    Example:

        x = jm.kinematics(arm, arm_state)
        assert jnp.allclose(x["tip"], jnp.array([[1.0, 0.0, 0.0]]))
    """
    return _dynamics.kinematics(system, state.position)


@formerly_of("x", "velocity")
@checked
def velocities(system: System, state: State) -> dict[str, Array]:
    """The velocities `{state: (nodes, deriv_size)}` of every state: `J v` for mapped ones [m/s, rad/s].

    Raises `ValueError` or `TypeError` for what is not a state of this system.
    Source: R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008, doi:10.1007/978-1-4899-7560-7, chapter 2.

    Example:

        spin = {"frame": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])}  # 2 rad/s about z
        turning = jm.State(arm_state.position, spin, arm_state.time)
        assert jnp.allclose(jm.velocities(arm, turning)["tip"], jnp.array([[0.0, 2.0, 0.0]]))  # w x r
    """
    x = _dynamics.kinematics(system, state.position)
    return _dynamics.velocities(system, x, state.velocity)


@formerly_of("position", "velocity")
@checked
def kinetic_energy(system: System, state: State) -> Scalar:
    """The kinetic energy `T = 1/2 v . M v` [J], that of masses on mapped states included.

    Differentiable by `system` and `state`. Raises `ValueError` or `TypeError` for what is not a state of this system.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 1.

    Example:

        moving = jm.State(arm_state.position, {"frame": jnp.array([[3.0, 0.0, 0.0, 0.0, 0.0, 2.0]])}, arm_state.time)
        assert jnp.allclose(jm.kinetic_energy(arm, moving), 11.0)  # 2 kg at 3 m/s, 1 kg m^2 at 2 rad/s [J]
    """
    return _dynamics.kinetic_energy(system, state.position, state.velocity)


@formerly_of("position", "velocity")
@checked
def momentum(system: System, state: State) -> dict[str, Array]:
    """The momentum `M v = dT/dv` [kg m/s, kg m^2/s], `{state: (nodes, deriv_size)}` of the main states.

    That of masses on mapped states is pulled back: `J^T M J v`. Raises `ValueError` or `TypeError` for what is not a state
    of this system.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 1.

    Example:

        moving = jm.State(state.position, {"cube": jnp.tile(jnp.array([2.0, 0.0, 0.0]), (8, 1))}, state.time)
        p = jm.momentum(system, moving)["cube"]
        assert jnp.allclose(p.sum(0), jnp.array([2000.0, 0.0, 0.0]))  # a tonne at 2 m/s [kg m/s]
    """
    return _dynamics.momentum(system, state.position, state.velocity)
