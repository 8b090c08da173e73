"""What controllers of a recorded script write, step by step, as control of a simulation."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._model.system import State
from .._runtime.array_types import Array
from .parameters import leaf_of
from .part_builder import Leaf
from .read.graph import SceneNode
from .read.values import reals
from .translation import Part


def control_of(
    changes: Sequence[Mapping[str, str]], part: Part, root: SceneNode
) -> Callable[[Array, State, Any], Any] | None:
    """The function of time that holds each number as it was last written, totals by their shares; None where nothing is."""
    tables: dict[Leaf, np.ndarray] = {}
    for path in dict.fromkeys(name for step in changes for name in step):
        owner, _, data = path.rpartition(".")
        if data in ("position", "velocity") and (owner, data) not in part.parameters:
            raise root.error(f"a controller writes {path}: states are not written while a simulation runs, rest_position is")
        leaf, nodes = part.shared.get((owner, data)) or (leaf_of(part.parameters, path, root), 1)
        now = np.asarray(leaf(part.system))
        rows = []
        for step in changes:
            if path in step:
                now = reals(root, path, step[path]).reshape(now.shape) / nodes
            rows.append(now)
        tables[leaf] = np.stack(rows)
    if not tables:
        return None
    held = {leaf: jnp.asarray(table) for leaf, table in tables.items()}

    def control(time: Array, state: State, parameters: Any) -> dict[str, Any]:
        del time, parameters
        written: dict[str, Any] = {}
        for leaf, table in held.items():
            step = jnp.clip(jnp.round(state.time / part.dt).astype(jnp.int32), 0, len(table) - 1)
            if leaf.component:
                written.setdefault(leaf.component, {})[leaf.field] = table[step]
            else:
                written[leaf.group] = table[step]
        return written

    return control
