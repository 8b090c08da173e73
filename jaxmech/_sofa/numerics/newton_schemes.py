"""SOFA's integrators that iterate: the variational one, backward differences, and equilibria."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._integrator.displaced import combined, displaced
from ..._linear_solver.base.vectors import norm
from ..._linear_system.base import AbstractLinearSystem
from ..._model.accept import accepted
from ..._model.constraint_projection import project
from ..._model.dynamics import Fields, momentum, total_force
from ..._model.internal import in_step
from ..._model.system import State, System
from ..._model.terms import Factors
from ..._runtime.array_types import Array
from ..._scene.parameter import as_array
from .linearised_scheme import AbstractLinearisedScheme, Advance, SchemeCarry
from .newton_iterations import Equations, NewtonRules, Seen, iterated
from .unconverged_solvers import AbstractStepSolver, Past, Solved

_K = Factors(mass=0.0, damping=0.0, stiffness=1.0, rayleigh=0.0)


def _moved(system: System, state: State, d: Fields) -> State:
    return displaced(system, state, d, state.velocity, jnp.zeros_like(state.time))


class SofaVariational(AbstractLinearisedScheme):
    """SOFA's VariationalSymplecticSolver: `p0 = M v0`; `q` from `[K + 4 M / h^2] d = f(q) + K d_before + 2 p / h`, up to
    `steps` times, until the middle moves less than `tolerance` of the norm of positions; then `v = 2 d / h`, `x += h v`,
    `p = M v + h/2 f(middle)`. With Rayleigh damping the matrix has `(4/h^2 + 4 rM/h) M + (1 + 4 rK/h) K`.

    Source: C. Kane, J. E. Marsden, M. Ortiz, M. West, Int. J. Numer. Meth. Engng 49 (2000) 1295,
    doi:10.1002/1097-0207(20001210)49:10<1295::AID-NME993>3.0.CO;2-W.
    """

    linear_system: AbstractLinearSystem
    solver: AbstractStepSolver
    tolerance: Array = eqx.field(converter=as_array, default=0.01, kw_only=True)
    rayleigh_stiffness: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    rayleigh_mass: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    steps: int = eqx.field(static=True, default=5, kw_only=True)

    def memory(self, system: System, state: State) -> Any:
        return momentum(system, state.position, state.velocity)

    def advance(self, system: System, state: State, carry: SchemeCarry, h: Array) -> Advance:
        scene, p, past = in_step(system, h), carry.memory, carry.past
        whole = norm(state.position)
        factors = Factors(
            mass=4 / h**2 + 4 * self.rayleigh_mass / h,
            damping=0.0,
            stiffness=1 + 4 * self.rayleigh_stiffness / h,
            rayleigh=0.0,
        )
        d = {s: jnp.zeros_like(v) for s, v in state.velocity.items()}
        found, b, done = Solved(d, None, past.kept), d, jnp.zeros((), bool)  # pyright: ignore[reportArgumentType]
        for number in range(self.steps):
            middle = _moved(scene, state, d)
            b = combined((1.0, total_force(scene, middle)), (2 / h, p))
            if number:
                b = combined((1.0, b), (1.0, self.matrix(scene, middle, carry.kept, _K).mv(d)))
            found, b = self.solved(scene, self.matrix(scene, middle, carry.kept, factors), b, past)
            moved = norm(combined((1.0, found.x), (-1.0, d))) / whole
            d = {s: jnp.where(done, d[s], a) for s, a in found.x.items()}
            done = done | ~(jax.lax.stop_gradient(moved) > self.tolerance)
            past = Past(jnp.zeros((), bool), d, found.kept, past.turns)
        v = combined((2 / h, d))
        f = project(scene, total_force(scene, _moved(scene, state, d)))
        memory = combined((1.0, momentum(scene, state.position, v)), (h / 2, f))
        end = accepted(system, state, displaced(system, state, combined((2.0, d)), v, h), h)
        return Advance(end, found._replace(x=d), memory, b)


class Histories(NamedTuple):
    """Positions and velocities of the steps before, newest first, and how many steps there were."""

    positions: tuple[Fields, ...]
    velocities: tuple[Fields, ...]
    count: Array


class SofaBackwardDifferences(AbstractLinearisedScheme):
    """SOFA's BDFOdeSolver: `r1 = sum a_j x_j - h v = 0`, `r2 = M sum a_j v_j - h f = 0`, by iterations from `x + h v`, `v`;
    `rules` are of `r2` and of the changes of `v`.

    The first steps are of the orders that their past allows. `f` has Rayleigh's `-(rM M + rK K) v`. States of points.
    Of several tries along `dv`, each adds all of `h dv / a_0 - r1 / a_0` to `x`, as SOFA's do.
    Source: E. Hairer, G. Wanner, *Solving Ordinary Differential Equations II*, 2nd ed., 1996, doi:10.1007/978-3-642-05221-7,
    section V.1.
    """

    linear_system: AbstractLinearSystem
    solver: AbstractStepSolver
    rules: NewtonRules = eqx.field(default_factory=NewtonRules, kw_only=True)
    rayleigh_stiffness: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    rayleigh_mass: Array = eqx.field(converter=as_array, default=0.0, kw_only=True)
    largest: int = eqx.field(static=True, default=1, kw_only=True)  # order

    def memory(self, system: System, state: State) -> Histories:
        n = self.largest
        return Histories((dict(state.position),) * n, (dict(state.velocity),) * n, jnp.zeros((), jnp.int32))

    def advance(self, system: System, state: State, carry: SchemeCarry, h: Array) -> Advance:
        scene, past, (xs, vs, count) = in_step(system, h), carry.past, carry.memory
        xs, vs = (dict(state.position), *xs[: self.largest - 1]), (dict(state.velocity), *vs[: self.largest - 1])
        a = jnp.asarray(_TABLE)[jnp.minimum(count, self.largest - 1)]
        rM, rK, t = self.rayleigh_mass, self.rayleigh_stiffness, h / a[0]

        def evaluate(here: State) -> Seen:
            x, v = here.position, here.velocity
            damped = Factors(mass=rM, damping=0.0, stiffness=rK, geometric=rK, rayleigh=0.0)
            f = combined((1.0, total_force(scene, here)), (-1.0, self.matrix(scene, here, carry.kept, damped).mv(v)))
            r1 = project(scene, combined((a[0], x), (-h, v), *((a[j + 1], y) for j, y in enumerate(xs))))
            rates = combined((a[0], v), *((a[j + 1], u) for j, u in enumerate(vs)))
            return Seen(project(scene, combined((1.0, momentum(scene, x, rates)), (-h, f))), r1)

        def solve(here: State, seen: Seen) -> tuple[Solved, Fields]:
            b = combined((-1.0, seen.residual), (t, self.matrix(scene, here, carry.kept, _K).mv(seen.more)))
            factors = Factors(mass=a[0] + h * rM, damping=h, stiffness=h * (rK + t), rayleigh=h)
            A = self.matrix(scene, here, carry.kept, factors)
            return self.solved(scene, A, b, past._replace(last=jax.tree.map(jnp.zeros_like, past.last)))

        def moved(here: State, seen: Seen, d: Fields, before: Array, share: Array) -> State:
            # After the first try `r1` is nil; each further one adds `h dv / a_0` again, and takes the last one's share.
            dx = combined((t * (1 + before), d), (-1 / a[0], seen.more))
            ends = combined((1.0, here.position), (1.0, dx)), combined((1.0, here.velocity), (share, d))
            return eqx.tree_at(lambda s: (s.position, s.velocity), here, ends)

        guess = eqx.tree_at(lambda s: s.position, state, combined((1.0, xs[0]), (h, vs[0])))
        equations = Equations(evaluate, solve, moved, lambda here: norm(here.velocity))
        unsolved = Solved(vs[0], None, past.kept)  # pyright: ignore[reportArgumentType]
        at = iterated(self.rules, equations, guess, unsolved)
        end = eqx.tree_at(lambda s: s.time, at.end, state.time + h)
        return Advance(accepted(system, state, end, h), at.found, Histories(xs, vs, count + 1), at.b)


# `h x'` at the newest of equally spaced points, which come first; rows: the order less one.
_TABLE = (
    (1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (3 / 2, -2.0, 1 / 2, 0.0, 0.0, 0.0, 0.0),
    (11 / 6, -3.0, 3 / 2, -1 / 3, 0.0, 0.0, 0.0),
    (25 / 12, -4.0, 3.0, -4 / 3, 1 / 4, 0.0, 0.0),
    (137 / 60, -5.0, 5.0, -10 / 3, 5 / 4, -1 / 5, 0.0),
    (147 / 60, -6.0, 15 / 2, -20 / 3, 15 / 4, -6 / 5, 1 / 6),
)


class SofaStatic(AbstractLinearisedScheme):
    """SOFA's StaticSolver: `K dx = f`, `x += a dx`, as often in a time step as `rules` say. Velocities stay."""

    has_inertia = False

    linear_system: AbstractLinearSystem
    solver: AbstractStepSolver
    rules: NewtonRules = eqx.field(default_factory=NewtonRules, kw_only=True)

    def memory(self, system: System, state: State) -> None:
        return None

    def advance(self, system: System, state: State, carry: SchemeCarry, h: Array) -> Advance:
        scene, past = in_step(system, h), carry.past

        def solve(here: State, seen: Seen) -> tuple[Solved, Fields]:
            return self.solved(scene, self.matrix(scene, here, carry.kept, _K), seen.residual, past)

        def moved(here: State, seen: Seen, d: Fields, before: Array, share: Array) -> State:
            return _moved(scene, here, combined((share, d)))

        evaluate = lambda here: Seen(project(scene, total_force(scene, here)))  # noqa: E731
        equations = Equations(evaluate, solve, moved, lambda here: norm(here.position))
        zero = {s: jnp.zeros_like(v) for s, v in state.velocity.items()}
        unsolved = Solved(zero, None, past.kept)  # pyright: ignore[reportArgumentType]
        at = iterated(self.rules, equations, state, unsolved)
        end = eqx.tree_at(lambda s: s.time, at.end, state.time + h)
        return Advance(accepted(system, state, end, h), at.found, None, at.b)
