"""Parameters from measurements: experiments as values, fits, and what they tell."""

from ._identify.experiment import Experiment as Experiment
from ._identify.experiment import Formula as Formula
from ._identify.fit import Fit as Fit
from ._identify.fit import fit as fit
from ._identify.forces_seen import Reaction as Reaction
from ._identify.forces_seen import SectionForce as SectionForce
from ._identify.free import Free as Free
from ._identify.frequencies_seen import Frequencies as Frequencies
from ._identify.measured import Measured as Measured
from ._identify.penalty import Tikhonov as Tikhonov
from ._identify.penalty import TotalVariation as TotalVariation
from ._identify.points_seen import Displacement as Displacement
from ._identify.points_seen import Distances as Distances
from ._identify.points_seen import Position as Position
from ._identify.problem import Problem as Problem
from ._identify.problem import problem as problem
from ._identify.protocol import AtRest as AtRest
from ._identify.protocol import Motion as Motion
from ._identify.protocol import Static as Static
from ._identify.strains_seen import Strain as Strain
