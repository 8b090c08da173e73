"""The loop of adaptive steps, page by page.

Turns are written on pages, and frames seen through windows: a loop that carries the whole record, or all frames, takes
several times as long (`SMALL`). Of a small scene all turns of a page are one kernel, or else each of them is.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._runtime.jax_internals import unvmap_any
from ..._runtime.joined_arrays import JoinedArrays
from ..._runtime.loops import while_loop
from ..._runtime.results import RESULTS
from .adaptive_memory import Inputs, Kept, Options, Page, Progress, Record, Window
from .adaptive_turn import Told, turn
from .turn_kernel import Turns, as_it_is, as_kernel

_Seen = tuple[Progress, Page, Window]


def goes_on(inputs: Inputs, options: Options, at: Progress) -> Array:
    """Whether there is something left to do, and nothing against it."""
    left = (at.frame < inputs.times.shape[0]) & ~at.ended
    return left & (at.result == RESULTS.successful) & (at.turns < options.max_steps)


def turned(inputs: Inputs, options: Options, kept: Kept, start: Progress, until: Any) -> Progress:
    """The progress after so many turns in all, or at the end of the run."""
    alone, last = _with(start, None, None), inputs.times[-1]
    one = partial(turn, inputs, options, kept)

    def going(at: Progress, due: Any) -> Array:
        # The members of a batch pause together: no turn is taken for some of them only.
        goes = goes_on(inputs, options, at) & (at.turns < until)
        return goes & ~unvmap_any(goes & due)

    def to_a_frame(turns: Turns, now: _Seen) -> _Seen:
        """Turns until there is a frame, or an event, or the page is full."""
        (at, page, window), begun = now, now[0]

        def writing(now: tuple[Any, Page]) -> Array:
            at, page = turns.whole(now[0]), now[1]
            return going(at, (at.frame > begun.frame) | (at.count > begun.count) | page.is_full(at.turns))

        def written(now: tuple[Any, Page]) -> tuple[Any, Page]:
            joined, page = now
            joined, told = turns.turn(joined, (window.time(turns.whole(joined).frame), last))
            return joined, _written(inputs, page, told)

        joined, page = while_loop(writing, written, (turns.joined(at), page))
        at = turns.whole(joined)
        number = jnp.where(at.frame > begun.frame, begun.frame, -1)
        return at, page, window.added(number, at.turns - 1, inputs.observed(at.state))

    def to_the_end(turns: Turns, begun: Progress, seen: JoinedArrays) -> tuple[Progress, JoinedArrays]:
        """Turns until there is an event, or the page or the window is full."""

        def writing(now: _Seen) -> Array:
            at, page, window = now
            return going(at, (at.count > begun.count) | page.is_full(at.turns) | window.is_full(at.frame))

        page = Page.empty(begun.turns, options.max_steps, begun.dt.dtype)
        at, *written = while_loop(writing, partial(to_a_frame, turns), (begun, page, seen.tree()))
        return at, JoinedArrays.of(written)

    def seen(at: Progress, record: Record, frames: Any) -> JoinedArrays:
        return JoinedArrays.of(Window.of(at.frame, frames, record, inputs.times))

    pages = as_kernel(partial(to_the_end, as_it_is(one)), alone, jax.eval_shape(seen, start, start.record, start.frames))
    if not pages.is_kernel:
        pages = as_it_is(partial(to_the_end, as_kernel(one, alone, (last, last))))

    def paged(now: tuple[Any, Record, Any]) -> tuple[Any, Record, Any]:
        joined, record, frames = now
        begun = pages.whole(joined)
        joined, written = pages.turn(joined, seen(begun, record, frames))
        at, (page, shown) = pages.whole(joined), written.tree()
        event = jnp.where(at.count > begun.count, begun.count, options.max_events)
        return joined, record.with_page(page, shown, event, at.turns - 1), shown.within(frames)

    def unfinished(now: tuple[Any, Record, Any]) -> Array:
        return going(pages.whole(now[0]), False)

    joined, record, frames = while_loop(unfinished, paged, (pages.joined(alone), start.record, start.frames))
    return _with(pages.whole(joined), record, frames)


def _with(at: Progress, record: Record | None, frames: Any) -> Progress:
    """Progress with another record and other frames, or with none."""
    return eqx.tree_at(lambda p: (p.record, p.frames), at, (record, frames), is_leaf=lambda leaf: leaf is None)


def _written(inputs: Inputs, page: Page, told: Told) -> Page:
    page = page.added(told.turn, told.sizes, told.outcome)
    return page.at_event(told.event, told.time) if inputs.events else page
