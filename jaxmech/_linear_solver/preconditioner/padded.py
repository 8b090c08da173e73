"""A sparse matrix of blocks with rows padded to one length: one gather and one small dense product per row."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ..._math.indexing import take_rows
from ..._runtime.array_types import Array, Float, Int


class Padded(eqx.Module):
    """Row `i` holds its blocks side by side in `values[i]` `(r, k c)`, for the block columns `columns[i]`.

    Cheap to compile, for the many small products of a multigrid cycle; it wastes what the longest row is longer.
    """

    columns: Int[Array, "n k"]
    values: Float[Array, "n r kc"]

    @classmethod
    def of(cls, matrix, dtype) -> "Padded":
        """From a SciPy BSR matrix on the host."""
        r, c = matrix.blocksize
        counts = np.diff(matrix.indptr)
        n, k = counts.size, max(int(counts.max(initial=0)), 1)
        rows = np.repeat(np.arange(n), counts)
        lanes = np.arange(matrix.indices.size) - np.repeat(matrix.indptr[:-1], counts)
        columns = np.zeros((n, k), np.int32)
        columns[rows, lanes] = matrix.indices
        values = np.zeros((n, k, r, c))
        values[rows, lanes] = matrix.data
        merged = values.swapaxes(1, 2).reshape(n, r, k * c)
        return cls(jnp.asarray(columns), jnp.asarray(merged, dtype))

    def mv(self, x: Float[Array, "m c"]) -> Float[Array, "n r"]:
        """The product with one vector per block column."""
        gathered = take_rows(x, self.columns)
        return jnp.einsum("nip,np->ni", self.values, gathered.reshape(gathered.shape[0], -1))
