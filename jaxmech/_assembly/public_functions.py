"""The functions of a scene as users call them, their arguments checked; jaxmech itself calls the ones within."""

from .._model import dynamics as _dynamics
from .._model import mapping_operators as _mapping_operations
from .._model.arguments import checked
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
