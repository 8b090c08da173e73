"""Derivatives of adaptive steps: those of the steps that were accepted, taken once more.

Their sizes are held constant, but for a step that ends at an output time, whose size is what is left, and for one that
ends at an event, whose size is where the event's function is nil (`adaptive_arrival`). Nothing else of the choice of sizes
is differentiated, as is usual: P. Eberhard and C. Bischof, Math. Comput. 68 (1999) 717,
doi:10.1090/S0025-5718-99-01027-3. What a run that failed did not come to has none: NaN.
"""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linear_solver.base.derivative import unknown
from ..._model.system import State
from ..._runtime.array_types import Array
from ..._runtime.jax_internals import unvmap_any
from ..._runtime.results import RESULTS
from .adaptive_arrival import Given, Known, arrival
from .adaptive_memory import ACCEPTED, Inputs, Kept, Options, Progress, Record
from .adaptive_pages import turned
from .adaptive_turn import first_progress
from .checkpointed_scan import checkpointed_scan, chosen_every
from .turn_kernel import as_kernel


class Motion(eqx.Module):
    """What of a run has derivatives: the frames, the last state, and the times of the events."""

    frames: Any
    last: State
    event_time: Array


@eqx.filter_custom_jvp
def run(inputs: Inputs, options: Options) -> tuple[Motion, Progress]:
    """The motion, and all that was done for it."""
    start, kept = first_progress(inputs, options)
    return finished(inputs, turned(inputs, options, kept, start, options.max_steps))


def finished(inputs: Inputs, end: Progress) -> tuple[Motion, Progress]:
    """What is shown of a run at its end: frames that were not reached are those of the last state."""
    frames = inputs.times.shape[0]
    short = (end.frame < frames) & ~end.ended & (end.result == RESULTS.successful)
    end = eqx.tree_at(lambda p: p.result, end, RESULTS.where(short, RESULTS.too_many_time_steps, end.result))
    reached = jnp.arange(frames) < end.frame
    shown = jax.tree.map(lambda a, b: _choose(reached, a, b[None]), end.frames, inputs.observed(end.state))
    return Motion(shown, end.state, end.record.event_time), end


@run.def_jvp
def _run_jvp(primals, tangents):
    inputs, options = primals
    motion, progress = run(inputs, options)
    record, reached = progress.record, jnp.arange(inputs.times.shape[0]) < progress.frame
    record, reached = jax.lax.stop_gradient((record, reached))
    rates = eqx.filter_jvp(lambda inputs: repeated(inputs, options, record, reached), (inputs,), (tangents[0],))[1]
    missed = jax.lax.stop_gradient(progress.result != RESULTS.successful)
    rates = _without_end(rates, reached, unknown(tangents[0], missed))
    return (motion, progress), (rates, jax.tree.map(lambda _: None, progress))


def _without_end(rates: Motion, reached: Array, nothing: Array) -> Motion:
    """Rates of which those of the last state, and of frames that were not `reached`, are `nothing` more."""

    def added(rate: Array) -> Array:
        return rate + nothing.astype(rate.dtype)

    frames = jax.tree.map(lambda a: _choose(reached, a, added(a)), rates.frames)
    return Motion(frames, jax.tree.map(added, rates.last), rates.event_time)


def repeated(inputs: Inputs, options: Options, record: Record, reached: Array) -> Motion:
    """The same motion, by the steps of a record."""
    carry, kept = inputs.first_carry(options)
    ends = _ends(record.frame_turn, jnp.arange(record.frame_turn.shape[0]), options)
    happened = _ends(record.event_turn, record.event, options)

    def told(turn: Array) -> _Turn:
        active, frame = record.outcome[turn] == ACCEPTED, ends[turn]
        h = jnp.where(active, record.dt[turn], record.dt[0])
        return _Turn(active, h, frame >= 0, inputs.times[frame], happened[turn])

    start = inputs.state, carry
    turns = as_kernel(partial(_step, inputs, options, kept), start, jax.eval_shape(told, jnp.zeros((), int)))

    def one(at: Any, turn: Array) -> tuple[Any, tuple[Any, Array]]:
        this = told(turn)
        # Of a batch, if any member takes this step.
        at, time = jax.lax.cond(unvmap_any(this.active), lambda: turns.turn(at, this), lambda: (at, turns.whole(at)[0].time))
        return at, (inputs.observed(turns.whole(at)[0]), time)

    every = chosen_every(options.max_steps, inputs.state, inputs.integrator, inputs.integrator.solves)
    end, (observed, time) = checkpointed_scan(one, turns.joined(start), jnp.arange(options.max_steps), every)
    last = turns.whole(end)[0]
    first, final = inputs.observed(inputs.state), inputs.observed(last)

    def frame(of_turns: Array, first: Array, final: Array) -> Array:
        other = _choose(reached, first[None], final[None])
        return _choose(record.frame_turn >= 0, of_turns[record.frame_turn], other)

    frames = jax.tree.map(frame, observed, first, final)
    return Motion(frames, last, jnp.where(record.event_turn >= 0, time[record.event_turn], 0.0))


def _ends(turns: Array, numbers: Array, options: Options) -> Array:
    """For each turn the one of these numbers that it ended at, -1 where it is none of these `turns`."""
    places = jnp.where(turns >= 0, turns, options.max_steps)
    return jnp.full(options.max_steps, -1, jnp.int32).at[places].set(numbers.astype(jnp.int32), mode="drop")


class _Turn(NamedTuple):
    """What is known of a turn: whether it was accepted, its size, whether it ended at a frame, and when that is; at which
    event it ended (-1: at none)."""

    active: Array
    h: Array
    lands: Array
    time: Array
    event: Array


def _step(
    inputs: Inputs, options: Options, kept: Kept, at: tuple[State, Any], turn: _Turn
) -> tuple[tuple[State, Any], Array]:
    """The step of a turn, and when it ended; the state as it was where the turn was not `active`."""
    (state, carry), (active, h, lands, time, event) = at, turn
    if inputs.events:  # a motion that goes on as it was is at an output time when that is, wherever the event moves
        lands = lands & jnp.array([not (e.apply or e.terminal) for e in inputs.events] + [True])[event]
    rest = time - state.time
    rest = jnp.where(event < 0, rest, h + rest - jax.lax.stop_gradient(rest))  # of events of one instant, which is there
    if inputs.events:
        end, new, instant = arrival(Given(inputs, kept, state, carry, rest), Known(options, h, active & lands, event))
    else:
        until = instant = jnp.where(active & lands, rest, h)
        end, new, _, _ = inputs.step(options, state, kept.whole(carry), until)
        new = kept.part(new)
    end = eqx.tree_at(lambda s: s.time, end, jnp.where(lands, time, end.time))
    happened = jnp.where(event < 0, end.time, state.time + instant)
    end, new = inputs.after(event, end, kept.whole(new))
    after = jax.tree.map(lambda a, b: jnp.where(active, a, b), (end, kept.part(new)), (state, carry))
    return after, jnp.where(active, happened, state.time)


def _choose(rows: Array, a: Array, b: Array) -> Array:
    return jnp.where(rows.reshape(-1, *(1,) * (a.ndim - 1)), a, b)
