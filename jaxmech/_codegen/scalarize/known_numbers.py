"""Numbers that are known while tracing, as arrays of scalars and back."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .supported import kind

_FILL = jax.lax.GatherScatterMode.FILL_OR_DROP
_MODES = (_FILL, jax.lax.GatherScatterMode.CLIP, jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)
_ENDS = {"i": "min", "u": "max"}
Scalars = np.ndarray  # of objects: one entry per component of the array that an element has


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
    """The equation on numbers, while tracing. What nearly every program has NumPy does: as programs of JAX each of another
    shape would be compiled."""
    name = eqn.primitive.name
    if name == "iota":
        shape, axis = eqn.params["shape"], eqn.params["dimension"]
        numbers = np.arange(shape[axis], dtype=eqn.params["dtype"])
        return [np.broadcast_to(np.expand_dims(numbers, [i for i in range(len(shape)) if i != axis]), shape)]
    if name == "dynamic_slice":
        return [_part(operands[0], np.stack(operands[1:]), eqn.params["slice_sizes"])]
    if name == "gather" and eqn.params["mode"] in _MODES and not eqn.params["dimension_numbers"].operand_batching_dims:
        return [_gathered(eqn, *operands)]
    with jax.ensure_compile_time_eval():
        outcome = eqn.primitive.bind(*map(jax.numpy.asarray, operands), **eqn.params)
    return list(outcome) if eqn.primitive.multiple_results else [outcome]


def _part(operand: np.ndarray, start: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """So many entries from a place on, or from the last place from which there are so many."""
    begins = np.clip(start, 0, np.subtract(operand.shape, sizes))
    return operand[tuple(slice(begin, begin + size) for begin, size in zip(begins, sizes, strict=True))]


def _gathered(eqn: Any, operand: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Parts from places on; of those that are not there, what is said to stand for them."""
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    axes, result = list(numbers.start_index_map), np.empty(eqn.outvars[0].aval.shape, operand.dtype)
    last, fills = np.subtract(operand.shape, sizes)[axes], eqn.params["mode"] == _FILL
    others = [axis for axis in range(result.ndim) if axis not in numbers.offset_dims]
    for number in np.ndindex(places.shape[:-1]):
        where = dict(zip(others, number, strict=True))
        at = tuple(where.get(axis, slice(None)) for axis in range(result.ndim))
        if fills and not ((places[number] >= 0) & (places[number] <= last)).all():
            result[at] = _nothing(eqn.params["fill_value"], operand.dtype)
            continue
        start = np.zeros(operand.ndim, int)
        start[axes] = places[number]
        result[at] = np.squeeze(_part(operand, start, sizes), tuple(numbers.collapsed_slice_dims))
    return result


def _nothing(value: Any, dtype: np.dtype) -> Any:
    """What stands for an entry that is not there, where nothing else is said: as `jax.lax.gather` has it."""
    if value is not None:
        return value
    if dtype.kind == "f":
        return np.nan
    return True if dtype.kind == "b" else getattr(np.iinfo(dtype), _ENDS[dtype.kind])
