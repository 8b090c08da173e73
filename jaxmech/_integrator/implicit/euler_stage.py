"""What a step of implicit Euler is iterated on: the balance of momentum at its end, damped as at its start."""

from typing import Any

import equinox as eqx
import lineax as lx

from ..._model.dynamics import Fields
from ..._model.subsystem import has_fixed_axes
from ..._model.system import State
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._sparse.indefinite import kept_tags
from ..._sparse.preconditioned import PreconditionedOperator
from ..displaced import combined, displaced
from .momentum_stage import AbstractWholeStage, Moments
from .stage import Setting


class EulerStage(AbstractWholeStage):
    """`R(v1) = p(x0, v0) - p(x1, v1) + h (f(x1, v1) - C v1 + supply)`; the unknowns are velocities."""

    setting: Setting
    damping: Any  # the operator C at the start, or None
    predicted: Fields

    forces_at_end = True

    @property
    def rates(self) -> tuple[Any, Any, Array]:
        return 1.0, 1.0, self.setting.h

    @property
    def factors(self) -> Factors:
        return Factors(mass=1.0, damping=self.setting.h, stiffness=self.setting.h**2, rayleigh=0.0)

    @property
    def before(self) -> Moments:
        return ((1.0, self.setting.start.position, self.setting.start.velocity),)

    def state(self, u: Fields) -> State:
        h = self.setting.h
        return displaced(self.system, self.setting.start, combined((h, u)), u, h)

    def end(self, u: Fields) -> State:
        return self.state(u)

    def drag(self, at: State) -> Fields:
        return self.damping.mv(at.velocity)

    def operator(self, u: Fields) -> Any:
        A = super().operator(u)
        return A if self.damping is None else _plus(A, self.setting.h, self.damping)

    def is_exact(self) -> bool:
        return has_fixed_axes(self.system) and not self.setting.varying and self.linear_system.is_exact(self.system)


def _plus(A: Any, factor: Array, C: Any) -> Any:
    if isinstance(A, PreconditionedOperator):
        return eqx.tree_at(lambda a: a.operator, A, _plus(A.operator, factor, C.operator))
    if isinstance(A, lx.FunctionLinearOperator):

        def product(u: Fields) -> Fields:
            a, c = A.mv(u), C.mv(u)
            return {s: a[s] + factor * c[s] for s in u}

        return lx.FunctionLinearOperator(product, A.in_structure(), kept_tags(A, C))
    return A.plus(C.scaled(factor))
