"""Time integrators: what one is, what it is made of, and what steps return."""

from ._assembly.public_functions import accepted as accepted
from ._assembly.public_functions import in_step as in_step
from ._assembly.public_functions import project as project
from ._assembly.public_functions import retract as retract
from ._integrator.base import AbstractIntegrator as AbstractIntegrator
from ._integrator.simulate import Trajectory as Trajectory
from ._solve.equilibrium import StepInfo as StepInfo
