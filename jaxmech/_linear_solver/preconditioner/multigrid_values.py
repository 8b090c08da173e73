"""The numeric half of multigrid: the matrices of all levels from that of the finest. Compiled, from the plan alone."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ..._math.indexing import add_rows, take_rows
from ..._math.small_matmul import times_blocks, times_vectors
from ..._runtime.array_types import Array, Float
from ..._sparse.block_multiply import BlockRows, block_multiply
from ..._sparse.block_sparse import BlockSparse
from ..._sparse.galerkin import galerkin_product
from ..._sparse.pattern import BlockPattern
from ..._sparse.spmv import block_product
from ..base.vectors import dot, scattered
from .aggregation import AggregationLevel
from .jacobi import block_inverse

_NIL = 1e-10  # of the largest: eigenvalues below are none
_LANCZOS = 8  # steps to find the largest eigenvalue
_MARGIN = 1.05  # that what they find may be too small by


def diagonal_inverse(blocks: Float[Array, "n b b"], *, points: bool) -> Float[Array, "n b b"]:
    """The inverses of the diagonal blocks, or of their diagonals; ones where there is nothing."""
    entries = jnp.diagonal(blocks, axis1=1, axis2=2)
    unit = jnp.eye(blocks.shape[-1], dtype=blocks.dtype)
    by_entry = (1 / jnp.where(entries == 0, 1, entries))[:, :, None] * unit
    if points:
        return by_entry
    inverse = block_inverse(blocks + jnp.where(entries == 0, 1, 0)[:, :, None] * unit)
    return jnp.where(jnp.isfinite(inverse).all((1, 2), keepdims=True), inverse, by_entry)


def largest_eigenvalue(mv: Callable[[Array], Array], inverse: Float[Array, "n b b"]) -> Float[Array, ""]:
    """Of `D^-1 A`, from the steps of conjugate gradients preconditioned by `D`, which are those of Lanczos."""
    r = scattered(jax.ShapeDtypeStruct(inverse.shape[:2], inverse.dtype), 0)
    eps = jnp.finfo(r.dtype).eps

    def over(a: Array, b: Array) -> Array:
        return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)

    def step(carry, _):
        r, p, rz, first = carry
        Ap = mv(p)
        alpha = over(rz, dot(p, Ap))
        r = r - alpha * Ap
        z = times_vectors(inverse, r)
        following = dot(r, z)
        following = jnp.where(following > (eps * first) * eps, following, 0)
        beta = over(following, rz)
        return (r, z + beta * p, following, first), (alpha, beta)

    z = times_vectors(inverse, r)
    _, (alpha, beta) = jax.lax.scan(step, (r, z, dot(r, z), dot(r, z)), length=_LANCZOS)
    before = jnp.concatenate([jnp.zeros(1, r.dtype), over(beta, alpha)[:-1]])
    beside = over(jnp.sqrt(beta), alpha)[:-1]
    tridiagonal = jnp.diag(over(jnp.ones_like(alpha), alpha) + before) + jnp.diag(beside, 1) + jnp.diag(beside, -1)
    found = _MARGIN * jnp.linalg.eigvalsh(tridiagonal)[-1]
    return jnp.where(found > 0, found, 1)


def without_isolated(matrix: BlockSparse, modes: Float[Array, "n b m"]) -> Float[Array, "n b m"]:
    """The modes, nil for unknowns whose row holds its diagonal only: what is constrained neither moves nor turns."""
    x = scattered(jax.ShapeDtypeStruct(modes.shape[:2], matrix.values.dtype), 1)
    alone = matrix.mv(x) == jnp.diagonal(matrix.diagonal, axis1=1, axis2=2) * x  # zeros are added without rounding
    return jnp.where(alone[:, :, None], 0, modes)


def prolongation(
    level: AggregationLevel, matrix: BlockSparse, inverse: Array, largest: Array, modes: Float[Array, "n b m"]
) -> tuple[Float[Array, "z b m"], Float[Array, "a m m"]]:
    """`P = (I - w D^-1 A) T`, and the modes of the next level: `T` is a basis of the modes on each aggregate.

    `w` is 4/3 of what the largest eigenvalue allows. Directions that the modes of an aggregate do not span are nil.
    """
    gram = level.members(jnp.einsum("nbi,nbj->nij", modes, modes))[:-1]
    values, vectors = jnp.linalg.eigh(gram)
    there = values > _NIL * values[:, -1:]
    root = jnp.sqrt(jnp.where(there, values, 1))
    basis = vectors * jnp.where(there, 1 / root, 0)[:, None, :]
    coarse = jnp.where(there, root, 0)[:, :, None] * vectors.swapaxes(1, 2)
    padded = jnp.concatenate([basis, jnp.zeros_like(basis[:1])])
    own = times_blocks(modes, take_rows(padded, level.aggregate))
    pattern = BlockRows.of_pattern(level.prolongation)
    moved = block_multiply(matrix.values, BlockRows.of_pattern(matrix.pattern), own, level.unsmoothed, pattern)
    smooth = (-4 / 3 / largest) * times_blocks(take_rows(inverse, level.prolongation.rows), moved)
    return add_rows(smooth, level.own, own), coarse


def restriction(level: AggregationLevel, P: Float[Array, "z b m"]) -> Float[Array, "z m b"]:
    """`P^T`."""
    return take_rows(P, level.prolongation.transposed).swapaxes(1, 2)


def coarse_matrix(level: AggregationLevel, matrix: BlockSparse, P: Array) -> BlockSparse:
    """`P^T A P`; one on the diagonal of directions that are nil."""
    values = galerkin_product(matrix.values, matrix.pattern, P, level.prolongation, level.half, level.coarse)
    return BlockSparse(with_unit_diagonal(values, level.coarse), level.coarse)


def with_unit_diagonal(values: Array, pattern: BlockPattern) -> Array:
    assert pattern.diagonal is not None
    entries = jnp.diagonal(take_rows(values, pattern.diagonal), axis1=1, axis2=2)
    size = jnp.max(jnp.abs(entries))
    fill = jnp.where(jnp.abs(entries) <= 1e-14 * size, size, 0)
    return add_rows(values, pattern.diagonal, fill[:, :, None] * jnp.eye(entries.shape[1], dtype=values.dtype))


def dense_inverse(matrix: BlockSparse) -> Float[Array, "N N"]:
    """Of the matrix of the coarsest level; of what is singular, on the rest."""
    dense = matrix.to_dense()
    values, vectors = jnp.linalg.eigh((dense + dense.T) / 2)
    there = jnp.abs(values) > 1e-12 * jnp.max(jnp.abs(values))
    return (vectors * jnp.where(there, 1 / jnp.where(there, values, 1), 0)) @ vectors.T


def product(values: Array, pattern: BlockPattern, x: Array) -> Array:
    """`A x` in the type of the values."""
    return block_product(values, pattern, x.astype(values.dtype))
