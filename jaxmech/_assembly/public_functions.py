"""The functions of a scene as users call them, their arguments checked; jaxmech itself calls the ones within."""

from .._model import dynamics as _dynamics
from .._model import mapping_operators as _mapping_operations
from .._model.arguments import checked
from .._model.constraint_projection import project as _project
from .._model.system import System
from .._runtime.precision import full_precision
from . import component_matrix as _component_matrices

energy = checked(_dynamics.energy)
inertial_force = checked(_dynamics.inertial_force)
kinematics = checked(_dynamics.kinematics)
kinetic_energy = checked(_dynamics.kinetic_energy)
momentum = checked(_dynamics.momentum)
total_force = checked(_dynamics.total_force)
velocities = checked(_dynamics.velocities)

accelerations = checked(_mapping_operations.accelerations)
geometric_product = checked(_mapping_operations.geometric_product)
jacobian = checked(_mapping_operations.jacobian)
pull_back = checked(_mapping_operations.pull_back)
pull_back_rows = checked(_mapping_operations.pull_back_rows)

component_matrix = checked(_component_matrices.component_matrix)


@checked
@full_precision
def retract(system: System, position: _dynamics.Fields, u: _dynamics.Fields) -> _dynamics.Fields:
    """The positions of the main states moved by `u` [m, rad] in their charts: `x + u`; `(c + u, exp(w) q)` of frames.

    `position`: `{state: (nodes, coord_size)}`; `u`: `{state: (nodes, deriv_size)}`, `h v` of a step, say. Differentiable.
    """
    return _dynamics.retract(system.dofs, position, u)


@checked
@full_precision
def project(system: System, u: _dynamics.Fields) -> _dynamics.Fields:
    """`P u`: what projective constraints leave of velocities, displacements or forces of the main states."""
    return _project(system, u)
