"""Moved nodes as SOFA has them: left alone by the solve, put where they belonged at its beginning when the step is over."""

import equinox as eqx

from ..._integrator.displaced import with_prescribed_rates
from ..._model.constraint_projection import has_prescribed_motion, prescribed
from ..._model.dynamics import retract
from ..._model.system import State, System


def placed(system: System, start: State, end: State) -> State:
    """`end`, whose moved nodes are where they shall be at the time of `start`, with the rates of their motion then.

    SOFA's clock moves on after its constraints have been asked: a moved node is one step late.
    """
    if not has_prescribed_motion(system):
        return end
    position = retract(system.dofs, end.position, prescribed(system, end.position, start.time))
    late = eqx.tree_at(lambda s: (s.position, s.time), end, (position, start.time))
    return eqx.tree_at(lambda s: s.time, with_prescribed_rates(system, late), end.time)
