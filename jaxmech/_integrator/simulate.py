"""A trajectory: many steps in one compiled loop."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .._linear_system.compatibility import check_topology
from .._model.failure_report import DERIVATIVE, raise_failure
from .._model.fault import given
from .._model.system import State, System, check_inputs
from .._runtime.argument_checks import check_counts, check_flags, check_instance
from .._runtime.array_types import Array
from .._runtime.precision import compiled
from .._runtime.progress import ProgressBar
from .._runtime.results import RESULTS, is_traced
from .._solve.equilibrium import StepInfo
from .base import AbstractIntegrator
from .carried import varies
from .time_step import check_time_step


class Trajectory(eqx.Module):
    """The saved states, the start first.

    `state`: all of them stacked, every leaf with a leading axis of frames; `last`: the final one; `info`: of every step,
    saved or not, with a leading axis of steps.
    Positions [m], velocities [m/s], times [s]. Raises nothing: `simulate` does.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        assert jnp.array_equal(run.last.position["cube"], run.position["cube"][-1])
        assert (run.info.result == jm.RESULTS.successful).tolist() == [True] * 4
    """

    state: State
    last: State
    info: StepInfo
    observed: Any = None

    @property
    def position(self) -> dict[str, Array]:
        """`(frames, nodes, coord_size)` of every main state [m]."""
        return self.state.position

    @property
    def velocity(self) -> dict[str, Array]:
        """`(frames, nodes, deriv_size)` of every main state [m/s]."""
        return self.state.velocity

    @property
    def time(self) -> Array:
        """`(frames,)` [s]."""
        return self.state.time


def whole_state(system: System, state: State) -> State:
    """The observation of everything."""
    del system
    return state


def simulate(
    system: System,
    state: State,
    integrator: AbstractIntegrator,
    dt: Any,
    steps: int,
    *,
    save_every: int = 1,
    checkpoint_every: int | None = None,
    progress: bool = False,
    throw: bool = True,
) -> Trajectory:
    """`steps` steps of `dt` [s] from `state`, every `save_every`-th saved.

    Reverse mode keeps the states of every `checkpoint_every`-th step (the square root of `steps`, unless given) and
    computes the steps between them anew: memory of the order of `sqrt(steps)` states beyond those that are saved.
    `progress`: draws a bar (needs tqdm). Raises `ValueError` for counts that are not positive or do not divide, and
    `FailedComputation` naming the first step that failed, unless `throw=False`.
    Source: A. Griewank and A. Walther, *Evaluating Derivatives*, 2008, chapter 12.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        assert run.position["cube"].shape == (5, 8, 3)  # [m], the start first
        assert jnp.allclose(run.state.time, jnp.array([0.0, 0.01, 0.02, 0.03, 0.04]))  # [s]
    """
    check_inputs("simulate", system, state)
    check_instance("simulate", "integrator", integrator, AbstractIntegrator)
    check_topology("the linear system given to simulate", integrator.built_for, system)
    check_time_step(dt)
    check_counts("simulate", steps=steps, save_every=save_every)
    if checkpoint_every is not None:
        check_counts("simulate", checkpoint_every=checkpoint_every)
    check_flags("simulate", progress=progress, throw=throw)
    if steps % save_every:
        raise ValueError(f"simulate: save_every={save_every} does not divide steps={steps}.")
    every = math.isqrt(steps - 1) + 1 if checkpoint_every is None else checkpoint_every
    bar = ProgressBar(steps, "simulate") if progress else None
    h = jnp.asarray(dt, state.time.dtype)
    raises = throw and is_traced((system, state, integrator, h))
    who = DERIVATIVE.format("simulate") if raises else ""
    trajectory = _run(system, state, integrator, h, steps, save_every, every, bar, who)
    if not throw:
        return trajectory
    failed = trajectory.info.result != RESULTS.successful
    if not is_traced(failed) and not bool(jnp.any(failed)):
        return trajectory
    first = jnp.argmax(failed)  # of no failure, the first step
    info = jax.tree.map(lambda a: a[first], trajectory.info)
    return raise_failure(trajectory, info, system, "simulate", partial(given, system, state, h), moves=True, time_step=first)


@compiled
def _run(
    system: System, state: State, integrator: Any, h: Array, steps: int, save_every: int, every: int, bar: Any, who: str
) -> Trajectory:
    advanced = partial(integrator.advanced, system, h=h, derivatives_of=who)
    carry = integrator.init(system, state)
    changing = varies(advanced, state, carry)
    varying, constant = eqx.partition(carry, changing)

    def one(at: tuple[State, Any], number: Array) -> tuple[tuple[State, Any], StepInfo]:
        state, carry, info = advanced(at[0], eqx.combine(constant, at[1]))
        if bar is not None:
            bar.advance(number + 1)
        return (state, eqx.filter(carry, changing)), info

    def frame(at: tuple[State, Any], first: Array) -> tuple[tuple[State, Any], tuple[State, StepInfo]]:
        at, info = checkpointed_scan(one, at, first + jnp.arange(save_every), every)
        return at, (at[0], info)

    firsts = jnp.arange(0, steps, save_every)
    (last, _), (saved, info) = checkpointed_scan(frame, (state, varying), firsts, max(1, every // save_every))
    frames = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), state, saved)
    info = jax.tree.map(lambda a: a.reshape(steps, *a.shape[2:]), info)
    return Trajectory(frames, last, info)


def checkpointed_scan(step: Callable, start: Any, xs: Array, every: int) -> tuple[Any, Any]:
    """`lax.scan` that keeps, for reverse mode, only the carry of every `every`-th step.

    The last chunk is filled up with steps that do nothing rather than compiled a second time at its own length.
    """
    length = xs.shape[0]
    if length == 1:
        carry, y = step(start, xs[0])
        return carry, jax.tree.map(lambda a: a[None], y)
    if length <= every:
        return jax.lax.scan(step, start, xs)
    chunks = -(-length // every)
    padded = jnp.resize(xs, (chunks, every))
    real = (jnp.arange(chunks * every) < length).reshape(chunks, every)
    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(step, start, xs[0])[1])

    def guarded(carry: Any, at: tuple[Array, Array]) -> tuple[Any, Any]:
        if chunks * every == length:
            return step(carry, at[0])
        return jax.lax.cond(at[1], lambda c: step(c, at[0]), lambda c: (c, nothing), carry)

    @jax.checkpoint
    def chunk(carry: Any, part: tuple[Array, Array]) -> tuple[Any, Any]:
        return jax.lax.scan(guarded, carry, part)

    carry, ys = jax.lax.scan(chunk, start, (padded, real))
    return carry, jax.tree.map(lambda a: a.reshape(chunks * every, *a.shape[2:])[:length], ys)
