"""The functions of a scene as users call them, all of a system and a state; jaxmech itself calls the ones within."""

from .._model import dynamics as _dynamics
from .._model import mapping_operators as _mapping_operations
from .._model.arguments import checked
from .._model.former_signatures import formerly_of
from .._model.system import State, System
from .._runtime.array_types import Array, Scalar
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


@formerly_of("position")
@checked
def kinematics(system: System, state: State) -> dict[str, Array]:
    """The positions `{state: (nodes, coord_size)}` of every state, mapped ones included [m; unit quaternions].

    Mappings are applied from parents to children: `p = p(q)`. Differentiable by `system` and `state`. Raises `ValueError` or
    `TypeError` for what is not a state of this system.

        >>> jm.kinematics(arm, arm_state)["tip"]
        Array([[1., 0., 0.]], dtype=float64)
    """
    return _dynamics.kinematics(system, state.position)


@formerly_of("x", "velocity")
@checked
def velocities(system: System, state: State) -> dict[str, Array]:
    """The velocities `{state: (nodes, deriv_size)}` of every state: `J v` for mapped ones [m/s, rad/s].

    Of other velocities than the state's own: `dataclasses.replace(state, velocity=...)`. Raises `ValueError` or `TypeError`
    for what is not a state of this system.

        >>> spinning = dataclasses.replace(arm_state, velocity={"frame": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])})
        >>> jm.velocities(arm, spinning)["tip"]
        Array([[0., 2., 0.]], dtype=float64)
    """
    x = _dynamics.kinematics(system, state.position)
    return _dynamics.velocities(system, x, state.velocity)


@formerly_of("position", "velocity")
@checked
def kinetic_energy(system: System, state: State) -> Scalar:
    """The kinetic energy `T = 1/2 v . M v` [J], that of masses on mapped states included.

    Differentiable by `system` and `state`. Raises `ValueError` or `TypeError` for what is not a state of this system.

        >>> spinning = dataclasses.replace(arm_state, velocity={"frame": jnp.array([[0.0, 0.0, 0.0, 0.0, 0.0, 2.0]])})
        >>> jm.kinetic_energy(arm, spinning)  # of an inertia of 1 kg m^2
        Array(2., dtype=float64)
    """
    return _dynamics.kinetic_energy(system, state.position, state.velocity)


@formerly_of("position", "velocity")
@checked
def momentum(system: System, state: State) -> dict[str, Array]:
    """The momentum `M v = dT/dv` [kg m/s, kg m^2/s], `{state: (nodes, deriv_size)}` of the main states.

    That of masses on mapped states is pulled back: `J^T M J v`. Raises `ValueError` or `TypeError` for what is not a state
    of this system.

        >>> moving = dataclasses.replace(arm_state, velocity={"frame": jnp.array([[3.0, 0.0, 0.0, 0.0, 0.0, 0.0]])})
        >>> jm.momentum(arm, moving)["frame"]  # of a mass of 2 kg
        Array([[6., 0., 0., 0., 0., 0.]], dtype=float64)
    """
    return _dynamics.momentum(system, state.position, state.velocity)
