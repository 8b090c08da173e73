"""A constraint as a relaxed time step asks for it: a part of what it was off by at the start may stay."""

from typing import Any

from .._runtime.array_types import Array
from .._runtime.field_types import Parameter
from .._scene.parameter import parameter
from .multiplier import AbstractMultiplierConstraint
from .wrapped import AbstractRestated


class Shifted(AbstractRestated):
    """`g(x) - left = (1 - kept) C lambda`, with `left = kept g(x0)`: `g + tau g' = C lambda` over a step of `h`, `g'` by a
    difference, where `kept = tau / (h + tau)`."""

    constraint: AbstractMultiplierConstraint
    left: Parameter = parameter(ndim=1)  # of each element, (rows,)
    kept: Parameter = parameter(ndim=1)

    def element_compliance(self) -> Any:
        return self.constraint.element_compliance() * (1 - self.kept)

    def element_constraint(self, *x: Array) -> Array:
        return self.constraint.rows(*x) - self.left

    def at_time(self, time: Array) -> "Shifted":
        return Shifted(self.constraint.at_time(time), self.left, self.kept)
