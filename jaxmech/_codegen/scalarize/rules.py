"""What each primitive does to arrays of scalars: elementwise arithmetic, sums of products, and changes of place."""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._runtime.jax_internals import primitives
from . import factorisation, indexing, placing, reductions, symmetric
from .arithmetic import AbstractArithmetic, NotScalarisable, is_number
from .known_numbers import Scalars
from .supported import ELEMENTWISE, UNCHANGED


def elementwise(arithmetic: AbstractArithmetic, eqn: Any, *operands: Scalars) -> list[Scalars]:
    """One operation for each component; a scalar condition of `select_n` or `clamp` serves them all."""
    dtype, shape = eqn.outvars[0].aval.dtype, eqn.outvars[0].aval.shape
    result = np.empty(shape, object)
    spread = [x.flat if x.shape == shape else np.broadcast_to(x, shape).flat for x in operands]
    for n, scalars in enumerate(zip(*spread, strict=True)):
        result.flat[n] = arithmetic.apply(eqn.primitive, dtype, *scalars, **eqn.params)
    return [result]


def dot_general(arithmetic: AbstractArithmetic, eqn: Any, left: Scalars, right: Scalars) -> list[Scalars]:
    """Sums of products in the type of the result; axes of the result: batch, left, right."""
    aval = eqn.outvars[0].aval
    (summed_left, summed_right), (batch_left, batch_right) = eqn.params["dimension_numbers"]

    def arranged(x: Scalars, batch: Any, summed: Any) -> Scalars:
        free = [axis for axis in range(x.ndim) if axis not in batch and axis not in summed]
        sizes = [math.prod(x.shape[axis] for axis in axes) for axes in (batch, free, summed)]
        return x.transpose([*batch, *free, *summed]).reshape(sizes)

    left, right = (_converted(arithmetic, x, v, aval.dtype) for x, v in zip((left, right), eqn.invars, strict=True))
    a, b = arranged(left, batch_left, summed_left), arranged(right, batch_right, summed_right)
    result = np.empty((a.shape[0], a.shape[1], b.shape[1]), object)
    for n in range(len(result)):
        made = arithmetic.product(aval.dtype, a[n], b[n])
        result[n] = written_out(arithmetic, aval.dtype, a[n], b[n]) if made is None else made
    return [result.reshape(aval.shape)]


def written_out(arithmetic: AbstractArithmetic, dtype: Any, left: Scalars, right: Scalars) -> Scalars:
    """`left right^T`, one product after the other, and none with a zero: most entries of a rotation's rates are."""
    result = np.empty((len(left), len(right)), object)
    rows, columns = (
        [{k: x for k, x in enumerate(row) if not (is_number(x) and x == 0)} for row in matrix.tolist()]
        for matrix in (left, right)
    )
    for (i, row), (j, column) in itertools.product(enumerate(rows), enumerate(columns)):
        total = np.zeros((), dtype)[()]
        for k, x in row.items():
            if k in column:
                total = arithmetic.combine("add", dtype, total, arithmetic.combine("mul", dtype, x, column[k]))
        result[i, j] = total
    return result


def _converted(arithmetic: AbstractArithmetic, operand: Scalars, variable: Any, dtype: Any) -> Scalars:
    """The scalars of a variable as numbers of another type."""
    if variable.aval.dtype == dtype:
        return operand
    result, params = np.empty(operand.shape, object), {"new_dtype": dtype, "weak_type": False, "sharding": None}
    for place in np.ndindex(operand.shape):
        result[place] = arithmetic.apply(primitives.convert_element_type_p, dtype, operand[place], **params)
    return result


def optimization_barrier(arithmetic: AbstractArithmetic, eqn: Any, *operands: Scalars) -> list[Scalars]:
    """The barrier of the program, for those scalars that are computed."""
    del eqn
    free = iter(arithmetic.behind_barrier([x for operand in operands for x in operand.flat if not is_number(x)]))
    results = []
    for operand in operands:
        result = np.empty(operand.shape, object)
        for place in np.ndindex(operand.shape):
            result[place] = operand[place] if is_number(operand[place]) else next(free)
        results.append(result)
    return results


def broadcast_in_dim(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, *sizes: Scalars) -> list[Scalars]:
    """Repeated along new axes."""
    del arithmetic, sizes
    shape, kept = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    expanded = [operand.shape[kept.index(axis)] if axis in kept else 1 for axis in range(len(shape))]
    return [np.broadcast_to(operand.reshape(expanded), shape)]


def reshape(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """The same entries in another shape; also `squeeze` and `expand_dims`, and what concerns derivatives alone."""
    del arithmetic
    return [operand.reshape(eqn.outvars[0].aval.shape)]


def reduce_precision(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """Rounding to fewer digits; of as many as there are, which JAX writes to keep XLA from computing with more, nothing."""
    del arithmetic
    if eqn.params["mantissa_bits"] != np.finfo(eqn.outvars[0].aval.dtype).nmant:
        raise NotScalarisable("numbers rounded to fewer digits")
    return [operand]


def rev(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """Backwards."""
    del arithmetic
    return [np.flip(operand, eqn.params["dimensions"])]


def slice_(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """A part."""
    del arithmetic
    starts, limits = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * operand.ndim
    return [operand[tuple(map(slice, starts, limits, strides))]]


def transpose(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """Axes in another order."""
    del arithmetic
    return [operand.transpose(eqn.params["permutation"])]


def concatenate(arithmetic: AbstractArithmetic, eqn: Any, *operands: Scalars) -> list[Scalars]:
    """One array after the other."""
    del arithmetic
    return [np.concatenate(operands, eqn.params["dimension"])]


def stack(arithmetic: AbstractArithmetic, eqn: Any, *operands: Scalars) -> list[Scalars]:
    """Arrays along a new axis."""
    del arithmetic
    return [np.stack(operands, eqn.params["axis"])]


def unstack(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """The parts of an array along an axis, without it."""
    del arithmetic
    parts = np.moveaxis(operand, eqn.params["axis"], 0)
    return [parts[i, ...] for i in range(len(parts))]


def pad(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, value: Scalars) -> list[Scalars]:
    """Between and around the entries, `value`; by less than nothing, without those at the end."""
    del arithmetic
    config = eqn.params["padding_config"]
    more = [(max(low, 0), max(high, 0), inside + 1) for low, high, inside in config]
    length = [max(step * (n - 1) + 1, 0) for n, (_, _, step) in zip(operand.shape, more, strict=True)]
    result = np.empty([low + n + high for n, (low, high, _) in zip(length, more, strict=True)], object)
    for place in np.ndindex(result.shape):  # one by one: numpy would look into a scalar that JAX traces
        result[place] = value[()]
    result[tuple(slice(low, low + n, step) for n, (low, _, step) in zip(length, more, strict=True))] = operand
    return [
        result[tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high, _) in zip(result.shape, config, strict=True))]
    ]


def split(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """Consecutive parts."""
    del arithmetic
    return np.split(operand, np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"])


RULES: dict[str, Callable] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "reshard", *UNCHANGED), reshape),
    "broadcast_in_dim": broadcast_in_dim,
    "reduce_precision": reduce_precision,
    "rev": rev,
    "slice": slice_,
    "transpose": transpose,
    "concatenate": concatenate,
    "dot_general": dot_general,
    "optimization_barrier": optimization_barrier,
    "pad": pad,
    "split": split,
    "stack": stack,
    "unstack": unstack,
    **indexing.RULES,
    **placing.RULES,
    **factorisation.RULES,
    **reductions.RULES,
    symmetric.NAME: symmetric.mirrored,
}
