"""The elements of a batch of scenes as the elements of one scene."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .program.nodal_gather import NodeRows
from .program.scatter_plan import AbstractElementSums

Nodes = tuple[int | None, ...]  # for every array, at the nodes of which array of numbers it is read


def node_arrays(nodes: Nodes) -> int:
    """How many arrays of node numbers there are."""
    return 1 + max((i for i in nodes if i is not None), default=-1)


def plan_of(operands: Sequence[Any], nodes: Nodes, sums: Any) -> tuple[list[Any], AbstractElementSums | None]:
    """The arrays, and the plan of the sums, that the operands are."""
    count, numbers = len(nodes), node_arrays(nodes)
    arrays = [a if i is None else NodeRows(a, operands[count + i]) for a, i in zip(operands, nodes, strict=False)]
    return arrays, jax.tree.unflatten(sums, operands[count + numbers :])


def read(operands: Sequence[Array], batched: Sequence[bool], nodes: Nodes) -> tuple[list[Array], list[bool]]:
    """The arrays of a batch of scenes, those that are read at nodes read; and which of them scenes have of their own."""
    arrays, own = list(operands[: len(nodes)]), list(batched[: len(nodes)])
    for i, number in enumerate(nodes):
        if number is not None:
            at = len(nodes) + number
            own[i] = batched[i] or batched[at]
            if own[i]:
                axes = tuple(0 if batched[j] else None for j in (i, at))
                arrays[i] = jax.vmap(lambda a, n: NodeRows(a, n).whole(), axes)(operands[i], operands[at])
            else:
                arrays[i] = NodeRows(operands[i], operands[at]).whole()
    return arrays, own


def folded_elements(
    size: int, count: int, axes: Sequence[int | None], arrays: Sequence[Array], batched: Sequence[bool]
) -> tuple[list[int | None], list[Array]]:
    """The elements of a batch of scenes as elements of one: axes and arrays. What the elements of a scene share, and other
    scenes have other numbers for, is repeated; what the only element of every scene has is shared by all."""
    folded, folded_axes = [], []
    for a, axis, own in zip(arrays, axes, batched, strict=True):
        of_elements = axis is not None
        if count == 1 and of_elements and not own:
            a, of_elements = a[0], False
        if of_elements or own:
            rest = a.shape[own + of_elements :]
            a = jnp.broadcast_to(a.reshape(size if own else 1, count if of_elements else 1, *rest), (size, count, *rest))
            a = a.reshape(size * count, *rest)
        folded.append(a)
        folded_axes.append(0 if of_elements or own else None)
    return folded_axes, folded
