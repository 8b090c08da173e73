"""Errors out of a compiled program: raised by JAX at run time, in the words of `_failure_words`, once and briefly.

A host callback that raises buries its words in its traceback, twice. On a CPU a foreign function can hand XLA an error
instead, and its message is all that is seen. Nothing is called unless something has failed.
"""

import collections
import ctypes
import functools
import json
import logging
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .array_types import Array, structure_of
from .devices import on_cpu
from .failure_messages import NUMBERS, describe
from .ffi_check import register, tells_version
from .ffi_frame import argument, new_error
from .ffi_layout import interface
from .jax_internals import unvmap_any
from .results import FailedComputation

T = TypeVar("T")
_TARGET = "jaxmech.raise"
_FAILED_PRECONDITION = 9  # of XLA's kinds of errors
_said: collections.deque[str] = collections.deque(maxlen=100)  # by callbacks


def raise_if(
    value: T,
    failed: Array,
    names: Mapping[str, Any],
    numbers: Mapping[str, Any],
    residuals: tuple[Array, Array] | None = None,
) -> T:
    """`value`, unless `failed`, of a batch by any member: then JAX raises what `describe` says of these. Derivatives pass.

    `residuals`: of every load step, -1 where there was none, and the rounding floor.
    A `JaxRuntimeError`, or a `ValueError` where the program is so short that it is over when its call returns.
    """
    text = jnp.asarray(np.frombuffer(json.dumps(dict(names)).encode(), np.uint8))
    arrays, rest = eqx.partition(value, eqx.is_array)
    told = {"failed": failed, **numbers}, residuals
    return eqx.combine(_checked(arrays, unvmap_any(failed), text, told), rest)


def is_raised_by(params: Mapping[str, Any]) -> bool:
    """Whether a call of a foreign function, which has these parameters, is one that raises."""
    return params["target_name"] == _TARGET


def in_row(numbers: Mapping[str, Any], residuals: tuple[Array, Array] | None) -> tuple[Array, Array]:
    """What `describe` takes: numbers in their order; the residuals of the last load step that was begun, and the floor."""
    row = jnp.stack([jnp.asarray(numbers.get(n, -1), jnp.int32) for n in NUMBERS])
    if residuals is None:
        return row, jnp.zeros(1, jnp.float32)
    rows, floor = jnp.atleast_2d(residuals[0]), residuals[1]  # a time step has one
    begun = (rows >= 0).any(axis=-1)
    last = jnp.max(jnp.where(begun, jnp.arange(begun.shape[-1]), 0))
    return row, jnp.append(rows[last], floor).astype(jnp.float32)


@jax.custom_jvp
def _checked(value: Any, failed: Array, text: Array, told: Any) -> Any:
    shapes = structure_of(value)

    def stop() -> Any:
        arguments = (text, *in_row(*told))  # made where they are read: a step that succeeds need not
        if on_cpu() and _registered():
            leaves, tree = jax.tree.flatten(shapes)
            return jax.tree.unflatten(tree, jax.ffi.ffi_call(_TARGET, leaves, vmap_method="expand_dims")(*arguments))
        return jax.pure_callback(_raise, shapes, *arguments, vmap_method="expand_dims")

    # Words begin with a bracket. Where they are nil, so is all else that the program holds: optimistix evaluates a linear
    # function that it has not made yet with zeros in the place of its arrays, and takes nothing from it.
    return jax.lax.cond(failed & (text[0] > 0), stop, lambda: value)


@_checked.defjvp
def _checked_jvp(primals, tangents):
    return _checked(*primals), tangents[0]


def _words(text: np.ndarray, row: np.ndarray, residuals: np.ndarray) -> str:
    return describe(json.loads(np.asarray(text).tobytes()), np.asarray(row), np.asarray(residuals))


def _raise(*told: Any) -> Any:
    """As a callback of the host, wherever foreign functions are not to be had."""
    logging.getLogger("jax._src.callback").addFilter(_unlogged)
    _said.append(_words(*told))
    raise FailedComputation(_said[-1])


def in_its_words(error: Exception) -> Exception:
    """The error of a program with the words alone, as a foreign function tells them, where a callback has buried them."""
    words = next((words for words in _said if words in str(error)), None)
    return error if words is None else type(error)(f"FAILED_PRECONDITION: {words}")


def _unlogged(record: logging.LogRecord) -> bool:
    """JAX logs what a callback raises, which is then seen twice."""
    return not (record.exc_info and isinstance(record.exc_info[1], FailedComputation))


@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def _handler(frame: int) -> int | None:
    """The function that XLA calls: it returns an error, or, asked for its metadata, the version of XLA's interface."""
    xla = interface()
    assert xla is not None
    if tells_version(xla, frame):
        return None
    try:
        types = (np.dtype(t) for t in (np.uint8, np.int32, np.float32))
        message = _words(*(argument(xla, frame, i, dtype) for i, dtype in enumerate(types)))
    except Exception as error:  # nothing may pass through XLA but its own kind of error
        message = f"a computation failed, and so did the words for it: {error!r}"
    return new_error(xla, frame, message, _FAILED_PRECONDITION)


@functools.cache
def _registered() -> bool:
    return register(_TARGET, _handler)
