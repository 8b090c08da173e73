"""What is recorded of a state."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ..._model.system import State, System


def recorded(observe: Callable[[System, State], Any], system: System, state: State) -> Any:
    """What `observe` gives, as arrays, of plain numbers too. Raises `TypeError` for what is no number."""
    seen = observe(system, state)
    for leaf in jax.tree.leaves(seen):
        if not hasattr(leaf, "dtype") and not isinstance(leaf, bool | int | float | complex):
            raise TypeError(f"observe must return a pytree of numbers, got {leaf!r:.80} in it.")
    return jax.tree.map(jnp.asarray, seen)
