"""Moved nodes as SOFA has them: left alone by the solve, put where they belong when the step is over."""

import equinox as eqx

from ..._integrator.displaced import with_prescribed_rates
from ..._model.constraint_projection import has_prescribed_motion, prescribed
from ..._model.dynamics import retract
from ..._model.system import State, System


def placed(system: System, end: State) -> State:
    """`end`, whose moved nodes are where they shall be at its time, with the rates of their motion."""
    if not has_prescribed_motion(system):
        return end
    position = retract(system.dofs, end.position, prescribed(system, end.position, end.time))
    return with_prescribed_rates(system, eqx.tree_at(lambda s: s.position, end, position))
