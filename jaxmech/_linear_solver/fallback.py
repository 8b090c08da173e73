"""One solver, and another where that one fails."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from .._runtime.argument_checks import check_instance
from .._runtime.array_types import Array
from .._runtime.loops import while_loop
from .._runtime.results import RESULTS
from .base.vectors import Vector, choose, zeros


class Fallback(lx.AbstractLinearSolver):
    """Solves by `first`; where that fails, for whatever reason, by `otherwise`.

    `Fallback(PCG(max_steps=50), SparseDirect())`. Both are solvers of jaxmech that take the operator; options, as `x0`, are
    for `first`. `stats`: `num_steps` of both together; `residual`, `reason` and `unconstrained_state` (-1 where not known)
    of whichever had the last word. In a batch (`vmap`), `otherwise` solves all systems if `first` failed for any.
    `stats["residual"]` in the unit of `b`, [N] say. Raises `TypeError` for what is no solver; fails where both do.

    Example:

        solver = jm.solver.Fallback(jm.solver.PCG(max_steps=1), jm.solver.Dense())
        x = lx.linear_solve(A, b, solver).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
    """

    first: lx.AbstractLinearSolver
    otherwise: lx.AbstractLinearSolver

    def __check_init__(self):
        check_instance("Fallback", "first", self.first, lx.AbstractLinearSolver)
        check_instance("Fallback", "otherwise", self.otherwise, lx.AbstractLinearSolver)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        return _State(operator, self.first.init(operator, options), False)

    def compute(self, state: "_State", vector: Vector, options: dict[str, Any]):
        tried = _answer(jnp.zeros((), jnp.int32), *self.first.compute(state.first, vector, options))

        def again(tried: _Answer) -> _Answer:
            inner = self.otherwise.init(state.operator, {})
            if state.transposed:
                inner, _ = self.otherwise.transpose(inner, {})
            # Depends on the loop: what does not, XLA may move before it, and would factor every time.
            open_ones = choose(tried.done, zeros(vector), vector)
            found = _answer(tried.steps, *self.otherwise.compute(inner, open_ones, {}))
            return eqx.tree_at(lambda a: a.done, found, jnp.ones((), bool))

        # A loop of one round at most: in a batch, `cond` would run both branches for every system.
        last = while_loop(lambda a: ~a.done, again, tried)
        stats = {
            "num_steps": last.steps,
            "residual": last.residual,
            "unconstrained_state": last.unconstrained_state,
            "reason": last.reason,
        }
        return last.x, last.result, stats

    def transpose(self, state: "_State", options: dict[str, Any]):
        first, options = self.first.transpose(state.first, options)
        return _State(state.operator, first, not state.transposed), options

    def conj(self, state: "_State", options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


class _State(eqx.Module):
    operator: lx.AbstractLinearOperator
    first: Any
    transposed: bool = eqx.field(static=True)


class _Answer(eqx.Module):
    x: Vector
    result: Any
    reason: Any
    steps: Array
    residual: Array
    unconstrained_state: Array
    done: Array


def _answer(steps: Array, x: Vector, result: Any, stats: dict[str, Any]) -> _Answer:
    """What a solver found after `steps` of another, every number an array of one type."""
    return _Answer(
        x,
        lx.RESULTS.where(jnp.ones((), bool), result, result),
        RESULTS.where(jnp.ones((), bool), stats["reason"], stats["reason"]),
        steps + jnp.asarray(stats["num_steps"], jnp.int32),
        stats["residual"],
        jnp.asarray(stats.get("unconstrained_state", -1), jnp.int32),
        result == lx.RESULTS.successful,
    )
