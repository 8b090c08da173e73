"""Load steps of a scene that remembers: the end depends on what lies between, and so do its derivatives."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._model.dynamics import Fields
from .._model.system import State
from .._runtime.array_types import Array
from .._runtime.results import RESULTS
from .equilibrium import AbstractEquilibrium, NewtonInfo, NewtonOptions
from .newton import newton_solve


def solved_by_steps(
    equilibrium: Callable[[State], AbstractEquilibrium],
    arrived: Callable[[State, Fields, Array], State],
    state: State,
    options: NewtonOptions,
    solver: Any,
) -> tuple[State, NewtonInfo]:
    """The state after all load steps, each of them solved and accepted, and what happened. None is begun after a failure.

    `equilibrium`: the problem of a step from a state, under the whole load; `arrived`: the state where it ends.
    """
    whole = equilibrium(state)
    start = whole.residual(state.position), whole.gap(state.position)
    one = dataclasses.replace(options, load_steps=1)

    def solve(begin: State, load: Array) -> tuple[State, NewtonInfo]:
        problem = equilibrium(begin).at_load(load, start)
        position, info = newton_solve(problem, begin.position, one, solver)
        return arrived(begin, position, info.result != RESULTS.successful), info

    state = dataclasses.replace(
        state, velocity=jax.tree.map(jnp.zeros_like, state.velocity), time=whole.state(state.position).time
    )
    count = options.load_steps
    loads = jnp.arange(1, count + 1, dtype=state.time.dtype) / count
    nothing = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), eqx.filter_eval_shape(solve, state, loads[0])[1])
    nothing = eqx.tree_at(lambda i: i.residuals, nothing, replace_fn=lambda r: r - 1)

    def step(carry: tuple[State, Array], load: Array) -> tuple[tuple[State, Array], NewtonInfo]:
        begin, going = carry
        end, info = jax.lax.cond(going, solve, lambda begin, _: (begin, nothing), begin, load)
        return (end, going & (info.result == RESULTS.successful)), info

    (end, _), infos = jax.lax.scan(step, (state, jnp.array(True)), loads)
    return end, _summary(infos, count)


def _summary(infos: NewtonInfo, count: int) -> NewtonInfo:
    """What is said of all load steps: sums, and the rest of the one that failed, or of the last."""
    failed = infos.result != RESULTS.successful
    which = jnp.where(failed.any(), jnp.argmax(failed), count - 1)
    info = jax.tree.map(lambda a: a[which], infos)
    return eqx.tree_at(
        lambda i: (i.iterations, i.linear_steps, i.residuals, i.fault),
        info,
        (
            infos.iterations.sum(),
            infos.linear_steps.sum(),
            infos.residuals[:, 0],
            info.fault.in_load_step(jnp.where(failed.any(), which, -1).astype(jnp.int32)),
        ),
    )
