"""An energy-momentum scheme: the midpoint rule with a discrete gradient."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._assembly.structure import is_energy_only
from ..._forcefield.base import AbstractEnergyForceField
from ..._linear_solver.base.outcome import reason
from ..._linear_solver.base.vectors import alike, choose, dot
from ..._model.constraint_projection import has_prescribed_motion, project
from ..._model.constraint_report import equations
from ..._model.dynamics import (
    Fields,
    force_at,
    kinetic_energy,
    momentum,
    retract,
    total_force,
    weight_direction,
    zero_forces,
)
from ..._model.energy_along import energy_along, energy_of_elements
from ..._model.multiplier_rows import as_given, motion_of_rows, row_numbers, work_between
from ..._model.subsystem import has_coupled_turns, has_direct_masses, with_only
from ..._model.system import State, System
from ..._runtime.array_types import Array, Scalar
from ..._runtime.results import RESULTS
from ..._solve.equilibrium import StepInfo
from ..displaced import combined
from ..rigid_motions import strained
from .implicit_scheme import AbstractImplicitScheme, Solve, Step
from .momentum_stage import AbstractMidpointStage, Moments, midpoint_stage
from .settled import settled_velocity
from .stage import Setting, rated

_GAUSS = tuple(np.polynomial.legendre.leggauss(4)[i] / 2 + (1 - i) / 2 for i in range(2))  # on (0, 1)
_ROUNDED = 8  # units of rounding within which two values of an energy are the same
# Of a motion that is rigid, `n` is rounding, and the defect too: shares of the squared motion, powers of the rounding unit,
# from which `n` is told. Where constraints keep bodies rigid this is the rule; forces of stiff springs vary within less.
_STRAINED, _RIGID = 1.5, 0.75
_SHOWN = 1.25  # from this power of the rounding unit, of the kinetic energy, rounding of positions shows in velocities


class EnergyMomentum(AbstractImplicitScheme):
    """The midpoint rule, whose forces are corrected so that the energy is conserved: second order, no dissipation.

    `p1 - p0 = h (f(x_m, u) + c W n)`, `n` the displacement,
    of free systems without its rigid motion, `W` the masses of the nodes, `c n . W n = V(x0) - V(x1) -
    f_c . d`: with it the conservative forces, energies and weights, do the work by which their energy falls (Gonzalez's
    discrete gradient). Then energy, momentum and angular momentum of a free system are all conserved, to the tolerance of
    the solver, at any step; mapped masses included, and rigid rotation, as `Midpoint` has it; but angular momentum to
    second order where masses are carried by several frames at once (`BeamMapping`, `SkinningMapping`). Forces without an
    energy do the work of the midpoint rule.

    Constraints with multipliers hold at the end of a step, and their forces in it, by the discrete gradient of `lambda .
    g`, do the work `lambda . (g1 - g0)`: none. Those that give, `C lambda = (g0 + g1) / 2`, store `g . g / (2 C)`.
    Velocities at the end are along the constraints to second order only; let them begin so, or what is across swings on.
    A step that takes back what a constraint was off by at its start, which takes or gives energy, leaves nothing across.
    Points that rods hold to a nail keep the angular momentum about an axis of symmetry through it; that of frames which a
    joint pins to the world swings by second order, as the arm of the joint between both ends is none of those at them.

    Give `newton=True`; in large steps `line_search="residual"` too, for the matrix has no tangent of the correction. One
    linear solve, the default of all schemes, is that of `Midpoint`: a correction that is right at a prediction, and wrong
    where the solve leads, would make the energy drift where it swings. The options are those of `ImplicitEuler`.
    Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: O. Gonzalez, J. Nonlinear Sci. 6 (1996) 449, doi:10.1007/BF02440162, and, of constraints, Physica D 132 (1999)
    165, doi:10.1016/S0167-2789(99)00054-8; J. C. Simo and N. Tarnow, Z. angew. Math.
    Phys. 43 (1992) 757, doi:10.1007/BF00913408.

    Example:

        run = jm.simulate(system, state, jm.integrator.EnergyMomentum(linear_system, newton=True), dt=0.01, steps=4)
        levels = [jm.energy(system, s) + jm.mass.kinetic_energy(system, s) for s in (state, run.last)]
        assert jnp.allclose(levels[1], levels[0], rtol=1e-6)  # [J]
    """

    order = 2
    takes_memory = False  # the energy of a step of a law with memory is not what is stored, unless that is of axes

    @property
    def acts_after(self) -> Any:
        return 0.5 if self.newton else super().acts_after

    @property
    def settles_velocities(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return not self.newton  # it would take energy

    def stage(self, setting: Setting, memory: Any) -> AbstractMidpointStage:
        plain = midpoint_stage(setting, memory)
        if not self.newton:
            return rated(plain)
        return GradientStage(setting, plain.before, plain.predicted, _nodal_masses(setting))

    def move(self, setting: Setting, memory: Any, solve: Solve) -> Step:
        u, info = solve(stage := self.stage(setting, memory))
        end = stage.end(u)
        if isinstance(stage, GradientStage) and setting.system.multiplier_states:
            end, info = self._calmed(stage, u, end, info)
        return end, self.next_memory(setting, memory, stage, u, end), info

    def _calmed(self, stage: "GradientStage", u: Fields, end: State, info: StepInfo) -> tuple[State, StepInfo]:
        """The end, with velocities along its constraints if the step has taken back more than rounding: `v1 = 2 u - v0`
        would go on across them, at twice the rate that took it back. And if what is across is rounding alone, that of
        positions over the step, which would add up from step to step: it takes no energy that could be told."""
        off, rounding = stage.has_been_off(u, end), stage.energy_of_rounding(u)

        def settled() -> tuple[Fields, Any]:
            calm, said = settled_velocity(as_given(stage.system), stage.linear_system, end, self.solver, "")
            across = stage.energy(combined((1.0, end.velocity), (-1.0, calm.velocity)))
            return choose(off | (across <= rounding), calm.velocity, end.velocity), reason(said)

        shows = rounding >= jnp.finfo(rounding.dtype).eps ** _SHOWN * stage.energy(end.velocity)
        velocity, why = jax.lax.cond(off | shows, settled, lambda: (end.velocity, RESULTS.successful))
        why = RESULTS.where(info.result == RESULTS.successful, why, info.result)
        return eqx.tree_at(lambda s: s.velocity, end, velocity), eqx.tree_at(lambda i: i.result, info, why)


class GradientStage(AbstractMidpointStage):
    """That of the midpoint rule, with the correction as a part of its inertia."""

    setting: Setting
    before: Moments
    predicted: Fields
    weights: Fields  # the masses of nodes: those of nodes that are glued add up to that of one

    def balance(self, u: Fields, at: State, force: Fields, less: Fields | None = None) -> Fields:
        plain = super().balance(u, at, force, less)
        return combined((1.0, plain), (self.setting.h, self.correction(u, at, force)))

    def is_exact(self) -> bool:
        return False

    def closed(self, u: Fields, force: Fields) -> Fields:
        """What gives does so by the mean of what its equation is off by, whose work is that of a spring; at either end an
        equation that follows the time is that of then."""
        held, at, C = equations(self.system), self.state(u), row_numbers(self.system, self.setting.start).compliance
        before, after = (
            total_force(held, replace(_elsewhere(held, s.position, at), time=s.time))
            for s in (self.setting.start, self.end(u))
        )
        return force | {s: 0.5 * (after[s] + jnp.where(c > 0, before[s], 0.0)) for s, c in C.items()}

    def work_of_rows(self, u: Fields, at: State, d: Fields) -> dict[str, Array]:
        """With their part of the correction: of multipliers of all the step."""
        del d
        return work_between(self.system, at, self.setting.start.position, self.end(u).position)

    def has_been_off(self, u: Fields, end: State) -> Array:
        """Whether rows that do not give have done work that shows beside the kinetic energy: the start was off them."""
        scene, start = self.system, self.setting.start
        g, C = motion_of_rows(scene, start)[0], row_numbers(scene, start).compliance
        at = self.state(u).position
        work = sum(jnp.sum(jnp.abs(jnp.where(c > 0, 0.0, at[s] * g[s]))) for s, c in C.items())
        return work > jnp.sqrt(jnp.finfo(self.setting.h.dtype).eps) * self.energy(end.velocity)

    def energy(self, velocity: Fields) -> Scalar:
        """The kinetic energy of a velocity, by the masses of nodes [J]."""
        return 0.5 * dot({s: w * velocity[s] for s, w in self.weights.items()}, velocity)

    def energy_of_rounding(self, u: Fields) -> Scalar:
        """That of what rounding of positions makes of velocities [J]."""
        return self.energy(combined((_ROUNDED * jnp.finfo(self.setting.h.dtype).eps, self.rounding(u))))

    def correction(self, u: Fields, at: State, force: Fields) -> Fields:
        """`c W n` [N], of the force of `acting`; nil where nothing moves."""
        system, d = self.system, self._moved(u)
        parts = [(_conservative(self.acting if self._weighs_evenly else system), _STRAINED)]
        if system.multiplier_states:
            parts.append((equations(system), _RIGID))
        plain = not system.multiplier_states and all(is_energy_only(f) for f in system.forces.values())
        forces = [force] if plain else [_force(part, at) for part, _ in parts]  # that of the energies is known
        total = combined(*((1.0, f) for f in forces))
        if self._weighs_evenly:
            total = combined((1.0, total), (1.0, self._weight()))
        elif plain:
            forces = [total := combined((1.0, total), (1.0, self._weight()))]
        free = project(system, d) if has_prescribed_motion(system) else d  # else velocities are along all constraints
        heavy, sums = strained(system, at.position, d, free, self.weights, total, forces)
        size, all_of_it, *works = sums
        c = jnp.zeros_like(size)
        for (part, power), work in zip(parts, works, strict=True):
            square = size + jnp.finfo(size.dtype).eps ** power * all_of_it
            moves = square > jnp.finfo(size.dtype).tiny
            c += jnp.where(moves, self._defect(part, u, at, d, work) / jnp.where(moves, square, 1.0), 0.0)
        return alike(combined((c, project(system, heavy))), d)

    @property
    def _weighs_evenly(self) -> bool:
        """Whether weights are constant forces on points, which do the work by which their energy falls. Static."""
        return self.joins and all(self.system.dofs[s].is_vector_space for s in self.system.main_states)

    def _weight(self) -> Fields:
        """The weights that are not in the force of `acting`: what reverse mode computes anew of a step, the step has."""
        system, start = self.system, self.setting.start
        if not self.joins or system.gravity is None:
            return zero_forces(system, start.position)
        return self.linear_system.momentum(system, start, weight_direction(system, start.position))

    def _moved(self, u: Fields) -> Fields:
        """The displacement of what has a place."""
        held = self.system.multiplier_states
        return {s: jnp.zeros_like(a) if s in held else self.setting.h * a for s, a in u.items()}

    def _defect(self, part: System, u: Fields, at: State, d: Fields, work: Array) -> Scalar:
        """By how much the forces of a part of the scene do less `work` at the midpoint than its energy is lost."""
        end = self.end(u)
        before, after = (_elsewhere(self.system, x, at) for x in (self.setting.start.position, end.position))
        defect = -_gained(part, before, after, d) - work
        # Of rigid bodies, masses vary with turns only, and the midpoint rule conserves their kinetic energy: the mean of two
        # spins is taken in each of them. What couples several has no axes of its own in which it could be taken.
        varies = self.setting.varying and not has_direct_masses(self.system)
        if part.masses and (varies or has_coupled_turns(self.system)):
            defect += self._kinetic_defect(u, at, end, d)
        return defect

    def _kinetic_defect(self, u: Fields, at: State, end: State, d: Fields) -> Scalar:
        """The same of the kinetic energy where masses vary, or couple turns: nil of rigid bodies. What a motion takes along
        moves by the mean of its velocities, whose work is that of a jump between them."""
        start, system, h = self.setting.at_start, self.system, self.setting.h
        if has_prescribed_motion(system):
            d = combined((1.0, d), (0.5 * h, end.velocity), (-0.5 * h, self.reflected(u)))
        gained = kinetic_energy(system, end.position, end.velocity) - kinetic_energy(system, start.position, start.velocity)
        change = combined((-1 / h, AbstractMidpointStage.inertia(self, u, at)), (1.0, self._weight()))  # which is in it
        supply = self.supply(at)
        change = change if supply is None else combined((1.0, change), (-1.0, supply))
        return dot(change, d) - gained


def _nodal_masses(setting: Setting) -> Fields:
    """What masses nodes have at the start, `(nodes, deriv_size)`: the momentum of each where all move at 1 m/s, or turn at
    1 rad/s, in the mean of the axes, so that it is the same from wherever it is looked at."""
    dofs, v = setting.system.dofs, setting.velocity
    widths = {s: a.shape[1] for s, a in v.items()}

    def along(axis: Any) -> Fields:
        unit = {s: jnp.broadcast_to(jnp.arange(widths[s]) == axis, a.shape).astype(a.dtype) for s, a in v.items()}
        if setting.varying:
            p = momentum(setting.system, setting.start.position, unit)
        else:
            p = setting.linear_system.momentum(setting.system, setting.start, unit)
        return {s: jnp.abs(jnp.sum(p[s] * a, axis=1)) for s, a in unit.items()}

    axes = jnp.arange(max(widths.values()))
    # Compiled once for all axes: products with a matrix that is kept are one call, all else takes too much at once.
    is_kept = not setting.varying and setting.linear_system.kept_masses(setting.system) is not None
    each = jax.vmap(along)(axes) if is_kept else jax.lax.map(along, axes)
    result = {}
    for s, width in widths.items():
        split = min(dofs[s].space_size, width)
        parts = [a.sum(axis=0) / len(a) for a in (each[s][:split], each[s][split:width]) for _ in range(len(a))]
        result[s] = jnp.stack(parts, axis=1)
    return result


def _elsewhere(system: System, position: Fields, at: State) -> State:
    """`at` elsewhere, with its multipliers, which are those of all the step."""
    held = system.multiplier_states
    position = {s: at.position[s] if s in held else a for s, a in position.items()}
    return eqx.tree_at(lambda s: s.position, at, position)


def _levels(part: System, *states: State) -> Array:
    """The energies of states, by a function compiled once for all."""
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *(s.position for s in states))
    return jax.vmap(lambda x: energy_of_elements(part, eqx.tree_at(lambda s: s.position, states[0], x)))(stacked)


@eqx.filter_custom_jvp
def _gained(part: System, start: State, end: State, d: Fields) -> Scalar:
    """`V(x1) - V(x0)` [J]. The difference is known to the rounding of the energies, which of a short step is more than
    Newton may leave. Where Gauss' rule agrees with it to that, it is taken: its rounding is that of the work."""

    del end  # which is where `d` leads

    def with_slope(share: Array) -> tuple[Scalar, Scalar]:
        x = retract(part.dofs, start.position, combined((share, d)))
        return energy_along(part, eqx.tree_at(lambda s: s.position, start, x), d)

    shares, weights = (np.concatenate([a, b]) for a, b in zip(_GAUSS, ((0.0, 1.0), (0.0, 0.0)), strict=True))
    dtype = start.time.dtype
    levels, slopes = jax.vmap(with_slope)(jnp.asarray(shares, dtype))  # compiled once for all points
    before, after = levels[-2:]
    summed = jnp.sum(jnp.asarray(weights, dtype) * slopes)
    rounding = _ROUNDED * jnp.finfo(before.dtype).eps * (jnp.abs(before) + jnp.abs(after))
    return jnp.where(jnp.abs(after - before - summed) <= rounding, summed, after - before)


@_gained.def_jvp
def _gained_jvp(primals: Any, tangents: Any) -> tuple[Scalar, Scalar]:
    """That of the energies: of rounding there is none, and this costs less."""

    def difference(part: System, start: State, end: State) -> Scalar:
        before, after = _levels(part, start, end)
        return after - before

    return eqx.filter_jvp(difference, primals[:3], tangents[:3])


def _conservative(system: System) -> System:
    """What has an energy, weights too."""
    forces = [name for name, f in system.forces.items() if isinstance(f, AbstractEnergyForceField)]
    return with_only(system, forces=forces, masses=system.masses)


def _force(part: System, at: State) -> Fields:
    """Minus the gradient of an energy: the force at rest, where nothing is damped."""
    return force_at(part, at, None, zero_forces(part, at.position))
