"""Masses of points, solids and rigid bodies."""

from ._assembly.public_functions import inertial_force as inertial_force
from ._assembly.public_functions import kinetic_energy as kinetic_energy
from ._assembly.public_functions import momentum as momentum
from ._mass.base import AbstractMass as AbstractMass
from ._mass.consistent import ConsistentMass as ConsistentMass
from ._mass.diagonal import DiagonalMass as DiagonalMass
from ._mass.planar_rigid import PlanarRigidMass as PlanarRigidMass
from ._mass.rigid import RigidMass as RigidMass
from ._mass.shell import ShellMass as ShellMass
from ._mass.uniform import UniformMass as UniformMass
