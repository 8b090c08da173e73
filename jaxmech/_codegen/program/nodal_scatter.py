"""What elements give their nodes, added up at the nodes."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._runtime.array_types import Array, Int
from .nodal_gather import NodeRows
from .scatter_plan import AbstractElementSums, Places


class NodeSums(AbstractElementSums):
    """`total[nodes[e, k]] += rows[e, k]`, of the first outputs `(k, ...)` of every element, or `total[nodes[e]] += rows[e]`:
    the transpose of `NodeRows`."""

    nodes: tuple[Int[Array, "e ..."], ...]
    sizes: tuple[int, ...] = eqx.field(static=True)  # how many nodes there are

    @property
    def summed(self) -> int:
        return len(self.nodes)

    def of_all(self, outputs: Sequence[Array]) -> list[Array]:
        sums = []
        for nodes, size, rows in zip(self.nodes, self.sizes, outputs, strict=True):
            values = jax.ShapeDtypeStruct((size, *rows.shape[nodes.ndim :]), rows.dtype)
            transposed = jax.linear_transpose(lambda values, nodes=nodes: NodeRows(values, nodes).whole(), values)
            sums += transposed(rows)
        return sums

    def places(self) -> list[Places]:
        return [
            Places(nodes.reshape(-1).astype(jnp.int32), None, size, nodes.ndim == 1)
            for nodes, size in zip(self.nodes, self.sizes, strict=True)
        ]
