"""Constraints: what is prescribed of the motion of nodes, and equations that multipliers hold."""

from ._constraint.attachment import Attachment as Attachment
from ._constraint.base import AbstractProjectiveConstraint as AbstractProjectiveConstraint
from ._constraint.distance import Distance as Distance
from ._constraint.fixed import Fixed as Fixed
from ._constraint.fixed_components import FixedComponents as FixedComponents
from ._constraint.fixed_line import FixedLine as FixedLine
from ._constraint.fixed_plane import FixedPlane as FixedPlane
from ._constraint.integrated_motion import PrescribedAcceleration as PrescribedAcceleration
from ._constraint.integrated_motion import PrescribedVelocity as PrescribedVelocity
from ._constraint.linear_relation import LinearRelation as LinearRelation
from ._constraint.multiplier import AbstractMultiplierConstraint as AbstractMultiplierConstraint
from ._constraint.prescribed_motion import PrescribedMotion as PrescribedMotion
