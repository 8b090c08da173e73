"""Arguments refused by name: to whom they were given, what they should be, what they are."""

from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._jax import Tracer
from ._typing import Array


def numeric_array(owner: str, name: str, value: Any) -> Any:
    """`value` as an array of numbers or booleans, of NumPy unless JAX made (a part of) it. `TypeError` if it is none."""
    if isinstance(value, jax.Array):
        return value
    try:
        parts = jax.tree.leaves(value)
        array = jnp.asarray(value) if any(isinstance(p, jax.Array) for p in parts) else np.asarray(value)
    except (TypeError, ValueError):
        array = None
    if array is None or not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise TypeError(f"{owner}: {name} must be numbers in an array, got {value!r:.80}.")
    return array


def index_array(owner: str, name: str, value: Any) -> Array:
    """Node numbers and the like as 32-bit integers. `TypeError` unless they are whole, `ValueError` where one does not fit:
    a cast would wrap 2^32 + 1 to 1."""
    array = numeric_array(owner, name, value)
    if array.size == 0 and jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(np.int32)  # an empty list has no whole numbers to tell
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{owner}: {name} must be whole numbers, got dtype {array.dtype}.")
    if array.dtype.itemsize >= 4 and array.size and not isinstance(array, Tracer):
        limits = np.iinfo(np.int32)
        for number in (int(array.min()), int(array.max())):
            if not limits.min <= number <= limits.max:
                raise ValueError(f"{owner}: {number} in {name} does not fit 32 bits.")
    return jnp.asarray(array, dtype=jnp.int32)


def check_real(owner: str, name: str, value: Any) -> None:
    """Raise unless `value` is an array of real numbers that are finite, where they can be looked at."""
    if not isinstance(value, jax.Array | np.ndarray):
        raise TypeError(f"{owner}: {name} must be a number or an array, got {value!r:.80}.")
    if not jnp.issubdtype(value.dtype, jnp.floating):
        raise TypeError(f"{owner}: {name} has dtype {value.dtype}, expected real numbers.")
    if not isinstance(value, Tracer) and not bool(np.all(np.isfinite(np.asarray(value)))):
        raise ValueError(f"{owner}: {name} has values that are not finite.")


def check_instance(owner: str, name: str, value: Any, kind: type) -> None:
    """Raise `TypeError` unless `value` is of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{owner}: {name} must be of type {kind.__name__}, got {value!r:.80}.")


def check_flags(owner: str, **flags: Any) -> None:
    """Raise `TypeError` unless all are True or False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{owner}: {name} must be True or False, got {value!r:.80}.")


def check_choice(owner: str, name: str, value: Any, choices: Any) -> None:
    """Raise `ValueError` unless `value` is one of the names."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{owner}: {name} must be one of {tuple(choices)}, got {value!r:.80}.")


def check_counts(owner: str, **counts: Any) -> None:
    """Raise `ValueError` unless all are whole numbers of at least 1."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{owner}: {name} must be a whole number of at least 1, got {value!r:.80}.")


def check_tolerances(owner: str, **tolerances: Any) -> None:
    """Raise `ValueError` unless all are finite numbers of at least 0. `None` and traced numbers pass."""
    for name, value in tolerances.items():
        if value is None or isinstance(value, Tracer):
            continue
        number = value.item() if isinstance(value, jax.Array | np.ndarray) and value.size == 1 else value
        if isinstance(number, bool) or not isinstance(number, Real) or not 0 <= float(number) < float("inf"):
            raise ValueError(f"{owner}: {name} must be a number of at least 0, got {value!r:.80}.")
