"""What each primitive does to arrays of scalars: elementwise arithmetic, sums of products, and changes of place."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..._runtime.jax_internals import primitives
from . import factorisation, symmetric
from .arithmetic import AbstractArithmetic, NotScalarisable, is_number
from .supported import ELEMENTWISE, kind

Scalars = np.ndarray  # of objects: one entry per component of the array that an element has
_FEW_PLACES = 16  # of which one is chosen that is computed
_INSIDE = (jax.lax.GatherScatterMode.CLIP, jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def elementwise(arithmetic: AbstractArithmetic, eqn: Any, *operands: Scalars) -> list[Scalars]:
    """One operation for each component; a scalar condition of `select_n` or `clamp` serves them all."""
    dtype, shape = eqn.outvars[0].aval.dtype, eqn.outvars[0].aval.shape
    result = np.empty(shape, object)
    spread = [np.broadcast_to(x, shape) for x in operands]
    for place in np.ndindex(shape):
        result[place] = arithmetic.apply(eqn.primitive, dtype, *(x[place] for x in spread), **eqn.params)
    return [result]


_REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
}


def reduction(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """Sums, products, extremes over some axes."""
    aval, axes = eqn.outvars[0].aval, eqn.params["axes"]
    if any(operand.shape[axis] == 0 for axis in axes):
        raise NotScalarisable(f"{eqn.primitive.name} over nothing")
    combine = functools.partial(arithmetic.combine, _REDUCTIONS[eqn.primitive.name], aval.dtype)
    terms = np.moveaxis(operand, axes, range(-len(axes), 0)).reshape(*aval.shape, -1)
    result = np.empty(aval.shape, object)
    for place in np.ndindex(aval.shape):
        result[place] = functools.reduce(combine, terms[place])
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
    """`left right^T`, one product after the other."""
    result = np.empty((len(left), len(right)), object)
    for i, j in np.ndindex(result.shape):
        total = np.zeros((), dtype)[()]
        for p, q in zip(left[i], right[j], strict=True):
            total = arithmetic.combine("add", dtype, total, arithmetic.combine("mul", dtype, p, q))
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
    """The same entries in another shape; also `squeeze` and `expand_dims`, and what only concerns derivatives."""
    del arithmetic
    return [operand.reshape(eqn.outvars[0].aval.shape)]


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


def indexed(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, *places: Scalars) -> list[Scalars]:
    """Entries at known places: what the primitive does to their numbers says which, and to zeros what stands outside."""
    if not all(is_number(x) for place in places for x in place.flat):
        return [_chosen_at(arithmetic, eqn, operand, places)]
    numbers = np.arange(1, operand.size + 1, dtype=np.int32).reshape(operand.shape)
    at = _at_known(eqn, eqn.invars[1:], places)
    counted = eqn.replace(params={**eqn.params, "fill_value": 0}) if "fill_value" in eqn.params else eqn
    chosen = np.asarray(evaluated(counted, numbers, *at)[0])
    outside = np.asarray(evaluated(eqn, np.zeros(operand.shape, eqn.outvars[0].aval.dtype), *at)[0])
    result = np.empty(chosen.shape, object)
    for place in np.ndindex(chosen.shape):
        result[place] = operand.flat[chosen[place] - 1] if chosen[place] else outside[place]
    return [result]


def _chosen_at(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Sequence[Scalars]) -> Scalars:
    """Entries at places that are computed, never outside: chosen from those at every place that there may be."""
    p = eqn.params
    sizes = p["slice_sizes"]
    if eqn.primitive.name == "dynamic_slice":
        axes, offsets, index = range(operand.ndim), range(operand.ndim), np.stack(places)
    else:
        numbers = p["dimension_numbers"]
        axes, offsets, (index,) = numbers.start_index_map, numbers.offset_dims, places
        if numbers.operand_batching_dims or p["mode"] not in _INSIDE:
            raise NotScalarisable(f"gather at places that are computed, {p['mode']}")
    counts = [operand.shape[axis] - sizes[axis] + 1 for axis in axes]
    if math.prod(counts) > _FEW_PLACES:
        raise NotScalarisable(f"{eqn.primitive.name} at one of {math.prod(counts)} places, which is computed")
    labels, result = np.arange(operand.size, dtype=np.int32).reshape(operand.shape), None
    for place in np.ndindex(*counts):
        at = np.broadcast_to(np.asarray(place, np.int32), index.shape)
        chosen = np.asarray(evaluated(eqn, labels, *(at if eqn.primitive.name == "dynamic_slice" else (at,)))[0])
        if result is None:
            result = operand.flat[chosen].reshape(chosen.shape)
            continue
        for entry in np.ndindex(chosen.shape):
            asked = index[tuple(n for axis, n in enumerate(entry) if axis not in offsets)]
            is_here = _are_equal(arithmetic, asked, place, counts)
            result[entry] = factorisation.chosen(arithmetic, is_here, operand.flat[chosen[entry]], result[entry])
    assert result is not None
    return result


def _are_equal(arithmetic: AbstractArithmetic, asked: Scalars, place: Sequence[int], counts: Sequence[int]) -> Any:
    """Whether a place that is asked for is this one; beyond the last along an axis is the last."""
    equal = np.True_
    for x, wanted, count in zip(asked, place, counts, strict=True):
        if count > 1:
            name = "ge" if wanted == count - 1 else "le" if wanted == 0 else "eq"
            equal = arithmetic.combine(
                "and", bool, equal, arithmetic.combine(name, bool, x, np.asarray(wanted, x.dtype)[()])
            )
    return equal


def updated(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, part: Scalars, *places: Scalars) -> list[Scalars]:
    """Some entries replaced, at known places: the transpose of reading consecutive ones."""
    del arithmetic
    scalars = np.concatenate([operand.reshape(-1), part.reshape(-1)])
    kept, new = np.split(np.arange(scalars.size, dtype=np.int32), [operand.size])
    chosen = evaluated(eqn, kept.reshape(operand.shape), new.reshape(part.shape), *_at_known(eqn, eqn.invars[2:], places))[0]
    return [scalars[np.asarray(chosen)]]


def replaced(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Scalars, update: Scalars) -> list[Scalars]:
    """Some entries replaced, at any known places: what it does to the numbers of all entries says which are where."""
    del arithmetic
    scalars = np.concatenate([operand.reshape(-1), update.reshape(-1)])
    kept, new = np.split(np.arange(scalars.size, dtype=np.int32), [operand.size])
    (at,) = _at_known(eqn, eqn.invars[1:2], (places,))
    how = {name: eqn.params[name] for name in ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")}
    with jax.ensure_compile_time_eval():
        chosen = jax.lax.scatter(kept.reshape(operand.shape), at, new.reshape(update.shape), **how)
    return [scalars[np.asarray(chosen)]]


def scattered(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Scalars, update: Scalars) -> list[Scalars]:
    """Entries added at known places, the transpose of reading them: what the primitive does to a one says where."""
    (at,) = _at_known(eqn, eqn.invars[1:2], (places,))
    result, dtype = operand.copy(), eqn.outvars[0].aval.dtype
    for number, one in enumerate(np.eye(update.size, dtype=dtype)):
        goes = evaluated(eqn, np.zeros(operand.shape, dtype), at, one.reshape(update.shape))[0]
        for place in zip(*np.nonzero(np.asarray(goes)), strict=True):
            result[place] = arithmetic.combine("add", dtype, result[place], update.flat[number])
    return [result]


def _at_known(eqn: Any, variables: Sequence[Any], places: Sequence[Scalars]) -> list[np.ndarray]:
    if not all(is_number(x) for place in places for x in place.flat):
        raise NotScalarisable(f"{eqn.primitive.name} at places that are computed")
    return [known(place, v.aval.dtype) for place, v in zip(places, variables, strict=True)]


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


def known(operand: Scalars, dtype: Any) -> np.ndarray:
    """An array of numbers out of scalars that are known."""
    return np.array(operand.tolist(), dtype).reshape(operand.shape)


def boxed(values: Any) -> Scalars:
    """Scalars out of an array of numbers. Raises `NotScalarisable` for random keys and the like."""
    kind(values.dtype if hasattr(values, "dtype") else np.asarray(values).dtype)
    values = np.asarray(values)
    result = np.empty(values.shape, object)
    for place in np.ndindex(values.shape):
        result[place] = values[place]
    return result


def evaluated(eqn: Any, *operands: np.ndarray) -> list[Any]:
    """The equation on numbers, while tracing."""
    if eqn.primitive.name == "iota":  # in nearly every element function: as a program of JAX it would be compiled
        shape, axis = eqn.params["shape"], eqn.params["dimension"]
        numbers = np.arange(shape[axis], dtype=eqn.params["dtype"])
        return [np.broadcast_to(np.expand_dims(numbers, [i for i in range(len(shape)) if i != axis]), shape)]
    with jax.ensure_compile_time_eval():
        outcome = eqn.primitive.bind(*map(jax.numpy.asarray, operands), **eqn.params)
    return list(outcome) if eqn.primitive.multiple_results else [outcome]


RULES: dict[str, Callable] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims", "reshard", "stop_gradient"), reshape),
    **dict.fromkeys(("dynamic_slice", "gather"), indexed),
    "broadcast_in_dim": broadcast_in_dim,
    "rev": rev,
    "slice": slice_,
    "transpose": transpose,
    "concatenate": concatenate,
    "dot_general": dot_general,
    "optimization_barrier": optimization_barrier,
    "pad": pad,
    **dict.fromkeys(_REDUCTIONS, reduction),
    "split": split,
    "stack": stack,
    "unstack": unstack,
    "dynamic_update_slice": updated,
    "scatter": replaced,
    "scatter-add": scattered,
    **factorisation.RULES,
    symmetric.NAME: symmetric.mirrored,
}
