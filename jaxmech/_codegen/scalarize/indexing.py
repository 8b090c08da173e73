"""What reads entries of an array at places that are given: what it does to the numbers of entries says which."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arithmetic import AbstractArithmetic, NotScalarisable, is_number
from .factorisation import chosen as selected
from .known_numbers import Scalars, boxed, evaluated
from .places import FILLS, WORTH_PLACES, are_equal, at_known, check_few, counts_of_places, number_of, steps_of


def indexed(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, *places: Scalars) -> list[Scalars]:
    """Entries at known places: what the primitive does to their numbers says which, and to zeros what stands outside."""
    if not all(is_number(x) for place in places for x in place.flat):
        return [_chosen_at(arithmetic, eqn, operand, places)]
    numbers = np.arange(1, operand.size + 1, dtype=np.int32).reshape(operand.shape)
    at = at_known(eqn, eqn.invars[1:], places)
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
        if p["mode"] not in FILLS:
            raise NotScalarisable(f"gather at places that are computed, {p['mode']}")
        axes, offsets, (index,), fills = numbers.start_index_map, numbers.offset_dims, places, FILLS[p["mode"]]
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
    if math.prod(counts) >= WORTH_PLACES:
        read = _read_at(arithmetic, operand.reshape(-1), first, asked_for, counts, steps_of(operand, axes), nothing)
        if read is not None:
            return read
    check_few(eqn, counts, first.size)
    result = operand.reshape(-1)[first] if nothing is None else nothing
    for place in itertools.islice(np.ndindex(*counts), 1 if nothing is None else 0, None):
        chosen = labels_at(place)
        for entry in np.ndindex(chosen.shape):
            is_here = are_equal(arithmetic, asked_for(entry), place, None if fills else counts)
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
        number, is_there = number_of(arithmetic, asked_for(entry), counts, steps)
        read = arithmetic.read(scalars, slice(int(first[entry]), int(first[entry]) + span), number)
        if read is None:
            return None
        if nothing is not None:
            read = selected(arithmetic, is_there, read, nothing[entry])
        result[entry] = read
    return result


RULES = dict.fromkeys(("dynamic_slice", "gather"), indexed)
