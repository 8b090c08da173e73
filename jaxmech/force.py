"""Force fields: springs, loads, damping, solids, fields."""

from ._forcefield.absorbing_boundary import AbsorbingBoundary as AbsorbingBoundary
from ._forcefield.anchored_frames import AnchoredFrames as AnchoredFrames
from ._forcefield.anchored_springs import AnchoredSprings as AnchoredSprings
from ._forcefield.base import AbstractEnergyForceField as AbstractEnergyForceField
from ._forcefield.base import AbstractForceField as AbstractForceField
from ._forcefield.beam import Beam as Beam
from ._forcefield.capacity import Capacity as Capacity
from ._forcefield.constant_force import ConstantForce as ConstantForce
from ._forcefield.constant_torque import ConstantTorque as ConstantTorque
from ._forcefield.continuum import SolidFEM as SolidFEM
from ._forcefield.convection import Convection as Convection
from ._forcefield.field_energy import FieldEnergy as FieldEnergy
from ._forcefield.flux import Flux as Flux
from ._forcefield.hexahedron import HexahedronFEM as HexahedronFEM
from ._forcefield.penalty_plane import PenaltyPlane as PenaltyPlane
from ._forcefield.pressure import Pressure as Pressure
from ._forcefield.quad import QuadFEM as QuadFEM
from ._forcefield.section import Section as Section
from ._forcefield.springs import Springs as Springs
from ._forcefield.tetrahedron import TetrahedronFEM as TetrahedronFEM
from ._forcefield.traction import Traction as Traction
from ._forcefield.triangle import TriangleFEM as TriangleFEM
from ._forcefield.velocity_damping import VelocityDamping as VelocityDamping
from ._forcefield.weak_form import WeakForm as WeakForm
