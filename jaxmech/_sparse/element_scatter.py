"""Sums of the blocks of all elements that stand at the same place, made where the blocks are."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._codegen import AbstractElementSums, Places, are_few
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .block_accumulation import mirrored
from .gather_reduction import Reduction
from .pattern import unique_pairs

Nodes = tuple[np.ndarray, np.ndarray]  # rows and columns of the blocks of a list, `(elements, k)`


class ListSums(eqx.Module):
    """The plan of the sums of one list of blocks, `k` of every element; of upper triangles `H`, those of `H + H^T`."""

    total: Reduction
    mirror: Int[Array, " z"] | None  # where block `(j, i)` stands, for every block `(i, j)`; of upper triangles

    @classmethod
    def build(cls, nodes: Nodes, shape: tuple[int, int], *, upper: bool) -> tuple["ListSums", Nodes]:
        """The plan, and the places of the distinct blocks, in row-major order. Host work."""
        rows, columns = (side.reshape(-1) for side in nodes)
        count = rows.size
        if upper:
            rows, columns = np.concatenate([rows, columns]), np.concatenate([columns, rows])
        rows, columns, slots = unique_pairs(rows, columns, shape)
        mirror = as_data(np.lexsort((rows, columns)), np.int32) if upper else None
        return cls(Reduction.build(slots[:count], rows.size), mirror), (rows, columns)

    def __call__(self, blocks: Float[Array, "n r c"]) -> Float[Array, "z r c"]:
        """The sums, from the blocks of all elements."""
        sums = self.total(blocks)
        return sums if self.mirror is None else sums + jnp.swapaxes(mirrored(sums, self.mirror), 1, 2)


class ElementSums(AbstractElementSums):
    """The plan of the sums of every list of blocks that one element function gives."""

    lists: tuple[ListSums, ...]

    @property
    def summed(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.lists)

    @classmethod
    def build(
        cls, nodes: Sequence[Nodes], shapes: Sequence[tuple[int, int]], upper: Sequence[bool]
    ) -> tuple["ElementSums", list[Nodes]] | None:
        """The plan for blocks that stand at `nodes` of matrices of these shapes, in nodes, and where its sums stand.

        None for few elements, which are not worth it.
        """
        if are_few(nodes[0][0].shape[0]):
            return None
        built = [ListSums.build(n, shape, upper=of) for n, shape, of in zip(nodes, shapes, upper, strict=True)]
        return cls(tuple(one for one, _ in built)), [where for _, where in built]

    def of_all(self, outputs: Sequence[Array]) -> list[Array]:
        return [total(blocks.reshape(-1, *blocks.shape[2:])) for total, blocks in zip(self.lists, outputs, strict=True)]

    def places(self) -> list[Places]:
        return [Places(one.total.slots, one.mirror, one.total.size) for one in self.lists]
