"""Eigenvalues and eigenvectors of a symmetric pencil of block matrices, with derivatives of every order."""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
from scipy import sparse

from ..._math.indexing import add_rows, take_rows
from ..._runtime.array_types import Array, Float
from ..._runtime.jax_internals import index_of
from ..._runtime.precision import compiled
from ..._runtime.raise_if import raise_if
from ..._runtime.results import RESULTS
from ..._sparse.block_matrix import BlockMatrix
from ..base.outcome import INDEFINITE, SINGULAR, UNSYMMETRIC
from ..default import default_solver
from ..sparse.csr_layout import layout_of
from ..sparse.factor_cache import on_worker
from ..sparse.host_call import call_host
from .lost_stiffness import lowest_lost
from .null_space import lowest_held
from .shift_invert import NOT_FINITE, TOO_FEW, UNCONVERGED, lowest

Vectors = dict[str, Array]  # {state: (count, nodes, deriv_size)}
_NAMES = {
    INDEFINITE: "unstable_state",
    UNSYMMETRIC: "unsymmetric",
    SINGULAR: "singular",
    TOO_FEW: "too_few_modes",
    UNCONVERGED: "modes_not_converged",
    NOT_FINITE: "not_finite",
}
_APART = 1e-7  # relative gap below which two eigenvalues are one, and their vectors have no derivatives


class Eigenpairs(eqx.Module):
    """The lowest pairs of `K x = lambda M x`, `x^T N x = 1` with `N` the mass or the stiffness, and what became of them.

    `values` and `vectors` are worked out when asked for: what nobody asks for is not differentiated, so that the values
    differentiate also where vectors cannot. With `r = (dK - lambda dM) x`: `dlambda = x^T r / x^T M x`, and `dx` from
    `(K - lambda M) dx = dlambda M x - r` with one component of `dx` fixed, whose matrix is not singular, and the norm. R. L.
    Fox and M. P. Kapoor, AIAA J. 6 (1968) 2426; R. B. Nelson, AIAA J. 14 (1976) 1201, doi 10.2514/3.7211.
    """

    stiffness: BlockMatrix
    mass: BlockMatrix
    found: "Found"
    norm: str = eqx.field(static=True)

    @property
    def values(self) -> Float[Array, " count"]:
        """Ascending."""
        return _values_in_one(self.stiffness, self.mass, self.found, self.norm)

    @property
    def vectors(self) -> Vectors:
        """`{state: (count, nodes, deriv_size)}`; the largest component of each is positive."""
        return _vectors_in_one(self.stiffness, self.mass, self.found, self.norm)


class Found(eqx.Module):
    """What the host found; constants for differentiation."""

    values: Array
    vectors: Vectors
    pinned: Vectors  # nil at the largest component of each vector, one elsewhere
    copy_of: Array  # (count,) numbers that copies of a repeated eigenvalue share
    repeated: Array  # (count,) whether another eigenvalue is too near for a derivative of the vector
    errors: Array
    floor: Array  # (count,) what rounding makes of an eigenvalue that should be nil
    unconstrained_state: Array
    result: Any


@compiled
def eigenpairs(
    K: BlockMatrix,
    M: BlockMatrix,
    count: int,
    *,
    shifted: bool,
    norm: str,
    size: Array | None = None,
    held: tuple[str, ...] = (),
) -> Eigenpairs:
    """The `count` lowest pairs. `shifted`: `M` is positive semi-definite, and `K` anything; otherwise `K` is positive
    definite, `M` anything, and the lowest positive pairs are found. `norm`: `"mass"` or `"stiffness"`. `size`: of the
    numbers whose sums the entries of `M` are, where much of them may have cancelled: their rounding is that of `M`.
    `held`: the states of multipliers, of equations that the vectors of the other states obey; without `shifted`, `K` is then
    definite for vectors that obey them.
    """
    # Symmetry is measured on the host, whatever was declared: derivatives rest on it.
    K, M = (BlockMatrix(A.entries, A.sizes, True, A.dtype) for A in (K, M))
    summed = jnp.zeros((), K.dtype) if size is None else size
    return Eigenpairs(K, M, _search(*jax.lax.stop_gradient((K, M, summed)), count, shifted, norm, held), norm)


def _search(
    K: BlockMatrix, M: BlockMatrix, summed: Array, count: int, shifted: bool, norm: str, held: tuple[str, ...]
) -> Found:
    size, real, number = K.in_size(), partial(jax.ShapeDtypeStruct, dtype=K.dtype), jax.ShapeDtypeStruct((), np.int32)
    shapes = (real((count,)), real((size, count)), real(()), real((count,)), real((size,)), number, number)
    host = partial(_host_search, tuple(K.entries), K.sizes, count, shifted, held, K.dtype)
    arrays = [(e.values, e.pattern.rows, e.pattern.columns) for e in K.entries.values()]
    masses = [e.values for e in M.entries.values()]
    answer = call_host("the search for modes", host, shapes, arrays, masses, summed, vmap_method="sequential")
    values, columns, following, errors, scale, flaw, unconstrained = answer
    x = _by_state(K, columns.T)
    pinned = _by_state(K, 1 - jax.nn.one_hot(jnp.argmax(jnp.abs(columns.T) * scale, axis=1), size, dtype=K.dtype))
    x = _scaled(x, 1 / jnp.sqrt(_norms(K if norm == "stiffness" else M, x)))
    magnitude = jax.tree.map(lambda v: jnp.abs(v) if jnp.issubdtype(v.dtype, jnp.floating) else v, (K, x))
    # A pencil of nothing has no norm to refer to; then everything is at the floor.
    floor = 16 * jnp.finfo(K.dtype).eps * _norms(*magnitude) / jnp.abs(_norms(M, x))
    result = RESULTS.successful
    for code, name in _NAMES.items():
        result = RESULTS.where(flaw == code, getattr(RESULTS, name), result)
    return Found(values, x, pinned, *_copies(values, following, floor), errors, floor, unconstrained, result)


def _copies(values: Array, following: Array, floor: Array) -> tuple[Array, Array]:
    """A number that copies of an eigenvalue share, and which have copies; the one that follows may be one."""
    all_of_them = jnp.append(values, following)
    size = jnp.where(jnp.isfinite(all_of_them), jnp.abs(all_of_them), 0)
    near = jnp.abs(all_of_them[1:] - values) <= _APART * jnp.maximum(size[1:], size[:-1]) + 64 * floor
    return jnp.append(0, jnp.cumsum(~near[:-1])), near | jnp.append(False, near[:-1])


def _host_search(pairs, sizes, count, shifted, held, dtype, arrays, masses, summed) -> tuple[Any, ...]:
    arrays = [tuple(np.asarray(a) for a in entry) for entry in arrays]
    layout = layout_of(pairs, sizes, [(v.shape, rows, columns) for v, rows, columns in arrays])

    def rows(blocks: Any) -> sparse.csr_array:
        values = np.concatenate([np.asarray(v).ravel() for v in blocks]).astype(np.float64)[layout.order]
        return sparse.csr_array((values, layout.indices, layout.indptr), shape=(layout.size, layout.size))

    K, M = rows([v for v, _, _ in arrays]), rows(masses)
    unit = float(np.finfo(dtype).eps)
    multiplies = np.concatenate([np.full(n * d, s in held) for s, n, d in sizes])
    if held and not shifted:
        found = on_worker(lambda: lowest_lost(K, M, count, multiplies, unit=unit, summed=float(summed)))
    elif held:
        found = on_worker(lambda: lowest_held(K, M, count, multiplies, unit=unit, summed=float(summed)))
    else:
        found = on_worker(lambda: lowest(K, M, count, shifted=shifted, unit=unit, summed=float(summed)))
    unconstrained = -1
    if found.unconstrained is not None:
        ends = np.cumsum([0, *(n * d for _, n, d in sizes)])
        unconstrained = int(np.argmax([np.sum(found.unconstrained[a:b] ** 2) for a, b in zip(ends, ends[1:], strict=False)]))
    scale = np.where(multiplies, 0.0, np.sqrt(np.abs(K.diagonal())))  # a multiplier is not what a vector is pinned at
    real = (found.values, found.vectors, np.asarray(found.following), found.errors, scale)
    return (*(a.astype(dtype) for a in real), np.int32(found.flaw), np.int32(unconstrained))


@eqx.filter_custom_jvp
def _values(K: BlockMatrix, M: BlockMatrix, found: Found, norm: str) -> Array:
    return found.values


@_values.def_jvp
def _values_jvp(primals, tangents):
    K, M, found, norm = primals
    values, x = _values(*primals), _vectors(*primals)
    rate = _each_dot(x, _residual_rate(K, M, tangents, values, x)) / _norms(M, x)
    # What each copy does depends on the mix that was found; their mean does not.
    total = partial(jax.ops.segment_sum, segment_ids=found.copy_of, num_segments=values.size, indices_are_sorted=True)
    return values, (total(rate) / jnp.maximum(total(jnp.ones_like(rate)), 1))[found.copy_of]


@eqx.filter_custom_jvp
def _vectors(K: BlockMatrix, M: BlockMatrix, found: Found, norm: str) -> Vectors:
    return found.vectors


@_vectors.def_jvp
def _vectors_jvp(primals, tangents):
    K, M, found, norm = primals
    values, x = _values(*primals), _vectors(*primals)
    r, Mx = _residual_rate(K, M, tangents, values, x), jax.vmap(M.mv)(x)
    rate = _each_dot(x, r) / _each_dot(x, Mx)
    repeated = {"result": index_of(RESULTS.repeated_eigenvalue)}
    pinned = raise_if(found.pinned, jnp.any(found.repeated), {"who": "the derivative of modes"}, repeated)

    def solve(free, value, rhs):
        A = held(K.plus(M.scaled(-value)), free)
        return lx.linear_solve(A, {s: free[s] * rhs[s] for s in rhs}, default_solver(A)).value

    y = jax.vmap(solve)(pinned, values, {s: Mx[s] * rate[:, None, None] - r[s] for s in r})
    N, dN = (K, tangents[0]) if norm == "stiffness" else (M, tangents[1])
    along = -_each_dot(x, jax.vmap(N.mv)(y)) - 0.5 * _each_dot(x, _rate_of_product(N, dN, x))
    return x, {s: y[s] + along[:, None, None] * x[s] for s in x}


_values_in_one, _vectors_in_one = compiled(_values), compiled(_vectors)


def _rate_of_product(A: BlockMatrix, dA: Any, x: Vectors) -> Vectors:
    """`dA x`."""
    product, rate = eqx.filter_jvp(lambda A: jax.vmap(A.mv)(x), (A,), (dA,))
    return {s: jnp.zeros_like(product[s]) if rate is None or rate[s] is None else rate[s] for s in product}


def _residual_rate(K: BlockMatrix, M: BlockMatrix, tangents: Any, values: Array, x: Vectors) -> Vectors:
    """`(dK - lambda dM) x`."""
    k, m = _rate_of_product(K, tangents[0], x), _rate_of_product(M, tangents[1], x)
    return {s: k[s] - values[:, None, None] * m[s] for s in x}


def held(A: BlockMatrix, free: dict[str, Array]) -> BlockMatrix:
    """`F A F + (I - F)` for a diagonal `F` of zeros and ones, `{state: (nodes, deriv_size)}`."""
    entries = {}
    for (r, c), entry in A.entries.items():
        row, column = take_rows(free[r], entry.pattern.rows), take_rows(free[c], entry.pattern.columns)
        values = entry.values * row[:, :, None] * column[:, None, :]
        if r == c:
            ones = jax.vmap(jnp.diag)(1 - free[r])
            assert entry.pattern.diagonal is not None
            values = add_rows(values, entry.pattern.diagonal, ones, unique=True)
        entries[r, c] = eqx.tree_at(lambda e: e.values, entry, values)
    return replace(A, entries=entries)


def _by_state(A: BlockMatrix, rows: Array) -> Vectors:
    """Flat vectors `(count, N)` by state."""
    pieces = jnp.split(rows, np.cumsum([n * d for _, n, d in A.sizes])[:-1], axis=1)
    return {s: piece.reshape(rows.shape[0], n, d) for (s, n, d), piece in zip(A.sizes, pieces, strict=True)}


def _each_dot(x: Vectors, y: Vectors) -> Array:
    return sum(jnp.sum(x[s] * y[s], axis=(1, 2)) for s in x)  # pyright: ignore[reportReturnType]


def _norms(A: BlockMatrix, x: Vectors) -> Array:
    return _each_dot(x, jax.vmap(A.mv)(x))


def _scaled(x: Vectors, factors: Array) -> Vectors:
    return {s: v * factors[:, None, None] for s, v in x.items()}
