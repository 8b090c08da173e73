"""The product of a block-sparse matrix with a vector: one JAX primitive, linear in either."""

import jax
import jax.numpy as jnp
import numpy as np

from .._codegen import expand
from .._llvm.ffi import compile_on_cpu
from .._math.small_matmul import times_vectors
from .._runtime.array_types import Array, Float
from .._runtime.devices import device_count
from .._runtime.jax_internals import Primitive, ShapedArray, define, is_undefined_primal, is_zero, zero_of, zero_tangent
from .pattern import BlockPattern
from .spmv_kernel import multiply_rows

_DIVIDED = 1000  # rows: below this size communication between devices takes longer than the product
_MOST = np.iinfo(np.int32).max  # entries of the matrices of a batch, or of its vectors, that 32 bits can number


def block_product(
    values: Float[Array, "... z r c"], pattern: BlockPattern, x: Float[Array, "... m c"]
) -> Float[Array, "... n r"]:
    """`A x`, each row summed where it is read: on a CPU by one loop (`spmv_kernel.py`), elsewhere by operations on arrays
    (`spmv_gather.py`). Of a batch, the axes before these broadcast."""
    pattern.check_shapes("a block product", values.shape[-3])
    leaves, structure = jax.tree.flatten(pattern)
    return _product_p.bind(values, x, *leaves, structure=structure)


def _written_down(values: Array, pattern: BlockPattern, x: Array) -> Array:
    """The same in operations that know their transposes, which gather: those of the reads of `RowProducts` would scatter."""
    depths = (values.ndim - 3, x.ndim - 2)
    if depths == (0, 0):
        return pattern.by_row(times_vectors(values, pattern.at_columns(x)))
    shared = [depth < max(depths) for depth in depths]
    alike = [not left_out and a.shape[0] == 1 for a, left_out in zip((values, x), shared, strict=True)]
    values, x = (a[0] if one else a for a, one in zip((values, x), alike, strict=True))
    axes = tuple(None if left_out or one else 0 for left_out, one in zip(shared, alike, strict=True))
    if axes == (None, None):
        return _written_down(values, pattern, x)[None]
    return jax.vmap(lambda values, x: _written_down(values, pattern, x), in_axes=axes)(values, x)


def _evaluate(values, x, *leaves, structure):
    pattern = jax.tree.unflatten(structure, leaves)
    return pattern.row_products(values, pattern.columns, x, divides=_divides(values, pattern, x))


def _by_kernel(values, x, *leaves, structure):
    pattern = jax.tree.unflatten(structure, leaves)
    return multiply_rows(values, pattern.row_starts, pattern.columns, x, divides=_divides(values, pattern, x))


def _divides(values: Array, pattern: BlockPattern, x: Array) -> bool:
    """Whether each device does its share, of a product that is not one of a batch."""
    return values.ndim == 3 and x.ndim == 2 and pattern.shape[0] >= _DIVIDED and device_count() > 1


def _abstract(values, x, *leaves, structure):
    rows = jax.tree.unflatten(structure, leaves).shape[0]
    batch = jnp.broadcast_shapes(values.shape[:-3], x.shape[:-2])
    return ShapedArray((*batch, rows, values.shape[-2]), jnp.result_type(values.dtype, x.dtype))


def _jvp(primals, tangents, structure):
    (values, x, *leaves), (value_rates, rates, *_) = primals, tangents
    out = _product_p.bind(*primals, structure=structure)
    pattern = jax.tree.unflatten(structure, leaves)
    parts = []
    if not is_zero(value_rates):
        parts.append(_written_down(value_rates, pattern, x))
    if not is_zero(rates):
        parts.append(_written_down(values, pattern, rates))
    return out, sum(parts[1:], parts[0]) if parts else zero_tangent(out)


def _transpose(cotangent, values, x, *leaves, structure):
    nothing = (None for _ in leaves)
    of_values = is_undefined_primal(values)
    linear = values if of_values else x
    if is_zero(cotangent):
        pulled = zero_of(linear.aval)
    else:
        pattern = jax.tree.unflatten(structure, leaves)

        def product(a):
            return _written_down(a, pattern, x) if of_values else _written_down(values, pattern, a)

        (pulled,) = jax.linear_transpose(product, jax.ShapeDtypeStruct(linear.aval.shape, linear.aval.dtype))(cotangent)
    return (pulled, None, *nothing) if of_values else (None, pulled, *nothing)


def _batch(arguments, axes, structure):
    if any(axis is not None for axis in axes[2:]) or max(a.size for a in arguments[:2]) > _MOST:

        def product(values, x, *leaves):
            return _written_down(values, jax.tree.unflatten(structure, leaves), x)

        return jax.vmap(product, in_axes=axes)(*arguments), 0
    values, x, *leaves = arguments
    deepest = max(a.ndim - own - (axis is not None) for a, own, axis in zip((values, x), (3, 2), axes[:2], strict=True))
    return _product_p.bind(
        _first(values, axes[0], 3, deepest), _first(x, axes[1], 2, deepest), *leaves, structure=structure
    ), 0


def _first(a: Array, axis: int | None, own: int, deepest: int) -> Array:
    """The new axis of a batch before all that any of the two has."""
    if axis is None:
        return a
    a = jnp.moveaxis(a, axis, 0)
    return jnp.expand_dims(a, tuple(range(1, 1 + deepest - (a.ndim - own - 1))))


_product_p = Primitive("jaxmech_block_product")
_product_p.def_abstract_eval(_abstract)
define(_product_p, jvp=_jvp, transpose=_transpose, batch=_batch)
compile_on_cpu(_product_p, _evaluate, _by_kernel)
expand(_product_p, _evaluate)
