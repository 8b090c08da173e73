"""What reads and writes entries of an array at places that are given: what it does to the numbers of entries says which."""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from .arithmetic import AbstractArithmetic, NotScalarisable, is_number
from .factorisation import chosen as selected
from .known_numbers import Scalars, boxed, evaluated, known

_FEW_PLACES = 256  # of which one that is computed is chosen, or written to
_WORTH_READING = 8  # places, below which a choice takes fewer operations than reads of eight elements
_MODES = jax.lax.GatherScatterMode
_COMBINED = {"scatter-add": "add", "scatter-max": "max", "scatter-min": "min"}  # with what is there already
_FILLS = {_MODES.CLIP: False, _MODES.PROMISE_IN_BOUNDS: False, _MODES.FILL_OR_DROP: True}


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
    """Entries at places that are computed: read there, or chosen from those at every place that there may be."""
    p, counts = eqn.params, counts_of_places(eqn)
    if eqn.primitive.name == "dynamic_slice":
        axes, offsets, index, fills = range(operand.ndim), range(operand.ndim), np.stack(places), False
    else:
        numbers = p["dimension_numbers"]
        if p["mode"] not in _FILLS:
            raise NotScalarisable(f"gather at places that are computed, {p['mode']}")
        axes, offsets, (index,), fills = numbers.start_index_map, numbers.offset_dims, places, _FILLS[p["mode"]]
    labels = np.arange(operand.size, dtype=np.int32).reshape(operand.shape)

    def labels_at(place: Any) -> np.ndarray:
        at = np.broadcast_to(np.asarray(place, np.int32), index.shape)
        return np.asarray(evaluated(eqn, labels, *(at if eqn.primitive.name == "dynamic_slice" else (at,)))[0])

    def asked_for(entry: tuple[int, ...]) -> Scalars:
        return index[tuple(n for axis, n in enumerate(entry) if axis not in offsets)]

    nothing = None
    if fills:  # what stands where there is no place
        zeros = np.zeros(operand.shape, operand.flat[0].dtype)
        nothing = boxed(np.asarray(evaluated(eqn, zeros, np.full(index.shape, -1, np.int32))[0]))
    first = labels_at(np.zeros(len(counts)))
    if math.prod(counts) >= _WORTH_READING:
        read = _read_at(arithmetic, operand.reshape(-1), first, asked_for, counts, _steps(operand, axes), nothing)
        if read is not None:
            return read
    _check_few(eqn, counts)
    result = operand.reshape(-1)[first] if nothing is None else nothing
    for place in itertools.islice(np.ndindex(*counts), 1 if nothing is None else 0, None):
        chosen = labels_at(place)
        for entry in np.ndindex(chosen.shape):
            is_here = _are_equal(arithmetic, asked_for(entry), place, None if fills else counts)
            result[entry] = selected(arithmetic, is_here, operand.flat[chosen[entry]], result[entry])
    return result


def _read_at(
    arithmetic: AbstractArithmetic,
    scalars: Scalars,
    first: np.ndarray,
    asked_for: Callable[[tuple[int, ...]], Scalars],
    counts: Sequence[int],
    steps: Sequence[int],
    nothing: Scalars | None,
) -> Scalars | None:
    """Each entry read where it stands: so many `steps` of each axis from the `first` that it may be; `nothing` for those
    beyond. None where the arithmetic cannot."""
    span, result = (
        1 + sum((count - 1) * step for count, step in zip(counts, steps, strict=True)),
        np.empty(first.shape, object),
    )
    for entry in np.ndindex(first.shape):
        number, is_there = _number_of(arithmetic, asked_for(entry), counts, steps)
        read = arithmetic.read(scalars[first[entry] : first[entry] + span], number)
        if read is None:
            return None
        if nothing is not None:
            read = selected(arithmetic, is_there, read, nothing[entry])
        result[entry] = read
    return result


def _number_of(
    arithmetic: AbstractArithmetic, asked: Scalars, counts: Sequence[int], steps: Sequence[int]
) -> tuple[Any, Any]:
    """How many entries after the first is the nearest place to one that is asked for, and whether it is that."""
    terms, are_there = [], []
    for x, count, step in zip(asked, counts, steps, strict=True):
        least, last = (x.dtype.type(n) for n in (0, count - 1))
        are_there += [arithmetic.combine("ge", bool, x, least), arithmetic.combine("le", bool, x, last)]
        nearest = arithmetic.combine("max", x.dtype, arithmetic.combine("min", x.dtype, x, last), least)
        terms.append(arithmetic.combine("mul", x.dtype, nearest, x.dtype.type(step)) if count > 1 else least)
    number = functools.reduce(functools.partial(arithmetic.combine, "add", terms[0].dtype), terms)
    return number, functools.reduce(functools.partial(arithmetic.combine, "and", bool), are_there)


def _steps(operand: Scalars, axes: Sequence[int]) -> list[int]:
    """How many entries of an array are between two along each axis."""
    return [math.prod(operand.shape[axis + 1 :]) for axis in axes]


def counts_of_places(eqn: Any) -> list[int]:
    """How many places along each axis that is indexed an equation may read, or write to. Raises `NotScalarisable` where
    what is written is that of a batch."""
    operand, name = eqn.invars[0].aval.shape, eqn.primitive.name
    if name == "dynamic_slice":
        return [n - size + 1 for n, size in zip(operand, eqn.params["slice_sizes"], strict=True)]
    if name == "dynamic_update_slice":
        return [n - size + 1 for n, size in zip(operand, eqn.invars[1].aval.shape, strict=True)]
    numbers = eqn.params["dimension_numbers"]
    if name == "gather":
        return [operand[axis] - eqn.params["slice_sizes"][axis] + 1 for axis in numbers.start_index_map]
    if numbers.operand_batching_dims:
        raise NotScalarisable(f"{name} at places that are computed, of a batch")
    spans = iter(eqn.invars[2].aval.shape[axis] for axis in numbers.update_window_dims)
    sizes = [1 if axis in numbers.inserted_window_dims else next(spans) for axis in range(len(operand))]
    return [operand[axis] - sizes[axis] + 1 for axis in numbers.scatter_dims_to_operand_dims]


def _check_few(eqn: Any, counts: Sequence[int]) -> None:
    if math.prod(counts) > _FEW_PLACES:
        raise NotScalarisable(f"{eqn.primitive.name} at one of {math.prod(counts)} places, which is computed")


def _are_equal(arithmetic: AbstractArithmetic, asked: Scalars, place: Sequence[int], counts: Sequence[int] | None) -> Any:
    """Whether a place that is asked for is this one; of so many `counts`, beyond the last along an axis is the last."""
    equal = []
    for axis, (x, wanted) in enumerate(zip(asked, place, strict=True)):
        name = "eq"
        if counts is not None:
            name = "ge" if wanted == counts[axis] - 1 else "le" if wanted == 0 else "eq"
        if counts is None or counts[axis] > 1:
            equal.append(arithmetic.combine(name, bool, x, np.asarray(wanted, x.dtype)[()]))
    return functools.reduce(functools.partial(arithmetic.combine, "and", bool), equal) if equal else np.True_


def updated(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, part: Scalars, *places: Scalars) -> list[Scalars]:
    """Consecutive entries replaced: the transpose of reading them."""
    if not all(is_number(x) for place in places for x in place.flat):
        return [_updated_at(arithmetic, eqn, operand, part, np.stack(places))]
    scalars = np.concatenate([operand.reshape(-1), part.reshape(-1)])
    kept, new = np.split(np.arange(scalars.size, dtype=np.int32), [operand.size])
    chosen = evaluated(eqn, kept.reshape(operand.shape), new.reshape(part.shape), *_at_known(eqn, eqn.invars[2:], places))[0]
    return [scalars[np.asarray(chosen)]]


def _updated_at(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, part: Scalars, asked: Scalars) -> Scalars:
    """The same at places that are computed."""
    counts, result = counts_of_places(eqn), operand.copy()
    number, is_there = _number_of(arithmetic, asked, counts, _steps(operand, range(operand.ndim)))
    entries = [(int(np.ravel_multi_index(entry, operand.shape)), part[entry]) for entry in np.ndindex(part.shape)]
    written = arithmetic.write(list(operand.flat), number, entries, np.True_)
    if written is not None:
        result.flat[:] = written
        return result
    _check_few(eqn, counts)
    for place in np.ndindex(*counts):
        is_here = _are_equal(arithmetic, asked, place, counts)
        for entry in np.ndindex(part.shape):
            at = tuple(map(operator.add, place, entry))
            result[at] = selected(arithmetic, is_here, part[entry], result[at])
    return result


def replaced(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Scalars, update: Scalars) -> list[Scalars]:
    """Some entries replaced: at known places what it does to the numbers of all entries says which are where."""
    if not all(is_number(x) for x in places.flat):
        return [_put_at(arithmetic, eqn, operand, places, update)]
    scalars = np.concatenate([operand.reshape(-1), update.reshape(-1)])
    kept, new = np.split(np.arange(scalars.size, dtype=np.int32), [operand.size])
    (at,) = _at_known(eqn, eqn.invars[1:2], (places,))
    with jax.ensure_compile_time_eval():
        chosen = jax.lax.scatter(kept.reshape(operand.shape), at, new.reshape(update.shape), **_how(eqn))
    return [scalars[np.asarray(chosen)]]


def scattered(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Scalars, update: Scalars) -> list[Scalars]:
    """Entries added, the transpose of reading them, or compared: at known places what adding a one does says where."""
    if not all(is_number(x) for x in places.flat):
        return [_put_at(arithmetic, eqn, operand, places, update)]
    (at,) = _at_known(eqn, eqn.invars[1:2], (places,))
    result, dtype, combined = operand.copy(), eqn.outvars[0].aval.dtype, _COMBINED[eqn.primitive.name]
    nil = np.zeros(operand.shape, np.int32)
    for number, one in enumerate(np.eye(update.size, dtype=np.int32)):
        with jax.ensure_compile_time_eval():
            goes = jax.lax.scatter_add(nil, at, one.reshape(update.shape), **_how(eqn))
        for place in zip(*np.nonzero(np.asarray(goes)), strict=True):
            result[place] = arithmetic.combine(combined, dtype, result[place], update.flat[number])
    return [result]


def _how(eqn: Any) -> dict[str, Any]:
    """How a scatter finds places, whatever it does there."""
    return {name: eqn.params[name] for name in ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")}


def _put_at(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Scalars, update: Scalars) -> Scalars:
    """Entries put, or combined, at places that are computed: every place that there may be keeps what it has, or takes
    them."""
    p, counts, dtype = eqn.params, counts_of_places(eqn), eqn.outvars[0].aval.dtype
    numbers, combined = p["dimension_numbers"], _COMBINED.get(eqn.primitive.name)
    if p["mode"] not in _FILLS:
        raise NotScalarisable(f"{eqn.primitive.name} at places that are computed, {p['mode']}")
    nearest = None if _FILLS[p["mode"]] else counts
    result, axes, windows = operand.copy(), numbers.scatter_dims_to_operand_dims, numbers.update_window_dims
    kept = [axis for axis in range(operand.ndim) if axis not in numbers.inserted_window_dims]
    if combined is None and places.ndim == 1:  # one place of all
        number, is_there = _number_of(arithmetic, places, counts, _steps(operand, axes))
        entries = [
            (sum(entry[w] * step for w, step in zip(windows, _steps(operand, kept), strict=True)), update[entry])
            for entry in np.ndindex(update.shape)
        ]
        written = arithmetic.write(list(operand.flat), number, entries, is_there if nearest is None else np.True_)
        if written is not None:
            result.flat[:] = written
            return result
    _check_few(eqn, counts)
    for entry in np.ndindex(update.shape):
        asked = places[tuple(n for axis, n in enumerate(entry) if axis not in windows)]
        within = dict(zip(kept, (entry[axis] for axis in windows), strict=True))
        for place in np.ndindex(*counts):
            begin = dict(zip(axes, place, strict=True))
            at = tuple(within.get(axis, 0) + begin.get(axis, 0) for axis in range(operand.ndim))
            new = update[entry]
            if combined is not None:
                new = arithmetic.combine(combined, dtype, result[at], new)
            result[at] = selected(arithmetic, _are_equal(arithmetic, asked, place, nearest), new, result[at])
    return result


def _at_known(eqn: Any, variables: Sequence[Any], places: Sequence[Scalars]) -> list[np.ndarray]:
    if not all(is_number(x) for place in places for x in place.flat):
        raise NotScalarisable(f"{eqn.primitive.name} at places that are computed")
    return [known(place, v.aval.dtype) for place, v in zip(places, variables, strict=True)]


RULES = {
    **dict.fromkeys(("dynamic_slice", "gather"), indexed),
    "dynamic_update_slice": updated,
    "scatter": replaced,
    **dict.fromkeys(_COMBINED, scattered),
}
