"""What adaptive steps are made of: what they are given, and what is known between two of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.constraint_projection import has_prescribed_motion, project
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..._runtime.loops import SMALL
from ..carried import varies
from ..step_checks import checked_error
from ..step_doubling import corrected
from .error_norm import Tolerances
from .event import Bracket, Events, state_after
from .observation import recorded
from .pid_controller import PIDController
from .turn_kernel import in_one

PENDING, *ENDS = range(5)
ACCEPTED, REJECTED, FAILED, SEARCHED = ENDS

_TURNS = 32  # on a page


class Options(eqx.Module):
    """What is not differentiated by. `first_step`, `bounds` of steps [s]."""

    first_step: Array
    bounds: tuple[Array, Array]
    allowed: Tolerances
    controller: PIDController = eqx.field(static=True)
    max_steps: int = eqx.field(static=True)
    max_events: int = eqx.field(static=True)
    extrapolate: bool = eqx.field(static=True)


class Inputs(eqx.Module):
    """What is differentiated by."""

    system: System
    state: State
    times: Array
    integrator: Any
    events: Events
    observe: Callable[[System, State], Any]

    def step(self, options: Options, state: State, carry: Any, h: Array) -> tuple[State, Any, Any, Any]:
        """One step with its error, which is taken away if that is wanted."""
        returned = self.integrator.step_with_error(self.system, state, carry, h, throw=False)
        end, carry, info, error = checked_error(self.integrator, returned, state, carry)
        if options.extrapolate:
            end = corrected(self.system, end, error)
            if self.integrator.velocities_lag:  # the velocity that is corrected is not the one that is handed on
                carry = self.integrator.after_event(self.system, end, carry)
        if has_prescribed_motion(self.system):
            # Motions under control have the rate of a parabola at the end of a step, of second order whatever the scheme.
            error = error[0], project(self.system, error[1])
        return end, carry, info, error

    def observed(self, state: State) -> Any:
        """What is recorded of a state."""
        return recorded(self.observe, self.system, state)

    def first_carry(self, options: Options) -> tuple[Any, "Kept"]:
        """What steps change of the carry, at the first of them, and what they do not."""
        carry, h = in_one(partial(self.integrator.init, self.system), self.state), options.first_step
        changing = varies(lambda state, carry: self.step(options, state, carry, h)[:3], self.state, carry)
        varying, constant = eqx.partition(carry, changing)
        return varying, Kept(constant, changing)

    def after(self, number: Array, state: State, carry: Any) -> tuple[State, Any]:
        """The state and the carry with which a motion goes on after the event of this number; -1: as it was."""
        restarts = self.integrator.restarts_at_events
        if not (restarts or any(event.apply for event in self.events)):
            return state, carry

        def applied(apply: Any, at: tuple[State, Any]) -> tuple[State, Any]:
            new = state_after(apply, at[0])
            return new, self.integrator.after_event(self.system, new, at[1])

        def same(at: tuple[State, Any]) -> tuple[State, Any]:
            return at

        def anew(at: tuple[State, Any]) -> tuple[State, Any]:
            return at[0], self.integrator.after_event(self.system, *at)

        passed = anew if restarts else same
        branches = [same] + [partial(applied, e.apply) if e.apply else passed for e in self.events]
        return jax.lax.switch(number + 1, branches, (state, carry))


class Kept(eqx.Module):
    """What no step changes of a carry, and so no loop carries."""

    constant: Any
    changing: Any  # for each leaf, whether steps change it

    def whole(self, varying: Any) -> Any:
        """A carry of which the rest is known."""
        return eqx.combine(self.constant, varying)

    def part(self, carry: Any) -> Any:
        """The rest of a carry."""
        return eqx.filter(carry, self.changing)


class Record(eqx.Module):
    """What was done in every turn: its size [s], its error over what is allowed, how it ended; and `counts`, how many turns
    ended in each way but `PENDING`. `frame_turn`: the turn that ended at each frame (-1: none). Of what happened, in order:
    `event`, its number (-1: none), `event_turn` (-1) and `event_time` [s].

    No turn reads the columns: a program that does not return them need not have them.
    """

    dt: Array
    error: Array
    outcome: Array
    counts: Array
    frame_turn: Array
    event: Array
    event_turn: Array
    event_time: Array

    @classmethod
    def empty(cls, options: Options, frames: int, dtype: Any) -> "Record":
        """That of a run that has not begun."""
        turns, events = options.max_steps, options.max_events
        zero, none = partial(jnp.zeros, dtype=dtype), partial(jnp.full, fill_value=-1, dtype=jnp.int32)
        outcome, counts = jnp.full(turns, PENDING, jnp.int32), jnp.zeros(len(ENDS), jnp.int32)
        return cls(zero(turns), zero(turns), outcome, counts, none(frames), none(events), none(events), zero(events))

    def with_page(self, page: "Page", shown: "Window", number: Array, turn: Array) -> "Record":
        """With what is on a page and in a window; what happened at the last `turn` is of this number, or of none."""
        taken = page.outcome != PENDING

        def written(column: Array, rows: Array) -> Array:
            before = jax.lax.dynamic_slice(column, (page.first,), rows.shape)
            return jax.lax.dynamic_update_slice(column, jnp.where(taken, rows, before), (page.first,))

        ends = jnp.sum(page.outcome[:, None] == jnp.array(ENDS), axis=0, dtype=jnp.int32)
        happened = ("event", page.event), ("event_turn", turn), ("event_time", page.time)
        return Record(
            dt=written(self.dt, page.sizes[:, 0]),
            error=written(self.error, page.sizes[:, 1]),
            outcome=written(self.outcome, page.outcome),
            counts=self.counts + ends,
            frame_turn=jax.lax.dynamic_update_slice(self.frame_turn, shown.turn, (shown.first,)),
            **{name: getattr(self, name).at[number].set(value, mode="drop") for name, value in happened},
        )


class Page(eqx.Module):
    """Turns of a record, from the `first` on."""

    first: Array
    sizes: Array  # (rows, 2): their sizes [s] and errors
    outcome: Array
    event: Array  # of the last of them, -1: none
    time: Array  # when that ended [s]

    @classmethod
    def empty(cls, turn: Array, turns: int, dtype: Any) -> "Page":
        """That for the turns from one on, or the last one, of so many turns."""
        rows = min(_TURNS, turns)
        sizes = jnp.zeros((rows, 2), dtype)
        first = jnp.minimum(turn, turns - rows)
        return cls(first, sizes, jnp.full(rows, PENDING, jnp.int32), jnp.full((), -1, jnp.int32), sizes[0, 0])

    def added(self, turn: Array, sizes: tuple[Array, Array], outcome: Array) -> "Page":
        """With a turn more."""
        row = turn - self.first
        new = jnp.stack([jnp.asarray(size, self.sizes.dtype) for size in sizes])
        rows = jax.lax.dynamic_update_slice(self.sizes, new[None], (row, jnp.zeros_like(row)))
        return Page(self.first, rows, self.outcome.at[row].set(outcome), self.event, self.time)

    def at_event(self, event: Array, time: Array) -> "Page":
        """The same, at whose end there is this event, or none (-1), at a time [s]."""
        return Page(self.first, self.sizes, self.outcome, event, jnp.asarray(time, self.time.dtype))

    def is_full(self, turns: Array) -> Array:
        """Whether there is no room for another turn, after so many in all."""
        return turns - self.first >= self.sizes.shape[0]


class Window(eqx.Module):
    """Frames from the `first` on, the `turn` that ended at each (-1: none), and their `times` [s]."""

    first: Array
    frames: Any
    turn: Array
    times: Array

    @classmethod
    def of(cls, frame: Array, frames: Any, record: Record, times: Array) -> "Window":
        """That of the frames from this one on, or of the last ones."""
        count = record.frame_turn.shape[0]
        largest = max((a.nbytes // count for a in jax.tree.leaves(frames)), default=0)
        size = min(count, max(1, min(_TURNS, SMALL // max(largest, 1))))
        first = jnp.minimum(frame, count - size)
        seen = jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, first, size), (frames, record.frame_turn, times))
        return cls(first, *seen)

    def time(self, frame: Array) -> Array:
        """That of a frame [s]."""
        return self.times[frame - self.first]

    def added(self, frame: Array, turn: Array, shown: Any) -> "Window":
        """With a frame more, or with none, where the number is none of these."""
        place = jnp.where(frame >= 0, frame - self.first, self.turn.shape[0])
        rows, new = (self.frames, self.turn), (shown, turn)
        return Window(self.first, *jax.tree.map(lambda a, b: a.at[place].set(b, mode="drop"), rows, new), self.times)

    def is_full(self, frame: Array) -> Array:
        """Whether there is no room for this one."""
        return frame - self.first >= self.turn.shape[0]

    def within(self, frames: Any) -> Any:
        """All frames, with these among them."""
        return jax.tree.map(lambda a, b: jax.lax.dynamic_update_slice_in_dim(a, b, self.first, 0), frames, self.frames)


class Progress(eqx.Module):
    """All that is known between two turns; a run goes on from it to the last bit."""

    state: State
    carry: Any  # what steps change of it
    dt: Array  # the size that the controller proposes
    errors: tuple[Array, ...]  # of the last steps that were accepted, as many as the controller remembers
    side: Array  # the signs of the events' functions
    bracket: Bracket
    searching: Array  # whether an event is looked for
    due: Array  # which events are still to come, of the instant of the last one
    fired: Array  # which have come then
    frame: Array  # the next one
    count: Array  # of events
    turns: Array
    ended: Array  # by a terminal event
    result: Any
    info: Any  # of the last turn
    record: Record
    frames: Any
