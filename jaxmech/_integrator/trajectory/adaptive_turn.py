"""A turn of adaptive steps: it takes one step, and says how long the next one is.

A turn ends in a step that is accepted, in one that is to be repeated with another size, or in a closer look at an event: one
step is traced and compiled for all of them, and the members of a batch go through it side by side.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.system import State
from ..._runtime.array_types import Array
from ..._runtime.results import RESULTS
from . import event as crossing
from .adaptive_memory import ACCEPTED, FAILED, REJECTED, SEARCHED, Inputs, Kept, Options, Progress, Record
from .error_norm import error_norm
from .event import Bracket
from .pid_controller import after_rejection, next_step

_ROUNDING = 16  # units in the last place of the time, below which no step is worth its name


def first_progress(inputs: Inputs, options: Options) -> tuple[Progress, Kept]:
    """Where a run begins, and what of its carry no step changes."""
    carry, kept = inputs.first_carry(options)
    state, dtype, frames = inputs.state, inputs.state.time.dtype, inputs.times.shape[0]
    told = eqx.filter_eval_shape(lambda: inputs.step(options, state, kept.whole(carry), options.first_step)[2])
    nothing, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    in_order = (inputs.times[0] >= state.time) & jnp.all(jnp.diff(inputs.times) > 0)  # which traced ones need not be
    side = jnp.sign(crossing.values(inputs.events, inputs.system, state)) if inputs.events else jnp.zeros(0, dtype)
    progress = Progress(
        state=state,
        carry=carry,
        dt=options.first_step,
        errors=(jnp.ones((), dtype),) * options.controller.remembers,
        side=side,
        bracket=Bracket.none(dtype),
        searching=no,
        due=jnp.zeros(len(inputs.events), bool),
        fired=jnp.zeros(len(inputs.events), bool),
        frame=(in_order & (inputs.times[0] == state.time)).astype(jnp.int32),
        count=nothing,
        turns=nothing,
        ended=no,
        result=RESULTS.where(in_order, RESULTS.successful, RESULTS.times_out_of_order),
        info=jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), told),
        record=Record.empty(options, frames, dtype),
        frames=jax.tree.map(lambda a: jnp.repeat(a[None], frames, axis=0), inputs.observed(state)),
    )
    return progress, kept


class Told(NamedTuple):
    """What is written of a turn: its number, its size [s] and error, how it ended; the event there (-1: none), and when."""

    turn: Array
    sizes: tuple[Array, Array]
    outcome: Array
    event: Array
    time: Array


def turn(inputs: Inputs, options: Options, kept: Kept, at: Progress, aims: tuple[Array, Array]) -> tuple[Progress, Told]:
    """The progress after a turn towards the next output time and the last one, and what is written of it."""
    trial = _trial(inputs, options, kept, at, aims)
    decision = _decided(inputs, at, trial)
    ok, good, accepted = decision[:3]
    outcome = jnp.where(accepted, ACCEPTED, jnp.where(good, SEARCHED, jnp.where(ok, REJECTED, FAILED))).astype(jnp.int32)
    told = Told(at.turns, (trial.h, trial.error), outcome, decision.event, trial.end.time)
    return _judged(inputs, options, kept, at, trial, decision), told


class _Trial(NamedTuple):
    """A step that was taken: its length, that without an output time near, whether it is for an event and the last look at
    it; and what it ended in."""

    h: Array
    free: Array
    floor: Array
    located: Array
    tolerance: Array
    end: State
    carry: Any
    info: Any
    error: Array
    start: Array  # the events' functions where it begins
    left: Array  # until each event
    arrives: Array  # at the next output time


def _trial(inputs: Inputs, options: Options, kept: Kept, at: Progress, aims: tuple[Array, Array]) -> _Trial:
    """A step towards the next output time and the last one."""
    time, (ahead, last) = at.state.time, aims
    unit = jnp.finfo(time.dtype).eps * jnp.maximum(jnp.abs(time), jnp.abs(last))
    floor = jnp.maximum(options.bounds[0], _ROUNDING * unit)
    free = jnp.clip(at.dt, floor, options.bounds[1])
    rest = ahead - time
    # Two steps of equal size are better than a whole one and what it leaves.
    h = jnp.where(free >= rest, rest, jnp.where(2 * free > rest, rest / 2, free))
    tolerance = jnp.maximum(min((e.tolerance for e in inputs.events), default=0.0), 2 * unit)
    located = at.bracket.b - at.bracket.a <= tolerance
    if inputs.events:
        h = jnp.where(at.searching, jnp.where(located, at.bracket.b, at.bracket.next_length(tolerance)), h)
    end, carry, info, error = inputs.step(options, at.state, kept.whole(at.carry), h)
    end = eqx.tree_at(lambda s: s.time, end, jnp.where(h >= rest, ahead, jnp.minimum(end.time, ahead)))
    ratio = error_norm(inputs.system.dofs, at.state, end, error, options.allowed)
    changed, start, left = kept.part(carry), *(jnp.zeros(0, time.dtype),) * 2
    if len(inputs.events) > 1:  # what is due is of the instant that is there
        stays = at.due.any()
        end, changed = jax.tree.map(lambda a, b: jnp.where(stays, a, b), (at.state, at.carry), (end, changed))
    if inputs.events:
        start, g = (crossing.values(inputs.events, inputs.system, s) for s in (at.state, end))
        left = crossing.remaining(inputs.events, at.side, start, g)
    return _Trial(h, free, floor, located, tolerance, end, changed, info, ratio, start, left, end.time >= ahead)


class _Decision(NamedTuple):
    """What becomes of a step: whether it did what a step does (`ok`), accurately (`good`), and is taken (`accepted`), at the
    event of a number (-1: at none); or whether events have accumulated."""

    ok: Array
    good: Array
    accepted: Array
    event: Array
    accumulated: Array


def _decided(inputs: Inputs, at: Progress, trial: _Trial) -> _Decision:
    ok = (trial.info.result == RESULTS.successful) & jnp.isfinite(trial.error) & ~jnp.isnan(trial.left).any()
    good = ok & (at.searching | (trial.error <= 1))
    crossed = good & (jnp.min(trial.left, initial=jnp.inf) < 0)
    close = trial.h - at.bracket.a <= trial.tolerance
    at_event = good & at.searching & (trial.located | (crossed & close))
    first = crossing.first_of(inputs.events, at.due, trial.left) if inputs.events else -1
    event = jnp.where(at_event, first, -1).astype(jnp.int32)
    accepted = at_event | (good & ~at.searching & ~crossed)
    return _Decision(ok, good, accepted, event, _accumulated(inputs, at, trial, event))


def _accumulated(inputs: Inputs, at: Progress, trial: _Trial, event: Array) -> Array:
    """Whether an event that changes the state is found where the step begins, though the motion leads away from it: it has
    just happened, and happens again sooner than times can tell apart. `apply` would turn a motion that is turned already.
    """
    if not any(e.apply for e in inputs.events):
        return jnp.zeros((), bool)
    changes = jnp.array([e.apply is not None for e in inputs.events] + [False])[event]
    leaves = (at.side * crossing.headings(inputs.events, inputs.system, trial.end))[event] > 0
    return changes & leaves & (at.bracket.a == 0) & (trial.h <= trial.tolerance) & ~at.due[event]


def _judged(inputs: Inputs, options: Options, kept: Kept, at: Progress, trial: _Trial, decision: _Decision) -> Progress:
    ok, good, accepted, event, accumulated = decision
    end, carry = inputs.after(event, trial.end, kept.whole(trial.carry))

    def taken(new: Any, old: Any) -> Any:
        return jax.tree.map(lambda a, b: jnp.where(accepted, a, b), new, old)

    searching, due, fired, count, ended = at.searching, at.due, at.fired, at.count, at.ended
    lands = accepted & trial.arrives
    if inputs.events:
        fired = taken(_fired(inputs, at, event), fired)
        due = taken(_due(inputs, at, trial, event), due)
        searching, count = good & (~accepted | due.any()), at.count + (event >= 0)
        ended = jnp.array([e.terminal for e in inputs.events] + [False])[event]
        lands &= ended | ~due.any()
    return Progress(
        state=taken(end, at.state),
        carry=taken(kept.part(carry), at.carry),
        dt=_next_length(inputs, options, at, trial, decision),
        errors=taken((trial.error, *at.errors)[: len(at.errors)], at.errors),
        side=taken(_sides(inputs, at, trial, end, event), at.side),
        fired=fired,
        bracket=_bracket(inputs, at, trial, due),
        searching=searching,
        due=due,
        frame=at.frame + lands,
        count=count,
        turns=at.turns + 1,
        ended=ended,
        result=RESULTS.where(accumulated, RESULTS.events_accumulate, _verdict(trial, ok, good)),
        info=trial.info,
        record=at.record,
        frames=at.frames,
    )


def _next_length(inputs: Inputs, options: Options, at: Progress, trial: _Trial, decision: _Decision) -> Array:
    h, e, k = trial.h, trial.error, inputs.integrator.estimated_order + 1
    at_will = decision.accepted & (decision.event < 0)
    proposed = next_step(options.controller, h, (e, *at.errors), k)
    # A step that was cut for an output time says little of longer ones.
    proposed = jnp.where((h < trial.free) & (proposed >= h), jnp.maximum(proposed, trial.free), proposed)
    smaller = jnp.where(decision.ok, after_rejection(options.controller, h, e, k), options.controller.on_failure * h)
    return jnp.where(at_will, proposed, jnp.where(decision.good, at.dt, smaller))


def _due(inputs: Inputs, at: Progress, trial: _Trial, event: Array) -> Array:
    """The other events of the instant of an event."""
    others = (event >= 0) & (jnp.arange(len(inputs.events)) != event)
    return others & jnp.where(at.due.any(), at.due, trial.left < 0)


def _bracket(inputs: Inputs, at: Progress, trial: _Trial, due: Array) -> Bracket:
    if not inputs.events:
        return at.bracket
    start = crossing.remaining(inputs.events, at.side, trial.start, trial.start)
    first = Bracket.of(trial.h, jnp.min(start), jnp.min(trial.left))
    closer = at.bracket.narrowed(trial.h, jnp.min(trial.left))
    at_once = Bracket.of(trial.tolerance, first.at_a, first.at_b)
    return jax.tree.map(lambda a, b, c: jnp.where(due.any(), c, jnp.where(at.searching, a, b)), closer, first, at_once)


def _fired(inputs: Inputs, at: Progress, event: Array) -> Array:
    """The events that have fired at the instant of an event."""
    return (jnp.arange(len(inputs.events)) == event) | (at.fired & at.due.any())


def _sides(inputs: Inputs, at: Progress, trial: _Trial, end: State, event: Array) -> Array:
    """The signs of the events' functions at the end of a step; of events that are due, as they were."""
    if not inputs.events:
        return at.side
    g = crossing.values(inputs.events, inputs.system, end)
    nil = jnp.where(trial.start == 0, 0.0, at.side)  # what rests there begins anew with where it leads
    now, fired = jnp.arange(len(inputs.events)) == event, _fired(inputs, at, event)
    side = jnp.where((trial.left < 0) | at.due | fired, at.side, jnp.where(g == 0, nil, jnp.sign(g)))
    return crossing.side_after(inputs.events, inputs.system, end, side, fired, now)


def _verdict(trial: _Trial, ok: Array, went_well: Array) -> Any:
    """Why a run cannot go on: a failure that no smaller step may mend."""
    undefined = RESULTS.where(jnp.isnan(trial.left).any(), RESULTS.event_not_finite, RESULTS.not_finite)
    why = RESULTS.where(trial.info.result == RESULTS.successful, undefined, trial.info.result)
    why = RESULTS.where(ok, RESULTS.time_step_too_small, why)
    hopeless = (trial.h <= trial.floor) | (why == RESULTS.nonfinite_input) | (why == RESULTS.no_first_acceleration)
    return RESULTS.where(~went_well & hopeless, why, RESULTS.successful)
