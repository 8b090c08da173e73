"""The symbolic phase: which blocks a matrix stores. Host work, once per topology."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from .._math.indexing import all_within, marked, take_rows
from .._runtime.argument_checks import check_instance, numeric_array
from .._runtime.array_types import Array, Float, Int
from .._runtime.host_arrays import as_data
from .._runtime.results import is_traced
from .gather_reduction import Reduction
from .spmv_gather import RowProducts


def unique_pairs(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct pairs in row-major order, and for every pair given the number of the distinct one it is."""
    keys = rows.astype(np.int64) * shape[1] + columns
    order = np.argsort(keys)
    keys = keys[order]
    first = np.empty(keys.size, bool)
    first[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    slots = np.empty(keys.size, np.int32)
    slots[order] = np.cumsum(first, dtype=np.int32) - 1
    keys = keys[first]
    return (keys // shape[1]).astype(np.int32), (keys % shape[1]).astype(np.int32), slots


def _check_pairs(rows: Any, columns: Any, shape: Any) -> None:
    """Raise unless these are distinct block coordinates in row-major order, within a matrix of this shape."""
    if not (isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(n, int | np.integer) for n in shape)):
        raise TypeError(f"BlockPattern: shape must be the numbers of block rows and columns, got {shape!r:.80}.")
    for name, numbers, count in (("rows", rows, shape[0]), ("columns", columns, shape[1])):
        if not isinstance(numbers, np.ndarray) or numbers.dtype.kind not in "iu":
            raise TypeError(f"BlockPattern: {name} must be whole numbers of NumPy, got {numbers!r:.80}.")
        if numbers.shape != (rows.size,):
            raise ValueError(f"BlockPattern: {name} has shape {numbers.shape}, expected ({rows.size},).")
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) < count:
            raise ValueError(f"BlockPattern: {name} {numbers.min()} to {numbers.max()}, of {count} in shape.")
    before, after = slice(None, -1), slice(1, None)
    ordered = (rows[before] < rows[after]) | ((rows[before] == rows[after]) & (columns[before] < columns[after]))
    if not ordered.all():
        place = int(np.argmin(ordered))
        raise ValueError(f"BlockPattern: rows and columns are not in row-major order, each pair once, after number {place}.")


class BlockPattern(eqx.Module):
    """The sorted, duplicate-free blocks of a matrix between two states; arrays are data, so equal sizes share a trace.

    `rows`, `columns`: block coordinates in row-major order. `row_starts`: the first block of each row (CSR).
    `transposed`: the order that sorts the blocks column-major. `diagonal`: where block `(i, i)` stands, of a square
    matrix that stores its whole diagonal.
    No units. `build` raises `ValueError` for pairs that are not sorted, not distinct, or outside of `shape`.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, section 3.4.

    Example:

        pattern = jm.matrix.BlockPattern.build(np.array([0, 0, 1]), np.array([0, 1, 1]), shape=(2, 2))
        assert pattern.blocks == 3 and pattern.row_starts.tolist() == [0, 2, 3]
    """

    rows: Int[Array, " z"]
    columns: Int[Array, " z"]
    row_starts: Int[Array, " n+1"]
    transposed: Int[Array, " z"]
    diagonal: Int[Array, " n"] | None
    by_row: Reduction
    row_products: RowProducts
    of_transposed: tuple[Reduction, RowProducts] | None  # its plans, where its rows are not as long as these
    shape: tuple[int, int] = eqx.field(static=True)

    @classmethod
    def build(cls, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> "BlockPattern":
        """The pattern of distinct, row-major sorted host pairs."""
        _check_pairs(rows, columns, shape)
        if rows.size > np.iinfo(np.int32).max:
            raise ValueError(f"the matrix has {rows.size} blocks, more than 32-bit block numbers can tell apart.")
        starts = np.searchsorted(rows, np.arange(shape[0] + 1)).astype(np.int32)
        order = np.argsort(columns, kind="stable").astype(np.int32)
        of_transposed = None
        if shape[0] != shape[1] or not np.array_equal(columns[order], rows):
            column_starts = np.searchsorted(columns[order], np.arange(shape[1] + 1))
            of_transposed = Reduction.build(columns[order], shape[1]), RowProducts.build(column_starts)
        where = np.flatnonzero(rows == columns)
        whole = shape[0] == shape[1] and where.size == shape[0]
        return cls(
            as_data(rows, np.int32),  # kernels read 32 bits
            as_data(columns, np.int32),
            as_data(starts),
            as_data(order),
            as_data(where.astype(np.int32)) if whole else None,
            Reduction.build(rows, shape[0]),
            RowProducts.build(starts),
            of_transposed,
            (int(shape[0]), int(shape[1])),
        )

    @property
    def blocks(self) -> int:
        """How many blocks are stored."""
        return self.rows.shape[0]

    def check_shapes(self, who: str, blocks: int) -> None:
        """Raise `ValueError` unless the arrays are as long as so many blocks make them: compiled loops count on it."""
        found = self.rows.shape, self.columns.shape, self.row_starts.shape, self.transposed.shape
        expected = (blocks,), (blocks,), (self.shape[0] + 1,), (blocks,)
        if found != expected:
            names = "rows, columns, row_starts, transposed"
            raise ValueError(f"{who}: {names} of a pattern have shapes {found}, expected {expected}.")

    def at_columns(self, x: Float[Array, "m ..."]) -> Float[Array, "z ..."]:
        """`x[columns]`, whose transpose is a sum by columns that gathers too: that of a plain gather would scatter."""
        if numeric_array("BlockPattern", "x", x).shape[:1] != self.shape[1:]:
            raise ValueError(f"BlockPattern: x has shape {np.shape(x)}, expected ({self.shape[1]}, ...).")
        padded = jnp.append(self.transposed, jnp.int32(self.blocks))
        by_column = self.by_row if self.of_transposed is None else self.of_transposed[0]
        tables = tuple(take_rows(padded, table) for table in by_column.tables)
        return Reduction(self.columns, by_column.position, tables).spread(x)

    def same_as(self, other: "BlockPattern") -> bool:
        """Whether another pattern is this one, as far as can be seen: of arrays that are traced, only sizes can."""
        check_instance("BlockPattern", "other", other, BlockPattern)
        if self.shape != other.shape or self.rows.shape != other.rows.shape:
            return False
        pairs = ((self.rows, other.rows), (self.columns, other.columns))
        return all(a is b or is_traced((a, b)) or np.array_equal(a, b) for a, b in pairs)

    @property
    def T(self) -> "BlockPattern":
        """The pattern of the transposed matrix."""
        rows = take_rows(self.rows, self.transposed)
        columns = take_rows(self.columns, self.transposed)
        starts = jnp.searchsorted(columns, jnp.arange(self.shape[1] + 1)).astype(jnp.int32)
        starts = marked(starts, all_within((columns, self.shape[1])))  # sought in what has no order, they could be any
        inverse = jnp.argsort(self.transposed).astype(jnp.int32)
        # A square pattern's diagonal blocks keep their order, so they are found by counting.
        diagonal = None if self.diagonal is None else take_rows(inverse, self.diagonal)
        shape = (self.shape[1], self.shape[0])
        plans, of_transposed = (self.by_row, self.row_products), None
        if self.of_transposed is not None:
            plans, of_transposed = self.of_transposed, plans
        return BlockPattern(columns, rows, starts, inverse, diagonal, *plans, of_transposed, shape)
