"""When something happens within a step: which function crosses zero first, and where."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.dynamics import retract
from ..._model.system import State, System
from ..._runtime.argument_checks import check_callable, check_flags, check_tolerances, plain
from ..._runtime.array_types import Array
from ..step_checks import check_state


class Event(eqx.Module):
    """`function(system, state)` crosses zero: a contact closes, a threshold is passed.

    `direction`: 1 where it rises, -1 where it falls, 0 for both. Then the motion ends (`terminal`), or goes on from
    `apply(state)` (a bounce, a latch), or goes on as it was. The instant is found by steps of other lengths to `tolerance`
    [s], or to rounding; it is at the crossing or just after. Of events of one instant those that only watch come first, then
    those that end the motion, then those with `apply`. Both functions may be modules of Equinox, whose arrays are
    differentiated by. A function that crosses twice within a step is not seen to: `dt_max` bounds steps. To come to zero is
    to cross it, at the last output time too; one that is zero at the start of a motion has not crossed: what counts is where
    it leads from there. So a motion in two parts meets each event once.
    Raises `TypeError` for what is no function of these arguments, `ValueError` for another direction, and for an end that
    is to go on.
    Source: L. F. Shampine and S. Thompson, "Event location for ordinary differential equations", Comput. Math. Appl. 39
    (2000) 43, doi:10.1016/S0898-1221(00)00045-6.

    Example:

        stretched = jm.integrator.Event(lambda system, state: state.position["p"][0, 0] - 0.1, direction=1, terminal=True)
        assert stretched.function(oscillator, oscillator_state) < 0
    """

    function: Callable[[System, State], Any]
    direction: int = eqx.field(static=True, converter=plain, default=0, kw_only=True)
    terminal: bool = eqx.field(static=True, default=False, kw_only=True)
    apply: Callable[[State], State] | None = eqx.field(default=None, kw_only=True)
    tolerance: float = eqx.field(static=True, default=0.0, kw_only=True)

    def __check_init__(self):
        check_callable("Event", "function", self.function, "system", "state")
        if isinstance(self.direction, bool) or not isinstance(self.direction, int) or self.direction not in (-1, 0, 1):
            raise ValueError(f"Event: direction must be -1, 0 or 1, got {self.direction!r:.80}.")
        check_flags("Event", terminal=self.terminal)
        check_tolerances("Event", tolerance=self.tolerance)
        if self.apply is not None:
            check_callable("Event", "apply", self.apply, "state")
            if self.terminal:
                raise ValueError("Event: a motion that is terminal does not go on: leave apply out.")


Events = tuple[Event, ...]


def values(events: Events, system: System, state: State) -> Array:
    """The functions of all events."""
    return jnp.stack([_scalar(event, system, state) for event in events])


def _scalar(event: Event, system: System, state: State) -> Array:
    given = event.function(system, state)
    if not (isinstance(given, bool | int | float | complex) or hasattr(given, "dtype")):
        raise TypeError(f"Event: function must return one number, got {given!r:.80}.")
    if jnp.iscomplexobj(given):
        raise TypeError("Event: function must return a real number, got a complex one.")
    if jnp.issubdtype(jnp.result_type(given), jnp.bool_):
        raise TypeError("Event: function must return a real number that crosses zero, got a truth value.")
    value = jnp.asarray(given, state.time.dtype)
    if value.ndim != 0:
        raise ValueError(f"Event: function must return one number, got shape {value.shape}.")
    return value


def state_after(apply: Callable[[State], State], state: State) -> State:
    """What `apply` makes of a state. Raises unless it is a state of the same arrays."""
    new = apply(state)
    check_state("Event: apply must return a State", "Event: apply made", new, state)
    return new


def remaining(events: Events, side: Array, start: Array, g: Array) -> Array:
    """What is left until each of the crossings that count: negative once one has happened, and never zero.

    `side`: the sign that every function had before; NaN where that was no number, and what is left then. `start`: the
    functions at the start of the step. Zero is beyond for what comes to it from its side, and for nothing else.
    """
    wanted = jnp.array([event.direction for event in events])
    counts = (wanted == 0) | (side == -wanted) | jnp.isnan(side)
    left, nearly = side * g, jnp.finfo(g.dtype).tiny
    left = jnp.where(left == 0, jnp.where(side * start > 0, -nearly, nearly), left)
    return jnp.where(counts & (side != 0), left, jnp.inf)


def first_of(events: Events, due: Array, left: Array) -> Array:
    """The number of the event that happens first: of those `due`, or else of those that a step has crossed.

    Of several of one instant those that leave the state as it is come first, as they are listed: what another one makes of
    the state may lead away from where they cross. One that ends the motion comes after those that only watch.
    """
    crossed = jnp.where(jnp.any(due), due, (left < 0) | (left == jnp.min(left)))
    return jnp.argmax(crossed * jnp.array([1 if event.apply else 2 if event.terminal else 3 for event in events]))


def headings(events: Events, system: System, state: State) -> Array:
    """The signs of the rates of the events' functions along the velocities and with time."""

    def moved(t: Array) -> Array:
        x = retract(system.dofs, state.position, {s: t * v for s, v in state.velocity.items()})
        return values(events, system, eqx.tree_at(lambda s: (s.position, s.time), state, (x, state.time + t)))

    zero = jnp.zeros_like(state.time)
    return jnp.sign(jax.jvp(moved, (zero,), (jnp.ones_like(zero),))[1])


def side_after(events: Events, system: System, state: State, side: Array, fired: Array, now: Array) -> Array:
    """The `side` on which every event begins anew at `state`. Of events that have `fired` at this instant, whose functions
    are nearly zero, that to which the motion leads, by their rate along the velocities; where these have no part in it, not
    that of before (of what fires `now`), and of what is zero what it comes to."""
    rate, g = headings(events, system, state), values(events, system, state)
    other = jnp.where(now, jnp.where(g == 0, 0.0, -side), side)
    return jnp.where(fired, jnp.where(rate == 0, other, rate), side)


class Bracket(eqx.Module):
    """Two lengths of a step between which the first event lies, and `remaining` there: not negative at `a`, negative at `b`.

    `next_length` is the ITP method: as fast as secants, and never slower than bisection by more than an iteration.
    Source: I. F. D. Oliveira and R. H. C. Takahashi, ACM Trans. Math. Softw. 47 (2020) 5, doi:10.1145/3423597.
    """

    a: Array
    b: Array
    at_a: Array
    at_b: Array
    width: Array  # at first
    turns: Array  # since

    @classmethod
    def none(cls, dtype: Any) -> "Bracket":
        """That of a step without an event."""
        zero = jnp.zeros((), dtype)
        return cls(zero, zero, zero, zero, zero, jnp.zeros((), jnp.int32))

    @classmethod
    def of(cls, h: Array, start: Array, end: Array) -> "Bracket":
        """That of a whole step."""
        return cls(jnp.zeros_like(h), h, jnp.maximum(start, 0.0), end, h, jnp.zeros((), jnp.int32))

    def narrowed(self, h: Array, at_h: Array) -> "Bracket":
        """That which knows of the length `h`, too."""
        before = at_h >= 0
        a, at_a = (jnp.where(before, new, old) for new, old in ((h, self.a), (at_h, self.at_a)))
        b, at_b = (jnp.where(before, old, new) for new, old in ((h, self.b), (at_h, self.at_b)))
        return Bracket(a, b, at_a, at_b, self.width, self.turns + 1)

    def next_length(self, tolerance: Array) -> Array:
        """Where to look next."""
        width, middle = self.b - self.a, (self.a + self.b) / 2
        drop = self.at_a - self.at_b
        secant = jnp.where(drop > 0, (self.b * self.at_a - self.a * self.at_b) / jnp.where(drop > 0, drop, 1.0), middle)
        # At least half the tolerance: secants end on one side of the crossing, where they would find the same length again.
        shift = jnp.maximum(0.2 * width**2 / jnp.where(self.width > 0, self.width, 1.0), tolerance / 2)
        near = jnp.where(shift <= jnp.abs(middle - secant), secant + jnp.sign(middle - secant) * shift, middle)
        # As narrow as bisection would have it one turn ago, whatever the function.
        bisections = jnp.ceil(jnp.log2(jnp.maximum(self.width / tolerance, 1.0)))
        radius = jnp.maximum(tolerance * 2.0 ** (bisections - self.turns) - width / 2, 0.0)
        return jnp.where(jnp.abs(near - middle) <= radius, near, middle - jnp.sign(middle - near) * radius)
