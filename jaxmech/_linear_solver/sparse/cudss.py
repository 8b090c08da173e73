"""NVIDIA's cuDSS through spineax: sparse LDL^T and LU on the GPU, without a trip to the host.

Written to the interface of spineax 0.0.5: `analyze(values, offsets, columns, mtype_id=, mview_id=)`, `factorize(token,
values)`, `solve(token, b, ir_nsteps=)`, `query(token)`, on CSR arrays. It keeps factors itself, solves many right-hand sides
and batches of one pattern under `vmap`, and imports CUDA when it is imported: so only here, and only when asked for.
"""

import importlib
import importlib.util

import jax
import jax.numpy as jnp

from ..._runtime.array_types import Array
from ..._sparse.block_matrix import BlockMatrix
from ..base.outcome import FINE, SINGULAR, UNSYMMETRIC
from ..base.symmetry_probe import probed
from .singularity import BACKWARD_ERROR_LIMIT, CONDITION_LIMIT

NEEDS = 'pip install "jaxmech[cuda]"; Python 3.12 or later, Linux on x86-64, CUDA 13'
_REFINEMENTS = 2
# What cuDSS puts in the place of a pivot that is smaller. A matrix that is singular then is solved as one of this condition.
_LEAST_PIVOT = {"float32": 1e-5, "float64": 1e-13}
_FEW = 100  # times as much is near it


def available() -> bool:
    """Whether spineax is installed; it is imported when a system is solved."""
    return importlib.util.find_spec("spineax") is not None


def device_solve(operator: BlockMatrix, b: Array, *, transposed: bool) -> tuple[Array, Array, Array]:
    """The solution of `A x = b` of the flat system (or of `A^T x = b`), what is wrong, and `|b - A x|`.

    A fixed right-hand side of ones with changing signs is solved beside it: where the matrix is singular, that explodes.
    """
    spineax = importlib.import_module("spineax.cudss")
    indptr, columns, values = scalar_rows(operator, transposed)
    rows = jnp.repeat(jnp.arange(b.size), jnp.diff(indptr), total_repeat_length=columns.size)
    diagonal = _sums(jnp.where(rows == columns, values, 0), rows, b.size)
    root = jnp.sqrt(jnp.abs(diagonal))
    scale = jnp.where(root > 0, 1 / jnp.where(root > 0, root, 1), 1)
    values, b = scale[rows] * values * scale[columns], scale * b
    kind = "symmetric" if operator.symmetric else "general"
    token = spineax.factorize(spineax.analyze(values, indptr, columns, mtype_id=kind, mview_id="full"), values)
    probe = jnp.where(jax.random.bernoulli(jax.random.key(0), shape=b.shape), 1, -1).astype(b.dtype)
    x, far = (spineax.solve(token, rhs, ir_nsteps=_REFINEMENTS) for rhs in (b, probe))
    left = b - _sums(values * x[columns], rows, b.size)
    size, eps = jnp.max(_sums(jnp.abs(values), rows, b.size)), float(jnp.finfo(b.dtype).eps)
    limit = max(BACKWARD_ERROR_LIMIT, 1e3 * eps) * (jnp.max(jnp.abs(b)) + size * jnp.max(jnp.abs(x)))
    least = _LEAST_PIVOT[b.dtype.name]
    replaced = jnp.min(jnp.abs(spineax.query(token)["diag"])) < _FEW * least
    condition = jnp.where(replaced, 1 / (_FEW * least), min(CONDITION_LIMIT, 1 / eps))
    # NaN compares false.
    regular = (size * jnp.max(jnp.abs(far)) < condition) & (jnp.max(jnp.abs(left)) <= limit)
    flaw = jnp.where(regular, FINE, SINGULAR)
    if operator.symmetric:
        flaw = jnp.where(probed(operator)[0], flaw, UNSYMMETRIC)
    return scale * x, flaw, jnp.linalg.norm(left / scale)


def _sums(values: Array, rows: Array, size: int) -> Array:
    return jax.ops.segment_sum(values, rows, size, indices_are_sorted=True)


def scalar_rows(operator: BlockMatrix, transposed: bool) -> tuple[Array, Array, Array]:
    """The flat system as CSR arrays `(indptr, columns, values)`, in JAX: a pattern may be traced."""
    starts = operator.offsets()
    rows, columns, values = [], [], []
    for (r, c), entry in operator.entries.items():
        _, p, q = entry.values.shape
        row = starts[r] + entry.pattern.rows[:, None, None] * p + jnp.arange(p)[:, None]
        column = starts[c] + entry.pattern.columns[:, None, None] * q + jnp.arange(q)
        for many, one in ((rows, row), (columns, column), (values, entry.values)):
            many.append(jnp.broadcast_to(one, entry.values.shape).ravel())
    row, column, value = (jnp.concatenate(parts) for parts in (rows, columns, values))
    if transposed:
        row, column = column, row
    order = jnp.lexsort((column, row))
    counts = jnp.zeros(operator.in_size(), jnp.int32).at[row].add(1)
    indptr = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(counts, dtype=jnp.int32)])
    return indptr, column[order].astype(jnp.int32), value[order]


def check_available(ordering: str) -> None:
    """Raise `ImportError` that says what is missing, or `ValueError` for an ordering other than its own."""
    if not available():
        raise ImportError(f"backend 'cudss' needs spineax, which is not installed: {NEEDS}.")
    if ordering != "auto":
        raise ValueError(f"backend 'cudss' does not offer the ordering {ordering!r}, only 'auto'.")
