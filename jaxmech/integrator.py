"""Time integrators: what one is, and what steps return."""

from ._integrator.base import AbstractIntegrator as AbstractIntegrator
from ._integrator.simulate import Trajectory as Trajectory
from ._solve.equilibrium import StepInfo as StepInfo
