"""The equilibria of a scene under a load factor: one residual more unknown than equations, whose solutions are a path."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.outcome import reason
from .._linear_solver.base.vectors import norm, zeros
from .._linear_solver.default import default_solver
from .._linear_system.base import AbstractLinearSystem
from .._model.constraint_projection import has_prescribed_motion, project
from .._model.dynamics import Fields, kinematics
from .._model.lever import Lever
from .._model.system import System
from .._runtime.array_types import Array
from .newton_iteration import linearised, turned
from .rounding import rounding_floor
from .static import StaticEquilibrium


class Coordinate(eqx.Module):
    """One coordinate of one node, of a main or of a mapped state: what is measured along a path.

    Of a frame of space, a place or a turn about an axis of the world [m, rad]. Turns have no coordinate of their own: they
    are the components of the rotation vectors of steps, added up, so that they go on beyond half a turn.
    """

    state: str = eqx.field(static=True)
    node: Array
    component: Array

    def place(self, system: System, position: Fields) -> Array:
        return kinematics(system, position)[self.state][self.node]

    def first(self, system: System, place: Array) -> Array:
        """What is measured where a path starts."""
        dof = system.dofs[self.state]
        return jnp.where(dof.is_vector_space | (self.component < dof.space_size), place[self.component], 0.0)

    def way(self, system: System, start: Array, end: Array) -> Array:
        """How far it is from one place to another, in the chart of the first."""
        return system.dofs[self.state].local(start, end)[self.component]


class Mark(NamedTuple):
    """A point of a path, and what is measured there."""

    u: Fields
    load: Array
    measured: Array


def displacement(multiplier_states: tuple[str, ...], lever: Lever, way: Fields) -> Fields:
    """The part of a vector that is no multiplier, turns as ways."""
    return lever.ways({s: a for s, a in way.items() if s not in multiplier_states})


class PathProblem(eqx.Module):
    """`R(u, mu) = 0` in the free directions, `g(u, mu) = 0` in those that a constraint prescribes."""

    scene: Callable[[Array], System]
    linear_system: AbstractLinearSystem
    time: Array
    coordinate: Coordinate | None
    lever: Lever
    multiplier_states: tuple[str, ...] = eqx.field(static=True, default=())

    def at(self, load: Array) -> StaticEquilibrium:
        return StaticEquilibrium(self.scene(load), self.linear_system, self.time)

    def displacement(self, way: Fields) -> Fields:
        """What of a way is displacement [m]; multipliers, which have other units, do not count in its length."""
        return displacement(self.multiplier_states, self.lever, way)

    def mark(self, u: Fields, load: Array) -> Mark:
        """Where a path starts."""
        if self.coordinate is None:
            return Mark(u, load, jnp.zeros_like(load))
        system = self.scene(load)
        return Mark(u, load, self.coordinate.first(system, self.coordinate.place(system, u)))

    def way(self, start: Mark, u: Fields, load: Array) -> Array:
        """How far the coordinate that is followed has gone from there; nil if none is."""
        if self.coordinate is None:
            return jnp.zeros_like(load)
        before, system = self.coordinate.place(self.scene(start.load), start.u), self.scene(load)
        return self.coordinate.way(system, before, self.coordinate.place(system, u))

    def slope(self, at: Mark) -> Fields:
        """The derivative of the coordinate that is followed by displacements from there."""
        equilibrium = self.at(at.load)
        still = zeros(jax.eval_shape(equilibrium.residual, at.u))
        return jax.grad(lambda d: self.way(at, equilibrium.move(at.u, d), at.load))(still)


class Tangent(eqx.Module):
    """The linearised problem at one point: `A du = R + q dmu` in the free directions, `du = g + p dmu` in the others."""

    A: lx.AbstractLinearOperator  # P A P + I - P
    unconstrained: lx.AbstractLinearOperator
    force: Fields  # the free part of R, less what the gap displaces
    load: Fields  # q, the same of dR/dmu
    gap: Fields
    gap_rate: Fields  # p
    residual: Array
    floor: Array
    size: Array  # of the load, measured as the residual

    @classmethod
    def of(cls, problem: PathProblem, u: Fields, load: Array) -> "Tangent":
        def state_of(load: Array) -> tuple[Fields, Fields]:
            equilibrium = problem.at(load)
            return equilibrium.residual(u), equilibrium.gap(u)

        (R, gap), (R_rate, gap_rate) = jax.jvp(state_of, (load,), (jnp.ones_like(load),))
        equilibrium = problem.at(load)
        moved = has_prescribed_motion(equilibrium.system)
        A0 = equilibrium.operator(u)
        A, force = linearised(equilibrium, A0, R, gap, moved=moved)
        _, rate = linearised(equilibrium, A0, R_rate, gap_rate, moved=moved)
        residual = norm(problem.lever.forces(project(equilibrium.system, R)))
        floor, _ = rounding_floor(equilibrium, A0, u, problem.lever)
        return cls(A, A0, force, rate, gap, gap_rate, residual, floor, norm(problem.lever.forces(rate)))

    def solver(self, solver: Any) -> Any:
        return default_solver(self.A) if solver is None else solver

    def directions(self, problem: PathProblem, u: Fields, load: Array, solver: Any) -> tuple[Fields, Fields, Any, Array]:
        """`A^-1` of the force and of the load, gaps included: the way back to the path, and the way along it. How the
        solves ended, and the state that nothing holds."""
        solver, equilibrium = self.solver(solver), problem.at(load)
        factor = solver.init(self.A, {})
        ends = [lx.linear_solve(self.A, b, solver, state=factor, throw=False) for b in (self.force, self.load)]
        loose = ends[0].stats.get("unconstrained_state", jnp.full((), -1, jnp.int32))
        d, rate = (end.value for end in ends)
        if equilibrium.has_dead_torques():
            solved = solver, factor
            d = turned(equilibrium, u, self.A, self.force, d, solved, problem.lever)
            rate = turned(equilibrium, u, self.A, self.load, rate, solved, problem.lever)
        d = {s: d[s] + self.gap[s] for s in self.gap}
        rate = {s: rate[s] + self.gap_rate[s] for s in self.gap}
        return d, rate, reason(ends[0]), loose
