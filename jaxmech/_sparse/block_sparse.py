"""A sparse matrix of small dense blocks between two states."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax

from .._math.indexing import marked, nearest, take_rows
from .._runtime.argument_checks import check_choice, numeric_array
from .._runtime.array_types import Array, Float, Int
from .._runtime.precision import compiled
from .pattern import BlockPattern
from .spmv import block_product

if TYPE_CHECKING:  # imported where it is used: it takes long
    from jax.experimental import sparse


class BlockSparse(eqx.Module):
    """Blocks `values` `(z, r, c)` at the `z` places of `pattern`: sorted by rows, duplicate-free.

    A matrix of `n x m` blocks between two states; one vector `(m, c)` per block column goes in, `(n, r)` comes out.
    `row_index`, `columns` and `values` are the three arrays of a block-sparse-row format, ArcaneFEM's among them (whose
    `row_index` lacks the closing entry): block row `i` holds the blocks `row_index[i]` to `row_index[i + 1] - 1`.
    Raises `ValueError` from `mv` for another shape. Units are those of `values`.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, section 3.4.

    Example:

        pattern = jm.matrix.BlockPattern.build(np.array([0, 1]), np.array([0, 1]), shape=(2, 2))
        matrix = jm.matrix.BlockSparse(jnp.stack([jnp.eye(2), 3 * jnp.eye(2)]), pattern)
        assert jnp.allclose(matrix.mv(jnp.ones((2, 2))), jnp.array([[1.0, 1.0], [3.0, 3.0]]))
    """

    values: Float[Array, "z r c"]
    pattern: BlockPattern

    @property
    def shape(self) -> tuple[int, int]:
        """Scalar rows and columns."""
        _, r, c = self.values.shape
        return self.pattern.shape[0] * r, self.pattern.shape[1] * c

    @property
    def row_index(self) -> Int[Array, " n+1"]:
        """Where each block row begins in `columns` and `values`, and the end of the last (SciPy's `indptr`)."""
        return self.pattern.row_starts

    @property
    def columns(self) -> Int[Array, " z"]:
        """The block column of each block, ascending within a row (SciPy's `indices`)."""
        return self.pattern.columns

    def mv(self, x: Float[Array, "m c"]) -> Float[Array, "n r"]:
        """The product with one vector per block column. `ValueError` for another shape."""
        x = numeric_array("BlockSparse.mv", "x", x)
        if not jnp.issubdtype(x.dtype, jnp.floating) and not jnp.issubdtype(x.dtype, jnp.integer):
            raise TypeError(f"BlockSparse.mv: x has dtype {x.dtype}, expected real numbers.")
        if jnp.shape(x) != (self.pattern.shape[1], self.values.shape[-1]):
            expected = (self.pattern.shape[1], self.values.shape[-1])
            raise ValueError(f"BlockSparse.mv: x has shape {jnp.shape(x)}, expected {expected}.")
        return block_product(self.values, self.pattern, jnp.asarray(x))

    @property
    def T(self) -> "BlockSparse":
        """The transposed matrix."""
        return BlockSparse(take_rows(self.values, self.pattern.transposed).swapaxes(1, 2), self.pattern.T)

    @property
    def diagonal(self) -> Float[Array, "n r r"]:
        """The diagonal blocks. `ValueError` where the matrix is not square or does not store all of them."""
        if self.pattern.diagonal is None:
            raise ValueError(f"a block matrix of {self.pattern.shape} blocks does not store its whole diagonal.")
        return take_rows(self.values, self.pattern.diagonal)

    def to_bcoo(self) -> "sparse.BCOO":
        """The exchange type of JAX: a `BCOO` with `n_dense=2`, of shape `(n, m, r, c)`."""
        indices = jnp.stack([self.pattern.rows, self.pattern.columns], axis=1)
        shape = (*self.pattern.shape, *self.values.shape[1:])
        from jax.experimental import sparse

        return sparse.BCOO((self.values, indices), shape=shape, indices_sorted=True, unique_indices=True)

    def to_bcsr(self) -> "sparse.BCSR":
        """JAX's compressed rows: a `BCSR` with `n_dense=2`, of shape `(n, m, r, c)`."""
        shape = (*self.pattern.shape, *self.values.shape[1:])
        arrays = (self.values, self.columns, self.row_index)
        from jax.experimental import sparse

        return sparse.BCSR(arrays, shape=shape, indices_sorted=True, unique_indices=True)

    def to_scipy(self, format: str = "bsr"):
        """A SciPy sparse array, `"bsr"`, `"csr"`, `"csc"` or `"coo"`, on the host: a copy, free to be changed."""
        from scipy import sparse as scipy_sparse

        check_choice("BlockSparse", "format", format, ("bsr", "csr", "csc", "coo"))
        data = tuple(np.array(a) for a in (self.values, self.columns, self.row_index))
        return scipy_sparse.bsr_array(data, shape=self.shape).asformat(format)

    def to_dense(self) -> Float[Array, "R C"]:
        """The dense matrix."""
        return _dense(self)


@compiled  # one program, where operations that are carried out one by one would be thirty
def _dense(matrix: BlockSparse) -> Float[Array, "R C"]:
    _, r, c = matrix.values.shape
    n, m = matrix.pattern.shape
    rows, columns = matrix.pattern.rows, matrix.pattern.columns
    dense = jnp.zeros((n, r, m, c), matrix.values.dtype)
    if 0 not in (n, m):
        i, j = nearest(rows, n), nearest(columns, m)
        # Each block by itself is marked, and added: what is written to the place of another would be lost.
        values = marked(matrix.values, lax.eq(rows, i) & lax.eq(columns, j))
        dense = dense.at[i, :, j].add(values, mode="promise_in_bounds", wrap_negative_indices=False)
    return dense.reshape(n * r, m * c)
