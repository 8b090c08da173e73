"""The sparse direct solver: a factorisation on the host, inside `jit`, `grad`, `vmap` and `scan`."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from .._result import RESULTS
from .._sparse.block_matrix import BlockMatrix
from ._cudss import check_available, device_solve
from ._factor_cache import solve
from ._host_choice import host_backend
from ._outcome import FINE, SINGULAR, UNSYMMETRIC, outcome
from ._scalar_rows import layout_of

_NOT_FINITE = -1


class SparseDirect(lx.AbstractLinearSolver):
    """Sparse Cholesky, LDL^T or LU by PARDISO, feral or SuperLU: whichever is installed, in that order.

    `backend`: `"auto"`, `"pardiso"` (extra `mkl`), `"feral"` (extra `direct`; symmetric matrices) or `"superlu"`. The
    symbolic phase is kept per pattern and the two last factors per pattern by their values, so that the adjoint solve
    reuses the factor of the forward one. It computes in float64 whatever the operator's dtype. A singular matrix ends in
    `RESULTS.singular`; `stats["loose_state"]` is the number of the state (in sorted order) that moves most in the null
    vector. `stats` also has `residual` (`|b - A x|`) and `reason`: `RESULTS.unsymmetric` for a broken promise.

    `"cudss"` (extra `cuda`: spineax, for Python 3.12, Linux on x86-64 and CUDA 13) factors on the GPU, in the operator's
    dtype. It names no loose state, and factors again for transposed systems.

    `ordering`, against fill: `"auto"` (the backend's best), `"nested_dissection"` (pardiso, feral), `"minimum_degree"` (all;
    superlu's on the graph of nodes), `"natural"`, `"rcm"` and `"colamd"` (superlu). SOFA's SparseLDLSolver,
    EigenSimplicialLDLT and EigenSparseLU with their ordering methods. Raises `ImportError` naming the extra for a backend
    that is not installed, `ValueError` for an unknown one, for an ordering it does not offer, or for an operator that is
    not a `BlockMatrix`.
    """

    backend: str = eqx.field(static=True, default="auto")
    ordering: str = eqx.field(static=True, default="auto", kw_only=True)

    def __check_init__(self):
        if not isinstance(self.backend, str):
            raise TypeError(f"SparseDirect: backend must be a name, got {self.backend!r}.")
        if not isinstance(self.ordering, str):
            raise TypeError(f"SparseDirect: ordering must be a name, got {self.ordering!r}.")
        if self.backend == "cudss":
            check_available(self.ordering)
        else:
            host_backend(self.backend, symmetric=True, ordering=self.ordering)

    def init(self, operator: lx.AbstractLinearOperator, options: dict[str, Any]):
        del options
        if not isinstance(operator, BlockMatrix):
            raise ValueError(
                f"SparseDirect factorises a BlockMatrix, not a {type(operator).__name__}: use MatrixLinearSystem, or PCG "
                "for a matrix-free system."
            )
        return operator, False

    def compute(self, state, vector: dict[str, jax.Array], options: dict[str, Any]):
        del options
        operator, transposed = state
        sizes = operator.sizes
        rhs = jnp.concatenate([vector[s].reshape(-1) for s, _, _ in sizes])
        if self.backend == "cudss":
            x, flaw, residual = device_solve(operator, rhs, transposed=transposed)
            loose = jnp.full((), -1, jnp.int32)
        else:
            x, flaw, loose, residual = self._on_host(operator, rhs, transposed)
        result, reason = outcome(flaw)
        result = lx.RESULTS.where(flaw == _NOT_FINITE, lx.RESULTS.nonfinite_input, result)
        reason = RESULTS.where(flaw == _NOT_FINITE, RESULTS.nonfinite_input, reason)
        ends = np.cumsum([n * d for _, n, d in sizes])
        pieces = jnp.split(x, ends[:-1])
        solution = {s: piece.reshape(n, d) for (s, n, d), piece in zip(sizes, pieces, strict=True)}
        steps = jnp.zeros((), jnp.int32)
        return solution, result, {"num_steps": steps, "residual": residual, "loose_state": loose, "reason": reason}

    def _on_host(self, operator: BlockMatrix, rhs: jax.Array, transposed: bool) -> Any:
        sizes = operator.sizes
        arrays = [(e.values, e.pattern.rows, e.pattern.columns) for e in operator.entries.values()]
        how = (tuple(operator.entries), sizes, operator.symmetric, transposed, self.backend, self.ordering)
        number, real = jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((), rhs.dtype)
        shapes = (jax.ShapeDtypeStruct(rhs.shape, rhs.dtype), number, number, real)
        host = partial(_host_solve, how, rhs.dtype)
        return jax.pure_callback(host, shapes, arrays, rhs, vmap_method="expand_dims")

    def transpose(self, state, options: dict[str, Any]):
        operator, transposed = state
        return (operator, not transposed and not operator.symmetric), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


def _host_solve(how: tuple[Any, ...], dtype: Any, arrays, rhs) -> tuple[Any, Any, Any, Any]:
    """Every system of a batch (leading axes, of length 1 where an argument is not batched)."""
    rhs = np.asarray(rhs)
    arrays = [tuple(np.asarray(a) for a in entry) for entry in arrays]
    if rhs.ndim == 1:
        x, flaw, loose, residual = _solve_one(how, arrays, rhs[:, None])
        return x[:, 0].astype(dtype), flaw, loose, residual[0].astype(dtype)
    batch = np.broadcast_shapes(rhs.shape[:-1], *(a.shape[:-1] for e in arrays for a in e[1:]), arrays[0][0].shape[:-3])
    count = int(np.prod(batch))
    flat_rhs = np.broadcast_to(rhs, (*batch, rhs.shape[-1])).reshape(count, -1)
    flat = [tuple(_flattened(a, batch, 3 if i == 0 else 1) for i, a in enumerate(e)) for e in arrays]
    if all(a.shape[0] == 1 for e in flat for a in e):
        x, flaw, loose, residual = _solve_one(how, [tuple(a[0] for a in e) for e in flat], flat_rhs.T)
        answers = [(x[:, i], flaw, loose, residual[i]) for i in range(count)]
    else:
        answers = []
        for i in range(count):
            own = [tuple(a[i if a.shape[0] > 1 else 0] for a in e) for e in flat]
            x, flaw, loose, residual = _solve_one(how, own, flat_rhs[i][:, None])
            answers.append((x[:, 0], flaw, loose, residual[0]))
    x, flaw, loose, residual = (np.stack(parts) for parts in zip(*answers, strict=True))
    return (
        x.reshape(*batch, -1).astype(dtype),
        flaw.reshape(batch),
        loose.reshape(batch),
        residual.reshape(batch).astype(dtype),
    )


def _flattened(array: np.ndarray, batch: tuple[int, ...], core: int) -> np.ndarray:
    """The batch axes as one; kept at length 1 where nothing varies along them."""
    shape = array.shape[array.ndim - core :]
    if all(n == 1 for n in array.shape[: array.ndim - core]):
        return array.reshape(1, *shape)
    return np.broadcast_to(array, (*batch, *shape)).reshape(-1, *shape)


def _solve_one(how: tuple[Any, ...], arrays, rhs) -> tuple[np.ndarray, np.int32, np.int32, np.ndarray]:
    pairs, sizes, symmetric, transposed, backend, ordering = how
    ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
    layout = layout_of(pairs, sizes, arrays)
    values = np.concatenate([v.ravel() for v, _, _ in arrays]).astype(np.float64)[layout.order]
    options = {"symmetric": symmetric, "transposed": transposed, "backend": backend, "ordering": ordering}
    options["rounding"] = max(float(np.finfo(v.dtype).eps) for v, _, _ in arrays)
    answer = solve(layout.indptr, layout.indices, values, rhs.astype(np.float64), **options)
    flaw, loose = FINE, 0
    if answer.unsymmetric:
        flaw, loose = UNSYMMETRIC, -1
    elif answer.singular:
        flaw = SINGULAR
        if answer.null_vector is not None:
            shares = [np.sum(answer.null_vector[a:b] ** 2) for a, b in zip(ends, ends[1:], strict=False)]
            loose = int(np.argmax(shares))
    elif not np.isfinite(answer.x).all():
        flaw = _NOT_FINITE
    return answer.x, np.int32(flaw), np.int32(loose), answer.residual
