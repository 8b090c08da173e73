"""What components of one's own declare besides `parameter` and `stencils`: memory, time steps, tables, kinds of states."""

from ._scene.dof import AbstractDof as AbstractDof
from ._scene.internal import internal as internal
from ._scene.internal import time_step as time_step
from ._scene.parameter import each_element as each_element
from ._scene.parameter import nodal_parameter as nodal_parameter
