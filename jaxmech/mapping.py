"""Mappings from states to states, and what they do to forces, rows and displacements."""

from ._assembly.public_functions import geometric_product as geometric_product
from ._assembly.public_functions import jacobian as jacobian
from ._assembly.public_functions import pull_back as pull_back
from ._assembly.public_functions import pull_back_rows as pull_back_rows
from ._mapping.area import AreaMapping as AreaMapping
from ._mapping.articulated import ArticulatedMapping as ArticulatedMapping
from ._mapping.barycentric import BarycentricMapping as BarycentricMapping
from ._mapping.base import AbstractMapping as AbstractMapping
from ._mapping.beam import BeamMapping as BeamMapping
from ._mapping.center_of_mass import CenterOfMassMapping as CenterOfMassMapping
from ._mapping.deformable_on_rigid import DeformableOnRigidFrameMapping as DeformableOnRigidFrameMapping
from ._mapping.distance import DistanceMapping as DistanceMapping
from ._mapping.distance_from_target import DistanceFromTargetMapping as DistanceFromTargetMapping
from ._mapping.distance_to_plane import DistanceToPlaneMapping as DistanceToPlaneMapping
from ._mapping.function import FunctionMapping as FunctionMapping
from ._mapping.identity import IdentityMapping as IdentityMapping
from ._mapping.line_set_skinning import LineSetSkinningMapping as LineSetSkinningMapping
from ._mapping.rigid import RigidMapping as RigidMapping
from ._mapping.skinning import SkinningMapping as SkinningMapping
from ._mapping.square import SquareMapping as SquareMapping
from ._mapping.squared_distance import SquaredDistanceMapping as SquaredDistanceMapping
from ._mapping.subset import SubsetMapping as SubsetMapping
from ._mapping.sum import SumMapping as SumMapping
from ._mapping.tubular import TubularMapping as TubularMapping
from ._mapping.volume import VolumeMapping as VolumeMapping
