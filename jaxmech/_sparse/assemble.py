"""From the element matrices of a user to a block-sparse matrix: ArcaneFEM's way in, for any element and block size."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.indexing import add_rows, take_rows
from .._runtime.argument_checks import (
    check_callable,
    check_choice,
    check_counts,
    check_instance,
    numeric_array,
    plain,
    real_array,
)
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .._runtime.results import is_traced
from .block_sparse import BlockSparse
from .gather_reduction import Reduction
from .pattern import BlockPattern, unique_pairs

METHODS = ("gather", "scatter")


class AssemblyPattern(eqx.Module):
    """The symbolic half of `assemble`: the blocks that these elements fill, and where each element matrix goes.

    `connectivity`: the node numbers `(e, k)` of each type of element; `pattern`: the blocks, every node's diagonal among
    them. Made by `AssemblyPattern.build`, outside `jit`, once per mesh; a pytree of index arrays, to be an argument.
    No units. `build` raises `ValueError` for node numbers that do not exist, and under `jit`.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2.

    Example:

        pattern = jm.matrix.AssemblyPattern.build(np.array([[0, 1], [1, 2]]), nodes=3)
        K = jm.matrix.assemble(pattern, lambda x: jnp.ones((2, 2)), np.zeros((3, 1)))
        assert pattern.pattern.blocks == 7 and jnp.allclose(K.to_dense()[1, 1], 2.0)
    """

    connectivity: tuple[Int[Array, "e k"], ...]
    reduction: Reduction
    pattern: BlockPattern

    @classmethod
    def build(cls, connectivity: Any, nodes: int) -> "AssemblyPattern":
        """The pattern of one connectivity `(e, k)`, or of a list of those (a mixed mesh), on `nodes` nodes.

        Raises `TypeError` or `ValueError` for anything but whole numbers from 0 to `nodes - 1`, and under `jit`.
        """
        nodes = plain(nodes)
        check_counts("AssemblyPattern", nodes=nodes)
        groups = connectivity if isinstance(connectivity, list | tuple) else [connectivity]
        if is_traced(groups):
            raise ValueError("AssemblyPattern.build sorts node numbers on the host: call it outside jit.")
        cells = [_node_numbers(i, group, nodes) for i, group in enumerate(groups)]
        diagonal = np.arange(nodes)
        rows = np.concatenate([*(np.repeat(c, c.shape[1], axis=1).ravel() for c in cells), diagonal])
        columns = np.concatenate([*(np.tile(c, (1, c.shape[1])).ravel() for c in cells), diagonal])
        places = rows.size - nodes
        rows, columns, slots = unique_pairs(rows, columns, (nodes, nodes))
        return cls(
            tuple(as_data(c, jnp.int32) for c in cells),
            Reduction.build(slots[:places], rows.size),
            BlockPattern.build(rows, columns, (nodes, nodes)),
        )


def assemble(
    connectivity: Any,
    element_matrix: Callable[..., Array] | Sequence[Callable[..., Array]],
    points: Any,
    *,
    each: Sequence[Any] = (),
    method: str = "gather",
) -> BlockSparse:
    """The sum of element matrices: `A[i, j] = sum over elements of their block (i, j)`.

    `connectivity`: node numbers `(e, k)`, or an `AssemblyPattern` of them. `element_matrix(x, *own)`: the matrix
    `(k b, k b)` of one element, node by node, of any number `b` of unknowns per node; `x` `(k, ...)` are its rows of
    `points` `(n, ...)`, and `own` its rows of the arrays `each` `(e, ...)`. For several types of element in one matrix:
    lists of connectivities, of functions, and (if any) of their tuples `each`.

    `method="gather"` adds in a fixed order: results repeat bitwise, on GPUs too. `"scatter"` adds by `at[].add`, to
    compare. Differentiable by `points`, `each` and what the functions close over. With an `AssemblyPattern` it may (and
    should) be called under `jit`; without one, the pattern is built here, on the host. Raises `TypeError` or `ValueError`
    naming the type of element and the shape that was expected.
    Source: T. J. R. Hughes, *The Finite Element Method*, Dover 2000, ISBN 978-0-486-41181-1, chapter 2.

    Example:

        def rod(x, k):  # [N/m], of two points on a line
            return k * jnp.array([[1.0, -1.0], [-1.0, 1.0]])

        rods, points = np.array([[0, 1], [1, 2]]), np.zeros((3, 1))
        K = jm.matrix.assemble(rods, rod, points, each=(jnp.array([1.0, 2.0]),))
        assert jnp.allclose(K.to_dense(), jnp.array([[1.0, -1.0, 0.0], [-1.0, 3.0, -2.0], [0.0, -2.0, 2.0]]))
    """
    check_choice("assemble", "method", method, METHODS)
    points = as_data(real_array("assemble", "points", points))
    nodes = points.shape[0] if points.ndim else 0
    if not nodes:
        raise ValueError(f"assemble: points has shape {points.shape}, expected (nodes, ...), with at least one node.")
    plan = connectivity if isinstance(connectivity, AssemblyPattern) else AssemblyPattern.build(connectivity, nodes)
    if plan.pattern.shape[0] != nodes:
        raise ValueError(f"assemble: points has shape {points.shape}, but the pattern is of {plan.pattern.shape[0]} nodes.")
    functions, own = _per_type(plan, element_matrix, each)
    lists = [
        _node_blocks(number, cells, function, points, arrays)
        for number, (cells, function, arrays) in enumerate(zip(plan.connectivity, functions, own, strict=True))
    ]
    if len({blocks.shape[1:] for blocks in lists}) > 1:
        raise ValueError(f"assemble: element types of different block sizes, {[blocks.shape[1] for blocks in lists]}.")
    blocks = jnp.concatenate(lists)
    if method == "gather":
        return BlockSparse(plan.reduction(blocks), plan.pattern)
    nothing = jnp.zeros((plan.pattern.blocks, *blocks.shape[1:]), blocks.dtype)
    return BlockSparse(add_rows(nothing, plan.reduction.slots, blocks), plan.pattern)


def _node_numbers(number: int, group: Any, nodes: int) -> np.ndarray:
    cells = np.asarray(numeric_array("AssemblyPattern", f"connectivity {number}", group))
    if cells.ndim != 2 or cells.dtype.kind not in "iu":
        raise TypeError(
            f"AssemblyPattern: connectivity {number} must be whole numbers of shape (elements, nodes per element), got "
            f"{cells.dtype} of shape {cells.shape}."
        )
    if cells.size and (cells.min() < 0 or cells.max() >= nodes):
        node = cells.min() if cells.min() < 0 else cells.max()
        raise ValueError(f"AssemblyPattern: connectivity {number} names node {node}, of {nodes} nodes.")
    return cells.astype(np.int64)


def _per_type(plan: AssemblyPattern, element_matrix: Any, each: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    """One function and one tuple of element data for each type of element."""
    check_instance("assemble", "each", each, (list, tuple))
    if isinstance(element_matrix, type):
        raise TypeError(f"assemble: element_matrix must be a function, got {element_matrix!r:.80}.")
    if callable(element_matrix):
        functions, own = [element_matrix], [each]
    else:
        check_instance("assemble", "element_matrix", element_matrix, (list, tuple))
        functions, own = element_matrix, each if len(each) else [()] * len(element_matrix)
        for function in functions:
            check_callable("assemble", "each element_matrix", function)
    types = len(plan.connectivity)
    if len(functions) != types or len(own) != types:
        raise ValueError(
            f"assemble: {types} connectivities need as many functions in element_matrix and tuples in each, got "
            f"{len(functions)} and {len(own)}."
        )
    return functions, own


def _node_blocks(number: int, cells: Array, function: Any, points: Array, own: Any) -> Float[Array, "blocks b b"]:
    """The element matrices of one type as a list of node blocks, row nodes first."""
    elements, k = cells.shape
    check_instance("assemble", "what each gives a type", own, (list, tuple))
    arrays = [jnp.asarray(numeric_array("assemble", f"each[{i}]", a)) for i, a in enumerate(own)]
    for i, a in enumerate(arrays):
        if a.shape[:1] != (elements,):
            raise ValueError(f"assemble: each[{i}] has shape {a.shape}, type {number} has {elements} elements.")
    matrices = jax.vmap(function)(take_rows(points, cells), *arrays)
    if not isinstance(matrices, jax.Array):
        raise TypeError(f"assemble: element_matrix of type {number} must return a matrix, got {matrices!r:.80}.")
    size = jnp.shape(matrices)[1] if jnp.ndim(matrices) == 3 else 0
    if size == 0 or size % k or matrices.shape != (elements, size, size):
        raise ValueError(
            f"assemble: element_matrix of type {number} has shape {jnp.shape(matrices)[1:]}, expected ({k} b, {k} b) "
            f"for {k} nodes of b unknowns."
        )
    b = size // k
    return matrices.reshape(elements, k, b, k, b).transpose(0, 1, 3, 2, 4).reshape(elements * k * k, b, b)
