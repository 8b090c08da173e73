"""Places that are computed while a program runs: which there may be, and which of them is asked for."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from .arithmetic import AbstractArithmetic, NotScalarisable, is_number
from .known_numbers import Scalars, known

_FEW_PLACES = 256  # of which one that is computed is chosen, or written to
# Choices among places for several entries: with those of 24 springs between sixteen points, steps of 256 nets took a kernel
# as long as XLA, and twice its time to compile.
_SEVERAL, _MOST_CHOICES = 16, 400
WORTH_PLACES = 8  # places, below which a choice takes fewer operations than reads of eight elements
_MODES = jax.lax.GatherScatterMode
FILLS = {_MODES.CLIP: False, _MODES.PROMISE_IN_BOUNDS: False, _MODES.FILL_OR_DROP: True}


def number_of(
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


def steps_of(operand: Scalars, axes: Sequence[int]) -> list[int]:
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


def is_in_memory(size: int, changes: int, counts: Sequence[int]) -> bool:
    """Whether so many entries are written to memory, changed there, and read again: changed where they are, each of them is
    chosen for every change."""
    return math.prod(counts) >= WORTH_PLACES and changes * math.prod(counts) > size


def check_few(eqn: Any, counts: Sequence[int], entries: int) -> None:
    if math.prod(counts) > _FEW_PLACES or (entries >= _SEVERAL and entries * math.prod(counts) > _MOST_CHOICES):
        raise NotScalarisable(f"{eqn.primitive.name} at one of {math.prod(counts)} places, which is computed")


def are_equal(arithmetic: AbstractArithmetic, asked: Scalars, place: Sequence[int], counts: Sequence[int] | None) -> Any:
    """Whether a place that is asked for is this one; of so many `counts`, beyond the last along an axis is the last."""
    equal = []
    for axis, (x, wanted) in enumerate(zip(asked, place, strict=True)):
        name = "eq"
        if counts is not None:
            name = "ge" if wanted == counts[axis] - 1 else "le" if wanted == 0 else "eq"
        if counts is None or counts[axis] > 1:
            equal.append(arithmetic.combine(name, bool, x, np.asarray(wanted, x.dtype)[()]))
    return functools.reduce(functools.partial(arithmetic.combine, "and", bool), equal) if equal else np.True_


def at_known(eqn: Any, variables: Sequence[Any], places: Sequence[Scalars]) -> list[np.ndarray]:
    if not all(is_number(x) for place in places for x in place.flat):
        raise NotScalarisable(f"{eqn.primitive.name} at places that are computed")
    return [known(place, v.aval.dtype) for place, v in zip(places, variables, strict=True)]
