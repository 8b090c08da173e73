"""Unassembled blocks: rows, columns and values, duplicates allowed. What components emit, and what a user may sum."""

from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._math.indexing import all_within, marked
from .._runtime.argument_checks import check_choice, check_counts, check_instance, index_array, plain, real_array
from .._runtime.array_types import Array, Float, Int
from .._runtime.precision import in_one_program
from .._runtime.results import is_traced
from .gather_reduction import Reduction
from .pattern import BlockPattern, unique_pairs

if TYPE_CHECKING:  # imported where it is used: it takes long
    from jax.experimental import sparse


class Triplets(eqx.Module):
    """Blocks `blocks[i]` at block row `rows[i]` of one state and block column `columns[i]` of another; repeats add up.

    `rows`, `columns` `(n,)`: node numbers; `blocks` `(n, r, c)`: say `-df/dx` of one node by another [N/m]. What is made
    of them takes the block rows and columns of the whole matrix as `shape`, and raises `ValueError` for a place outside.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, section 3.4.

    Example:

        twice = jm.matrix.Triplets(("p", "p"), jnp.array([0, 0]), jnp.array([0, 0]), jnp.ones((2, 1, 1)))
        assert jnp.allclose(twice.assemble((1, 1)).to_dense(), 2.0)
    """

    states: tuple[str, str] = eqx.field(static=True)
    rows: Int[Array, " n"]
    columns: Int[Array, " n"]
    blocks: Float[Array, "n r c"]

    def __check_init__(self):
        if not (isinstance(self.states, tuple) and len(self.states) == 2 and all(isinstance(s, str) for s in self.states)):
            raise TypeError(f"Triplets: states must be the names of two states, got {self.states!r:.80}.")
        for name, axes, kind in (("blocks", 3, jnp.floating), ("rows", 1, jnp.integer), ("columns", 1, jnp.integer)):
            array = getattr(self, name)
            check_instance("Triplets", name, array, (jax.Array, np.ndarray))
            if not jnp.issubdtype(array.dtype, kind):
                raise TypeError(f"Triplets: {name} has dtype {array.dtype}, expected {kind.__name__}.")
            if array.ndim != axes or array.shape[0] != self.blocks.shape[0]:
                raise ValueError(
                    f"Triplets: {name} has shape {array.shape}, expected rows (n,), columns (n,) and blocks (n, r, c)."
                )

    def assemble(self, shape: tuple[int, int]) -> Any:
        """The sum of duplicates as a `BlockSparse` of `shape` block rows and columns. Host work: an error under `jit`."""
        from .block_sparse import BlockSparse

        if is_traced((self.rows, self.columns)):
            raise ValueError("Triplets.assemble sorts node numbers on the host: call it outside jit.")
        self._check_places(shape)
        rows, columns, slots = unique_pairs(np.asarray(self.rows), np.asarray(self.columns), shape)
        reduce = Reduction.build(slots, rows.size)
        return BlockSparse(reduce(self.blocks), BlockPattern.build(rows, columns, shape))

    def add(self, row: Any, column: Any, block: Any) -> "Triplets":
        """These blocks and one more, `(r, c)` at `row` and `column`; or several, `(n, r, c)` at rows and columns `(n,)`.

        Raises `TypeError` for places that are no whole numbers, `ValueError` for negative ones or another shape.
        """
        rows, columns = (_places("Triplets.add", name, a) for name, a in (("row", row), ("column", column)))
        blocks = real_array("Triplets.add", "block", block)
        size = self.blocks.shape[1:]
        if blocks.shape != (*rows.shape, *size) or rows.shape != columns.shape or rows.ndim > 1:
            raise ValueError(
                f"Triplets.add: block has shape {blocks.shape} at row {rows.shape} and column {columns.shape}, expected "
                f"{size} at one place, or (n, {size[0]}, {size[1]}) at n."
            )
        pairs = ((self.rows, rows), (self.columns, columns), (self.blocks, blocks.reshape(-1, *size)))
        joined = (jnp.concatenate([old, jnp.atleast_1d(new).astype(old.dtype)]) for old, new in pairs)
        return Triplets(self.states, *joined)

    def add_element(self, nodes: Any, matrix: Any) -> "Triplets":
        """These blocks and those of the matrix `(k b, k b)` of an element with `k` `nodes`, node by node.

        Raises as `add` does.
        """
        numbers = _places("Triplets.add_element", "nodes", nodes)
        matrix = real_array("Triplets.add_element", "matrix", matrix)
        k, (r, c) = numbers.size, self.blocks.shape[1:]
        if numbers.ndim != 1 or matrix.shape != (k * r, k * c):
            raise ValueError(
                f"Triplets.add_element: matrix has shape {matrix.shape} for {k} nodes, expected {(k * r, k * c)}."
            )
        blocks = matrix.reshape(k, r, k, c).swapaxes(1, 2).reshape(k * k, r, c)
        return self.add(jnp.repeat(numbers, k), jnp.tile(numbers, k), blocks)

    @property
    def T(self) -> "Triplets":
        """The transposed blocks."""
        return Triplets((self.states[1], self.states[0]), self.columns, self.rows, self.blocks.swapaxes(1, 2))

    def to_bcoo(self, shape: tuple[int, int]) -> "sparse.BCOO":
        """A `BCOO` with `n_dense=2`, of shape `(*shape, r, c)`; repeats are kept."""
        self._check_places(shape)
        indices = jnp.stack([self.rows, self.columns], axis=1)
        from jax.experimental import sparse

        return sparse.BCOO((self.blocks, indices), shape=(*shape, *self.blocks.shape[1:]))

    def to_dense(self, shape: tuple[int, int]) -> Float[Array, "R C"]:
        """The dense matrix of `shape` block rows and columns."""
        self._check_places(shape)
        return _dense(self, tuple(map(int, shape)))

    def to_scipy(self, shape: tuple[int, int], format: str = "coo"):
        """A SciPy sparse array of scalars on the host: `"coo"` keeps repeats, `"csr"`, `"csc"` and `"bsr"` sum them."""
        from scipy import sparse as scipy_sparse

        check_choice("Triplets", "format", format, ("coo", "csr", "csc", "bsr"))
        if format != "coo":
            return self.assemble(shape).to_scipy(format)
        self._check_places(shape)
        blocks = np.asarray(self.blocks)
        _, r, c = blocks.shape
        rows = r * np.asarray(self.rows)[:, None, None] + np.arange(r)[:, None]
        columns = c * np.asarray(self.columns)[:, None, None] + np.arange(c)
        places = tuple(np.broadcast_to(a, blocks.shape).ravel() for a in (rows, columns))
        return scipy_sparse.coo_array((blocks.ravel(), places), shape=(shape[0] * r, shape[1] * c))

    def _check_places(self, shape: tuple[int, int]) -> None:
        if np.shape(shape) != (2,):
            raise ValueError(f"Triplets: shape must be the numbers of block rows and columns, got {shape!r:.80}.")
        check_counts("Triplets", **{"shape[0]": plain(shape[0]), "shape[1]": plain(shape[1])})
        for what, numbers, count in (("row", self.rows, shape[0]), ("column", self.columns, shape[1])):
            if is_traced(numbers) or numbers.size == 0:
                continue
            host = np.asarray(numbers)
            low, high = int(host.min()), int(host.max())
            if low < 0 or high >= count:
                raise ValueError(
                    f"Triplets between {self.states}: block {what} {low if low < 0 else high} is not in a matrix of "
                    f"{tuple(shape)} blocks."
                )


@in_one_program
def _dense(triplets: Triplets, shape: tuple[int, int]) -> Float[Array, "R C"]:
    (n, m), (_, r, c) = shape, triplets.blocks.shape
    dense = jnp.zeros((n, m, r, c), triplets.blocks.dtype).at[triplets.rows, triplets.columns].add(triplets.blocks)
    dense = marked(dense, all_within((triplets.rows, n), (triplets.columns, m)))
    return dense.swapaxes(1, 2).reshape(n * r, m * c)


def _places(owner: str, name: str, numbers: Any) -> Array:
    """Block rows or columns: whole numbers of at least 0."""
    found = index_array(owner, name, numbers)
    if not is_traced(found) and found.size and int(np.asarray(found).min()) < 0:
        raise ValueError(f"{owner}: {name} is {numbers!r:.80}, expected numbers of at least 0.")
    return found
