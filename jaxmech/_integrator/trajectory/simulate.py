"""A trajectory: many steps in one compiled loop."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp

from ..._linear_system.compatibility import check_topology
from ..._model.failure_report import DERIVATIVE, has_succeeded, left_unmet, raise_failure
from ..._model.fault import given
from ..._model.system import State, System, check_inputs
from ..._runtime.argument_checks import check_counts, check_flags, check_instance, plain
from ..._runtime.array_types import Array, Bool, Int
from ..._runtime.host_arrays import argument
from ..._runtime.precision import compiled, in_one_program
from ..._runtime.progress import ProgressBar
from ..._runtime.results import RESULTS, is_traced
from ..base import AbstractIntegrator
from ..carried import in_motion
from ..time_step import check_time_step
from .checkpointed_scan import chosen_every
from .control import in_the_loop
from .fixed_loop import Counts, Steps, first_failure, stepped
from .observation import AbstractTrajectory, recorded
from .segments import segments
from .turn_kernel import in_one


class Trajectory(AbstractTrajectory):
    """The saved states, the start first.

    `state`: all of them stacked, every leaf with a leading axis of frames; `last`: the final one; `info`: of every step,
    saved or not, with a leading axis of steps; `result`, the first failure among them. `observed`: what `observe` gave of
    the same frames, in place of `state`.
    Positions [m], velocities [m/s], times [s]. Raises nothing: `simulate` does.

    Example:

        run = jm.simulate(system, state, jm.ImplicitEuler(linear_system), dt=0.01, steps=4)
        assert jnp.array_equal(run.last.position["cube"], run.position["cube"][-1])
        assert (run.info.result == jm.RESULTS.successful).tolist() == [True] * 4
        assert run.result == jm.RESULTS.successful
    """

    state: State
    last: State
    info: Any  # of `StepInfo`, or what the integrator says of its steps
    observed: Any = None

    @property
    def result(self) -> Any:
        """The first failure of all steps, `RESULTS.successful` if there is none; of each member of a batch.

        With `throw=False` a motion goes on after a step that failed, and what it comes to is no longer that of the scene,
        however well later steps are solved: after an interpenetration, say.
        """
        return first_failure(self.info.result)


def simulate(
    system: System,
    state: State,
    integrator: AbstractIntegrator,
    dt: Any,
    steps: int,
    *,
    save_every: int = 1,
    checkpoint_every: int | None = None,
    control: Callable[..., Any] | None = None,
    parameters: Any = None,
    observe: Callable[[System, State], Any] | None = None,
    restart_file: str | PathLike[str] | None = None,
    restart_every: int | None = None,
    progress: bool = False,
    throw: bool = True,
) -> Trajectory:
    """`steps` steps of `dt` [s] from `state`, every `save_every`-th saved.

    Reverse mode keeps the states of every `checkpoint_every`-th step and computes the steps between them anew: memory of the
    order of `sqrt(steps)` states and matrices, where that is their number. Of 1, it keeps what each step solved for too, and
    computes no more than matrices anew. Unless given, it is 1 where that takes less than about 256 MB, or less than the
    square root of `steps` would, which it is elsewhere.
    `control(time, state, parameters)` gives numbers of the scene for every step, `{component: {field: value}}` and
    `gravity`, of the shapes that they have in it: loads, targets, stiffnesses; one that remembers is an `AbstractControl`.
    `state` is that at the start of the step; `time` [s], the instant whose forces the scheme takes (the end of the step for
    implicit Euler: `AbstractIntegrator.control_at`), and its end for what moves constraints, which go there by a parabola
    through where they have been. `observe(system, state)`: a pytree to record in place of whole states;
    `system` without control. `restart_file`: a file that is written anew after every `restart_every` steps (a tenth of
    them, unless given), from which the same call goes on, to the last bit, when it was interrupted; outside of `jit` only.
    `progress`: draws a bar (needs tqdm). Raises `ValueError` for counts that are not positive or do not divide, for control
    of what is not in the scene, for a restart file of another run, and `FailedComputation` naming the first step that
    failed, unless `throw=False`.
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
    steps, save_every, checkpoint_every, restart_every = map(plain, (steps, save_every, checkpoint_every, restart_every))
    check_counts("simulate", steps=steps, save_every=save_every)
    every = chosen_every(steps, state, integrator, integrator.solves) if checkpoint_every is None else checkpoint_every
    counts = _counts(steps, save_every, every)
    check_flags("simulate", progress=progress, throw=throw)
    integrator, watched = in_the_loop("simulate", integrator, control, parameters, observe)
    bar = ProgressBar(steps, "simulate") if progress else None
    h = argument(dt, state.time.dtype)
    raises = throw and is_traced((system, state, integrator, h))
    who = DERIVATIVE.format("simulate") if raises else ""
    if restart_file is None:
        if restart_every is not None:
            raise ValueError("simulate: restart_every is of no use without a restart_file.")
        frames, last, info = _run(system, state, integrator, h, counts, watched, bar, who)
    else:
        frames, last, info = segments(restart_file, restart_every, system, state, integrator, h, counts, watched, bar)
    trajectory = Trajectory(frames, last, info) if observe is None else Trajectory(None, last, info, frames)
    if not throw:
        return trajectory
    fine = has_succeeded(info.result)
    if fine and not left_unmet(info):
        return trajectory
    first, info = _first(getattr(info, "motion", info).unmet if fine else info.result != RESULTS.successful, info)
    numbers, ends = partial(given, system, state, h), lambda: _held_at(trajectory.state, state, int(first), save_every, h)
    at = {"moves": integrator.has_inertia, "time_step": first, "held_at": ends}
    return raise_failure(trajectory, info, system, "simulate", numbers, **at)


def _held_at(frames: State | None, start: State, step: int, save_every: int, h: Array) -> State:
    """The last state that is known of before a step, at the time at which the step ends: what comes after may be NaN."""
    before = start if frames is None else jax.tree.map(lambda a: a[step // save_every], frames)
    return replace(before, time=start.time + (step + 1) * h)


@in_one_program
def _first(wrong: Bool[Array, " steps"], info: Any) -> tuple[Int[Array, ""], Any]:
    """The number of the first step that went wrong, and what it says."""
    first = jnp.argmax(wrong)
    return first, jax.tree.map(lambda a: a[first], info)


def _counts(steps: int, save_every: int, checkpoint_every: int) -> Counts:
    if steps % save_every:
        raise ValueError(f"simulate: save_every={save_every} does not divide steps={steps}.")
    check_counts("simulate", checkpoint_every=checkpoint_every)
    return Counts(steps, save_every, checkpoint_every)


@compiled
def _run(
    system: System, state: State, integrator: Any, h: Array, counts: Counts, observe: Callable, bar: Any, who: str
) -> tuple[Any, State, Any]:
    start = in_motion(state, (system, integrator, h)), in_one(partial(integrator.init, system), state)
    advanced = partial(integrator.advanced, system, h=h, derivatives_of=who)
    end: Steps = stepped(system, start, advanced, h, observe, counts, bar, derivatives_of=who)
    first = recorded(observe, system, state)
    frames = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, end.frames)
    return frames, end.last, end.info
