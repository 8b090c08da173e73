"""Contact and Coulomb friction: problems and their solvers, shapes, detection."""

from ._contact.base import AbstractContact as AbstractContact
from ._contact.edge_contact import EdgeContact as EdgeContact
from ._contact.edge_contact import sharp_edges as sharp_edges
from ._contact.limit import Limit as Limit
from ._contact.point_contact import PointContact as PointContact
from ._contact.problem import ContactErrors as ContactErrors
from ._contact.problem import ContactProblem as ContactProblem
from ._contact.problem import contact_errors as contact_errors
from ._contact.shape import AbstractShape as AbstractShape
from ._contact.shape import Box as Box
from ._contact.shape import Capsule as Capsule
from ._contact.shape import HeightField as HeightField
from ._contact.shape import Plane as Plane
from ._contact.shape import Sphere as Sphere
from ._contact.solve import ContactInfo as ContactInfo
from ._contact.solve import ContactSolution as ContactSolution
from ._contact.solve import solve_contacts as solve_contacts
from ._contact.surface_contact import SurfaceContact as SurfaceContact
from ._integrator.implicit.contact_equations import StepContacts as StepContacts
from ._integrator.implicit.free_motion import ContactStepInfo as ContactStepInfo
