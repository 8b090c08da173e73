"""The states of a trajectory one by one, drawn alike: one scale of colours, one box around all."""

from typing import Any

import jax
import numpy as np

from .._model.system import State, System
from ._axes import box_of
from ._color_field import ColorField, apart, color_field, is_field
from ._drawing import Drawing
from ._sketch import sketch


def states_of(who: str, states: Any) -> list[State]:
    """The states of a trajectory, of a path, of a state with a leading axis of frames, or of a list of states."""
    if isinstance(states, list | tuple):
        if not states or not all(isinstance(s, State) for s in states):
            raise TypeError(f"{who}: states must be states, a trajectory or a path, got {states!r:.80}.")
        return list(states)
    whole = states if isinstance(states, State) else getattr(states, "state", None)
    if whole is None and getattr(states, "observed", None) is not None:
        raise TypeError(f"{who}: the run keeps no states but the last, for it was made with observe=.")
    if not isinstance(whole, State):
        raise TypeError(f"{who}: states must be states, a trajectory or a path, got {states!r:.80}.")
    axes = {np.ndim(x) for x in whole.position.values()}
    if axes == {2}:
        return [whole]
    if axes != {3}:
        raise ValueError(f"{who}: states has positions of {sorted(axes)} axes, expected (frames, nodes, coordinates).")
    host = jax.tree.map(np.asarray, whole)
    return [jax.tree.map(lambda x, i=i: jax.device_put(x[i]), host) for i in range(len(next(iter(host.position.values()))))]


def thinned(states: list[State], most: int) -> list[State]:
    """At most so many of them, evenly, the first and the last among them."""
    if len(states) <= most:
        return states
    return [states[i] for i in np.linspace(0, len(states) - 1, most).round().astype(int)]


def drawings(
    who: str,
    system: System,
    states: list[State],
    *,
    color: Any,
    label: str | None,
    reference: State | None,
    skins: Any,
    loads: bool,
    supports: bool,
    each: Any = None,
) -> tuple[list[Drawing], list[ColorField] | None, tuple[float, float] | None, np.ndarray]:
    """Of every state the drawing and its field, the limits of all fields, the box around all; `each` is called for each."""
    pictures, fields = [], []
    named = color is not None and is_field(system, color)
    for state in states:
        picture = sketch(system, state, dict(skins or {}), loads=loads, supports=supports)
        if not (picture.surfaces or picture.lines or picture.frames or picture.dots):
            raise ValueError(f"{who}: no state has places to be drawn, of {list(system.dofs)}.")
        pictures.append(picture)
        if named:
            fields.append(color_field(who, system, state, picture, color, reference=reference or states[0], label=label))
        if each is not None:
            each()
    boxes = np.stack([box_of(p) for p in pictures])
    box = np.stack([boxes[:, 0].min(0), boxes[:, 1].max(0)])
    if not named:
        return pictures, None, None, box
    ends = [f.extent() for f in fields]  # a frame where nothing has moved yet has one number only
    return pictures, fields, apart(min(low for low, _ in ends), max(high for _, high in ends)), box
