"""A trajectory in steps of the size that its accuracy asks for."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._linear_solver.base.derivative import raise_in_derivatives
from ..._linear_system.compatibility import check_topology
from ..._model.failure_report import DERIVATIVE, has_succeeded, raise_failure
from ..._model.fault import given
from ..._model.system import State, System, check_inputs
from ..._runtime.argument_checks import check_counts, check_flags, check_instance, plain, real_array
from ..._runtime.array_types import Array
from ..._runtime.host_arrays import argument
from ..._runtime.precision import compiled
from ..._runtime.results import is_out_of_sight
from ..._scene.parameter import is_concrete
from ..base import AbstractIntegrator
from ..time_step import check_time_step
from .adaptive_memory import Inputs, Options, Progress
from .adaptive_pages import goes_on, turned
from .adaptive_replay import Motion, finished, run
from .adaptive_turn import first_progress
from .closures import with_what_it_closes_over
from .control import AbstractControl, in_the_loop
from .error_norm import tolerances
from .event import Event
from .observation import AbstractTrajectory
from .pid_controller import PIDController
from .restart import through_a_file

_USUAL = PIDController()


class AdaptiveInfo(eqx.Module):
    """What happened in an adaptive run. A turn is one trial step, accepted or not.

    `result`: a member of `RESULTS`. `accepted`, `rejected` (not accurate enough), `failed` (the step itself: Newton did not
    converge, say), `searched` (looking for an event): how many turns ended so; `turns`: all of them. Of every turn, with a
    leading axis of `max_steps`: `dt` [s], `error` over what is allowed, `outcome` (0 none, 1 accepted, 2 rejected, 3 failed,
    4 searched). `last_step`: what the integrator said of the last one. Raises nothing: `simulate_adaptive` does.

    Example:

        run = jm.simulate_adaptive(system, state, jm.ImplicitEuler(linear_system), [0.01, 0.02], rtol=1e-2, atol=1e-4)
        h = run.info.dt[run.info.outcome == 1]  # [s]
        assert h.shape == (int(run.info.accepted),) and jnp.allclose(h.sum(), 0.02)
    """

    result: Any
    accepted: Array
    rejected: Array
    failed: Array
    searched: Array
    turns: Array
    dt: Array
    error: Array
    outcome: Array
    last_step: Any


class AdaptiveTrajectory(AbstractTrajectory):
    """The states at the output times.

    `state`: all of them stacked, every leaf with a leading axis of frames; or `observed`, what `observe` gave of them.
    `last`: the final state. `reached`: which of the times were; frames after the end of a motion are those of its last
    state. `event_time` [s], `event`: when something happened, and which event it was, in order; of `max_events` places, -1
    where nothing did. Positions [m], velocities [m/s]. Raises nothing: `simulate_adaptive` does.

    Example:

        run = jm.simulate_adaptive(system, state, jm.ImplicitEuler(linear_system), [0.01, 0.02], rtol=1e-2, atol=1e-4)
        assert run.state.position["cube"].shape == (2, 8, 3) and bool(run.reached.all())
        assert run.state.time.tolist() == [0.01, 0.02]  # [s]
    """

    state: State
    observed: Any
    last: State
    reached: Array
    event_time: Array
    event: Array
    info: AdaptiveInfo

    @property
    def result(self) -> Any:
        """How the motion ended: a member of `RESULTS`, that of `info`."""
        return self.info.result


def simulate_adaptive(
    system: System,
    state: State,
    integrator: AbstractIntegrator,
    times: Any,
    *,
    rtol: Any,
    atol: Any,
    controller: PIDController | None = None,
    dt0: Any = None,
    dt_min: Any = 0.0,
    dt_max: Any = None,
    max_steps: int = 4096,
    extrapolate: bool = False,
    events: Sequence[Event] = (),
    max_events: int = 16,
    control: Callable[..., Any] | None = None,
    parameters: Any = None,
    observe: Callable[[System, State], Any] | None = None,
    restart_file: str | PathLike[str] | None = None,
    restart_every: int | None = None,
    throw: bool = True,
) -> AdaptiveTrajectory:
    """The states at `times` (increasing, none before `state.time`) [s], in steps whose error is at most what is allowed.

    Of every main state, positions (in the chart) and velocities, translations and rotations each for themselves: the root
    mean square over its nodes of `integrator.step_with_error` is at most `atol + rtol size`, `size` the largest among them
    (of rotations of a `Rigid3`, a radian). `rtol`: a number, or one for each state; `atol`: likewise, or a pair for
    positions [m] and velocities [m/s]. `extrapolate`: go on from the more accurate states that the errors give. The steps of
    `jm.integrator.Tsitouras` are the more accurate ones already: take it for smooth motions without stiff parts, `TRBDF2`
    for others.
    Steps end at the output times. Their size [s], `dt0` at first (a hundredth of the time, unless given), is chosen by
    `controller` between `dt_min` and `dt_max`; a step that fails is repeated with a smaller one. `max_steps`: how many may
    be taken, repeated ones included.
    `events`: what happens meanwhile (`Event`), the first `max_events` of which are recorded. `control`, `parameters`,
    `observe`: as in `simulate`; control is evaluated in each of the steps that an error is estimated from. `restart_file`,
    `restart_every` (a tenth of `max_steps`, unless given): likewise.
    Differentiable in both modes by what is in the arguments, and by what the functions among them close over. Derivatives
    are those of the steps that were taken, sizes held constant but for those that end at an output time or at an event.
    Raises `ValueError` or `TypeError` for other arguments and for schemes with impacts (`FreeMotion` with restitution), and
    `FailedComputation` unless `throw=False`: where the last time is not reached in `max_steps`, where no allowed step is
    accurate enough, where even the smallest fails.
    Source: E. Hairer, S. P. Norsett, G. Wanner, *Solving Ordinary Differential Equations I*, 2nd ed., 1993,
    doi:10.1007/978-3-540-78862-1, section II.4.

    Example:

        pulled = jm.System(oscillator.dofs, forces=oscillator.forces, masses=oscillator.masses, gravity=(10.0,))
        euler = jm.ImplicitEuler(jm.MatrixLinearSystem.build(pulled, oscillator_state))
        run = jm.simulate_adaptive(pulled, oscillator_state, euler, [1.0], rtol=1e-5, atol=1e-5, extrapolate=True)
        x = run.state.position["p"][0, 0, 0]  # m g / k (1 - cos(w t)) with w = 2/s [m]
        assert jnp.allclose(x, 2.5 * (1 - jnp.cos(2.0)), rtol=1e-3) and int(run.info.accepted) < 600
    """
    who = "simulate_adaptive"
    check_inputs(who, system, state)
    check_instance(who, "integrator", integrator, AbstractIntegrator)
    _check_smooth(who, integrator)
    check_topology(f"the linear system given to {who}", integrator.built_for, system)
    controller = _USUAL if controller is None else controller
    check_instance(who, "controller", controller, PIDController)
    max_steps, max_events, restart_every = map(plain, (max_steps, max_events, restart_every))
    check_counts(who, max_steps=max_steps, max_events=max_events)
    check_flags(who, extrapolate=extrapolate, throw=throw)
    _check_extrapolates(who, extrapolate, integrator)
    times = _checked_times(who, times, state)
    happenings = _checked_events(who, events, system, state)
    allowed = tolerances(who, system, rtol, atol, state.time.dtype)
    if callable(control) and not isinstance(control, AbstractControl):  # of which all that it has is a leaf
        control = with_what_it_closes_over(control, state.time, state, parameters)
    integrator, watched = in_the_loop(who, integrator, control, parameters, observe)
    watched = with_what_it_closes_over(watched, system, state)
    first, bounds = _steps(who, state, times, dt0, dt_min, dt_max)
    options = Options(first, bounds, allowed, controller, max_steps, max_events, extrapolate)
    inputs = Inputs(system, state, times, integrator, happenings, watched)
    if restart_file is None:
        if restart_every is not None:
            raise ValueError(f"{who}: restart_every is of no use without a restart_file.")
        raises = throw and is_out_of_sight((inputs, options))
        trajectory = _run(inputs, options, observe is None, DERIVATIVE.format(who) if raises else "")
    else:
        trajectory = _with_restart(restart_file, restart_every, inputs, options, observe is None)
    if not throw:
        return trajectory
    info = trajectory.info
    if has_succeeded(info.result):
        return trajectory
    said = eqx.tree_at(lambda i: i.result, info.last_step, info.result)
    numbers = partial(given, system, state, info.dt[0])
    at = {"moves": integrator.has_inertia, "time_step": info.turns - 1, "held_at": lambda: trajectory.last}
    return raise_failure(trajectory, said, system, who, numbers, **at)


def _check_smooth(who: str, integrator: AbstractIntegrator) -> None:
    if integrator.has_impacts:
        raise ValueError(
            f"{who}: steps of {type(integrator).__name__} have impacts (contacts with restitution), at which velocities "
            "jump, and no estimate of their error holds there. Take equal steps (`simulate`); or, of few impacts, a scheme "
            "without contact, and an `Event` whose `apply` is the impact."
        )


def _check_extrapolates(who: str, extrapolate: bool, integrator: AbstractIntegrator) -> None:
    if extrapolate and integrator.estimated_order < integrator.order:
        name, orders = (
            type(integrator).__name__,
            f"of order {integrator.order}, its errors of order {integrator.estimated_order}",
        )
        raise ValueError(
            f"{who}: extrapolate=True would make the steps of {name} less accurate: they are {orders}. Leave it out."
        )


def _checked_events(who: str, events: Any, system: System, state: State) -> tuple[Event, ...]:
    if not isinstance(events, (list, tuple)):
        raise TypeError(f"{who}: events must be a list of Event, got {events!r:.80}.")
    for number, event in enumerate(events):
        check_instance(who, f"events[{number}]", event, Event)
    return tuple(_explicit(event, system, state) for event in events)


def _explicit(event: Event, system: System, state: State) -> Event:
    """The event, whose functions have as leaves what they close over."""
    function = with_what_it_closes_over(event.function, system, state)
    apply = None if event.apply is None else with_what_it_closes_over(event.apply, state)
    return eqx.tree_at(lambda e: (e.function, e.apply), event, (function, apply), is_leaf=lambda leaf: leaf is None)


def _checked_times(who: str, times: Any, state: State) -> Array:
    times = argument(real_array(who, "times", times, (None,)), state.time.dtype)
    if times.shape[0] == 0:
        raise ValueError(f"{who}: times must hold at least one time.")
    if is_concrete(times):
        host = np.asarray(times)
        if not np.all(np.diff(host) > 0):
            raise ValueError(f"{who}: times must increase, got {host}.")
        if is_concrete(state.time) and host[0] < float(state.time):
            raise ValueError(f"{who}: times begin at {host[0]} s, before the state, at {float(state.time)} s.")
    return times


def _steps(who: str, state: State, times: Array, dt0: Any, dt_min: Any, dt_max: Any) -> tuple[Array, tuple[Array, Array]]:
    """The first step, and the bounds of all."""
    dtype = state.time.dtype
    for name, value in (("dt0", dt0), ("dt_max", dt_max)):
        if value is not None:
            check_time_step(value, name=name)
    smallest = argument(real_array(who, "dt_min", dt_min, ()), dtype)
    if is_concrete(smallest) and float(smallest) < 0:
        raise ValueError(f"{who}: dt_min must be at least 0, got {dt_min}.")
    largest = argument(np.inf if dt_max is None else dt_max, dtype)
    if is_concrete(smallest, largest) and float(smallest) > float(largest):
        raise ValueError(f"{who}: dt_min={dt_min} is larger than dt_max={dt_max}.")
    return _hundredth(times, state.time) if dt0 is None else argument(dt0, dtype), (smallest, largest)


def _hundredth(times: Any, now: Any) -> Array:
    if is_concrete(times, now):
        times, now = np.asarray(times), np.asarray(now)
    return (times[-1] - now) / times.dtype.type(100)


@compiled
def _run(inputs: Inputs, options: Options, whole: bool, derivatives_of: str) -> AdaptiveTrajectory:
    motion, end = run(inputs, options)
    if derivatives_of:  # a program of a gradient may read nothing else that tells of a failure
        motion = raise_in_derivatives(motion, end.result, derivatives_of)
    return _trajectory(inputs, motion, end, whole)


def _trajectory(inputs: Inputs, motion: Motion, end: Progress, whole: bool) -> AdaptiveTrajectory:
    reached = jnp.arange(inputs.times.shape[0]) < end.frame
    time = jnp.where(end.record.event_turn >= 0, motion.event_time, -1.0)
    state, observed = (motion.frames, None) if whole else (None, motion.frames)
    record = end.record
    info = AdaptiveInfo(end.result, *record.counts, end.turns, record.dt, record.error, record.outcome, end.info)
    return AdaptiveTrajectory(state, observed, motion.last, reached, time, record.event, info)


def _with_restart(
    path: str | PathLike[str], every: int | None, inputs: Inputs, options: Options, whole: bool
) -> AdaptiveTrajectory:
    """The same, in parts that a file can be gone on from."""
    check_counts("simulate_adaptive", restart_every=1 if every is None else every)
    turns = -(-options.max_steps // 10) if every is None else every

    def onward(at: Progress) -> Progress:
        return _onward(inputs, options, at, at.turns + turns)

    def is_done(at: Progress) -> bool:
        return not bool(goes_on(inputs, options, at))

    given = {field.name: getattr(inputs, field.name) for field in dataclasses.fields(inputs)} | {"options": options}
    end = through_a_file("simulate_adaptive", path, given, partial(_first, inputs, options), onward, is_done)
    return _ended(inputs, end, whole)


@compiled
def _first(inputs: Inputs, options: Options) -> Progress:
    return first_progress(inputs, options)[0]


@compiled
def _onward(inputs: Inputs, options: Options, at: Progress, until: Array) -> Progress:
    return turned(inputs, options, inputs.first_carry(options)[1], at, until)


@compiled
def _ended(inputs: Inputs, end: Progress, whole: bool) -> AdaptiveTrajectory:
    return _trajectory(inputs, *finished(inputs, end), whole)
