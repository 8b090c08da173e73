"""The rules of a primitive by JAX's own transformations of its plain form: what is done where our rules fail."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._runtime.array_types import Array
from .._runtime.jax_internals import instantiate_zeros, is_undefined_primal, is_zero, zero_tangent
from .._runtime.plain_form import first_that_works

PlainForm = Callable[..., list[Array]]


def or_plain(rule: Callable[..., Any], plain_rule: Callable[..., Any], plain_form: PlainForm) -> Callable[..., Any]:
    """A rule of a primitive with a parameter `call`; where it fails, `plain_rule(function, ...)` of the plain form of the
    primitive."""

    def guarded(*arguments: Any, **params: Any) -> Any:
        def plain() -> Any:
            return plain_rule(lambda *operands: plain_form(*operands, **params), *arguments)

        return first_that_works(params["call"], lambda: rule(*arguments, **params), plain)

    return guarded


def restricted(function: PlainForm, operands: Sequence[Any], moving: Sequence[int]) -> PlainForm:
    """A function of some of its operands, the others as they are."""

    def of_moving(*moved: Any) -> list[Array]:
        filled = dict(enumerate(operands)) | dict(zip(moving, moved, strict=True))
        return function(*filled.values())

    return of_moving


def plain_jvp(function: PlainForm, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Array], list[Any]]:
    """The outputs and their rates."""
    moving = [i for i, t in enumerate(tangents) if not is_zero(t)]
    given = [primals[i] for i in moving], [tangents[i] for i in moving]
    outputs, rates = jax.jvp(restricted(function, primals, moving), *given)
    real = [jnp.issubdtype(a.dtype, jnp.inexact) for a in outputs]
    return outputs, [rate if r else zero_tangent(a) for a, rate, r in zip(outputs, rates, real, strict=True)]


def plain_transpose(function: PlainForm, cotangents: Sequence[Any], *operands: Any) -> list[Any]:
    """The cotangents of the operands that are linear."""
    linear = [i for i, a in enumerate(operands) if is_undefined_primal(a)]
    avals = [jax.ShapeDtypeStruct(operands[i].aval.shape, operands[i].aval.dtype) for i in linear]
    found = jax.linear_transpose(restricted(function, operands, linear), *avals)(list(map(instantiate_zeros, cotangents)))
    pulled: list[Any] = [None for _ in operands]
    for i, cotangent in zip(linear, found, strict=True):
        pulled[i] = cotangent
    return pulled


def plain_batch(function: PlainForm, operands: Sequence[Any], axes: Sequence[int | None]) -> tuple[list[Array], list[int]]:
    """The outputs of all members of a batch."""
    found = jax.vmap(function, list(axes))(*operands)
    return found, [0 for _ in found]
