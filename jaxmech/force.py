"""Force fields: springs, loads, damping, solids."""

from ._forcefield.anchored_frames import AnchoredFrames as AnchoredFrames
from ._forcefield.anchored_springs import AnchoredSprings as AnchoredSprings
from ._forcefield.base import AbstractEnergyForceField as AbstractEnergyForceField
from ._forcefield.base import AbstractForceField as AbstractForceField
from ._forcefield.constant_force import ConstantForce as ConstantForce
from ._forcefield.constant_torque import ConstantTorque as ConstantTorque
from ._forcefield.continuum import SolidFEM as SolidFEM
from ._forcefield.hexahedron import HexahedronFEM as HexahedronFEM
from ._forcefield.penalty_plane import PenaltyPlane as PenaltyPlane
from ._forcefield.pressure import Pressure as Pressure
from ._forcefield.quad import QuadFEM as QuadFEM
from ._forcefield.springs import Springs as Springs
from ._forcefield.tetrahedron import TetrahedronFEM as TetrahedronFEM
from ._forcefield.traction import Traction as Traction
from ._forcefield.triangle import TriangleFEM as TriangleFEM
from ._forcefield.velocity_damping import VelocityDamping as VelocityDamping
