"""What puts entries of an array at places, or adds them there: what it does to the numbers of entries says where."""

import operator
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .arithmetic import AbstractArithmetic, Change, NotScalarisable, is_number
from .factorisation import chosen as selected
from .known_numbers import Scalars, evaluated
from .places import FILLS, are_equal, at_known, check_few, counts_of_places, is_in_memory, number_of, steps_of

_COMBINED = {"scatter-add": "add", "scatter-max": "max", "scatter-min": "min"}  # with what is there already


def updated(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, part: Scalars, *places: Scalars) -> list[Scalars]:
    """Consecutive entries replaced: the transpose of reading them."""
    if not all(is_number(x) for place in places for x in place.flat):
        return [_updated_at(arithmetic, eqn, operand, part, np.stack(places))]
    scalars = np.concatenate([operand.reshape(-1), part.reshape(-1)])
    kept, new = np.split(np.arange(scalars.size, dtype=np.int32), [operand.size])
    chosen = evaluated(eqn, kept.reshape(operand.shape), new.reshape(part.shape), *at_known(eqn, eqn.invars[2:], places))[0]
    return [scalars[np.asarray(chosen)]]


def _updated_at(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, part: Scalars, asked: Scalars) -> Scalars:
    """The same at places that are computed."""
    counts, result = counts_of_places(eqn), operand.copy()
    number, is_there = number_of(arithmetic, asked, counts, steps_of(operand, range(operand.ndim)))
    entries = [(int(np.ravel_multi_index(entry, operand.shape)), part[entry]) for entry in np.ndindex(part.shape)]
    written = arithmetic.write(list(operand.flat), number, entries, np.True_)
    if written is not None:
        result.flat[:] = written
        return result
    check_few(eqn, counts, part.size)
    for place in np.ndindex(*counts):
        is_here = are_equal(arithmetic, asked, place, counts)
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
    (at,) = at_known(eqn, eqn.invars[1:2], (places,))
    with jax.ensure_compile_time_eval():
        chosen = jax.lax.scatter(kept.reshape(operand.shape), at, new.reshape(update.shape), **_how(eqn))
    return [scalars[np.asarray(chosen)]]


def scattered(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Scalars, update: Scalars) -> list[Scalars]:
    """Entries added, the transpose of reading them, or compared: at known places what adding a one does says where."""
    if not all(is_number(x) for x in places.flat):
        return [_put_at(arithmetic, eqn, operand, places, update)]
    (at,) = at_known(eqn, eqn.invars[1:2], (places,))
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
    """Entries put, or combined, at places that are computed: in memory, or every place that there may be keeps what it has,
    or takes them."""
    mode, counts, combined = eqn.params["mode"], counts_of_places(eqn), _COMBINED.get(eqn.primitive.name)
    if mode not in FILLS:
        raise NotScalarisable(f"{eqn.primitive.name} at places that are computed, {mode}")
    result, scalars = operand.copy(), list(operand.flat)
    one_place = combined is None and places.ndim == 1  # of all
    is_worth_it = arithmetic.has_places and is_in_memory(operand.size, update.size, counts)
    if one_place or is_worth_it:
        changes, written = _changes(arithmetic, eqn, operand, places, update), None
        if one_place:
            entries = [(change.offset, change.value) for change in changes]
            written = arithmetic.write(scalars, changes[0].number, entries, changes[0].is_there)
        if written is None and is_worth_it:
            written = arithmetic.changed(scalars, changes, combined)
        if written is not None:
            result.flat[:] = written
            return result
    check_few(eqn, counts, update.size)
    return _put_by_choice(arithmetic, eqn, result, places, update)


def _changes(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars, places: Scalars, update: Scalars) -> list[Change]:
    """What is put where, entry by entry."""
    axes, windows, kept = _axes(eqn, operand)
    counts, steps, within = counts_of_places(eqn), steps_of(operand, axes), steps_of(operand, kept)
    changes = []
    for entry in np.ndindex(update.shape):
        number, is_there = number_of(arithmetic, _asked(places, entry, windows), counts, steps)
        offset = sum(entry[w] * step for w, step in zip(windows, within, strict=True))
        changes.append(Change(number, offset, update[entry], is_there if FILLS[eqn.params["mode"]] else np.True_))
    return changes


def _put_by_choice(arithmetic: AbstractArithmetic, eqn: Any, result: Scalars, places: Scalars, update: Scalars) -> Scalars:
    """Every place that there may be keeps what it has, or takes what is put."""
    counts, dtype, combined = counts_of_places(eqn), eqn.outvars[0].aval.dtype, _COMBINED.get(eqn.primitive.name)
    nearest = None if FILLS[eqn.params["mode"]] else counts
    axes, windows, kept = _axes(eqn, result)
    for entry in np.ndindex(update.shape):
        asked = _asked(places, entry, windows)
        within = dict(zip(kept, (entry[axis] for axis in windows), strict=True))
        for place in np.ndindex(*counts):
            begin = dict(zip(axes, place, strict=True))
            at = tuple(within.get(axis, 0) + begin.get(axis, 0) for axis in range(result.ndim))
            new = update[entry]
            if combined is not None:
                new = arithmetic.combine(combined, dtype, result[at], new)
            result[at] = selected(arithmetic, are_equal(arithmetic, asked, place, nearest), new, result[at])
    return result


def _axes(eqn: Any, operand: Scalars) -> tuple[Sequence[int], Sequence[int], list[int]]:
    """The axes that places count along, those of an update that are windows, and the axes along which these lie."""
    numbers = eqn.params["dimension_numbers"]
    kept = [axis for axis in range(operand.ndim) if axis not in numbers.inserted_window_dims]
    return numbers.scatter_dims_to_operand_dims, numbers.update_window_dims, kept


def _asked(places: Scalars, entry: tuple[int, ...], windows: Sequence[int]) -> Scalars:
    """The place that is asked for an entry of an update."""
    return places[tuple(n for axis, n in enumerate(entry) if axis not in windows)]


RULES = {
    "dynamic_update_slice": updated,
    "scatter": replaced,
    **dict.fromkeys(_COMBINED, scattered),
}
