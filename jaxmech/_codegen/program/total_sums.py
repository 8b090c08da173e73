"""Sums over all elements, added up where their terms are made."""

from collections.abc import Sequence

import jax.numpy as jnp

from ..._runtime.array_types import Array, Int
from .scatter_plan import AbstractElementSums, Places

_TOGETHER = 64  # elements added up one after the other: of more, rounding would be that of a long sum


class TotalSums(AbstractElementSums):
    """Of the first output `(1, ...)` of every element, the sums of 64 elements each `(e / 64, ...)`, few enough to be added
    up at once."""

    group: Int[Array, " e"]  # to which of the sums an element adds

    summed = 1

    @classmethod
    def of(cls, elements: int) -> "TotalSums":
        """That of so many elements."""
        return cls(jnp.arange(elements, dtype=jnp.int32) // _TOGETHER)

    @property
    def _groups(self) -> int:
        return -(-self.group.shape[0] // _TOGETHER)

    def of_all(self, outputs: Sequence[Array]) -> list[Array]:
        (rows,) = outputs
        missing = self._groups * _TOGETHER - rows.shape[0]
        rows = jnp.pad(rows[:, 0], ((0, missing), *((0, 0) for _ in rows.shape[2:])))
        return [jnp.sum(rows.reshape(self._groups, _TOGETHER, *rows.shape[1:]), axis=1)]

    def places(self) -> list[Places]:
        return [Places(self.group, None, self._groups)]
