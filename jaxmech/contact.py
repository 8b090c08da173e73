"""Contact and Coulomb friction: problems and their solvers, shapes, detection."""

from ._contact.problem import ContactErrors as ContactErrors
from ._contact.problem import ContactProblem as ContactProblem
from ._contact.problem import contact_errors as contact_errors
from ._contact.solve import ContactInfo as ContactInfo
from ._contact.solve import ContactSolution as ContactSolution
from ._contact.solve import solve_contacts as solve_contacts
