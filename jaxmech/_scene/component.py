"""What is to be a component of a scene, for a type checker; to Python it is a module of Equinox."""

import dataclasses
from typing import TYPE_CHECKING

import equinox as eqx

from .internal import internal, time_step
from .parameter import each_element, named_parameters, nodal_parameter, parameter
from .stencil import optional_stencils, stencils

if TYPE_CHECKING:
    from typing import dataclass_transform

    # Without being told, a checker takes `= parameter()` for a default value.
    @dataclass_transform(
        field_specifiers=(
            dataclasses.field,
            eqx.field,
            each_element,
            internal,
            named_parameters,
            nodal_parameter,
            optional_stencils,
            parameter,
            stencils,
            time_step,
        )
    )
    class _Declared(type(eqx.Module)): ...

    class Component(eqx.Module, metaclass=_Declared): ...

else:
    Component = eqx.Module
