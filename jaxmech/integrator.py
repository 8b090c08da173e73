"""Time integrators: what one is, what it is made of, and what steps return."""

from ._assembly.public_functions import project as project
from ._assembly.public_functions import retract as retract
from ._integrator.base import AbstractIntegrator as AbstractIntegrator
from ._integrator.bdf import BDF as BDF
from ._integrator.central_difference import CentralDifference as CentralDifference
from ._integrator.critical_time_step import critical_time_step as critical_time_step
from ._integrator.energy_balance import Energies as Energies
from ._integrator.energy_balance import EnergyBalance as EnergyBalance
from ._integrator.energy_balance import energies as energies
from ._integrator.energy_balance import step_with_balance as step_with_balance
from ._integrator.energy_momentum import EnergyMomentum as EnergyMomentum
from ._integrator.generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from ._integrator.hht import HHT as HHT
from ._integrator.midpoint import Midpoint as Midpoint
from ._integrator.newmark import Newmark as Newmark
from ._integrator.ode_term import ode_term as ode_term
from ._integrator.rk4 import RK4 as RK4
from ._integrator.simulate import Trajectory as Trajectory
from ._integrator.symplectic_euler import SymplecticEuler as SymplecticEuler
from ._integrator.tr_bdf2 import TRBDF2 as TRBDF2
from ._integrator.trapezoid import Trapezoid as Trapezoid
from ._integrator.velocity_verlet import VelocityVerlet as VelocityVerlet
from ._solve.equilibrium import StepInfo as StepInfo
