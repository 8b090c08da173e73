"""Trees of small arrays as one array of each type: each by itself would be an operation of every turn of a loop."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .array_types import Array

_SMALL = 256  # entries of what is joined: what the step of a small scene hands on is one array


class JoinedArrays(eqx.Module):
    """A tree of arrays, the small ones of one type joined; more axes before theirs are those of all."""

    arrays: dict[str, Array]
    groups: tuple[str, ...] = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    @classmethod
    def of(cls, tree: Any) -> "JoinedArrays":
        """Those of a tree."""
        leaves, structure = jax.tree.flatten(tree)
        leaves = [jnp.asarray(leaf) for leaf in leaves]
        groups = tuple(a.dtype.name if a.size <= _SMALL else f"{i}" for i, a in enumerate(leaves))
        members = {g: [a.reshape(-1) for a, at in zip(leaves, groups, strict=True) if at == g] for g in groups}
        arrays = {g: jnp.concatenate(parts) for g, parts in members.items()}
        return cls(arrays, groups, tuple(a.shape for a in leaves), structure)

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return sum(a.size for a in self.arrays.values())

    def tree(self) -> Any:
        """The tree again, every leaf with the axes that all have gained."""
        begins = dict.fromkeys(self.groups, 0)
        leaves = []
        for group, shape in zip(self.groups, self.shapes, strict=True):
            joined, begin = self.arrays[group], begins[group]
            begins[group] = end = begin + math.prod(shape)
            leaves.append(joined[..., begin:end].reshape(*joined.shape[:-1], *shape))
        return jax.tree.unflatten(self.structure, leaves)
