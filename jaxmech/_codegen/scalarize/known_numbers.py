"""Numbers that are known while tracing, as arrays of scalars and back."""

from typing import Any

import jax
import numpy as np

from .supported import kind

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
    """The equation on numbers, while tracing."""
    if eqn.primitive.name == "iota":  # in nearly every element function: as a program of JAX it would be compiled
        shape, axis = eqn.params["shape"], eqn.params["dimension"]
        numbers = np.arange(shape[axis], dtype=eqn.params["dtype"])
        return [np.broadcast_to(np.expand_dims(numbers, [i for i in range(len(shape)) if i != axis]), shape)]
    with jax.ensure_compile_time_eval():
        outcome = eqn.primitive.bind(*map(jax.numpy.asarray, operands), **eqn.params)
    return list(outcome) if eqn.primitive.multiple_results else [outcome]
