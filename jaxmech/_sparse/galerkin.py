"""`P^T A P` of a symmetric block-sparse matrix, whose pattern is known: the numeric half, under `jit`."""

from typing import Any

import jax
import jax.numpy as jnp

from .._codegen import expand
from .._llvm.ffi import compile_on_cpu
from .._math.indexing import take_rows
from .._runtime.array_types import Array, Float
from .._runtime.jax_internals import Primitive, ShapedArray, define
from .block_multiply import BlockRows, batched, block_multiply
from .galerkin_kernel import galerkin
from .pattern import BlockPattern


def galerkin_product(
    A: Float[Array, "p b b"],
    of_A: BlockPattern,
    P: Float[Array, "q b m"],
    of_P: BlockPattern,
    half: BlockRows,
    of: BlockPattern,
) -> Float[Array, "z m m"]:
    """The blocks of `P^T A P`, of the pattern `of`, in the type of `A`; `half` is the pattern of `A P`.

    By one loop on a CPU (`galerkin_kernel.py`), which computes the upper half, elsewhere by operations on arrays. No
    derivative: what is made of it only changes how fast iterations converge.
    """
    assert of.diagonal is not None
    restriction = BlockRows.of_pattern(of_P.T)
    rows = (BlockRows.of_pattern(of_A), BlockRows.of_pattern(of_P), BlockRows.of_pattern(of), restriction, half)
    places = [a for one in rows[:3] for a in (one.row_starts, one.columns)] + [of.diagonal, of.transposed]
    more = [a for one in rows[3:] for a in (one.row_starts, one.columns)] + [of_P.transposed]
    operands = jax.lax.stop_gradient((A[None], P[None]))
    shapes = tuple((one.width, one.length) for one in rows)
    return _galerkin_p.bind(*operands, *places, *more, shapes=shapes)[0]


def _as_arrays(A, P, *arrays, shapes):
    places = arrays[:6], arrays[8:12]
    starts_and_columns = [*places[0], *places[1]]
    rows = [
        BlockRows(starts, columns, *shape)
        for starts, columns, shape in zip(starts_and_columns[::2], starts_and_columns[1::2], shapes, strict=True)
    ]
    of_A, of_P, of, of_R, half = rows
    order, count = arrays[-1], max(A.shape[0], P.shape[0])

    def of_scene(pair: tuple[Array, Array]) -> Array:
        A, P = pair
        P = P.astype(A.dtype)
        AP = block_multiply(A, of_A, P, of_P, half)
        return block_multiply(take_rows(P, order).swapaxes(1, 2), of_R, AP, half, of)

    return jax.lax.map(of_scene, tuple(jnp.broadcast_to(a, (count, *a.shape[1:])) for a in (A, P)))


def _as_kernel(A, P, *arrays, shapes):
    del shapes
    return galerkin(A, P, arrays[:8])


def _abstract(A: Any, P: Any, *arrays: Any, shapes: Any) -> Any:
    del shapes
    m = P.shape[-1]
    return ShapedArray((max(A.shape[0], P.shape[0]), arrays[5].shape[0], m, m), A.dtype)


def _batch(operands, axes, **static):
    return batched(_galerkin_p, operands, axes, static)


_galerkin_p = Primitive("jaxmech_galerkin_product")
_galerkin_p.def_abstract_eval(_abstract)
define(_galerkin_p, batch=_batch)
compile_on_cpu(_galerkin_p, _as_arrays, _as_kernel)
expand(_galerkin_p, _as_arrays)
