"""Newmark's method."""

import functools
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ..._linear_solver.base.derivative import constant
from ..._linear_solver.base.outcome import reason
from ..._linear_solver.default import default_solver
from ..._linear_solver.krylov.scaled_cg import along, scaled_cg
from ..._math.one_loop import are_all
from ..._model.constraint_projection import free_directions, free_entries, project
from ..._model.dynamics import Fields, momentum, weight_direction
from ..._model.inertia import inertial_force, varying_masses
from ..._model.subsystem import has_direct_masses
from ..._model.system import State, System
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._runtime.results import RESULTS
from ..._runtime.reverse_mode import kept as kept_by_reverse_mode
from ..._scene.parameter import as_array
from ..._sparse.block_matrix import BlockMatrix
from ..displaced import combined, driven_by_motions
from ..mass_inverse import kept_inverse
from .acceleration_stage import AccelerationStage
from .coefficient import check_number
from .force_at_start import force_at_start
from .implicit_scheme import AbstractImplicitScheme
from .linear_step import AbstractLinearStep, solved
from .settled import normal_part, settled_acceleration
from .stage import AbstractStage, Setting, rated


class Accelerations(eqx.Module):
    """What such a scheme remembers: its acceleration, that of the state where constraints with multipliers tell the two
    apart, and what came of the first one, a member of `RESULTS`."""

    of_scheme: Fields
    of_state: Fields | None
    first: Any


class AbstractAccelerationScheme(AbstractImplicitScheme):
    """A scheme whose memory is the acceleration at the start of a step."""

    def memory(self, system: System, state: State) -> Any:
        """The acceleration that balances the forces at the first state: `M a0 = f + inertial - C v`."""
        a, why = first_acceleration(self, system, state)
        return Accelerations(a, a if system.multiplier_states else None, why)

    def begun(self, memory: Any) -> Any:
        return memory.first

    def remembered(self, system: System, state: State, memory: Any) -> Any:
        """The acceleration under the new numbers: half of the one before would belong to the old ones."""
        del memory
        return self.memory(system, state)

    def next_memory(self, setting: Setting, memory: Any, stage: AbstractStage, u: Fields, end: State) -> Any:
        assert isinstance(stage, AccelerationStage)
        return replace(memory, of_scheme=stage.next_acceleration(u))

    def resumed(self, system: System, end: State, memory: Any, acceleration: Fields, derivatives_of: str) -> Any:
        """Across the constraints, accelerations are those of the state, at the instant to which those of the scheme belong,
        `t + (alpha_m - alpha_f) h`: the error of one step would swing on."""
        a = memory.of_scheme
        mean = combined((1 + self.ahead, acceleration), (-self.ahead, memory.of_state))
        off = combined((1.0, mean), (-1.0, a))
        normal = normal_part(system, self.linear_system, end, off, self.solver, derivatives_of)
        names = system.multiplier_states
        a = {s: jnp.zeros_like(v) if s in names else v for s, v in combined((1.0, a), (1.0, normal)).items()}
        return replace(memory, of_scheme=a, of_state=acceleration)

    def lateness(self, stage: AbstractStage) -> Array:
        assert isinstance(stage, AccelerationStage)
        return (1 - stage.alpha_f) * stage.scale / stage.setting.h - 0.5

    @property
    def ahead(self) -> Any:
        """By how much of a step the accelerations of the scheme are those of a later instant."""
        return 0.0

    def between(
        self, setting: Setting, a0: Fields, beta: Array, gamma: Array, alpha_m: Array, alpha_f: Array
    ) -> AccelerationStage:
        """The stage of these coefficients."""
        v = setting.velocity
        predicted = combined((1.0, v), (setting.h, a0)) if setting.varying else v
        return rated(AccelerationStage(setting, a0, beta, gamma, alpha_m, alpha_f, predicted))


class Newmark(AbstractAccelerationScheme):
    """`x1 = x0 (+) (h v0 + h^2 ((1/2 - beta) a0 + beta a1))`, `v1 = v0 + h ((1 - gamma) a0 + gamma a1)`, `M a1 = f(x1, v1)`.

    Average acceleration (1/4, 1/2) unless `beta` and `gamma` are given: second order, stable for linear systems at any
    step, and it keeps their energy. `gamma > 1/2` dissipates and is of first order; stable for `2 beta >= gamma >= 1/2`.
    The carry holds the acceleration; the first one is solved for, so that every free direction needs mass.
    `newton=False`: one linear solve; the options are those of `ImplicitEuler`. Positions [m, rad], velocities [m/s, rad/s].
    Raises `ValueError` or `TypeError` for options out of range; a step raises `FailedComputation`.
    Source: N. M. Newmark, J. Eng. Mech. Div. 85 (1959) 67, doi:10.1061/JMCEA3.0000098.

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 4.0, [[0.0]])  # [N/m]
        scene = jm.System({"p": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
        start = scene.at_rest({"p": [[1.0]]})
        average = jm.integrator.Newmark(jm.MatrixLinearSystem.build(scene, start))
        carry = average.init(scene, start)
        end, carry, _ = average.step(scene, start, carry, 0.5)
        assert jnp.allclose(2 * end.position["p"] ** 2 + end.velocity["p"] ** 2 / 2, 2.0)  # the energy [J]
        assert jnp.allclose(carry[1].of_scheme["p"], -4.0 * end.position["p"])  # the acceleration [m/s^2]
    """

    beta: Array = eqx.field(converter=as_array, default=0.25, kw_only=True)
    gamma: Array = eqx.field(converter=as_array, default=0.5, kw_only=True)

    order = 2

    def __check_init__(self):
        check_number("Newmark", "beta", self.beta, at_least=0.0, at_most=1.0)
        check_number("Newmark", "gamma", self.gamma, at_least=0.5, at_most=2.0)

    def stage(self, setting: Setting, memory: Any) -> AccelerationStage:
        zero = jnp.zeros_like(self.gamma)
        return self.between(setting, memory.of_scheme, self.beta, self.gamma, zero, zero)


def first_acceleration(scheme: AbstractImplicitScheme, system: System, state: State) -> tuple[Fields, Any]:
    """`M^-1 P (f + inertial - C v)`, constraints with multipliers holding, and what came of it, a member of `RESULTS`."""
    if system.multiplier_states:
        a, _, why = first_settled(scheme, system, state)
        return a, why
    rate, driven = _rate(scheme, system, state, partial(scheme.linear_system.momentum, system, state))
    a, why = _free_acceleration(scheme, system, state, project(system, rate))
    return a if driven is None else combined((1.0, a), (1.0, driven)), why


def first_settled(scheme: AbstractImplicitScheme, system: System, state: State) -> tuple[Fields, State, Any]:
    """The acceleration while constraints with multipliers hold, the state with the multipliers that belong to it, and what
    came of it, a member of `RESULTS`."""
    a, state, said = settled_acceleration(system, scheme.linear_system, state, scheme.rayleigh, scheme.solver, "")
    return a, state, _undetermined(reason(said))


def _undetermined(why: Any) -> Any:
    """The outcome of a solver, where a singular matrix is one of masses."""
    return RESULTS.where(why == RESULTS.singular, RESULTS.no_first_acceleration, why)


def _free_acceleration(scheme: AbstractImplicitScheme, system: System, state: State, free: Fields) -> tuple[Fields, Any]:
    """`M^-1 free`, and what came of it; by what compiles to less than the solver of the steps: of lumped masses of points
    their inverses, of others that are on main states conjugate gradients."""
    kept = kept_inverse(system, state) if all(a.shape[1] <= 3 for a in free.values()) else None
    if kept is not None:
        a = project(system, {s: jnp.einsum("nij,nj->ni", kept[s], f) for s, f in free.items()})
        return a, _outcome(_is_finite(a), free)
    linear_system, held = scheme.linear_system, free_entries(system, free)
    balance = _FirstBalance(scheme, system, state, free_directions(system, free) if held is None else held)
    M = linear_system.kept_masses(system)
    if M is not None and has_direct_masses(system):
        a, found = _of_masses(balance, M, M.diagonal, free)
        return a, _outcome(found, free)
    M = linear_system.assemble(system, state, Factors.only("mass"))
    solver = default_solver(M, inertial=True) if scheme.solver is None else scheme.solver
    a, said = solved(balance, M, free, solver, "")
    return a, _undetermined(reason(said))


def _outcome(found: Array, free: Fields) -> Any:
    """Masses are singular where there is no acceleration of forces that are finite."""
    why = RESULTS.where(_is_finite(free), RESULTS.no_first_acceleration, RESULTS.not_finite)
    return RESULTS.where(found, RESULTS.successful, why)


def _is_finite(fields: Fields) -> Array:
    return functools.reduce(operator.and_, (are_all(jnp.isfinite(x)) for x in fields.values()))


class _FirstBalance(AbstractLinearStep):
    """`M a = P (f + inertial - C v)`."""

    scheme: AbstractImplicitScheme
    system: System
    state: State
    free: Fields | None  # `P` of every node, if any is held

    def imbalance(self, x: Fields) -> Fields:
        a = along(self.free, x)
        by_elements = partial(momentum, self.system, self.state.position)
        rate, _ = _rate(self.scheme, self.system, self.state, by_elements)
        rest = combined((1.0, rate), (-1.0, by_elements(a)))
        return combined((1.0, along(self.free, rest)), (1.0, a), (-1.0, x))


@eqx.filter_custom_jvp
def _of_masses(balance: _FirstBalance, M: BlockMatrix, diagonal: Fields, free: Fields) -> tuple[Fields, Array]:
    """`M^-1 free` of kept masses, those of `balance`, and whether there is such an acceleration."""
    return scaled_cg(M, diagonal, balance.free, free)


@_of_masses.def_jvp
def _of_masses_jvp(primals: Any, tangents: Any) -> Any:
    # As in `linear_step`: products differentiate faster than the matrix.
    balance, M, diagonal, _ = primals
    a, found = kept_by_reverse_mode(_of_masses(*primals))
    at = {s: jnp.where(found, x, 0) for s, x in a.items()}
    rate = eqx.filter_jvp(lambda balance: balance.imbalance(at), (balance,), (tangents[0],))[1]
    flat, parted = ravel_pytree({s: jnp.zeros_like(x) if rate[s] is None else rate[s] for s, x in a.items()})

    def product(x: Array) -> Array:
        return ravel_pytree(along(balance.free, M.mv(parted(x))))[0]

    def solve(_: Any, rhs: Array) -> Array:
        moved, found = _of_masses(*constant((balance, M, diagonal)), along(balance.free, parted(rhs)))
        return ravel_pytree({s: jnp.where(found, x, jnp.nan) for s, x in moved.items()})[0]

    moved = jax.lax.custom_linear_solve(product, flat, solve, symmetric=True)
    return (a, found), (parted(moved), None)


def _rate(
    scheme: AbstractImplicitScheme, system: System, state: State, product: Callable[[Fields], Fields]
) -> tuple[Fields, Fields | None]:
    """`f + inertial - C v`, less what the prescribed motions take, and their accelerations. `product`: `M u`."""
    joins = system.gravity is not None and has_direct_masses(system) and not varying_masses(system, state)
    f = force_at_start(scheme.linear_system, system, state, weights=not joins, newton=scheme.newton)
    rate = combined((1.0, f), (1.0, inertial_force(system, state)))
    if joins:
        rate = combined((1.0, rate), (1.0, product(weight_direction(system, state.position))))
    if scheme.rayleigh.acts_on(system):
        drag = scheme.linear_system.as_products(system, state, scheme.rayleigh.factors()).mv(state.velocity)
        rate = combined((1.0, rate), (-1.0, drag))
    return driven_by_motions(system, state, rate)
