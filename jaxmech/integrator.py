"""Time integrators: what one is, what it is made of, and what steps return."""

from ._assembly.public_functions import accepted as accepted
from ._assembly.public_functions import in_step as in_step
from ._assembly.public_functions import project as project
from ._assembly.public_functions import retract as retract
from ._integrator.adaptive import AdaptiveInfo as AdaptiveInfo
from ._integrator.adaptive import AdaptiveTrajectory as AdaptiveTrajectory
from ._integrator.base import AbstractIntegrator as AbstractIntegrator
from ._integrator.checkpoint import Checkpoint as Checkpoint
from ._integrator.event import Event as Event
from ._integrator.pid_controller import PIDController as PIDController
from ._integrator.simulate import Trajectory as Trajectory
from ._integrator.table import Table as Table
from ._solve.equilibrium import StepInfo as StepInfo
