"""The inverse of the diagonal, scalar by scalar or block by block."""

import equinox as eqx
import jax.numpy as jnp
import lineax as lx

from ..._math.one_loop import are_all
from ..._math.small_matmul import times_vectors
from ..._runtime.argument_checks import check_flags
from ..._runtime.array_types import Array
from ..base.outcome import FINE, INDEFINITE
from ..dense.elimination import are_definite, inverse_by_elimination
from .base import AbstractApplied, AbstractPreconditioner, needs_matrix


class Jacobi(AbstractPreconditioner):
    """`M = |diag(A)|`. SOFA's JacobiPreconditioner. Raises `ValueError` unless the operator is a `BlockMatrix`.

    No units of its own.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, section 10.2.

    Example:

        apply = jm.solver.Jacobi().build(A)
        assert jnp.allclose(apply(b)["cube"].ravel(), b["cube"].ravel() / jnp.diag(A.to_dense()), atol=1e-7)
    """

    definite = True
    indefinite = True

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        blocks = needs_matrix("Jacobi", operator).diagonal
        inverse = {}
        for s, block in blocks.items():
            entry = jnp.abs(jnp.diagonal(block, axis1=1, axis2=2))
            inverse[s] = jnp.where(entry > 0, 1 / jnp.where(entry > 0, entry, 1), 1.0)
        return _Diagonal(inverse, jnp.int32(FINE))


class _Diagonal(AbstractApplied):
    inverse: dict[str, Array]
    flaw: Array

    def __call__(self, r):
        return {s: self.inverse[s] * r[s] for s in r}

    def transpose(self):
        return self


class BlockJacobi(AbstractPreconditioner):
    """`M` = the diagonal blocks of `A`, one per node. SOFA's BlockJacobiPreconditioner.

    `absolute=True` takes the absolute value of the symmetric blocks (of their eigenvalues), for indefinite matrices;
    without, a block of a symmetric matrix that is regular but not definite is reported as `RESULTS.indefinite`, for in a
    definite matrix there is none. Raises `ValueError` unless the operator is a `BlockMatrix` that stores its diagonal.
    No units of its own.
    Source: Y. Saad, *Iterative Methods for Sparse Linear Systems*, 2nd ed., 2003, doi:10.1137/1.9780898718003, section 10.2.

    Example:

        apply = jm.solver.BlockJacobi().build(A)
        by_hand = jnp.linalg.solve(A["cube", "cube"].diagonal, b["cube"][..., None])[..., 0]
        assert jnp.allclose(apply(b)["cube"], by_hand, atol=1e-7)
    """

    absolute: bool = eqx.field(static=True, default=False)

    definite = True
    indefinite = True  # the method that needs it asks for absolute=True

    def __check_init__(self):
        check_flags("BlockJacobi", absolute=self.absolute)

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        matrix = needs_matrix("BlockJacobi", operator)
        if self.absolute:
            return _Blocks({s: _absolute_inverse(b) for s, b in matrix.diagonal.items()}, jnp.int32(FINE))
        inverse = {s: block_inverse(b) for s, b in matrix.diagonal.items()}
        if not matrix.symmetric:
            return _Blocks({s: _where_regular(b) for s, b in inverse.items()}, jnp.int32(FINE))
        definite = jnp.all(jnp.stack([_definite(b, inverse[s]) for s, b in matrix.diagonal.items()]))
        return _Blocks(inverse, jnp.where(definite, FINE, INDEFINITE).astype(jnp.int32))


class _Blocks(AbstractApplied):
    inverse: dict[str, Array]
    flaw: Array

    def __call__(self, r):
        return {s: times_vectors(self.inverse[s], r[s]) for s in r}

    def transpose(self):
        return _Blocks({s: b.swapaxes(1, 2) for s, b in self.inverse.items()}, self.flaw)

    def blocks(self, state):
        return self.inverse[state]


def block_inverse(blocks: Array) -> Array:
    """The inverses; by cross products for blocks of three, where a factorisation of each takes ten times as long."""
    if blocks.shape[-1] != 3:
        return inverse_by_elimination(blocks)
    size = jnp.max(jnp.abs(blocks), axis=(1, 2), keepdims=True)  # products of three entries must not overflow
    a, b, c = jnp.moveaxis(blocks / size, 1, 0)
    adjugate = jnp.stack([jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)], axis=2)
    determinant = a[:, 0] * adjugate[:, 0, 0] + a[:, 1] * adjugate[:, 1, 0] + a[:, 2] * adjugate[:, 2, 0]
    return adjugate / (determinant[:, None, None] * size)


def _where_regular(inverse: Array) -> Array:
    """With the identity for what has no inverse: a matrix with singular diagonal blocks, of multipliers, may be regular."""
    regular = jnp.isfinite(inverse).all((1, 2), keepdims=True)
    return jnp.where(regular, inverse, jnp.eye(inverse.shape[-1], dtype=inverse.dtype))


def _definite(blocks: Array, inverse: Array) -> Array:
    """Whether no regular diagonal block is indefinite, as in a definite matrix none is."""
    if blocks.shape[-1] == 3:
        # Sylvester's criterion: the leading minors, of which the last is the second one over an entry of the inverse.
        first, last = blocks[:, 0, 0], inverse[:, 2, 2]
        minor = blocks[:, 0, 0] * blocks[:, 1, 1] - blocks[:, 0, 1] ** 2
        definite = (first > 0) & (minor > 0) & (last > 0)
    else:
        definite = are_definite(blocks)
    return are_all(definite | ~jnp.isfinite(inverse).all((1, 2)))


def _absolute_inverse(blocks: Array) -> Array:
    """`|B|^-1` of symmetric blocks, in scaled coordinates: a block of a frame, partly in N/m and partly in N m, has no
    eigenvalues."""
    blocks = 0.5 * (blocks + blocks.swapaxes(1, 2))
    scale = _equilibrating(jnp.abs(blocks))
    values, vectors = jnp.linalg.eigh(blocks * scale[:, :, None] * scale[:, None, :])
    size = jnp.abs(values)
    largest = jnp.max(size, axis=1, keepdims=True)
    # A direction the block says nothing about, as for the multipliers of a saddle point, gets the scale of the others.
    size = jnp.where(size > 1e-6 * largest, size, jnp.where(largest > 0, largest, 1.0))
    return jnp.einsum("ni,nij,nj,nkj,nk->nik", scale, vectors, 1 / size, vectors, scale)


def _equilibrating(size: Array) -> Array:
    """What rows and columns `(n, d)` are multiplied by so that their largest entries are near one, by the absolute values of
    blocks. Three rounds take what is 1e-18 apart, as of a frame of a nanometre, to 1e-2.

    Source: D. Ruiz, *A scaling algorithm to equilibrate both rows and columns norms in matrices*, RAL-TR-2001-034.
    """
    whole = jnp.max(size, axis=(1, 2))[:, None]
    scale = jnp.ones_like(size[:, 0])
    for _ in range(3):
        row = jnp.max(size, axis=2)
        row = jnp.where(row > 0, row, jnp.where(whole > 0, whole, 1.0))  # of nothing: as the others
        scale = scale / jnp.sqrt(row)
        size, whole = size / jnp.sqrt(row[:, :, None] * row[:, None, :]), jnp.ones_like(whole)
    return scale
