"""What stands at the nodes of every element, read where it is used."""

import equinox as eqx
import jax.numpy as jnp

from ..._math.indexing import take_rows
from ..._runtime.array_types import Array, Int


class NodeRows(eqx.Module):
    """The rows `values[nodes]` of every element, not yet read: they are gathered for a few elements at a time."""

    values: Array  # of every node, whose axis is the first
    nodes: Int[Array, "e ..."]  # known to exist

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the rows of all elements."""
        return (*self.nodes.shape, *self.values.shape[1:])

    @property
    def dtype(self) -> jnp.dtype:
        """That of the rows."""
        return self.values.dtype

    def whole(self) -> Array:
        """The rows of all elements."""
        return take_rows(self.values, self.nodes)


def whole(argument: Array | NodeRows) -> Array:
    """The rows, read; an array is what it is."""
    return argument.whole() if isinstance(argument, NodeRows) else argument


def is_rows(argument: object) -> bool:
    """Whether a value is such rows at nodes, which are one leaf where elements are mapped."""
    return isinstance(argument, NodeRows)
