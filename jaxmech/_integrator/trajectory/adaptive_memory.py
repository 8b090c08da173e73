"""What adaptive steps are made of: what they are given, and what is known between two of them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..carried import varies
from ..step_doubling import corrected
from .error_norm import Tolerances
from .event import Bracket, Events, state_after
from .pid_controller import PIDController

PENDING, ACCEPTED, REJECTED, FAILED, SEARCHED = range(5)


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
        end, carry, info, error = self.integrator.step_with_error(self.system, state, carry, h, throw=False)
        return corrected(self.system.dofs, end, error) if options.extrapolate else end, carry, info, error

    def observed(self, state: State) -> Any:
        """What is recorded of a state."""
        return jax.tree.map(jnp.asarray, self.observe(self.system, state))

    def first_carry(self, options: Options) -> tuple[Any, "Kept"]:
        """What steps change of the carry, at the first of them, and what they do not."""
        carry, h = self.integrator.init(self.system, self.state), options.first_step
        changing = varies(lambda state, carry: self.step(options, state, carry, h)[:3], self.state, carry)
        varying, constant = eqx.partition(carry, changing)
        return varying, Kept(constant, changing)

    def after(self, number: Array, state: State, carry: Any) -> tuple[State, Any]:
        """The state and the carry with which a motion goes on after the event of this number; -1: as it was."""
        if not any(event.apply for event in self.events):
            return state, carry

        def applied(apply: Any, at: tuple[State, Any]) -> tuple[State, Any]:
            new = state_after(apply, at[0])
            return new, self.integrator.revalued(self.system, new, at[1])

        def same(at: tuple[State, Any]) -> tuple[State, Any]:
            return at

        branches = [same] + [partial(applied, e.apply) if e.apply else same for e in self.events]
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
    """What was done in every turn: its size [s], its error over what is allowed, how it ended, the frame or the event that
    it ended at (-1: none). `frame_turn`: the turn that ended at each frame (-1: none); `event_turn`, `event_time` [s]
    likewise."""

    dt: Array
    error: Array
    outcome: Array
    frame: Array
    event: Array
    frame_turn: Array
    event_turn: Array
    event_time: Array

    @classmethod
    def empty(cls, options: Options, frames: int, dtype: Any) -> "Record":
        """That of a run that has not begun."""
        turns, events = options.max_steps, options.max_events
        zero, none = partial(jnp.zeros, dtype=dtype), partial(jnp.full, fill_value=-1, dtype=jnp.int32)
        outcome = jnp.full(turns, PENDING, jnp.int32)
        return cls(zero(turns), zero(turns), outcome, none(turns), none(turns), none(frames), none(events), zero(events))

    def added(self, turn: Array, places: tuple[Array, Array], time: Array, **values: Array) -> "Record":
        """With a turn more that ended at a `time`; `places`: the numbers of the frame and of the event that come next."""
        new = {name: getattr(self, name).at[turn].set(value) for name, value in values.items()}
        frame = jnp.where(values["frame"] >= 0, places[0], self.frame_turn.shape[0])
        event = jnp.where(values["event"] >= 0, places[1], self.event_turn.shape[0])
        return Record(
            **new,
            frame_turn=self.frame_turn.at[frame].set(turn, mode="drop"),
            event_turn=self.event_turn.at[event].set(turn, mode="drop"),
            event_time=self.event_time.at[event].set(time, mode="drop"),
        )


class Progress(eqx.Module):
    """All that is known between two turns; a run goes on from it to the last bit."""

    state: State
    carry: Any  # what steps change of it
    dt: Array  # the size that the controller proposes
    errors: tuple[Array, Array]  # of the last two steps that were accepted
    side: Array  # the signs of the events' functions
    bracket: Bracket
    searching: Array  # whether an event is looked for
    frame: Array  # the next one
    count: Array  # of events
    turns: Array
    ended: Array  # by a terminal event
    result: Any
    info: Any  # of the last turn
    record: Record
    frames: Any
