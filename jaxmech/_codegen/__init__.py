"""The element compiler, through its one door: what the other folders use of it is here."""

from .dispatch import are_few as are_few
from .element_forms import ElementForms as ElementForms
from .element_forms import element_forms as element_forms
from .map_elements import is_compiled as is_compiled
from .map_elements import map_elements as map_elements
from .map_elements import trace_and_map as trace_and_map
from .map_elements import vmap_elements as vmap_elements
from .map_jacobian import map_jacobian as map_jacobian
from .map_points import map_points as map_points
from .one_kernel import in_one_kernel as in_one_kernel
from .one_kernel import is_worth_a_kernel as is_worth_a_kernel
from .operation_count import operation_count as operation_count
from .program.nodal_gather import NodeRows as NodeRows
from .program.nodal_scatter import NodeSums as NodeSums
from .program.scatter_plan import AbstractElementSums as AbstractElementSums
from .program.scatter_plan import JoinedSums as JoinedSums
from .program.scatter_plan import Places as Places
from .program.shared_part import reached as reached
from .program.total_sums import TotalSums as TotalSums
from .scalarize.expansion import expand as expand
from .scalarize.interpreter import is_pointwise as is_pointwise
from .scalarize.symmetric import declared_symmetric as declared_symmetric
