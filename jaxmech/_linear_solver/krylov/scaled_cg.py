"""Conjugate gradients in few operations, for matrices that are near to their diagonals, as those of masses are."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._llvm.ffi import compile_on_cpu
from ..._runtime.array_types import Array
from ..._runtime.jax_internals import Primitive, ShapedArray, define
from ..._runtime.loops import while_loop
from ..._runtime.plain_form import NotCompilable
from ..._runtime.precision import full_precision
from ..._sparse.block_matrix import BlockMatrix
from ..base.vectors import Vector, dot, dtype_of, plus, zeros
from .cg_kernel_llvm import compiled_solve

_ROUNDED = 64.0  # rounding units that are left of a right-hand side, each row by the root of its diagonal entry


def scaled_cg(A: BlockMatrix, diagonal: Vector, free: Vector | None, b: Vector) -> tuple[Vector, Array]:
    """`(P A P)^-1 b` by conjugate gradients that its diagonal scales, to rounding, and whether it was found. `A`: symmetric
    and positive definite, of which it is known that few steps are enough, and its diagonal blocks; `b = P b`. `free`: `P` of
    every node, if any is held, `(nodes, d)` where all are diagonal, else `(nodes, d, d)`.

    Without the probes, restarts, true residuals and reasons of `PCG`, an eighth of whose program it is; on a CPU one call,
    if there is one state, and `P` is diagonal. Where there is no solution, numbers that are none end it. No derivative is
    taken of it.
    """
    by = {s: _inverse(blocks, b[s]) for s, blocks in diagonal.items()}
    operands, structure = jax.tree.flatten((A, by, free, b))
    *x, found = _solve_p.bind(*map(jnp.asarray, operands), structure=structure)
    return jax.tree.unflatten(jax.tree.structure(b), x), found


def along(free: Vector | None, vector: Vector) -> Vector:
    """`P` of all nodes in one loop: to read, multiply and write back those that are held takes four."""
    if free is None:
        return vector
    return {s: free[s] * a if free[s].ndim == 2 else jnp.sum(free[s] * a[:, None], axis=2) for s, a in vector.items()}


def _inverse(blocks: Array, b: Array) -> Array:
    """Of the diagonal entries, as blocks, in one loop. Nothing can be had of a row of zeros."""
    nothing = jnp.where(b == 0, 0, jnp.nan)[:, :, None]
    return jnp.where(np.eye(blocks.shape[2], dtype=bool), jnp.where(blocks > 0, 1 / blocks, nothing), 0)


@full_precision
def _by_arrays(*operands, structure):
    A, blocks, free, b = jax.tree.unflatten(structure, operands)
    by = {s: jnp.sum(a, axis=2) for s, a in blocks.items()}

    def scaled(r: Vector) -> tuple[Vector, Array]:
        z = {s: by[s] * r[s] for s in r}
        return along(free, z), dot(r, z)

    p, rz = scaled(b)
    goal = (_ROUNDED * jnp.finfo(dtype_of(b)).eps) ** 2 * rz
    most = _most(b)

    def step(at: tuple[Array, Vector, Vector, Vector, Array]) -> tuple[Array, Vector, Vector, Vector, Array]:
        steps, x, r, p, rz = at
        Ap = along(free, A.mv(p))
        curvature = dot(p, Ap)
        alpha = jnp.where(curvature > 0, rz / curvature, jnp.nan)
        r = plus(r, -alpha, Ap)
        z, after = scaled(r)
        return steps + 1, plus(x, alpha, p), r, plus(z, after / rz, p), after

    begun = (jnp.zeros((), jnp.int32), zeros(b), b, p, rz)
    _, x, _, _, left = while_loop(lambda at: (at[0] < most) & (at[4] > goal), step, begun)
    return [*jax.tree.leaves(x), left <= goal]


def _by_kernel(*operands, structure):
    A, by, free, b = jax.tree.unflatten(structure, operands)
    if len(A.sizes) != 1:
        raise NotCompilable("a matrix of several states")
    ((state, nodes, c),) = A.sizes
    matrix, rhs, inverse = A[state, state], b[state], by[state]
    if free is not None:
        if free[state].ndim > 2:  # of products that are not projected, what is held would leave its rounding
            raise NotCompilable("directions that no axis has")
        inverse = free[state][:, :, None] * inverse
    if 0 in matrix.values.shape or any(a.dtype != A.dtype for a in (matrix.values, inverse, rhs)):
        raise NotCompilable("a matrix without blocks, or numbers of several types")
    matrix.pattern.check_shapes("conjugate gradients", matrix.values.shape[0])
    function = compiled_solve(c, A.dtype, _ROUNDED * float(jnp.finfo(A.dtype).eps))
    pattern = matrix.pattern.columns.astype(jnp.int32), matrix.pattern.row_starts.astype(jnp.int32)
    results = [*5 * [jax.ShapeDtypeStruct(rhs.shape, A.dtype)], jax.ShapeDtypeStruct((2,), A.dtype)]
    numbers = [nodes, matrix.values.shape[0], _most(b)]
    x, *_, told = function([matrix.values, *pattern, inverse, rhs], results, numbers)
    return [x, told[0] <= told[1]]


def _most(b: Vector) -> int:
    """Steps at most."""
    return 10 * sum(leaf.size for leaf in jax.tree.leaves(b))


def _abstract(*operands, structure):
    b = jax.tree.unflatten(structure, operands)[3]
    return [*(ShapedArray(a.shape, a.dtype) for a in jax.tree.leaves(b)), ShapedArray((), jnp.bool_)]


def _batch(operands, axes, *, structure):
    """One scene after the other."""
    moving = [i for i, axis in enumerate(axes) if axis is not None]

    def of_scene(own: list[Any]) -> list[Array]:
        mine = dict(zip(moving, own, strict=True))
        return _solve_p.bind(*(mine.get(i, a) for i, a in enumerate(operands)), structure=structure)

    found = jax.lax.map(of_scene, [jnp.moveaxis(operands[i], axes[i], 0) for i in moving])
    return found, [0 for _ in found]


_solve_p = Primitive("jaxmech_scaled_cg")
_solve_p.multiple_results = True
_solve_p.def_abstract_eval(_abstract)
define(_solve_p, batch=_batch)
compile_on_cpu(_solve_p, _by_arrays, _by_kernel)
