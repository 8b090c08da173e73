"""A matrix between several states: a `BlockSparse` for each pair, and a lineax operator on dictionaries of vectors."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from .._runtime.argument_checks import check_choice, check_flags, check_instance, numeric_array, real_array
from .._runtime.array_types import Array, Float
from .._runtime.precision import compiled
from .block_sparse import BlockSparse
from .layout import Sizes, StateLayout

Pair = tuple[str, str]


class BlockMatrix(lx.AbstractLinearOperator):
    """The blocks of every pair of states. `sizes` lists `(state, nodes, deriv_size)`, sorted by state.

    Vectors are dictionaries `{state: (nodes, deriv_size)}`; flat vectors and matrices take the states in sorted order.
    `symmetric` is declared by whoever assembled the matrix: lineax and our solvers choose by it. `indefinite` too: that of
    constraints with multipliers.
    `mv` and `from_entries` raise `ValueError` for vectors and blocks of other sizes. Units are those of its entries, [N/m]
    say.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, section 3.4.

    Example:

        assert A.sizes == (("cube", 8, 3),) and A.to_scipy().shape == (24, 24)
        x = lx.linear_solve(A, b, jm.solver.Cholesky()).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1e-2)  # [N]
    """

    entries: dict[Pair, BlockSparse]
    sizes: Sizes = eqx.field(static=True)
    symmetric: bool = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)
    indefinite: bool = eqx.field(static=True, default=False)

    @classmethod
    def from_entries(cls, entries: Mapping[Pair, BlockSparse], *, symmetric: bool = False) -> "BlockMatrix":
        """The matrix of these blocks, `{(row state, column state): blocks}`: a `BlockSparse` of your own as an operator.

        Pairs that are not given are zero. `symmetric` is your declaration. Raises `ValueError` where two entries disagree on
        the size of a state.
        """
        check_flags("BlockMatrix", symmetric=symmetric)
        check_instance("BlockMatrix", "entries", entries, Mapping)
        if not entries:
            raise ValueError("BlockMatrix: entries is empty, at least one is needed.")
        sizes: dict[str, tuple[int, int]] = {}
        for pair, entry in entries.items():
            if not (isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(state, str) for state in pair)):
                raise TypeError(f"BlockMatrix: the keys of entries must be pairs of states, got {pair!r:.80}.")
            check_instance("BlockMatrix", f"entries[{pair}]", entry, BlockSparse)
            for state, nodes, size in zip(pair, entry.pattern.shape, entry.values.shape[1:], strict=True):
                if sizes.setdefault(state, (nodes, size)) != (nodes, size):
                    raise ValueError(
                        f"BlockMatrix: the entry {pair} gives state '{state}' {nodes} nodes of {size} unknowns, another "
                        f"gives it {sizes[state][0]} of {sizes[state][1]}."
                    )
        dtype = jnp.result_type(*(e.values for e in entries.values()))
        layout = tuple((s, *sizes[s]) for s in sorted(sizes))
        return cls({pair: entries[pair] for pair in sorted(entries)}, layout, symmetric, dtype)

    def __getitem__(self, pair: Pair) -> BlockSparse:
        if pair not in self.entries:
            raise KeyError(f"no block between {pair}; there are {sorted(self.entries)}.")
        return self.entries[pair]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.entries)

    def mv(self, vector: dict[str, Array]) -> dict[str, Array]:
        """The product with a dictionary of vectors. `ValueError` unless they are of `in_structure()`."""
        check_vector("BlockMatrix.mv", self, vector)
        result = {s: jnp.zeros((n, d), self.dtype) for s, n, d in self.sizes}
        for (row, column), entry in self.entries.items():
            result[row] = result[row] + entry.mv(vector[column])
        return result

    def transpose(self) -> "BlockMatrix":
        """The transposed operator."""
        if self.symmetric:
            return self
        entries = {(c, r): entry.T for (r, c), entry in self.entries.items()}
        return replace(self, entries={k: entries[k] for k in sorted(entries)})

    @property
    def diagonal(self) -> dict[str, Float[Array, "n d d"]]:
        """The diagonal blocks of every state."""
        return {s: self[s, s].diagonal for s, _, _ in self.sizes}

    def in_structure(self) -> dict[str, jax.ShapeDtypeStruct]:
        # Asked of JAX, for within `shard_map` a structure tells the devices too, and lineax compares all of it.
        return jax.eval_shape(lambda: {s: jnp.zeros((n, d), self.dtype) for s, n, d in self.sizes})

    def out_structure(self) -> dict[str, jax.ShapeDtypeStruct]:
        return self.in_structure()

    @property
    def layout(self) -> StateLayout:
        """The order of the unknowns in the flat system, and vectors to and fro."""
        return StateLayout(self.sizes)

    def offsets(self) -> dict[str, int]:
        """Where each state begins in the flat system."""
        return self.layout.offsets()

    def as_matrix(self) -> Float[Array, "N N"]:
        return self.to_dense()

    def to_dense(self) -> Float[Array, "N N"]:
        """The dense matrix of the flat system."""
        return _dense(self)

    def to_scipy(self, format: str = "csr"):
        """The flat system as a SciPy sparse array, `"csr"`, `"csc"`, `"coo"` or `"bsr"`, on the host."""
        from scipy import sparse

        check_choice("BlockMatrix", "format", format, ("csr", "csc", "coo", "bsr"))
        if len(self.sizes) == 1 and self.entries:
            return next(iter(self.entries.values())).to_scipy(format)
        nothing = {(r, c): sparse.coo_array((n * d, m * e)) for r, n, d in self.sizes for c, m, e in self.sizes}
        grid = [
            [self.entries[r, c].to_scipy() if (r, c) in self.entries else nothing[r, c] for c, _, _ in self.sizes]
            for r, _, _ in self.sizes
        ]
        return sparse.block_array(grid, format=format)

    def to_bcoo(self) -> dict:
        """Each pair of states as a `BCOO` with `n_dense=2`."""
        return {pair: entry.to_bcoo() for pair, entry in self.entries.items()}

    def to_bcsr(self) -> dict:
        """Each pair of states as a `BCSR` with `n_dense=2`."""
        return {pair: entry.to_bcsr() for pair, entry in self.entries.items()}

    def scaled(self, factor: Any) -> "BlockMatrix":
        """Every block times a number."""
        real_array("BlockMatrix.scaled", "factor", factor, ())
        return eqx.tree_at(
            lambda a: [e.values for e in a.entries.values()], self, [factor * e.values for e in self.entries.values()]
        )

    def plus(self, other: "BlockMatrix") -> "BlockMatrix":
        """The sum with a matrix of the same pattern: an addition of block values. See `share_pattern`.

        Raises `ValueError` for patterns that differ, as far as can be seen: under `jit` only their sizes can.
        """
        check_instance("BlockMatrix.plus", "other", other, BlockMatrix)
        for pair in {*self.entries, *other.entries}:
            mine, theirs = self.entries.get(pair), other.entries.get(pair)
            if mine is None or theirs is None or not mine.pattern.same_as(theirs.pattern):
                raise ValueError(f"BlockMatrix.plus: the patterns differ between {pair}: use share_pattern.")
        if self.sizes != other.sizes:
            raise ValueError(f"BlockMatrix.plus: the states differ: {self.sizes} and {other.sizes}.")
        total = eqx.tree_at(
            lambda a: [e.values for e in a.entries.values()],
            self,
            [a.values + b.values for a, b in zip(self.entries.values(), other.entries.values(), strict=True)],
        )
        symmetric = self.symmetric and other.symmetric
        indefinite = self.indefinite or other.indefinite
        return BlockMatrix(total.entries, self.sizes, symmetric, self.dtype, indefinite)


@compiled  # one program, where operations that are carried out one by one would be dozens
def _dense(matrix: BlockMatrix) -> Float[Array, "N N"]:
    rows = []
    for r, n, d in matrix.sizes:
        row = [
            matrix.entries[r, c].to_dense() if (r, c) in matrix.entries else jnp.zeros((n * d, m * e), matrix.dtype)
            for c, m, e in matrix.sizes
        ]
        rows.append(jnp.concatenate(row, axis=1))
    return jnp.concatenate(rows, axis=0)


def check_vector(who: str, matrix: BlockMatrix, vector: Any) -> None:
    """Raise `TypeError` or `ValueError` unless `vector` is a dictionary of vectors of the states of a matrix."""
    check_instance(who, "vector", vector, Mapping)
    expected = {s: (n, d) for s, n, d in matrix.sizes}
    found = {s: numeric_array(who, f"vector['{s}']", v).shape for s, v in vector.items()}
    if found != expected:
        raise ValueError(f"{who}: the arrays of vector are of shapes {found}, expected {expected}.")


def _never(operator: BlockMatrix) -> bool:
    del operator
    return False


# lineax asks its questions through tables; these are the answers of a block matrix.
lx.is_symmetric.register(BlockMatrix)(lambda operator: operator.symmetric)
for _question in (
    lx.is_diagonal,
    lx.is_tridiagonal,
    lx.has_unit_diagonal,
    lx.is_lower_triangular,
    lx.is_upper_triangular,
    lx.is_positive_semidefinite,
    lx.is_negative_semidefinite,
):
    _question.register(BlockMatrix)(_never)
for _identity in (lx.linearise, lx.conj):
    _identity.register(BlockMatrix)(lambda operator: operator)


@lx.materialise.register(BlockMatrix)
def _materialise(operator: BlockMatrix) -> lx.AbstractLinearOperator:
    return operator


@lx.diagonal.register(BlockMatrix)
def _diagonal(operator: BlockMatrix) -> Array:
    blocks = operator.diagonal
    return jnp.concatenate([jnp.diagonal(blocks[s], axis1=1, axis2=2).reshape(-1) for s, _, _ in operator.sizes])


def magnitude(A: BlockMatrix) -> BlockMatrix:
    """`|A|`, entry by entry."""
    return eqx.tree_at(lambda a: [e.values for e in a.entries.values()], A, [jnp.abs(e.values) for e in A.entries.values()])
