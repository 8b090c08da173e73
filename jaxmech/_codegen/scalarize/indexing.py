"""What reads and writes entries of an array at places that are given: what it does to the numbers of entries says which."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .arithmetic import AbstractArithmetic, NotScalarisable, is_number
from .factorisation import chosen as selected
from .known_numbers import Scalars, evaluated, known

_FEW_PLACES = 16  # of which one is chosen that is computed
_INSIDE = (jax.lax.GatherScatterMode.CLIP, jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS)


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
            result[entry] = selected(arithmetic, is_here, operand.flat[chosen[entry]], result[entry])
    assert result is not None
    return result


def _are_equal(arithmetic: AbstractArithmetic, asked: Scalars, place: Sequence[int], counts: Sequence[int]) -> Any:
    """Whether a place that is asked for is this one; beyond the last along an axis is the last."""
    equal = []
    for x, wanted, count in zip(asked, place, counts, strict=True):
        if count > 1:
            name = "ge" if wanted == count - 1 else "le" if wanted == 0 else "eq"
            equal.append(arithmetic.combine(name, bool, x, np.asarray(wanted, x.dtype)[()]))
    return functools.reduce(functools.partial(arithmetic.combine, "and", bool), equal)


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


RULES = {
    **dict.fromkeys(("dynamic_slice", "gather"), indexed),
    "dynamic_update_slice": updated,
    "scatter": replaced,
    "scatter-add": scattered,
}
