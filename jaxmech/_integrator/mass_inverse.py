"""Accelerations: `a = M^-1 f`, without a matrix where masses are lumped."""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

from .._linear_solver.base.derivative import FEW, derivative_solve
from .._linear_solver.base.vectors import scattered
from .._linear_solver.dense.elimination import inverse_by_elimination
from .._linear_solver.dense.semidefinite import Semidefinite
from .._linear_solver.krylov.pcg import PCG
from .._linear_system.matrix_free import MatrixFreeSystem
from .._math.small_matmul import times_vectors
from .._math.small_matrix import inverse
from .._model.constraint_projection import constrained_product, has_prescribed_motion, led, project
from .._model.dynamics import Fields, momentum, zero_forces
from .._model.inertia import force_in_motion, varying_masses
from .._model.lever import of_each_kind
from .._model.subsystem import with_only
from .._model.system import State, System
from .._model.terms import Factors
from .._runtime.array_types import Array
from .._runtime.reverse_mode import kept as kept_in_reverse
from .displaced import combined, driven_by_motions, prescribed_accelerations, prescribed_rates
from .mass_matrix import whole_mass_matrix

_FEW = 60  # unknowns of which a factor takes less than iterations, each of which goes through the mappings


def has_lumped_masses(system: System) -> bool:
    """Whether every mass is of single nodes of main states, so that `M` is block-diagonal. Static."""
    main = set(system.main_states)
    return all(
        len(mass.on) == 1 and mass.on[0].nodes.ndim == 1 and mass.on[0].state in main for mass in system.masses.values()
    )


def kept_inverse(system: System, state: State) -> Fields | None:
    """The inverse blocks of lumped masses that no motion changes; None of others, whose accelerations are solved for."""
    if not has_lumped_masses(system) or varying_masses(system, state):
        return None
    return inverse_blocks(system, state.position)


def inverse_blocks(system: System, position: Fields) -> Fields:
    """`(P M P + I - P)^-1` of every node, `(nodes, d, d)`."""

    def blocks(of: Any, s: str) -> Any:
        n, d = position[s].shape[0], system.dofs[s].deriv_size
        zero = {t: jnp.zeros((y.shape[0], system.dofs[t].deriv_size), y.dtype) for t, y in position.items()}

        def column(e: Any) -> Any:
            return of(zero | {s: jnp.broadcast_to(e, (n, d))})[s]

        return jax.vmap(column, out_axes=2)(jnp.eye(d, dtype=position[s].dtype))

    def constrained(u: Fields) -> Fields:
        return constrained_product(system, lambda v: momentum(system, position, v), u)

    result = {}
    for s in position:
        M = blocks(constrained, s)
        result[s] = jax.vmap(inverse)(M) if M.shape[-1] <= 3 else inverse_by_elimination(M)
    return result


def acceleration(system: System, state: State, kept: Fields | None, solver: Any) -> Fields:
    """`M^-1 P (f + inertial - C v - M a_p)`: the accelerations in the free directions, `a_p` in the prescribed ones.

    `kept`: of `kept_inverse`. Masses that are not lumped are solved for by `solver`; unless given by a dense factor, of more
    than 60 unknowns by conjugate gradients.
    """
    if kept is None:
        a = _by_masses(_Motion(system, state), solver)[0]
        driven = prescribed_accelerations(system, state) if has_prescribed_motion(system) else None
    else:
        force, driven = driven_by_motions(system, state, force_of_motion(system, state))
        a = _by_blocks(system, kept, project(system, force))
    return a if driven is None else combined((1.0, a), (1.0, driven))


def jerked(system: System, state: State, kept: Fields | None, solver: Any) -> State:
    """`state` with velocities that fit its constraints and motions. Where a motion jumps in its velocity, at a key frame or
    as control leads it, what masses couple to it is jerked along: `P p` stays, of the momentum `p`.

    `kept`, `solver`: as in `acceleration`.
    """
    velocity = state.velocity
    if has_prescribed_motion(system):
        rates = prescribed_rates(system, state)
        jump = combined((1.0, rates), (-1.0, led(system, velocity)))
        velocity = combined((1.0, velocity), (1.0, jump), (-1.0, dragged(system, state, jump, kept, solver)))
        velocity = combined((1.0, project(system, velocity)), (1.0, rates))
    else:
        velocity = project(system, velocity)
    return eqx.tree_at(lambda s: s.velocity, state, velocity)


def dragged(system: System, state: State, jump: Fields, kept: Fields | None, solver: Any) -> Fields:
    """`M^-1 P M dv`: what velocities lose in free directions where others jump by `dv`."""
    push = project(system, momentum(system, state.position, jump))
    if kept is not None:
        return _by_blocks(system, kept, push)
    if has_lumped_masses(system):
        return _by_blocks(system, inverse_blocks(system, state.position), push)
    return solved_by_masses(system, state, push, solver)


def _by_blocks(system: System, blocks: Fields, force: Fields) -> Fields:
    return project(system, {s: times_vectors(blocks[s], f) for s, f in force.items()})


class _Motion(eqx.Module):
    """What accelerations are differentiated by."""

    system: System
    state: State

    def force(self, free: Fields | None = None) -> Fields:
        """`P (f + inertial - C v - M (a + a_p))`, `a` an acceleration in free directions."""
        force, _ = driven_by_motions(self.system, self.state, force_of_motion(self.system, self.state, free))
        return project(self.system, force)

    def imbalance(self, a: Fields) -> Fields:
        """`P f - (P M P + I - P) a`."""
        free = project(self.system, a)
        rest = self.force(free)
        return {s: rest[s] + free[s] - a[s] for s in rest}

    def factor(self, solver: Any) -> Any:
        """What a dense factor has made of few masses; None of others."""
        if has_lumped_masses(self.system):
            return None
        return _factor_of_few(self.system, self.state, solver)

    def solved(self, force: Fields, solver: Any, made: Any) -> Fields:
        """`(P M P + I - P)^-1 f`."""
        if has_lumped_masses(self.system):
            return _by_blocks(self.system, inverse_blocks(self.system, self.state.position), force)
        return _solved(self.system, self.state, force, solver, made)


@eqx.filter_custom_jvp
def _by_masses(motion: _Motion, solver: Any) -> tuple[Fields, Any]:
    """The accelerations in the free directions, of masses that are not lumped or vary, and their factor."""
    made = motion.factor(solver)
    return motion.solved(motion.force(), solver, made), made


@_by_masses.def_jvp
def _by_masses_jvp(primals, tangents):
    # da = M^-1 d(f - M a): products with M go through the mappings together with the forces.
    motion, solver = primals
    a, made = _by_masses(motion, solver)
    a = kept_in_reverse(a)
    if sum(u.size for u in a.values()) <= FEW:
        made = kept_in_reverse(made)
    # Where a failed solve left no number: nil times such a rate shall be nil for whoever does not ask for this member.
    at = {s: jnp.where(jnp.isfinite(u), u, 0) for s, u in a.items()}
    rate = eqx.filter_jvp(lambda motion: motion.imbalance(at), (motion,), (tangents[0],))[1]
    rate = {s: jnp.zeros_like(u) if rate[s] is None else rate[s] for s, u in a.items()}
    return (a, made), (motion.solved(rate, solver, made), jax.tree.map(lambda _: None, made))


def solved_by_masses(system: System, state: State, force: Fields, solver: Any) -> Fields:
    """`(P M P + I - P)^-1 f`; NaN where the solver fails, unless rounding stops it."""
    return _solved(system, state, force, solver, _factor_of_few(system, state, solver))


def _factor_of_few(system: System, state: State, solver: Any) -> Any:
    if solver is not None or sum(v.size for v in state.velocity.values()) > _FEW:
        return None
    matrix = jax.lax.stop_gradient(whole_mass_matrix(system, state.position))
    return Semidefinite().init(lx.MatrixLinearOperator(matrix), {})


def _solved(system: System, state: State, force: Fields, solver: Any, made: Any) -> Fields:
    M = mass_operator(system, state)
    if made is not None:
        return derivative_solve(M, force, Semidefinite(), symmetric=True, made=made)
    solver = solver or PCG(rtol=1e-12)
    if all(system.dofs[s].is_vector_space for s in force):
        return derivative_solve(M, force, solver, symmetric=True)
    # Turns of a thin shell are lighter than its ways by as much as its thickness, squared, in whatever unit that is.
    unit = _units(system, state.position)

    def scaled(u: Fields) -> Fields:
        return {s: a * unit[s] for s, a in u.items()}

    A = lx.FunctionLinearOperator(lambda u: scaled(M.mv(scaled(u))), jax.eval_shape(lambda: force), M.tags)
    return scaled(derivative_solve(A, scaled(force), solver, symmetric=True))


def _units(system: System, position: Fields) -> Fields:
    """Of ways, and of turns, the velocity at which nodes have unit energy in the mean, by the sums of their rows."""
    ones = project(system, {s: jnp.ones_like(a) for s, a in zero_forces(system, position).items()})
    rows = project(system, momentum(system, position, ones))

    def unit(s: str) -> Array:
        size = jax.lax.stop_gradient(jnp.abs(rows[s]))
        mean = of_each_kind(system.dofs[s], jnp.mean, size)
        return jnp.where(mean > 0, 1 / jnp.sqrt(jnp.where(mean > 0, mean, 1)), 1)

    return {s: unit(s) for s in rows}


def state_without_mass(system: System, position: Fields) -> Array:
    """The number of the first main state with a direction that nothing holds and no mass resists; -1 if there is none."""
    free = project(system, scattered(zero_forces(system, position), 1))
    p = project(system, momentum(system, position, free))
    light = jnp.stack([((free[s] != 0) & (p[s] == 0)).any() for s in system.main_states])
    return jnp.where(light.any(), jnp.argmax(light), -1).astype(jnp.int32)


def mass_operator(system: System, state: State) -> Any:
    """`P M P + I - P` by products, symmetric whatever the forces of the scene are."""
    of_masses = with_only(system, masses=system.masses), replace(state, internal={})  # which are those of forces
    return MatrixFreeSystem().assemble(*of_masses, Factors.only("mass"))


def force_of_motion(system: System, state: State, acceleration: Fields | None = None) -> Fields:
    """`f + inertial - C v` [N], less `M a` of an acceleration."""
    rate = force_in_motion(system, state, acceleration)
    if system.rayleigh:
        damping = Factors(mass=0.0, damping=0.0, stiffness=0.0, rayleigh=1.0)
        drag = MatrixFreeSystem().unconstrained(system, state, damping).mv(state.velocity)
        rate = combined((1.0, rate), (-1.0, drag))
    return rate
