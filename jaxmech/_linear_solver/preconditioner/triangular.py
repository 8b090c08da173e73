"""Preconditioners by triangular solves on the host: symmetric successive over-relaxation, incomplete factors."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import lineax as lx
import numpy as np
import scipy.sparse as sp
from jax.flatten_util import ravel_pytree

from ..._runtime.argument_checks import check_tolerances
from ..._runtime.array_types import Array
from ..sparse.csr_layout import layout_of
from ..sparse.host_call import call_host
from .base import AbstractApplied, AbstractPreconditioner, needs_matrix
from .host_factors import KEPT, HostFactor, incomplete_factor, ssor_factor


class SSOR(AbstractPreconditioner):
    """`M = w / (2 - w) (D / w + L) D^-1 (D / w + U)`: one sweep forth and one back, in the order of the unknowns.

    SOFA's SSORPreconditioner. `omega` `w`, between 0 and 2. The sweeps are done on the host, one after the other, always in
    the same order. Raises `ValueError` unless the operator is a `BlockMatrix`; a symmetric one whose diagonal is not
    positive ends in `RESULTS.indefinite` under `PCG`.
    Source: O. Axelsson, BIT 12 (1972) 443, doi:10.1007/BF01932955. Without units.

    Example:

        apply = jm.solver.SSOR(omega=1.0).build(A)
        M = A.to_dense()
        by_hand = jnp.linalg.solve(jnp.tril(M) @ jnp.diag(1 / jnp.diag(M)) @ jnp.triu(M), b["cube"].ravel())
        assert jnp.allclose(apply(b)["cube"].ravel(), by_hand, atol=1e-7)
    """

    omega: float = eqx.field(static=True, default=1.0)

    definite = True
    indefinite = False

    def __check_init__(self):
        check_tolerances("SSOR", omega=self.omega)
        if not 0 < self.omega < 2:
            raise ValueError(f"SSOR: omega must be between 0 and 2, got {self.omega}.")

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        return _host_factor(needs_matrix("SSOR", operator), ("ssor", self.omega))


class IncompleteFactor(AbstractPreconditioner):
    """An incomplete LU by SciPy (SuperLU's ILUTP), or an incomplete `L D L^T` of a symmetric matrix, on the host.

    The unknowns are taken in an order of little fill. `drop_tolerance`: entries smaller than this fraction of their
    column's largest are dropped; `fill`: entries kept, at most, as a multiple of those of the matrix. A factor that meets
    this limit is a poor one: take a larger tolerance then, or a larger `fill`. Raises `ValueError` unless the operator is a
    `BlockMatrix`; a symmetric one with a pivot that is not positive ends in `RESULTS.indefinite` under `PCG`: take a
    smaller tolerance, or SSOR; a factorisation that meets a zero pivot in `RESULTS.singular`.
    Source: X. S. Li and M. Shao, ACM Trans. Math. Softw. 37 (2011) 43, doi:10.1145/1916461.1916467. Without units.

    Example:

        apply = jm.solver.IncompleteFactor(drop_tolerance=0.0).build(A)  # nothing is dropped: the factor is exact
        assert jnp.allclose(A.mv(apply(b))["cube"], b["cube"], atol=1.0)  # [N]
    """

    drop_tolerance: float = eqx.field(static=True, default=1e-3)
    fill: float = eqx.field(static=True, default=20.0)

    definite = True
    indefinite = False

    def __check_init__(self):
        check_tolerances("IncompleteFactor", drop_tolerance=self.drop_tolerance, fill=self.fill)
        if not self.fill >= 1:
            raise ValueError(f"IncompleteFactor: fill must be at least 1, got {self.fill}.")

    def build(self, operator: lx.AbstractLinearOperator) -> AbstractApplied:
        return _host_factor(needs_matrix("IncompleteFactor", operator), ("incomplete", self.drop_tolerance, self.fill))


class _HostApplied(AbstractApplied):
    number: Array  # which factor of those kept on the host
    flaw: Array
    transposed: bool = eqx.field(static=True)

    def __call__(self, r):
        flat, unravel = ravel_pytree(r)
        shape = jax.ShapeDtypeStruct(flat.shape, flat.dtype)
        function = partial(_apply, self.transposed)
        z = call_host("a triangular factor", function, shape, self.number, flat, vmap_method="expand_dims")
        return unravel(z)

    def transpose(self):
        return _HostApplied(self.number, self.flaw, not self.transposed)


def _host_factor(matrix: Any, kind: tuple[Any, ...]) -> _HostApplied:
    arrays = [(e.values, e.pattern.rows, e.pattern.columns) for e in matrix.entries.values()]
    make = partial(_make, kind, tuple(matrix.entries), matrix.sizes, matrix.symmetric)
    shapes = (jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((), np.int32))
    number, flaw = call_host("a triangular factor", make, shapes, jax.lax.stop_gradient(arrays), vmap_method="sequential")
    return _HostApplied(number, flaw, False)


def _make(kind: tuple[Any, ...], pairs: Any, sizes: Any, symmetric: bool, arrays: Any) -> tuple[np.int32, np.int32]:
    arrays = [tuple(np.asarray(a) for a in entry) for entry in arrays]
    layout = layout_of(pairs, sizes, [(v.shape, rows, columns) for v, rows, columns in arrays])
    values = np.concatenate([v.ravel() for v, _, _ in arrays]).astype(np.float64)[layout.order]
    if not np.isfinite(values).all():
        values = np.where(np.isfinite(values), values, 0.0)  # the solver will find its residual not finite
    shape = (layout.size, layout.size)
    A = sp.csr_array((values, layout.indices, layout.indptr), shape=shape, copy=True)
    A.eliminate_zeros()

    key = (*kind, symmetric)

    def factor() -> HostFactor:
        if kind[0] == "ssor":
            return ssor_factor(key, A, kind[1])
        return incomplete_factor(key, A, kind[1], kind[2], symmetric=symmetric)

    number, flaw = KEPT.number(key, A, factor)
    return np.int32(number), np.int32(flaw)


def _apply(transposed: bool, number: Any, r: Any) -> np.ndarray:
    """Every vector of a batch (leading axes, of length 1 where an argument is not batched)."""
    r, number = np.asarray(r), np.asarray(number)
    batch = np.broadcast_shapes(number.shape, r.shape[:-1])
    flat = np.broadcast_to(r, (*batch, r.shape[-1])).reshape(-1, r.shape[-1])
    numbers = np.broadcast_to(number, batch).reshape(-1)
    out = np.empty(flat.shape, r.dtype)
    for i, n in enumerate(numbers):
        factor = KEPT.get(int(n))
        out[i] = (factor.apply_transposed if transposed else factor.apply)(flat[i].astype(np.float64))
    return out.reshape(*batch, -1)
