"""Energies, and what becomes of them in a step."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp

from ..._forcefield.base import AbstractEnergyForceField
from ..._linear_solver.base.vectors import dot
from ..._linear_system.compatibility import check_topology
from ..._model.arguments import checked
from ..._model.constraint_projection import has_prescribed_motion, project
from ..._model.dynamics import (
    Fields,
    energy,
    field_force,
    kinematics,
    kinetic_energy,
    momentum,
    total_force,
    velocities,
    zero_forces,
)
from ..._model.failure_report import raise_failure
from ..._model.inertia import momentum_supply
from ..._model.subsystem import weightless, with_only
from ..._model.system import State, System, check_inputs
from ..._runtime.argument_checks import check_flags, check_instance
from ..._runtime.array_types import Array, Scalar
from ..._runtime.precision import compiled, full_precision
from ..._scene.stencil import gathered
from ..displaced import combined, displacements
from ..scene_support import check_takes
from ..time_step import check_time_step
from .contact_work import work_of_contacts
from .free_motion import FreeMotion
from .implicit_scheme import AbstractImplicitScheme, Record, solve_of
from .scheme_carry import joined_carry, prepared_for
from .settled import settled_acceleration
from .settled_work import work_of_settling
from .stage import AbstractStage, Setting, varying_part


class Energies(eqx.Module):
    """Energies of a state [J]: `kinetic`, `potential` of every force field that has an energy, `weight` of every mass.

    `total` is their sum. Made by `energies`. Raises nothing.

    Example:

        found = jm.integrator.energies(system, state)
        assert jnp.allclose(found.weight["mass"], 5000.0) and jnp.allclose(found.total, 5000.0)  # -g . M x [J]
    """

    kinetic: Scalar
    potential: dict[str, Scalar]
    weight: dict[str, Scalar]

    @property
    def total(self) -> Scalar:
        """The mechanical energy [J]."""
        return sum((*self.potential.values(), *self.weight.values()), self.kinetic)


@checked
@full_precision
def energies(system: System, state: State) -> Energies:
    """The kinetic and potential energies of a state, by component [J].

    Differentiable by `system` and `state`. Raises `ValueError` or `TypeError` for what is not a state of this system, and
    what `energy` raises.
    Source: Goldstein, Poole, Safko, *Classical Mechanics*, 3rd ed., 2002, ISBN 978-0-201-65702-9, chapter 1.

    Example:

        found = jm.integrator.energies(system, state)
        assert jnp.allclose(found.total, jm.energy(system, state) + jm.mass.kinetic_energy(system, state))
    """
    light = weightless(system)
    potential = {name: energy(with_only(light, forces=[name]), state) for name in system.forces}
    weight = {name: energy(with_only(system, masses=[name]), state) for name in system.masses}
    return Energies(kinetic_energy(system, state.position, state.velocity), potential, weight)


class EnergyBalance(eqx.Module):
    """What became of energy in a step [J]: `gained = loads + rows + contacts + motion - damping - scheme + defect`, summed.

    `gained`: kinetic and potential energy, `before` and `after` by component. `loads`: the work of forces without an
    energy, by name; `rows`: of constraints with multipliers; `contacts`: of each contact `(2,)`, of what presses and of
    friction; `motion`: of prescribed motions; `damping`: what forces that depend on velocities and Rayleigh damping took;
    `scheme`: what the scheme took, or gave where negative; `defect`: the work of what the solver left unbalanced, to its
    tolerance nil (of one linear solve, what that leaves out).
    Made by `step_with_balance`. Raises nothing.
    Source: T. Belytschko, W. K. Liu, B. Moran, *Nonlinear Finite Elements for Continua and Structures*, 2000, section 6.2.3.

    Example:

        euler = jm.ImplicitEuler(linear_system, newton=True)
        *_, balance = jm.integrator.step_with_balance(system, state, euler, None, 0.01)
        assert balance.scheme > 0 and abs(balance.defect) < 1e-6 * balance.scheme  # it dissipates [J]
    """

    before: Energies
    after: Energies
    loads: dict[str, Scalar]
    rows: dict[str, Array]
    contacts: dict[str, Array]
    motion: Scalar
    damping: Scalar
    scheme: Scalar
    defect: Scalar

    @property
    def gained(self) -> Scalar:
        """By how much the mechanical energy grew [J]."""
        return self.after.total - self.before.total


def step_with_balance(
    system: System,
    state: State,
    integrator: AbstractImplicitScheme | FreeMotion,
    carry: Any,
    dt: Any,
    *,
    throw: bool = True,
) -> tuple[State, Any, Any, EnergyBalance]:
    """`integrator.step`, and what became of energy in it: the state after `dt` [s], the carry, what happened, the balance.

    With the displacement `d` of the step, forces do the work `sum_i c_i f(x_i, v_i) . d`, at the states where the scheme
    evaluates them; of schemes of second order that do so near the end of a step (Newmark's kin, BDF), less their change over
    the step times how late that is: for Newmark the trapezoidal rule. So this work is of second order. What holds nodes to
    their motions is the rate of their momentum, which gives their masses the kinetic energy that they gain, less the other
    forces. What inertia takes beyond the kinetic energy gained,
    and conservative forces give beyond the potential energy lost, is dissipated by the scheme: of implicit Euler
    `1/2 (v1 - v0) M (v1 - v0)` and its like for springs, and what loads and motions do at the end of a step; with contact
    the energy of an impact too.
    `integrator`: an implicit one, or `FreeMotion`. Raises what `step` raises, and `TypeError` for an explicit integrator,
    which solves no balance.
    Source: T. Belytschko, W. K. Liu, B. Moran, *Nonlinear Finite Elements for Continua and Structures*, 2000, section 6.2.3.

    Example:

        euler = jm.ImplicitEuler(linear_system, newton=True)
        end, carry, info, balance = jm.integrator.step_with_balance(system, state, euler, None, 0.01)
        assert jnp.allclose(balance.gained, -balance.scheme, atol=1e-6) and not balance.loads["solid"]  # [J]
    """
    who = "step_with_balance"
    check_inputs(who, system, state)
    check_instance(who, "integrator", integrator, (AbstractImplicitScheme, FreeMotion))
    check_topology(f"the linear system given to {who}", integrator.built_for, system)
    check_time_step(dt)
    check_flags(who, throw=throw)
    unbalanced = "its integrator steps them, but there is no balance of their energy"
    check_takes(who, system, multipliers=True, memory=False, rates=False, instead=unbalanced)
    h = jnp.asarray(dt, state.time.dtype)
    stepped = _stepped_with_contacts if isinstance(integrator, FreeMotion) else _stepped
    result = stepped(integrator, system, state, carry, h)
    return raise_failure(result, result[2], system, who, moves=True) if throw else result


_Balanced = tuple[State, Any, Any, EnergyBalance]


def _stepped(scheme: AbstractImplicitScheme, system: System, state: State, carry: Any, h: Array) -> _Balanced:
    ready, kept, memory = prepared_for(scheme, system, state, carry, h)
    end, memory, info, balance = _balanced(ready, system, state, memory, h)
    return end, joined_carry(scheme, carry, kept, memory), info, balance


def _stepped_with_contacts(scheme: FreeMotion, system: System, state: State, carry: Any, h: Array) -> _Balanced:
    end, after, info = scheme.step(system, state, carry, h, throw=False)
    motion, _, _ = prepared_for(scheme.motion, system, state, None if carry is None else carry[0], h)
    ready = eqx.tree_at(lambda s: s.motion, scheme, motion)
    return end, after, info, _balance_with_contacts(ready, system, state, end, info.contacts.impulse, h)


@compiled
def _balanced(scheme: AbstractImplicitScheme, system: System, state: State, memory: Any, h: Array) -> _Balanced:
    setting = scheme.setting(system, state, h)
    *moved, record = scheme.recorded_move(setting, memory, solve_of(scheme))
    end, memory, info = scheme.settled(system, *moved)
    settling = None
    if scheme.settles and scheme.settles_velocities and system.multiplier_states:
        settling = work_of_settling(scheme, system, moved[0], end)
    d = _displacement(system, state, end)
    return end, memory, info, _balance(scheme, system, setting, record, end, d, settling=settling)


@compiled
def _balance_with_contacts(
    scheme: FreeMotion, system: System, state: State, end: State, impulse: Array, h: Array
) -> EnergyBalance:
    motion, d = scheme.motion, _displacement(system, state, end)
    setting = motion.setting(system, state, h)
    record = [(motion.stage(setting, None), dict(end.velocity))]
    works, push = work_of_contacts(scheme, system, state, end, impulse, d)
    force = combined((1 / h, push))
    return _balance(motion, system, setting, record, end, d, {name: w / h for name, w in works.items()}, force)


def _displacement(system: System, start: State, end: State) -> Fields:
    d = displacements(system, start.position, end.position)
    return d | {s: jnp.zeros_like(d[s]) for s in system.multiplier_states}  # which have no place


def _balance(
    scheme: AbstractImplicitScheme,
    system: System,
    setting: Setting,
    record: Record,
    end: State,
    d: Fields,
    contacts: dict[str, Array] | None = None,
    push: Fields | None = None,
    settling: tuple[dict[str, Array], Fields] | None = None,
) -> EnergyBalance:
    """That of a step along `d`, and of `contacts`, whose force is `push` [N], where there are some; `settling`: the work
    and the impulse by which velocities are put along constraints."""
    before, after = energies(system, setting.at_start), energies(system, end)
    points, contacts = _points(scheme, system, setting, record, end), contacts or {}
    pushed = [] if push is None else [push]
    loads, damping = _works(points, d)
    rows, others = _work_of_rows(points, d), pushed
    if settling is not None:
        works, impulse = settling
        rows = {name: work + works[name] for name, work in rows.items()}
        others = [*pushed, combined((1 / setting.h, impulse))]
    motion = _work_of_motions(setting, points, others, end, d)
    left = combined(*((1.0, f) for f in (_left(scheme, record), *pushed)))
    defect = -dot(project(system, left), d)
    parts = *loads.values(), *(jnp.sum(a) for a in (*rows.values(), *contacts.values()))
    taken = sum(parts, motion) - damping + defect - (after.total - before.total)
    return EnergyBalance(before, after, loads, rows, contacts, motion, damping, taken, defect)


class _Point(NamedTuple):
    """A state at which forces work, for a share of the step; of a stage, and its unknowns."""

    share: Any
    at: State
    stage: AbstractStage
    unknowns: Fields


def _points(scheme: AbstractImplicitScheme, system: System, setting: Setting, record: Record, end: State) -> list[_Point]:
    """Where the stages of a scheme have forces, and the ends of the step where these act late.

    The former, with their multipliers, have all the impulse of a step; the latter, of opposite shares, take what changes in
    the step back to the middle of it.
    """
    span, (last, v) = _span(scheme, record), record[-1]
    rows = zip(scheme.stage_weights, record, strict=True)
    points = [_Point(w * c / span, at, stage, u) for w, (stage, u) in rows for c, at in stage.acting_at(u)]
    late = scheme.lateness(last)
    if late is None:
        return points
    start = setting.at_start
    if system.multiplier_states:  # those that a motion begins with need not belong to it
        _, start, _ = settled_acceleration(system, scheme.linear_system, start, scheme.rayleigh, scheme.solver, "")
    remembered = _remembered(scheme, record) / span
    return [*points, _Point(remembered + late, start, last, v), _Point(-late, end, last, v)]


def _remembered(scheme: AbstractImplicitScheme, record: Record) -> Any:
    """For how long the forces of the start give momentum by an acceleration that is remembered [s]."""
    return sum(w * stage.remembered for w, (stage, _) in zip(scheme.stage_weights, record, strict=True))


def _span(scheme: AbstractImplicitScheme, record: Record) -> Array:
    """How long forces act in the balances of all stages [s]."""
    rows = zip(scheme.stage_weights, record, strict=True)
    return sum((w * c for w, (stage, u) in rows for c, _ in stage.acting_at(u)), jnp.asarray(_remembered(scheme, record)))


def _left(scheme: AbstractImplicitScheme, record: Record) -> Fields:
    """The force that the balances of all stages leave [N]."""
    span, rows = _span(scheme, record), zip(scheme.stage_weights, record, strict=True)
    return combined(*((w / span, stage.residual(u)) for w, (stage, u) in rows))


def _works(points: list[_Point], d: Fields) -> tuple[dict[str, Scalar], Scalar]:
    """The work along `d` of loads by name, and what damping takes."""
    zero = jnp.zeros((), points[0].at.time.dtype)
    damping, loads = zero, dict.fromkeys(points[0].stage.system.forces, zero)
    for share, at, stage, _ in points:
        still, moving = _work_of_forces(stage.system, at, d)
        damping = damping + share * (dot(stage.drag(at), d) if stage.damped else zero)
        for name, field in stage.system.forces.items():
            damping = damping - share * (moving[name] - still[name])
            if not isinstance(field, AbstractEnergyForceField):
                loads[name] = loads[name] + share * still[name]
    return loads, damping


def _work_of_rows(points: list[_Point], d: Fields) -> dict[str, Array]:
    """The work along `d` of each row of constraints with multipliers."""
    found: dict[str, Array] = {}
    for share, at, stage, u in points:
        for name, work in stage.work_of_rows(u, at, d).items():
            found[name] = found.get(name, 0.0) + share * work
    return found


def _work_of_motions(setting: Setting, points: list[_Point], pushed: list[Fields], end: State, d: Fields) -> Scalar:
    """The work of what holds nodes to their motions: of the rate of their momentum, along the mean of the velocities at both
    ends, which is what the kinetic energy of their masses gains; less that of the other forces along `d`, of which those of
    contacts, and of what puts velocities along constraints, are given.

    Of the whole step, so that an impulse where a motion jumps is in it.
    """
    system, start = setting.system, setting.at_start
    if not has_prescribed_motion(system):
        return jnp.zeros((), setting.h.dtype)
    p0, p1 = (momentum(system, s.position, s.velocity) for s in (start, end))
    gained, others = combined((1.0, p1), (-1.0, p0)), ((point.share, _rate(point)) for point in points)
    mean = {s: 0.5 * (v + end.velocity[s]) if s not in system.multiplier_states else d[s] for s, v in start.velocity.items()}
    parts = (gained, mean), (combined(*others, *((1.0, f) for f in pushed)), d)
    inertia, other = (dot(f, along) - dot(project(system, f), along) for f, along in parts)
    return inertia - other


def _rate(point: _Point) -> Fields:
    """The rate of momentum at a point that forces, damping and inertia itself mean."""
    stage, at = point.stage, point.at
    rate, masses = total_force(stage.system, at), varying_part(stage.setting)
    if stage.setting.varying:
        rate = combined((1.0, rate), (1.0, momentum_supply(masses, at.position, at.velocity)))
    return combined((1.0, rate), (-1.0, stage.drag(at))) if stage.damped else rate


def _work_of_forces(system: System, at: State, d: Fields) -> tuple[dict[str, Scalar], dict[str, Scalar]]:
    """The work of every force field along `d`, without velocities and with them."""
    x = kinematics(system, at.position)
    moved, v, zero = velocities(system, x, d), velocities(system, x, at.velocity), zero_forces(system, x)

    def work(name: str, v: Fields) -> Scalar:
        field = system.forces[name]
        forces = field_force(system, field, x, None, v)
        return sum((jnp.sum(f * a) for f, a in zip(forces, gathered(field.on, moved), strict=True)), jnp.zeros(()))

    return {n: work(n, zero) for n in system.forces}, {n: work(n, v) for n in system.forces}
