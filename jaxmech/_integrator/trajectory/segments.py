"""Steps of equal size that a file can be gone on from."""

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..._model.system import State, System
from ..._runtime.argument_checks import check_counts
from ..._runtime.array_types import Array
from ..._runtime.host_arrays import as_data
from ..._runtime.precision import compiled
from .fixed_loop import Counts, Steps, stepped
from .observation import recorded
from .restart import through_a_file


def segments(
    path: str | PathLike[str],
    every: int | None,
    system: System,
    state: State,
    integrator: Any,
    h: Array,
    counts: Counts,
    observe: Callable,
    bar: Any,
) -> tuple[Any, State, Any]:
    """The frames, the last state, and what happened in every step, of a run that is in a file after every segment."""
    every = _segment_length(every, counts)
    given = {"system": system, "state": state, "integrator": integrator, "dt": h, "observe": observe}
    given |= counts._asdict() | {"restart_every": every}  # what differs is named so

    def onward(at: dict[str, Any]) -> dict[str, Any]:
        done = int(at["done"])
        part = counts._replace(steps=min(every, counts.steps - done))
        begun, before = (at["state"], at["carry"]), (jnp.asarray(done), state.time)
        steps = _segment(system, begun, integrator, h, part, observe, bar, before)
        _put(at["frames"], steps.frames, done // counts.save_every + 1)
        _put(at["info"], steps.info, done)
        return at | {"state": steps.last, "carry": steps.carry, "done": np.asarray(done + part.steps)}

    def is_done(at: dict[str, Any]) -> bool:
        return int(at["done"]) == counts.steps

    begin = partial(_beginning, system, state, integrator, h, counts, observe)
    end = through_a_file("simulate", path, given, begin, onward, is_done)
    return jax.tree.map(as_data, end["frames"]), end["state"], jax.tree.map(as_data, end["info"])


def _segment_length(every: int | None, counts: Counts) -> int:
    if every is None:
        return max(1, counts.steps // counts.save_every // 10) * counts.save_every
    check_counts("simulate", restart_every=every)
    if every % counts.save_every:
        raise ValueError(f"simulate: save_every={counts.save_every} does not divide restart_every={every}.")
    return every


def _beginning(system: System, state: State, integrator: Any, h: Array, counts: Counts, observe: Callable) -> dict[str, Any]:
    """Room for everything: what is in the file is of equal size from the first segment to the last."""
    carry, shown = _first(integrator, system, state, observe)
    rows = counts.steps // counts.save_every + 1
    frames = jax.tree.map(lambda a: np.repeat(np.asarray(a)[None], rows, axis=0), shown)
    told = eqx.filter_eval_shape(lambda: integrator.advanced(system, state, carry, h)[2])
    info = jax.tree.map(lambda a: np.zeros((counts.steps, *a.shape), a.dtype), told)
    return {"state": state, "carry": carry, "done": np.asarray(0), "frames": frames, "info": info}


def _put(buffers: Any, values: Any, first: int) -> None:
    for buffer, value in zip(jax.tree.leaves(buffers), jax.tree.leaves(values), strict=True):
        buffer[first : first + value.shape[0]] = np.asarray(value)


@compiled
def _first(integrator: Any, system: System, state: State, observe: Callable) -> tuple[Any, Any]:
    return integrator.init(system, state), recorded(observe, system, state)


@compiled
def _segment(
    system: System,
    start: tuple[State, Any],
    integrator: Any,
    h: Array,
    counts: Counts,
    observe: Callable,
    bar: Any,
    before: tuple[Array, Array],
) -> Steps:
    return stepped(system, start, partial(integrator.advanced, system, h=h), h, observe, counts, bar, before)
