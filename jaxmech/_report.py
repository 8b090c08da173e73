"""Failures in words: which state is loose, how the residual went, which element is inverted."""

from typing import Any, TypeVar

import equinox as eqx
import numpy as np

from ._jax import index_of, message_of
from ._result import RESULTS, FailedComputation, is_traced
from ._system import System

T = TypeVar("T")


def raise_failure(value: T, info: Any, system: System, who: str, *, iterated: bool = True) -> T:
    """`value`, unless `info.result` is a failure.

    Outside tracing, raises `FailedComputation`, with the history where it was `iterated`. Under `jit` the message is the
    advice of the result, and for a singular matrix the name of the loose state, raised by Equinox at run time.
    """
    if is_traced(info.result):
        failed = info.result != RESULTS.successful
        for number, state in enumerate(system.main_states):
            value = eqx.error_if(value, failed & (info.loose_state == number), f"{who}: {_loose(state)}")
        return info.result.error_if(value, failed)
    failed = np.atleast_1d(np.asarray(info.result != RESULTS.successful))
    if failed.any():
        raise FailedComputation(describe(info, system, who, int(np.argmax(failed)), iterated=iterated), info.result)
    return value


def _loose(state: str) -> str:
    return (
        f"the matrix is singular: state '{state}' can move freely (no force and no constraint holds some motion of it). "
        "Fix its nodes, attach it, or give it mass and take time steps."
    )


def describe(info: Any, system: System, who: str, batch: int = 0, *, iterated: bool = True) -> str:
    """One failure, of a batch the first, with its numbers (those of Newton iterations where it was `iterated`)."""

    def of(array: Any, core: int) -> np.ndarray:
        array = np.asarray(array)
        return array.reshape(-1, *array.shape[array.ndim - core :])[min(batch, array.size - 1) if array.ndim > core else 0]

    loose = int(of(info.loose_state, 0))
    if 0 <= loose < len(system.main_states):
        return f"{who}: {_loose(system.main_states[loose])}"
    number = int(of(index_of(info.result), 0))
    text = f"{who}: {message_of(RESULTS, number)}"
    if not iterated:
        return text
    histories = of(info.residuals, 2)
    # Of the last load step that was begun; empty where the start itself is at fault.
    begun = histories[(histories >= 0).any(axis=1)][-1:]
    history = [f"{r:.3e}" for r in begun.ravel() if r >= 0] or ["none"]
    text = f"{text}\n  residuals: {', '.join(history)}"
    return f"{text}\n  rounding floor of the residual: {float(of(info.floor, 0)):.1e}"
