"""The loop of adaptive steps, page by page.

Turns are written on pages, and frames seen through windows: a loop that carries the whole record, or all frames, takes
several times as long (`SMALL`). Of a small scene all turns of a page are one kernel, or else each of them is.
"""

from functools import partial
from typing import Any, NamedTuple

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
_Told = tuple[Any, Record, Any]  # progress, joined, without the record and the frames; these


def goes_on(inputs: Inputs, options: Options, at: Progress) -> Array:
    """Whether there is something left to do, and nothing against it."""
    left = (at.frame < inputs.times.shape[0]) & ~at.ended
    return left & (at.result == RESULTS.successful) & (at.turns < options.max_steps)


def turned(inputs: Inputs, options: Options, kept: Kept, start: Progress, until: Any) -> Progress:
    """The progress after so many turns in all, or at the end of the run."""
    alone, run = _with(start, None, None), _Run(inputs, options, inputs.times[-1], until)
    one = partial(turn, inputs, options, kept)
    window = jax.eval_shape(run.window, start, start.record, start.frames)
    pages = as_kernel(partial(run.page, as_it_is(one)), alone, window)
    if not pages.is_kernel:
        pages = as_it_is(partial(run.page, as_kernel(one, alone, (run.last, run.last))))
    begun = pages.joined(alone), start.record, start.frames
    joined, record, frames = while_loop(partial(run.is_unfinished, pages), partial(run.with_page, pages), begun)
    return _with(pages.whole(joined), record, frames)


class _Run(NamedTuple):
    """A run up to its `last` time [s], or for so many turns in all: its pages, and the frames of a page."""

    inputs: Inputs
    options: Options
    last: Array
    until: Any

    def is_unfinished(self, pages: Turns, now: _Told) -> Array:
        return self.goes_on(pages.whole(now[0]), False)

    def with_page(self, pages: Turns, now: _Told) -> _Told:
        """With the turns of another page, and with what they show."""
        joined, record, frames = now
        begun = pages.whole(joined)
        joined, written = pages.turn(joined, self.window(begun, record, frames))
        at, (page, shown) = pages.whole(joined), written.tree()
        event = jnp.where(at.count > begun.count, begun.count, self.options.max_events)
        return joined, record.with_page(page, shown, event, at.turns - 1), shown.within(frames)

    def window(self, at: Progress, record: Record, frames: Any) -> JoinedArrays:
        """What is seen of the frames from a page."""
        return JoinedArrays.of(Window.of(at.frame, frames, record, self.inputs.times))

    def page(self, turns: Turns, begun: Progress, window: JoinedArrays) -> tuple[Progress, JoinedArrays]:
        """Turns until there is an event, or the page or the window is full."""

        def is_open(now: _Seen) -> Array:
            at, page, window = now
            return self.goes_on(at, (at.count > begun.count) | page.is_full(at.turns) | window.is_full(at.frame))

        page = Page.empty(begun.turns, self.options.max_steps, begun.dt.dtype)
        at, *written = while_loop(is_open, partial(self.frame, turns), (begun, page, window.tree()))
        return at, JoinedArrays.of(written)

    def frame(self, turns: Turns, now: _Seen) -> _Seen:
        """Turns until there is a frame, or an event, or the page is full."""
        begun, page, window = now

        def is_open(now: tuple[Any, Page]) -> Array:
            at, page = turns.whole(now[0]), now[1]
            return self.goes_on(at, (at.frame > begun.frame) | (at.count > begun.count) | page.is_full(at.turns))

        def advance(now: tuple[Any, Page]) -> tuple[Any, Page]:
            joined, page = now
            joined, told = turns.turn(joined, (window.time(turns.whole(joined).frame), self.last))
            return joined, self.written(page, told)

        joined, page = while_loop(is_open, advance, (turns.joined(begun), page))
        at = turns.whole(joined)
        number = jnp.where(at.frame > begun.frame, begun.frame, -1)
        return at, page, window.added(number, at.turns - 1, self.inputs.observed(at.state))

    def written(self, page: Page, told: Told) -> Page:
        """The page with a turn more."""
        page = page.added(told.turn, told.sizes, told.outcome)
        return page.at_event(told.event, told.time) if self.inputs.events else page

    def goes_on(self, at: Progress, due: Any) -> Array:
        """Whether another turn is taken before something else is `due`. The members of a batch pause together: no turn is
        taken for some of them only."""
        goes = goes_on(self.inputs, self.options, at) & (at.turns < self.until)
        return goes & ~unvmap_any(goes & due)


def _with(at: Progress, record: Record | None, frames: Any) -> Progress:
    """Progress with another record and other frames, or with none."""
    return eqx.tree_at(lambda p: (p.record, p.frames), at, (record, frames), is_leaf=lambda leaf: leaf is None)
