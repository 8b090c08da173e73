"""The largest time step of explicit schemes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linear_solver.base.vectors import dot, scattered
from ..._linear_solver.krylov.pcg import PCG
from ..._linear_system.matrix_free import MatrixFreeSystem
from ..._model.arguments import checked
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, momentum, zero_forces
from ..._model.failure_report import raise_failure
from ..._model.fault import diagnosed, given
from ..._model.internal import with_internal
from ..._model.system import State, System
from ..._model.terms import Factors, Terms
from ..._runtime.argument_checks import check_counts, check_flags
from ..._runtime.array_types import Array, Scalar
from ..._runtime.precision import compiled
from ..._runtime.results import RESULTS
from ..mass_inverse import has_lumped_masses, inverse_blocks, solved_by_masses, state_without_mass

Product = Callable[[Fields], Fields]


@checked
def critical_time_step(system: System, state: State, *, steps: int = 30, throw: bool = True) -> Scalar:
    """`2 / omega` [s], `omega` the highest frequency of `M^-1 K` at `state`: how large a step of `VelocityVerlet` may be.

    By `steps` iterations of Lanczos' method on products, without a matrix; the bound of its error is added to the
    eigenvalue, so that the step errs on the safe side. Infinite where nothing is stiff. Contacts (`jm.force.PenaltyPlane`)
    count as closed, wherever they are open: a body may fall on them. Other motion that stiffens the scene makes the step
    smaller; so does damping, which is not in it: a mode whose velocity is damped by `gamma` [1/s] needs `h^2 omega^2 / 4 + h
    gamma < 1`.
    Differentiation stops here. Raises `ValueError` for a number of steps that is not positive, and `FailedComputation`
    (under `jit`, JAX's run-time error) that names a state in which a free direction has no mass, or what is not finite,
    unless `throw=False`, which gives NaN there.
    Source: B. N. Parlett, *The Symmetric Eigenvalue Problem*, 1998, doi:10.1137/1.9781611971163, chapter 13; T. Belytschko,
    W. K. Liu, B. Moran, *Nonlinear Finite Elements for Continua and Structures*, 2000, section 6.2.

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 400.0, [[0.0]])  # [N/m]
        scene = jm.System({"p": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
        limit = jm.integrator.critical_time_step(scene, scene.at_rest({"p": [[0.0]]}))
        assert jnp.allclose(limit, 2 / 20.0)  # 2 sqrt(m / k) [s]
    """
    who = "critical_time_step"
    check_counts(who, steps=steps)
    check_flags(who, throw=throw)
    limit, said = _critical(system, state, steps)
    return raise_failure(limit, said, system, who, lambda: given(system, state), moves=True) if throw else limit


class _Said(NamedTuple):
    result: Any
    unconstrained_state: Array
    fault: Any


@compiled
def _critical(system: System, state: State, steps: int) -> tuple[Scalar, _Said]:
    system, state = jax.lax.stop_gradient((system, state))
    limit = critical(system, state, steps)
    result = RESULTS.where(jnp.isnan(limit), RESULTS.not_finite, RESULTS.successful)
    places = state.position, state.position
    result, fault = diagnosed(result, given(system, state), with_internal(system, state), lambda: places, -1)
    if not system.main_states:
        return limit, _Said(result, jnp.full((), -1, jnp.int32), fault)
    light = state_without_mass(system, state.position)
    result = RESULTS.where((result == RESULTS.not_finite) & (light >= 0), RESULTS.singular, result)
    return limit, _Said(result, light, fault)


def critical(system: System, state: State, steps: int = 30) -> Scalar:
    """`critical_time_step`, within a compiled program."""
    zero = zero_forces(system, state.position)
    system = eqx.tree_at(lambda s: s.forces, system, {name: f.stiffest() for name, f in system.forces.items()})
    statics, alone = Terms(mass=False, damping=False), Factors.only("stiffness", "geometric")
    K = MatrixFreeSystem(statics).unconstrained(system, state, alone)
    blocks = inverse_blocks(system, state.position) if has_lumped_masses(system) else None

    def stiffness(q: Fields) -> Fields:
        return project(system, K.mv(q))

    def solved(r: Fields) -> Fields:
        if blocks is None:
            return solved_by_masses(system, state, r, PCG(rtol=1e-10))
        return project(system, {s: jnp.einsum("nij,nj->ni", blocks[s], a) for s, a in r.items()})

    count = min(steps, sum(a.size for a in zero.values()))
    if count == 0:
        return jnp.full((), jnp.inf, state.time.dtype)
    start = project(system, scattered(zero, 1))
    square = _largest(stiffness, solved, lambda q: momentum(system, state.position, q), start, count)
    stiff = square > 0
    limit = jnp.where(stiff, 2 / jnp.sqrt(jnp.where(stiff, square, 1.0)), jnp.inf)
    held = dot(start, start) == 0  # in all directions, so that nothing vibrates
    return jnp.where(jnp.isnan(square) & ~held, square, jnp.where(held, jnp.inf, limit))


def _largest(stiffness: Product, solved: Product, momentum: Product, q: Fields, count: int) -> Array:
    """The largest eigenvalue of `M^-1 K`, and the bound of its error: `count` steps of Lanczos in the product of `M`."""

    def scaled(a: Fields, factor: Array) -> Fields:
        return {s: factor * x for s, x in a.items()}

    def step(at: tuple[Fields, Fields, Array], _: None) -> tuple[tuple[Fields, Fields, Array], tuple[Array, Array]]:
        q, before, beta = at
        r = stiffness(q)
        alpha = dot(q, r)
        w = solved(r)
        w = {s: w[s] - alpha * q[s] - beta * before[s] for s in w}
        after = jnp.sqrt(jnp.maximum(dot(w, momentum(w)), 0.0))
        # An invariant space is found: nothing follows.
        found = after <= 1e-10 * (jnp.abs(alpha) + beta)
        after = jnp.where(found, 0.0, after)
        return (scaled(w, jnp.where(found, 0.0, 1 / jnp.where(found, 1.0, after))), q, after), (alpha, after)

    q = scaled(q, 1 / jnp.sqrt(dot(q, momentum(q))))
    zero = scaled(q, jnp.zeros((), jnp.result_type(*q.values())))
    _, (alpha, beta) = jax.lax.scan(step, (q, zero, jnp.zeros_like(dot(q, q))), length=count)
    T = jnp.diag(alpha) + jnp.diag(beta[:-1], 1) + jnp.diag(beta[:-1], -1)
    values, vectors = jnp.linalg.eigh(T)
    return values[-1] + beta[-1] * jnp.abs(vectors[-1, -1])
