"""What is recorded of states, and read of them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.system import State, System
from ..._runtime.array_types import Array


class AbstractTrajectory(eqx.Module):
    """States that were saved, stacked; `None` where something else was observed of them."""

    state: eqx.AbstractVar[State]

    @property
    def position(self) -> dict[str, Array]:
        """`(frames, nodes, coord_size)` of every main state [m]."""
        return self._saved().position

    @property
    def velocity(self) -> dict[str, Array]:
        """`(frames, nodes, deriv_size)` of every main state [m/s]."""
        return self._saved().velocity

    @property
    def time(self) -> Array:
        """`(frames,)` [s]."""
        return self._saved().time

    def _saved(self) -> State:
        if self.state is None:
            raise ValueError("this trajectory was observed, and holds no states: ask for them in observe, see `observed`.")
        return self.state


def recorded(observe: Callable[[System, State], Any], system: System, state: State) -> Any:
    """What `observe` gives, as arrays, of plain numbers too. Raises `TypeError` for what is no number."""
    seen = observe(system, state)
    for leaf in jax.tree.leaves(seen):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, bool | int | float | complex):
            raise TypeError(f"observe must return a pytree of numbers, got {leaf!r:.80} in it.")
    return jax.tree.map(jnp.asarray, seen)
