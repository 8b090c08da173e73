"""The largest time step of explicit schemes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._assembly.structure import Plan
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
from ..._runtime.argument_checks import check_counts, check_flags, plain
from ..._runtime.array_types import Array, Scalar
from ..._runtime.precision import compiled
from ..._runtime.results import RESULTS
from ..mass_inverse import has_lumped_masses, inverse_blocks, solved_by_masses, state_without_mass

Product = Callable[[Fields], Fields]

_DAMPING = Terms(mass=False, stiffness=False)
_CLOSER = 2  # times that a safe step is made longer


@checked
def critical_time_step(system: System, state: State, *, steps: int = 30, throw: bool = True) -> Scalar:
    """How large a step of `VelocityVerlet` may be [s]: the largest `h` with `h^2/4 K + h (B + C) < M` at `state`.

    Of an undamped scene `2 / omega`, `omega` the highest frequency of `M^-1 K`; a mode whose velocity is damped by `gamma`
    [1/s] (`B`: of forces, `C`: Rayleigh's) asks for `h^2 omega^2 / 4 + h gamma < 1`.
    By `steps` iterations of Lanczos' method on products, without a matrix; the bound of its error is added to the
    eigenvalue, so that the step errs on the safe side; four times as many of what is damped. Infinite where nothing is stiff
    or damped. Contacts (`jm.force.PenaltyPlane`) count as closed, wherever they are open: a body may fall on them. Other
    motion that stiffens the scene makes the step smaller.
    Differentiation stops here. Raises `ValueError` for a number of steps that is not positive, and `FailedComputation`
    (under `jit`, JAX's run-time error) that names a state in which a free direction has no mass, or what is not finite,
    unless `throw=False`, which gives NaN there.
    Source: B. N. Parlett, *The Symmetric Eigenvalue Problem*, 1998, doi:10.1137/1.9781611971163, chapter 13; T. Belytschko,
    W. K. Liu, B. Moran, *Nonlinear Finite Elements for Continua and Structures*, 2000, section 6.2, where velocities of half
    a step before are damped, which allows twice the `gamma`.

    Example:

        spring = jm.force.AnchoredSprings(("p", [0]), 400.0, [[0.0]])  # [N/m]
        scene = jm.System({"p": jm.Vec1()}, forces={"k": spring}, masses={"m": jm.mass.UniformMass(("p", [0]), 1.0)})
        limit = jm.integrator.critical_time_step(scene, scene.at_rest({"p": [[0.0]]}))
        assert jnp.allclose(limit, 2 / 20.0)  # 2 sqrt(m / k) [s]
    """
    who = "critical_time_step"
    steps = plain(steps)
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
    limit = critical(system, state, Stability(2.0, 1.0), steps)
    result = RESULTS.where(jnp.isnan(limit), RESULTS.not_finite, RESULTS.successful)
    places = state.position, state.position
    result, fault = diagnosed(result, given(system, state), with_internal(system, state), lambda: places, -1)
    if not system.main_states:
        return limit, _Said(result, jnp.full((), -1, jnp.int32), fault)
    light = state_without_mass(system, state.position)
    result = RESULTS.where((result == RESULTS.not_finite) & (light >= 0), RESULTS.singular, result)
    return limit, _Said(result, light, fault)


class Stability(NamedTuple):
    """Which steps of a scheme are stable: of an undamped vibration `h omega < free`, of what is damped alone `h gamma <
    damped`. Of both, `(h omega / free)^2 + h gamma / damped < 1` if it is `joint`; if not, rates `lambda` of what is
    overdamped are bounded by `h lambda < damped`, and `h omega` by both.
    """

    free: float
    damped: float
    joint: bool = True


def critical(system: System, state: State, stability: Stability, steps: int = 30) -> Scalar:
    """The largest stable step at a state, within a compiled program."""
    zero = zero_forces(system, state.position)
    system = eqx.tree_at(lambda s: s.forces, system, {name: f.stiffest() for name, f in system.forces.items()})
    blocks = inverse_blocks(system, state.position) if has_lumped_masses(system) else None
    is_damped = bool(Plan.build(system, _DAMPING).items)
    matrix = MatrixFreeSystem(Terms(mass=False, damping=is_damped))

    def solved(r: Fields) -> Fields:
        if blocks is None:
            return solved_by_masses(system, state, r, PCG(rtol=1e-10))
        return project(system, {s: jnp.einsum("nij,nj->ni", blocks[s], a) for s, a in r.items()})

    count = min(steps, sum(a.size for a in zero.values()))
    if count == 0:
        return jnp.full((), jnp.inf, state.time.dtype)
    start = project(system, scattered(zero, 1))
    held = dot(start, start) == 0  # in all directions, so that nothing moves

    def inertia(q: Fields) -> Fields:
        return momentum(system, state.position, q)

    def largest(stiffness: Any, damping: Any) -> Array:
        """The largest eigenvalue of `M^-1 (k K + b (B + C))`."""
        A = matrix.unconstrained(system, state, Factors(mass=0.0, damping=damping, stiffness=stiffness))
        return _largest(lambda q: project(system, A.mv(q)), solved, inertia, start, count)

    if is_damped:
        eye = jnp.eye(2, dtype=state.time.dtype)
        square, rate = jax.lax.map(lambda weights: largest(weights[0], weights[1]), eye)
        limit = _damped_limit(stability, largest, jnp.maximum(square, 0.0), jnp.maximum(rate, 0.0))
        bad = jnp.isnan(square) | jnp.isnan(rate)
    else:
        square = largest(1.0, 0.0)
        limit, bad = _over(stability.free, jnp.sqrt(jnp.maximum(square, 0.0))), jnp.isnan(square)
    return jnp.where(held, jnp.inf, jnp.where(bad, jnp.nan, limit))


def _damped_limit(stability: Stability, largest: Callable[[Any, Any], Array], square: Array, rate: Array) -> Array:
    """The largest step where the highest frequency, squared, and the highest damping of all are these.

    They may be of different modes: a step that is safe for both at once, `a h^2 K + b h C <= mu M` with `mu <= 1`, may be
    longer by `1 / mu`, or by its root where `a > 0`.
    """
    s, r, joint = stability
    a, b = (1 / s**2 if joint else -1 / r**2), 1 / r
    safe = _over(2.0, b * rate + jnp.sqrt((b * rate) ** 2 + 4 * max(a, 0.0) * square))

    def longer(_: int, h: Array) -> Array:
        finite = jnp.where(jnp.isfinite(h), h, 1.0)
        mu = jnp.clip(largest(a * finite**2, b * finite), 1e-2, 1.0)
        return h / (jnp.sqrt(mu) if joint else mu)

    h = jax.lax.fori_loop(0, _CLOSER, longer, safe)
    return h if joint else jnp.minimum(h, _over(min(s, r), jnp.sqrt(square)))


def _over(limit: float, rate: Array) -> Array:
    """A step, where there is a rate at all."""
    return jnp.where(rate > 0, limit / jnp.where(rate > 0, rate, 1.0), jnp.inf)


def _largest(product: Product, solved: Product, momentum: Product, q: Fields, count: int) -> Array:
    """The largest eigenvalue of `M^-1 A`, and the bound of its error: `count` steps of Lanczos in the product of `M`."""

    def scaled(a: Fields, factor: Array) -> Fields:
        return {s: factor * x for s, x in a.items()}

    def step(at: tuple[Fields, Fields, Array], _: None) -> tuple[tuple[Fields, Fields, Array], tuple[Array, Array]]:
        q, before, beta = at
        r = product(q)
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
