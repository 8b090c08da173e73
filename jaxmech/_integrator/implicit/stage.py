"""What an implicit step solves: a balance of momentum, of which a scheme says where it holds and by how much."""

import abc
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from equinox import AbstractVar

from ..._linear_system.base import AbstractLinearSystem
from ..._model.accept import accepted
from ..._model.constraint_projection import has_prescribed_motion, prescribed, project
from ..._model.constraint_report import equations
from ..._model.dynamics import Fields, momentum, retract, total_force, weight_direction
from ..._model.fault import given
from ..._model.force_ahead import force_ahead
from ..._model.inertia import varying_masses
from ..._model.internal import in_step
from ..._model.lever import coordinate_size
from ..._model.multiplier_rows import relaxed, relaxed_over, relaxed_values, row_numbers, with_soft_multipliers, work_of_rows
from ..._model.subsystem import has_direct_masses, has_fixed_axes, weightless, with_only
from ..._model.system import State, System
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._solve.equilibrium import AbstractEquilibrium
from ..displaced import combined
from .rayleigh import Rayleigh


class Setting(eqx.Module):
    """What every stage of a step has: the scene, its linear system, and where the step starts."""

    system: System
    linear_system: AbstractLinearSystem
    start: State
    h: Array
    rayleigh: Rayleigh
    velocity: Fields  # at the start, where nothing holds it
    varying: tuple[str, ...] = eqx.field(static=True)  # the masses whose matrix depends on positions
    by_elements: bool = eqx.field(static=True, default=False)  # whether momenta are those of elements, though `M` is kept

    @property
    def at_start(self) -> State:
        """The start, at the velocities that constraints leave, with the multipliers that belong to it where these give."""
        start = eqx.tree_at(lambda s: s.velocity, self.start, self.velocity)
        return with_soft_multipliers(self.system, start) if self.system.multiplier_constraints else start

    @classmethod
    def of(
        cls,
        system: System,
        linear_system: AbstractLinearSystem,
        start: State,
        h: Array,
        rayleigh: Rayleigh,
        share: Any = 1.0,
    ) -> "Setting":
        """The setting of a step of `h`, whose forces act after a share of it."""
        system = relaxed(in_step(system, h), start, h, share)  # its laws know how much time passes
        held = {name: c for name, c in system.projections.items() if c.is_homogeneous}
        velocity = project(eqx.tree_at(lambda s: s.constraints, system, held), start.velocity)
        return cls(system, linear_system, start, h, rayleigh, velocity, varying_masses(system, start))


class AbstractStage(AbstractEquilibrium):
    """`R(u) = inertia(u) + s (f + supply - C v) + known`, forces and damping at `state(u)`; the unknowns are velocities.

    A scheme says with which velocities and displacements the forces act (`state`), where the step leads (`end`), what
    momentum the masses gain (`inertia`), and how much of each is in `A = -dR/du = m M + b B + k K`: `rates` are
    `(dv_end/du, dv/du, dx/du)`, the last two at `state(u)`. From these all else follows: the factors with Rayleigh damping,
    the balance and its linear form, prescribed motions, what is diagnosed.
    """

    setting: AbstractVar[Setting]
    scale: AbstractVar[Array]  # s [s]
    known: AbstractVar[Fields | None]
    predicted: AbstractVar[Fields]  # the unknowns that iterations start from
    reach: AbstractVar[Array]  # d x_end / d u [s]
    later: AbstractVar[Array]  # when the end is, after the start [s]

    forces_at_end: ClassVar[bool] = False  # whether `state` is `end`

    @property
    def system(self) -> System:
        return self.setting.system

    @property
    def linear_system(self) -> AbstractLinearSystem:
        return self.setting.linear_system

    @abc.abstractmethod
    def end(self, u: Fields) -> State:
        """Where the step leads."""

    def arrival(self, u: Fields) -> State:
        """The end, with what the laws of the scene remember of the step."""
        return accepted(self.system, self.setting.start, self.end(u), self.setting.h)

    @abc.abstractmethod
    def offset(self) -> Fields:
        """The displacement of the step where `u` is nil."""

    @abc.abstractmethod
    def inertia(self, u: Fields, at: State, less: Fields | None = None) -> Fields:
        """What inertia has in the balance [N s]; with the weights, if they `join`. `less`: velocities whose momentum is
        taken off, where masses do not vary."""

    @abc.abstractmethod
    def supply(self, at: State) -> Fields | None:
        """What positions and turns add to the rate of the momentum [N], where masses vary."""

    @property
    @abc.abstractmethod
    def rates(self) -> tuple[Any, Any, Array]:
        """`(m, dv/du, dx/du)`."""

    @property
    def factors(self) -> Factors:
        m, b, k = self.rates
        r, s = self.setting.rayleigh.factors(), self.scale
        plain = isinstance(r.mass, float) and isinstance(r.stiffness, float)
        if plain:
            return Factors(mass=m, damping=s * b, stiffness=s * k, rayleigh=s * b)
        stiffness, held = s * (k + b * r.stiffness), s * k  # what is damped may give, equations may not
        return Factors(mass=m + s * b * r.mass, damping=s * b, stiffness=stiffness, rayleigh=s * b, multipliers=held)

    @property
    def joins(self) -> bool:
        """Whether weights are `M g` of constant masses on main states, which go with the rest of `M`. Static."""
        return has_direct_masses(self.system) and not self.setting.varying

    @property
    def acting(self) -> System:
        """The scene whose forces are asked for."""
        return weightless(self.system) if self.joins else self.system

    @property
    def weighing(self) -> Array:
        """For how long weights give momentum in the balance [s], where they join the rest of `M`."""
        return self.scale

    @property
    def damped(self) -> bool:
        return self.setting.rayleigh.acts_on(self.system)

    def residual(self, u: Fields) -> Fields:
        at = self.state(u)
        return self.balance(u, at, total_force(self.acting, at))

    def balance(self, u: Fields, at: State, force: Fields, less: Fields | None = None) -> Fields:
        """`R(u)`, the force at `state(u)` given, without the momentum of the velocities `less`."""
        force = self.closed(u, force) if self.closes else force
        R = combined((1.0, self.inertia(u, at, less)), (self.scale, self.rate(at, force)))
        return R if self.known is None else combined((1.0, R), (1.0, self.known))

    @property
    def closes(self) -> bool:
        """Whether constraints with multipliers, which hold at the end, are asked for elsewhere than forces are. Static."""
        return bool(self.system.multiplier_states) and not self.forces_at_end

    def closed(self, u: Fields, force: Fields) -> Fields:
        """The force, with equations of the end where nothing gives way; scaled as `A` has them, `dx/du` to `dx_end/du`."""
        rows, C = total_force(equations(self.system), self.end(u)), row_numbers(self.system, self.setting.start).compliance
        share = self.rates[2] / self.reach
        return force | {s: jnp.where(c > 0, force[s], share * rows[s]) for s, c in C.items()}

    def rate(self, at: State, force: Fields) -> Fields:
        """The rate of momentum that a force means: `f + supply - C v`."""
        rate, supply = force, self.supply(at)
        if supply is not None:
            rate = combined((1.0, rate), (1.0, supply))
        return combined((1.0, rate), (-1.0, self.drag(at))) if self.damped else rate

    def drag(self, at: State) -> Fields:
        """`C v`, of the matrix there."""
        return self.linear_system.as_products(self.system, at, self.setting.rayleigh.factors()).mv(at.velocity)

    def remainder(self, d: Fields) -> Fields:
        """`R(u) - A d` at the predicted `u`, in the form that is cheapest to differentiate."""
        u = self.predicted
        at = self.state(u)
        if self.is_by_rates:
            return self.balance_ahead(u, at, d, force_ahead(self.acting, at, *self.ahead(d)))
        product = self.linear_system.as_products(self.system, at, self.factors).mv(d)
        return combined((1.0, self.residual(u)), (-1.0, product))

    @property
    def is_by_rates(self) -> bool:
        """Whether K and B are the derivatives of forces, so that these and their rates are had in one pass. Static."""
        return self.linear_system.is_rate_of_force(self.system) and not self.damped and not self.closes

    def ahead(self, d: Fields) -> tuple[Fields, Fields]:
        """The displacements and the velocities of `state` that belong to a change of the unknowns."""
        _, b, k = self.rates
        return combined((k, d)), combined((b, d))

    def balance_ahead(self, u: Fields, at: State, d: Fields, force: Fields) -> Fields:
        """`R(u) - A d`, the force at `state(u)` given to first order in `d`."""
        m, _, _ = self.rates
        if not self.setting.varying:
            return self.balance(u, at, force, combined((m, d)))  # one product with M, of all there is
        Md = momentum(self.system, at.position, d)
        return combined((1.0, self.balance(u, at, force)), (-m, Md))

    def gap(self, u: Fields) -> Fields:
        goal = {s: -a for s, a in u.items()}
        if has_prescribed_motion(self.system):
            start = self.setting.start
            target, offset = prescribed(self.system, start.position, start.time + self.later), self.offset()
            goal = {s: (target[s] - offset[s]) / self.reach - u[s] for s in u}
        return combined((1.0, goal), (-1.0, project(self.system, goal)))

    def turns(self, u: Fields) -> Array | None:
        frames = [s for s, a in u.items() if not self.system.dofs[s].is_vector_space]
        moved = combined((1.0, self.offset()), (self.reach, u)) if frames else u
        return jnp.concatenate([moved[s][:, 3:] for s in frames]) if frames else None

    def acting_at(self, u: Fields) -> tuple[tuple[Any, State], ...]:
        """The states at which forces act, and how much of each is in the balance [s]."""
        return ((self.scale, self.state(u)),)

    @property
    def remembered(self) -> Any:
        """For how long an acceleration that is remembered gives momentum in the step, beside the balance [s]."""
        return 0.0

    def work_of_rows(self, u: Fields, at: State, d: Fields) -> dict[str, Array]:
        """The work of constraints with multipliers along `d`, by name, `(m, rows)`, where they act at a state [J]."""
        del u
        return work_of_rows(self.system, at, d)

    def given(self, u: Fields) -> list[tuple[str, Array]]:
        del u
        return given(self.system, self.setting.start, self.setting.h)

    def is_exact(self) -> bool:
        # At the end of a step with prescribed motions, velocities there are the rates of those, and no unknowns.
        plain = not self.setting.varying and not self.damped and not has_prescribed_motion(self.system) and not self.closes
        return has_fixed_axes(self.system) and plain and self.linear_system.is_exact(self.system)

    def rounding(self, u: Fields) -> Fields:
        # A velocity is known to the rounding of the positions it is a difference of.
        x = self.setting.start.position
        return {s: jnp.abs(u[s]) + coordinate_size(self.system.dofs[s], x[s]) / self.reach for s in u}


def momentum_of_all(stage: AbstractStage, velocity: Fields) -> Fields:
    """`M u` of masses that do not vary, by what is kept of the matrix; with all that weights give if they join."""
    if stage.joins and stage.system.gravity is not None:
        g = weight_direction(stage.system, stage.setting.start.position)
        velocity = combined((1.0, velocity), (stage.weighing, g))
    return momentum_of(stage.setting, velocity)


def momentum_of(setting: Setting, velocity: Fields) -> Fields:
    """`M u` of masses that do not vary."""
    if setting.by_elements:
        return momentum(setting.system, setting.start.position, velocity)
    return setting.linear_system.momentum(setting.system, setting.start, velocity)


def varying_part(setting: Setting) -> System:
    """The scene with nothing but the masses that vary."""
    return with_only(setting.system, masses=setting.varying)


def extrapolated(setting: Setting, memory: Any, share: float = 1.0) -> Fields:
    """The velocity that iterations start from, after a share of the step: it stays or, where an acceleration is remembered,
    goes on as it did."""
    v = setting.velocity
    return v if memory is None else combined((1.0, v), (share * setting.h, memory))


S = TypeVar("S", bound=AbstractStage)


def to_be_differentiated(stage: S) -> S:
    """The stage whose momenta are those of elements: the transpose of a product with a matrix is a program several times as
    long as that of their kernel."""
    return eqx.tree_at(lambda s: s.setting, stage, replace(stage.setting, by_elements=has_direct_masses(stage.system)))


def reaching(stage: S) -> S:
    """The stage whose predicted unknowns follow the prescribed motions."""
    if not has_prescribed_motion(stage.system):  # velocities are free ones already
        return stage
    return eqx.tree_at(lambda s: s.predicted, stage, combined((1.0, stage.predicted), (1.0, stage.gap(stage.predicted))))


def rated(stage: S) -> S:
    """With rows that give and are relaxed of the rates that velocities have where forces act.

    `g' = (g - before) / r`, `r = dx/dv`, `before = g - r g'` at the predicted unknowns `u0`: exact where `g` is linear, else
    to `h |u - u0|`.
    """
    if not any(c.relaxation is not None for c in stage.system.multiplier_constraints.values()):
        return stage
    _, dv, dx = stage.rates
    reach, at = dx / dv, stage.state(reaching(stage).predicted)

    def ahead(t: Array) -> Fields:
        position = retract(stage.system.dofs, at.position, combined((t, at.velocity)))
        return relaxed_values(stage.system, position, at.time + t)

    zero = jnp.zeros_like(at.time)
    g, rate = jax.jvp(ahead, (zero,), (jnp.ones_like(zero),))
    system = relaxed_over(stage.system, reach, {n: a - reach * rate[n] for n, a in g.items()})
    return eqx.tree_at(lambda s: s.setting.system, stage, system)
