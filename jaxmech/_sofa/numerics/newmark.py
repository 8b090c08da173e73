"""SOFA's NewmarkImplicitSolver: one linearised step."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from ..._integrator.displaced import combined, displaced
from ..._linear_solver.default import default_solver
from ..._linear_system.base import AbstractLinearSystem
from ..._model.accept import accepted
from ..._model.constraint_projection import project
from ..._model.dynamics import total_force
from ..._model.internal import in_step
from ..._model.system import State, System
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._scene.parameter import as_array
from .linearised_scheme import AbstractLinearisedScheme, Advance, SchemeCarry
from .unconverged_solvers import AbstractStepSolver


class SofaNewmark(AbstractLinearisedScheme):
    """`[(1 + h g rM) M + h g B + (h^2 b + h g rK) K] a1 = f - [rM M + B] w1 - K w2`, of one linear solve.

    `w1 = v + h (1 - g) a`, `w2 = (rK + h) v + (h (1 - g) rK + h^2 (1 - 2 b) / 2) a`; then `v += h ((1 - g) a + g a1)`,
    `x += h v + h^2 ((1/2 - b) a + b a1)`. `f` holds damping forces already; of `B` is in the matrix what `linear_system`
    takes. The first `a` is `M^-1 f`. `velocity_damping` `d` [1/s]: `v *= exp(-h d)`.
    Source: N. M. Newmark, J. Eng. Mech. Div. 85 (1959) 67, doi:10.1061/JMCEA3.0000098; the terms are SOFA's.
    """

    linear_system: AbstractLinearSystem
    solver: AbstractStepSolver
    beta: Array = eqx.field(converter=as_array, default=0.25, kw_only=True)
    gamma: Array = eqx.field(converter=as_array, default=0.5, kw_only=True)
    rayleigh_stiffness: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    rayleigh_mass: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    velocity_damping: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)

    def memory(self, system: System, state: State) -> Any:
        M = self.linear_system.assemble(system, state, Factors.only("mass"))
        return lx.linear_solve(M, project(system, total_force(system, state)), default_solver(M)).value

    def advance(self, system: System, state: State, carry: SchemeCarry, h: Array) -> Advance:
        beta, gamma, rM, rK = self.beta, self.gamma, self.rayleigh_mass, self.rayleigh_stiffness
        scene, a, v = in_step(system, h), carry.memory, state.velocity
        w1 = combined((1.0, v), (h * (1 - gamma), a))
        w2 = combined((rK + h, v), (h * (1 - gamma) * rK + h**2 * (1 - 2 * beta) / 2, a))
        resisting = self.matrix(scene, state, carry.kept, Factors(mass=0.0, damping=0.0, stiffness=1.0, rayleigh=0.0)).mv(w2)
        damped = Factors(mass=rM, damping=1.0, stiffness=0.0, geometric=0.0, rayleigh=1.0)
        dragging = self.matrix(scene, state, carry.kept, damped).mv(w1)
        b = combined((1.0, total_force(scene, state)), (-1.0, dragging), (-1.0, resisting))
        factors = Factors(
            mass=1 + h * gamma * rM, damping=h * gamma, stiffness=h**2 * beta + h * gamma * rK, rayleigh=h * gamma
        )
        found, b = self.solved(scene, self.matrix(scene, state, carry.kept, factors), b, carry.past)
        d = combined((h, v), (h**2 * (0.5 - beta), a), (h**2 * beta, found.x))
        ahead = combined((1.0, v), (h * (1 - gamma), a), (h * gamma, found.x))
        ahead = {s: u * jnp.exp(-h * self.velocity_damping) for s, u in ahead.items()}
        end = accepted(system, state, displaced(system, state, d, ahead, h), h)
        return Advance(end, found, found.x, b)
