"""jaxmech: write the energy of one element; forces, stiffness, assembly and gradients are derived."""

import typing as _typing

from ._runtime.collector import collector_at_rest as _collector_at_rest

with _collector_at_rest():
    from . import component as component
    from . import constraint as constraint
    from . import force as force
    from . import mapping as mapping
    from . import mass as mass
    from . import material as material
    from . import matrix as matrix
    from . import mesh as mesh
    from . import runtime as runtime
    from . import solver as solver
    from ._assembly.public_functions import energy as energy
    from ._assembly.public_functions import kinematics as kinematics
    from ._assembly.public_functions import total_force as total_force
    from ._integrator.implicit.implicit_euler import ImplicitEuler as ImplicitEuler
    from ._integrator.trajectory.adaptive import simulate_adaptive as simulate_adaptive
    from ._integrator.trajectory.simulate import simulate as simulate
    from ._linear_system.matrix import MatrixLinearSystem as MatrixLinearSystem
    from ._model.system import State as State
    from ._model.system import System as System
    from ._model.terms import Factors as Factors
    from ._model.terms import Terms as Terms
    from ._runtime.field_types import Parameter as Parameter
    from ._runtime.results import RESULTS as RESULTS
    from ._runtime.results import FailedComputation as FailedComputation
    from ._scene.dof import Rigid2 as Rigid2
    from ._scene.dof import Rigid3 as Rigid3
    from ._scene.dof import Vec1 as Vec1
    from ._scene.dof import Vec2 as Vec2
    from ._scene.dof import Vec3 as Vec3
    from ._scene.parameter import parameter as parameter
    from ._scene.stencil import Stencil as Stencil
    from ._scene.stencil import Stencils as Stencils
    from ._scene.stencil import stencils as stencils
    from ._solve.buckling import buckling as buckling
    from ._solve.follow_path import follow_path as follow_path
    from ._solve.modes import modes as modes
    from ._solve.static import reactions as reactions
    from ._solve.static import static_solve as static_solve

__version__ = "0.1.0"

if _typing.TYPE_CHECKING:  # a type checker knows no old names, and all modules
    from . import contact as contact
    from . import distributed as distributed
    from . import identify as identify
    from . import integrator as integrator
    from . import output as output
    from . import sofa as sofa
    from . import viz as viz
else:
    from ._runtime.moved_names import __dir__ as __dir__
    from ._runtime.moved_names import __getattr__ as __getattr__
