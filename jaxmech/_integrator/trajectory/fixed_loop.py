"""Many steps of equal size in one compiled loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._linear_solver.base.derivative import raise_in_derivatives
from ..._model.system import State, System
from ..._runtime.array_types import Array
from ..._runtime.joined_arrays import JoinedArrays
from ..._runtime.results import RESULTS
from ..carried import varies
from .checkpointed_scan import checkpointed_scan
from .observation import recorded
from .turn_kernel import as_kernel


class Counts(NamedTuple):
    """How many steps; how many for each frame; how many between two states that reverse mode keeps."""

    steps: int
    save_every: int
    checkpoint_every: int


class Steps(NamedTuple):
    """The last state and its carry, the frames but the first, and what happened in every step."""

    last: State
    carry: Any
    frames: Any
    info: Any


def stepped(
    system: System,
    start: tuple[State, Any],
    advanced: Callable,
    h: Array,
    observe: Callable[[System, State], Any],
    counts: Counts,
    bar: Any = None,
    before: tuple[Any, Any] | None = None,
    derivatives_of: str = "",
) -> Steps:
    """Steps of `h` [s] from a state and its carry. `advanced(state, carry)`: one of them; `before`: how many there were
    before, and when the first of these began, the state's time unless given. `derivatives_of`: in whose name derivatives
    raise where a step failed; steps that solve nothing, or are kernels, cannot.

    Times are multiples of `h`: a sum of many steps gathers their rounding, in single precision 1e-5 of a thousand.
    """
    steps, save_every, every = counts
    done, begin = (0, start[0].time) if before is None else before

    def time(number: Array) -> Array:
        return begin + (done + number).astype(begin.dtype) * h

    changing = varies(advanced, *start)
    varying, constant = eqx.partition(start[1], changing)

    def one(at: tuple[State, Any], number: Array) -> tuple[tuple[State, Any], Any]:
        state, carry, info = advanced(at[0], eqx.combine(constant, at[1]))
        state = eqx.tree_at(lambda s: s.time, state, time(number + 1))
        return (state, eqx.filter(carry, changing)), JoinedArrays.of(info)

    turns = as_kernel(one, (start[0], varying), jnp.zeros((), int))

    def told(at: Any, number: Array) -> tuple[Any, Any]:
        if bar is not None:
            bar.advance(done + number + 1)
        return turns.turn(at, number)

    def frame(at: Any, first: Array) -> tuple[Any, tuple[Any, Any]]:
        at, said = checkpointed_scan(told, at, first + jnp.arange(save_every), every)
        return at, (recorded(observe, system, turns.whole(at)[0]), said)

    firsts = jnp.arange(0, steps, save_every)
    end, (frames, said) = checkpointed_scan(
        frame, turns.joined((start[0], varying)), firsts, every // save_every or firsts.size
    )
    last, kept = turns.whole(end)
    said = jax.tree.map(lambda a: a.reshape(steps, *a.shape[2:]), said)
    info, now = said.tree(), time(jnp.arange(steps))
    stands = jax.lax.stop_gradient((info.result == RESULTS.successful) & ~(now + h > now))
    result = jax.tree.map(lambda a, b: jnp.where(stands, a, b), RESULTS.time_stands_still, info.result)
    info = eqx.tree_at(lambda i: i.result, info, result)
    if derivatives_of:
        last, frames = raise_in_derivatives((last, frames), first_failure(info.result), derivatives_of)
    return Steps(last, eqx.combine(constant, kept), frames, info)


def first_failure(result: Any) -> Any:
    """The first failure of all steps, `RESULTS.successful` if there is none; of each member of a batch."""
    first = jnp.argmax(result != RESULTS.successful, axis=-1, keepdims=True)
    return jax.tree.map(lambda a: jnp.take_along_axis(a, first, axis=-1)[..., 0], result)
