"""What makes one scalar of many: sums, extremes and where they are, and reductions of any kind."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .arithmetic import AbstractArithmetic, NotScalarisable, Scalar
from .factorisation import chosen
from .known_numbers import Scalars

Apply = Callable[[list[Scalars]], list[Scalars]]

_OPERATIONS = {
    "reduce_sum": "add",
    "reduce_prod": "mul",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_and": "and",
    "reduce_or": "or",
}
_BEATS = {"argmax": "gt", "argmin": "lt"}


def reduction(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """Sums, products, extremes over some axes."""
    aval, axes = eqn.outvars[0].aval, eqn.params["axes"]
    combine = functools.partial(arithmetic.combine, _OPERATIONS[eqn.primitive.name], aval.dtype)
    terms, result = _terms(operand, axes), np.empty(aval.shape, object)
    for place in np.ndindex(aval.shape):
        result[place] = functools.reduce(combine, terms[place]) if terms.shape[-1] else _of_nothing(eqn)
    return [result]


def _of_nothing(eqn: Any) -> Scalar:
    """What no terms make: what changes none of them."""
    dtype = np.dtype(eqn.outvars[0].aval.dtype)
    with jax.ensure_compile_time_eval():
        return np.asarray(eqn.primitive.bind(jnp.zeros(0, dtype), **(eqn.params | {"axes": (0,)})))[()]


def place_of_extreme(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """The number of the first of the largest (or the least) along an axis; of the first that is NaN, if there is any."""
    aval, terms = eqn.outvars[0].aval, _terms(operand, eqn.params["axes"])
    if not terms.shape[-1]:
        raise NotScalarisable(f"{eqn.primitive.name} of nothing")
    result = np.empty(aval.shape, object)
    for place in np.ndindex(aval.shape):
        best, at = terms[place][0], aval.dtype.type(0)
        for number, x in enumerate(terms[place][1:], 1):
            beats = _beats(arithmetic, _BEATS[eqn.primitive.name], x, best)
            best, at = chosen(arithmetic, beats, x, best), chosen(arithmetic, beats, aval.dtype.type(number), at)
        result[place] = at
    return [result]


def _beats(arithmetic: AbstractArithmetic, more: str, x: Scalar, best: Scalar) -> Scalar:
    beats = arithmetic.combine(more, bool, x, best)
    if x.dtype.kind != "f":
        return beats
    beats = arithmetic.combine("or", bool, beats, arithmetic.combine("ne", bool, x, x))
    return arithmetic.combine("and", bool, beats, arithmetic.combine("eq", bool, best, best))


def of_all(arithmetic: AbstractArithmetic, eqn: Any, operand: Scalars) -> list[Scalars]:
    """Whether any is true. Members of a batch are not asked for each other: a branch is taken if any of them takes it."""
    del eqn
    return [boxed_scalar(functools.reduce(functools.partial(arithmetic.combine, "or", bool), operand.flat, np.False_))]


def folded(arithmetic: AbstractArithmetic, eqn: Any, operands: Sequence[Scalars], apply: Apply) -> list[Scalars]:
    """Several arrays reduced together, by the program `apply(scalars)`: one entry after the other."""
    axes, count = eqn.params["dimensions"], len(operands) // 2
    terms = [_terms(operand, axes) for operand in operands[:count]]
    results = [np.empty(v.aval.shape, object) for v in eqn.outvars]
    for place in np.ndindex(results[0].shape):
        total = [start[()] for start in operands[count:]]
        for entries in zip(*(x[place] for x in terms), strict=True):
            total = [x[()] for x in apply(list(map(boxed_scalar, (*total, *entries))))]
        for result, x in zip(results, total, strict=True):
            result[place] = x
    return results


def boxed_scalar(x: Scalar) -> Scalars:
    """A scalar as an array of one: of what is traced, NumPy would look into it."""
    result = np.empty((), object)
    result[()] = x
    return result


def _terms(operand: Scalars, axes: Sequence[int]) -> Scalars:
    """The entries along some axes, in their order, as the last axis."""
    rest = [operand.shape[axis] for axis in range(operand.ndim) if axis not in axes]
    count = math.prod(operand.shape[axis] for axis in axes)
    return np.moveaxis(operand, axes, range(-len(axes), 0)).reshape(*rest, count)


RULES: dict[str, Callable[..., list[Scalars]]] = {
    **dict.fromkeys(_OPERATIONS, reduction),
    **dict.fromkeys(_BEATS, place_of_extreme),
    "unvmap_any": of_all,
}
