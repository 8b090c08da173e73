"""What a step of implicit Euler is iterated on: the balance of momentum at its end."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from .._linear_system.base import AbstractLinearSystem
from .._model.constraint_projection import prescribed, project
from .._model.dynamics import Fields, momentum, momentum_supply, retract, total_force, varying_masses
from .._model.fault import given
from .._model.subsystem import with_only
from .._model.system import State, System
from .._model.terms import Factors
from .._runtime.array_types import Array
from .._solve.equilibrium import AbstractEquilibrium
from .._sparse.indefinite import kept_tags
from .._sparse.preconditioned import PreconditionedOperator


class StepEquilibrium(AbstractEquilibrium):
    """`R(v1) = p(x0, v0) - p(x1, v1) + h (f(x1, v1) - C v1 + supply)`; the unknowns are velocities."""

    system: System
    linear_system: AbstractLinearSystem
    start: State
    h: Array
    rayleigh: Any  # the operator C at the start, or None

    @property
    def factors(self) -> Factors:
        return Factors(mass=1.0, damping=self.h, stiffness=self.h**2, rayleigh=0.0)

    def state(self, u: Fields) -> State:
        d = {s: self.h * u[s] for s in u}
        position = retract(self.system.dofs, self.start.position, d)
        return dataclasses.replace(self.start, position=position, velocity=u, time=self.start.time + self.h)

    def residual(self, u: Fields) -> Fields:
        end = self.state(u)
        before = momentum(self.system, self.start.position, self.start.velocity)
        after = momentum(self.system, end.position, u)
        rate = total_force(self.system, end)
        if varying_masses(self.system, self.start):
            part = with_only(self.system, masses=varying_masses(self.system, self.start))
            supply = momentum_supply(part, end.position, u)
            rate = {s: rate[s] + supply[s] for s in rate}
        if self.rayleigh is not None:
            drag = self.rayleigh.mv(u)
            rate = {s: rate[s] - drag[s] for s in rate}
        return {s: before[s] - after[s] + self.h * rate[s] for s in u}

    def gap(self, u: Fields) -> Fields:
        target, free = prescribed(self.system, self.start.position, self.start.time + self.h), project(self.system, u)
        return {s: target[s] / self.h - (u[s] - free[s]) for s in u}

    def operator(self, u: Fields) -> Any:
        A = super().operator(u)
        return A if self.rayleigh is None else _plus(A, self.h, self.rayleigh)

    def given(self, u: Fields) -> list[tuple[str, Array]]:
        return given(self.system, self.start, self.h)

    def is_exact(self) -> bool:
        charts = all(self.system.dofs[s].is_vector_space for s in self.system.main_states)
        constant = not varying_masses(self.system, self.start)
        return charts and constant and self.linear_system.is_exact(self.system)

    def rounding(self, u: Fields) -> Fields:
        # A velocity is known to the rounding of the positions it is a difference of.
        x = self.start.position
        return {s: jnp.abs(u[s]) + jnp.max(jnp.abs(x[s]), initial=0) / self.h for s in u}


def _plus(A: Any, factor: Array, C: Any) -> Any:
    if isinstance(A, PreconditionedOperator):
        return eqx.tree_at(lambda a: a.operator, A, _plus(A.operator, factor, C.operator))
    if isinstance(A, lx.FunctionLinearOperator):

        def product(u: Fields) -> Fields:
            a, c = A.mv(u), C.mv(u)
            return {s: a[s] + factor * c[s] for s in u}

        return lx.FunctionLinearOperator(product, A.in_structure(), kept_tags(A, C))
    return A.plus(C.scaled(factor))
