"""What a residual to annul is, how to iterate on it, and what is reported of that."""

import abc
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar

from .._linear_system.base import AbstractLinearSystem
from .._model.constraint_projection import has_prescribed_motion
from .._model.dynamics import Fields, kinematics
from .._model.fault import Fault, given
from .._model.internal import with_internal
from .._model.lever import Lever, coordinate_size, is_lone, is_turning, largest, lever_of, lever_of_one, of_each_kind
from .._model.subsystem import has_dead_torques
from .._model.system import State, System
from .._model.terms import Factors
from .._model.validity import laws_hold
from .._runtime.argument_checks import check_choice, check_counts, check_instance, check_tolerances
from .._runtime.array_types import Array

LINE_SEARCHES = ("finite", "residual", "none")
METHODS = ("newton", "trust_region", "dynamic_relaxation")


class AbstractEquilibrium(eqx.Module):
    """A residual to annul: `P R(u) = 0`, by Newton's method (`solve_equilibrium`). A pytree, whose leaves are what the
    solution is differentiated by.

    A subclass says what state unknowns stand for (`state`), the residual, and how `A = -dR/du` is made of mass, damping and
    stiffness (`factors`), all at that state. The unknowns `u`, `{state: (nodes, deriv_size)}`, are velocities or
    accelerations, say; the rest has a default that is right for them. Units are those of the residual, [N] say. Raises
    `ValueError` where a constraint prescribes a motion and `gap` is not defined.
    Source: P. Deuflhard, *Newton Methods for Nonlinear Problems*, 2011, doi:10.1007/978-3-642-23899-4, chapter 1.

    Example:

        class AtRest(jm.solver.AbstractEquilibrium):  # R(v) = -M v
            system: jm.System
            linear_system: jm.solver.AbstractLinearSystem
            factors = jm.Factors(mass=1.0, damping=0.0, stiffness=0.0)

            def state(self, u):
                return jm.State(state.position, u, state.time)

            def residual(self, u):
                return {s: -a for s, a in jm.mass.momentum(self.system, self.state(u)).items()}

        R = AtRest(system, linear_system).residual({"cube": jnp.tile(jnp.array([2.0, 0.0, 0.0]), (8, 1))})
        assert jnp.allclose(R["cube"].sum(0), jnp.array([-2000.0, 0.0, 0.0]))  # a tonne at 2 m/s
    """

    system: AbstractVar[System]
    linear_system: AbstractVar[AbstractLinearSystem]
    factors: AbstractVar[Factors]  # those of `A`

    @abc.abstractmethod
    def state(self, u: Fields) -> State:
        """The state that the unknowns stand for."""

    @abc.abstractmethod
    def residual(self, u: Fields) -> Fields:
        """`R(u)` [N, or N s], before projection."""

    def gap(self, u: Fields) -> Fields:
        """What `u` still has to change by in the directions in which a motion is prescribed. To be overridden for those."""
        if has_prescribed_motion(self.system):
            raise ValueError(f"{type(self).__name__} has no `gap`, and so takes no constraint that prescribes a motion.")
        return {s: jnp.zeros_like(a) for s, a in u.items()}

    def constrained_gap(self, u: Fields, start: Fields) -> Fields:
        """The gap to the start in the directions that stay there: zero, but not its derivatives."""
        del start
        return {s: jnp.zeros_like(a) for s, a in u.items()}

    def operator(self, u: Fields) -> Any:
        """`A = -dR/du` before projection, exactly or nearly."""
        return self.linear_system.unconstrained(self.system, self.state(u), self.factors)

    def move(self, u: Fields, d: Fields) -> Fields:
        """`u + d` in the chart of the unknowns."""
        return {s: u[s] + d[s] for s in u}

    def given(self, u: Fields) -> list[tuple[str, Array]]:
        """All numbers that the problem is made of, by name, with `u` where it starts: which one is not finite, if any."""
        return given(self.system, self.state(u))

    def is_exact(self) -> bool:
        """Whether `operator` is the derivative itself. Static.

        If not, derivatives of the solution take products with the exact one.
        """
        return False

    def turns(self, u: Fields) -> Array | None:
        """The rotation vectors of frames in a time step that ends at `u`, `(frames, 3)` [rad]; None where there are none."""
        del u

    def has_dead_torques(self) -> bool:
        """Whether torques act that no energy has, which turn with the chart: steps then take products with the exact
        derivative, as `operator` has no part of that. Static."""
        return has_dead_torques(self.system)

    def is_inertial(self) -> bool:
        """Whether `operator` holds mass, and another one in every step: what `default_solver` asks. Static."""
        return not self.linear_system.is_constant()

    def is_valid(self, u: Fields) -> Array:
        """Whether every law is defined at `u`."""
        state = self.state(u)
        return laws_hold(with_internal(self.system, state), kinematics(self.system, state.position))

    def rounding(self, u: Fields) -> Fields:
        """The magnitude of the numbers whose rounding `A` turns into a residual, per node."""
        # Unknowns are known to the rounding of the positions that they move.
        zero, one = ({s: jnp.full_like(a, c) for s, a in u.items()} for c in (0.0, 1.0))
        x, rate = jax.jvp(lambda d: self.state(self.move(u, d)).position, (zero,), (one,))
        dofs = self.system.dofs
        size = {s: (coordinate_size(dofs[s], x[s]), of_each_kind(dofs[s], largest, rate[s])) for s in u}
        return {s: jnp.abs(u[s]) + jnp.where(r > 0, a / jnp.where(r > 0, r, 1.0), 0.0) for s, (a, r) in size.items()}

    def lever(self, u: Fields) -> Lever:
        """By what moments and turns are measured beside forces and ways."""
        if not any(is_turning(self.system.dofs[s]) for s in u):
            return Lever({})
        position = self.state(u).position
        return (
            lever_of_one(self.system, self.operator(u), u)
            if is_lone(self.system, position)
            else lever_of(self.system, position)
        )

    def at_load(self, load: Array, start: tuple[Fields, Fields]) -> "AbstractEquilibrium":
        """The problem at a fraction of its load, `start` the residual and gap without any of it."""
        del load, start
        raise ValueError(f"{type(self).__name__} has no load steps.")


def check_residual(equilibrium: AbstractEquilibrium, residual: Any, u: Fields) -> None:
    """Raise `TypeError` unless a residual has the states of the unknowns, a row of each of their nodes."""
    expected = {s: (a.shape[0], equilibrium.system.dofs[s].deriv_size) for s, a in u.items()}
    found = {s: tuple(a.shape) for s, a in residual.items()} if isinstance(residual, dict) else residual
    if found != expected:
        name = type(equilibrium).__name__
        raise TypeError(f"{name}.residual must return {{state: (nodes, deriv_size)}}, {expected}, got {found!r:.200}.")


@dataclass(frozen=True)
class NewtonOptions:
    """How to iterate. `rtol=None`: the square root of the rounding unit, or the residual's rounding floor if higher.
    `derivatives_of`: whose derivatives raise where their linear solves fail; they are NaN there unless somebody is named.
    `to_rounding`: whether a residual that stops at its rounding floor is nil, though the tolerance is below. That of a time
    step is: what its tolerance is a part of is the smaller, the shorter the step.
    """

    rtol: float | None = None
    atol: float = 0.0
    max_steps: int = 50
    load_steps: int = 1
    line_search: str = "finite"
    halvings: int = 12
    derivatives_of: str = ""
    method: str = "newton"
    to_rounding: bool = False

    def __post_init__(self):
        check_choice("Newton", "method", self.method, METHODS)
        check_choice("Newton", "line_search", self.line_search, LINE_SEARCHES)
        check_counts("Newton", max_steps=self.max_steps, load_steps=self.load_steps)
        check_tolerances("Newton", rtol=self.rtol, atol=self.atol)


class NewtonInfo(eqx.Module):
    """What happened. `residuals[l, i]`: the residual norm before iteration `i` of load step `l`, -1 where there was none.

    `floor`: the residual that rounding alone makes. `unconstrained_state`: when singular, the number (in sorted order) of
    the main state that is free to move, -1 if not known. `fault`: where it failed, in numbers that messages put into words.
    Residuals and `floor` [N]. Raises nothing: a member of `RESULTS`, `result`, says how it ended.

    Example:

        info = jm.static_solve(system, state, linear_system).info
        residuals = info.residuals[0][info.residuals[0] >= 0]  # [N], before each iteration
        assert int(info.iterations) >= 3 and residuals[-1] < 1e-4 * residuals[0]
    """

    result: Any
    iterations: Array
    residuals: Array
    residual: Array
    floor: Array
    linear_steps: Array
    unconstrained_state: Array
    fault: Fault


class StepInfo(eqx.Module):
    """What happened in a time step; of a trajectory, every array with a leading axis of steps.

    `result`: a member of `RESULTS`. `iterations` of Newton, 1 for a linearised step; `residuals[i]` [N, or N s]: the
    residual norm before iteration `i`, -1 where there was none; `residual`: the last one, and `floor`: that which rounding
    alone makes (0 for a linearised step, which looks at none). `linear_steps`: those of the linear solver.
    `unconstrained_state` and `fault`: as in `NewtonInfo`. `unmet`: whether a linearised step that changed all velocities
    left its equations with multipliers a tenth as far from holding as they were, or farther; where nothing is traced,
    `step` and `simulate` then look for a position that fulfils them, and raise if there is none. Raises nothing itself.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        assert bool((run.info.result == jm.RESULTS.successful).all()) and run.info.iterations.shape == (4,)
    """

    result: Any
    iterations: Array
    residuals: Array
    residual: Array
    floor: Array
    linear_steps: Array
    unconstrained_state: Array
    fault: Fault
    unmet: Array

    @classmethod
    def of_newton(cls, info: NewtonInfo) -> "StepInfo":
        """That of a step that Newton's iteration solved, which has one load step. Raises `TypeError` for anything else."""
        check_instance("StepInfo.of_newton", "info", info, NewtonInfo)
        return cls(
            info.result,
            info.iterations,
            info.residuals[0],
            info.residual,
            info.floor,
            info.linear_steps,
            info.unconstrained_state,
            info.fault,
            jnp.zeros((), bool),
        )
