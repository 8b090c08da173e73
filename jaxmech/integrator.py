"""Time integrators: what one is, what it is made of, and what steps return."""

from ._assembly.public_functions import project as project
from ._assembly.public_functions import retract as retract
from ._integrator.base import AbstractIntegrator as AbstractIntegrator
from ._integrator.generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from ._integrator.hht import HHT as HHT
from ._integrator.midpoint import Midpoint as Midpoint
from ._integrator.newmark import Newmark as Newmark
from ._integrator.simulate import Trajectory as Trajectory
from ._integrator.trapezoid import Trapezoid as Trapezoid
from ._solve.equilibrium import StepInfo as StepInfo
