"""The sparse direct solver: a factorisation on the host, inside `jit`, `grad`, `vmap` and `scan`."""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

from ..._runtime.precision import full_precision
from ..._runtime.results import RESULTS
from ..._sparse.block_matrix import BlockMatrix
from ..base.outcome import FINE, SINGULAR, UNSYMMETRIC, outcome
from .csr_layout import layout_of
from .cudss import check_available, device_solve
from .factor_cache import solve
from .host_call import call_host
from .host_choice import host_backend

_NOT_FINITE = -1


class SparseDirect(lx.AbstractLinearSolver):
    """Sparse Cholesky, LDL^T or LU by PARDISO, feral or SuperLU: whichever is installed, in that order.

    Before them, unless a backend or an ordering is named: positive definite matrices within a narrow band (bars, sheets,
    small solids) are factored there, by LAPACK.

    `backend`: `"auto"`, `"pardiso"` (extra `mkl`), `"feral"` (extra `direct`; symmetric matrices) or `"superlu"`. The
    symbolic phase is kept per pattern, and the last factors by their values: two, of small matrices up to 32 (those of a
    million entries in all), so that adjoint solves find the factors of forward ones. It computes in float64 whatever the
    operator's dtype. A singular matrix ends in `RESULTS.singular`; `stats["unconstrained_state"]` is the number of the state
    (in sorted order) that moves most in the null
    vector. `stats` also has `residual` (`|b - A x|`) and `reason`: `RESULTS.unsymmetric` where it is declared symmetric and
    is not.

    `"cudss"` (extra `cuda`: spineax, for Python 3.12, Linux on x86-64 and CUDA 13) factors on the GPU, in the operator's
    dtype. It names no unconstrained state, and factors again for transposed systems.

    `ordering`, against fill: `"auto"` (the backend's best), `"nested_dissection"` (pardiso, feral), `"minimum_degree"` (all;
    superlu's on the graph of nodes), `"natural"`, `"rcm"` and `"colamd"` (superlu). SOFA's SparseLDLSolver,
    EigenSimplicialLDLT and EigenSparseLU with their ordering methods. Raises `ImportError` naming the extra for a backend
    that is not installed, `ValueError` for an unknown one, for an ordering it does not offer, or for an operator that is
    not a `BlockMatrix`.
    Source: T. A. Davis, *Direct Methods for Sparse Linear Systems*, 2006, doi:10.1137/1.9780898718881.

    Example:

        x = lx.linear_solve(A, b, jm.solver.SparseDirect("superlu", ordering="minimum_degree")).value
        assert jnp.allclose(A.mv(x)["cube"], b["cube"], atol=1.0)  # [N]
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

    @full_precision
    def compute(self, state, vector: dict[str, jax.Array], options: dict[str, Any]):
        del options
        operator, transposed = state
        sizes = operator.sizes
        rhs = jnp.concatenate([vector[s].reshape(-1) for s, _, _ in sizes])
        if self.backend == "cudss":
            x, flaw, residual = device_solve(operator, rhs, transposed=transposed)
            unconstrained = jnp.full((), -1, jnp.int32)
        else:
            x, flaw, unconstrained, residual = self._on_host(operator, rhs, transposed)
        result, reason = outcome(flaw)
        result = lx.RESULTS.where(flaw == _NOT_FINITE, lx.RESULTS.nonfinite_input, result)
        reason = RESULTS.where(flaw == _NOT_FINITE, RESULTS.nonfinite_input, reason)
        ends = np.cumsum([n * d for _, n, d in sizes])
        pieces = jnp.split(x, ends[:-1])
        solution = {s: piece.reshape(n, d) for (s, n, d), piece in zip(sizes, pieces, strict=True)}
        steps = jnp.zeros((), jnp.int32)
        return (
            solution,
            result,
            {"num_steps": steps, "residual": residual, "unconstrained_state": unconstrained, "reason": reason},
        )

    def _on_host(self, operator: BlockMatrix, rhs: jax.Array, transposed: bool) -> Any:
        # All values in one array, all places in another: each array that crosses costs more than many numbers do.
        entries = operator.entries.values()
        values = jnp.concatenate([e.values.reshape(-1) for e in entries])
        places = jnp.concatenate([a for e in entries for a in (e.pattern.rows, e.pattern.columns)])
        blocks = tuple(e.values.shape for e in entries)
        options = {
            "symmetric": operator.symmetric,
            "transposed": transposed,
            "backend": self.backend,
            "ordering": self.ordering,
            "rounding": max(float(jnp.finfo(e.values.dtype).eps) for e in entries),
        }
        number, real = jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((), rhs.dtype)
        shapes = (jax.ShapeDtypeStruct(rhs.shape, rhs.dtype), number, number, real)
        what = tuple(operator.entries), blocks, operator.sizes, options
        arrays = values, places, rhs
        return call_host(
            "SparseDirect",
            partial(_host_solve, *what),
            shapes,
            *arrays,
            vmap_method="expand_dims",
            name=f"SparseDirect {what}",
        )

    def transpose(self, state, options: dict[str, Any]):
        operator, transposed = state
        return (operator, not transposed and not operator.symmetric), options

    def conj(self, state, options: dict[str, Any]):
        return state, options

    def assume_full_rank(self):
        return True


def _host_solve(pairs: Any, blocks: Any, sizes: Any, options: dict[str, Any], values, places, rhs) -> tuple[Any, ...]:
    """Every system of a batch (leading axes, of length 1 where an argument is not batched)."""
    values, places, rhs = np.asarray(values), np.asarray(places), np.asarray(rhs)
    dtype, one = rhs.dtype, partial(_solve_one, pairs, blocks, sizes, options)
    if rhs.ndim == 1:
        x, flaw, unconstrained, residual = one(values, places, rhs[:, None])
        return x[:, 0].astype(dtype), flaw, unconstrained, residual[0].astype(dtype)
    batch = np.broadcast_shapes(*(a.shape[:-1] for a in (values, places, rhs)))
    values, places = _flattened(values, batch), _flattened(places, batch)
    flat_rhs = np.broadcast_to(rhs, (*batch, rhs.shape[-1])).reshape(-1, rhs.shape[-1])
    if len(values) == len(places) == 1:
        x, flaw, unconstrained, residual = one(values[0], places[0], flat_rhs.T)
        answers = [(x[:, i], flaw, unconstrained, residual[i]) for i in range(len(flat_rhs))]
    else:
        answers = []
        for i, b in enumerate(flat_rhs):
            x, flaw, unconstrained, residual = one(values[i % len(values)], places[i % len(places)], b[:, None])
            answers.append((x[:, 0], flaw, unconstrained, residual[0]))
    x, flaw, unconstrained, residual = (np.stack(parts) for parts in zip(*answers, strict=True))
    return (
        x.reshape(*batch, -1).astype(dtype),
        flaw.reshape(batch),
        unconstrained.reshape(batch),
        residual.reshape(batch).astype(dtype),
    )


def _flattened(array: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """The batch axes as one; kept at length 1 where nothing varies along them."""
    if all(n == 1 for n in array.shape[:-1]):
        return array.reshape(1, -1)
    return np.broadcast_to(array, (*batch, array.shape[-1])).reshape(-1, array.shape[-1])


def _solve_one(
    pairs: Any, blocks: Any, sizes: Any, options: dict[str, Any], values, places, rhs
) -> tuple[np.ndarray, np.int32, np.int32, np.ndarray]:
    ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
    stands = np.split(places, np.cumsum(np.repeat([shape[0] for shape in blocks], 2))[:-1])
    layout = layout_of(pairs, sizes, list(zip(blocks, stands[::2], stands[1::2], strict=True)))
    values = values.astype(np.float64, copy=False).take(layout.order)
    answer = solve(layout.indptr, layout.indices, values, rhs.astype(np.float64), **options)
    flaw, unconstrained = FINE, 0
    if answer.unsymmetric:
        flaw, unconstrained = UNSYMMETRIC, -1
    elif answer.singular:
        flaw = SINGULAR
        if answer.null_vector is not None:
            shares = [np.sum(answer.null_vector[a:b] ** 2) for a, b in zip(ends, ends[1:], strict=False)]
            unconstrained = int(np.argmax(shares))
    elif not np.isfinite(answer.x).all():
        flaw = _NOT_FINITE
    return answer.x, np.int32(flaw), np.int32(unconstrained), answer.residual
