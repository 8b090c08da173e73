"""The Rayleigh damping of an integrator."""

from typing import Any

import equinox as eqx

from ..._model.system import System
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._scene.parameter import is_concrete


class Rayleigh(eqx.Module):
    """The damping `C = rM M + rK (K + G)` of an integrator [1/s, s], beside that of components."""

    mass: Array | float
    stiffness: Array | float

    def factors(self) -> Factors:
        """Those of `C`, the Rayleigh damping of components included."""
        return Factors(
            mass=_known_zero(self.mass), damping=0.0, stiffness=_known_zero(self.stiffness), rayleigh=1.0, multipliers=0.0
        )

    def acts_on(self, system: System) -> bool:
        """Whether there is any damping of this kind. Static."""
        given = (self.mass, self.stiffness)
        return bool(system.rayleigh) or not all(is_concrete(c) and float(c) == 0 for c in given)


def _known_zero(coefficient: Array | float) -> Any:
    return 0.0 if is_concrete(coefficient) and float(coefficient) == 0 else coefficient
