"""Arguments refused by name: to whom they were given, what they should be, what they are."""

import inspect
import os
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .array_types import Array
from .host_arrays import as_data
from .jax_internals import Tracer

_INT32_MAX = np.iinfo(np.int32).max
_LARGEST = 2**63  # JAX makes no number of a larger integer
_NOT_OF_JAX = "gGm"  # what NumPy counts as numbers besides: long doubles, real and complex, and spans of time
_RELATIVE = ("rtol", "rcond")  # tolerances that are chosen where there is none


def numeric_array(owner: str, name: str, value: Any) -> Any:
    """`value` as an array of numbers or booleans, of NumPy unless JAX made (a part of) it. `TypeError` if it is none."""
    if isinstance(value, jax.Array) and has_numbers(value.dtype):
        return value
    array = None
    # A mask would be lost; bytes are text.
    if not isinstance(value, jax.Array | np.ma.MaskedArray | bytearray | memoryview):
        try:
            parts = jax.tree.leaves(value)
            array = jnp.asarray(value) if any(isinstance(p, jax.Array) for p in parts) else np.asarray(value)
        except Exception:  # whatever the methods of an object raise; a list that holds itself has no end
            array = None
    if array is None or not has_numbers(array.dtype):
        raise TypeError(f"{owner}: {name} must be numbers in an array, got {_said(value)}.")
    return array


def has_numbers(dtype: Any) -> bool:
    """Whether an array of this type holds numbers or booleans that JAX knows: no keys, no spans of time, no long doubles."""
    return jnp.issubdtype(dtype, jnp.bool_) or (
        jnp.issubdtype(dtype, jnp.number) and np.dtype(dtype).char not in _NOT_OF_JAX
    )


def _said(value: Any) -> str:
    """A value as it is printed, shortened; its type where it cannot be."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"an object of type {type(value).__name__}"


def _numbers_of(array: Any) -> str:
    """What makes numbers of a mask, if it is one."""
    return "; np.flatnonzero makes numbers of a mask" if array.dtype == bool and array.ndim == 1 else ""


def index_array(owner: str, name: str, value: Any) -> Array:
    """Node numbers and the like as 32-bit integers. `TypeError` unless they are whole, `ValueError` where one does not fit:
    a cast would wrap 2^32 + 1 to 1."""
    array = numeric_array(owner, name, value)
    if array.size == 0 and jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(np.int32)  # an empty list has no whole numbers to tell
    if not jnp.issubdtype(array.dtype, jnp.integer):
        raise TypeError(f"{owner}: {name} must be whole numbers, got dtype {array.dtype}{_numbers_of(array)}.")
    if array.dtype.itemsize >= 4 and array.size and not isinstance(array, Tracer):
        limits = np.iinfo(np.int32)
        numbers = np.asarray(array)
        for number in (int(numbers.min()), int(numbers.max())):
            if not limits.min <= number <= limits.max:
                raise ValueError(f"{owner}: {number} in {name} does not fit 32 bits.")
    return as_data(array, np.int32)


def check_real(owner: str, name: str, value: Any, *, finite: bool = True) -> None:
    """Raise unless `value` is an array of real numbers of 32 or 64 bits, that are `finite` where they can be looked at."""
    if not isinstance(value, jax.Array | np.ndarray) or isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{owner}: {name} must be a number or an array, got {value!r:.80}.")
    if value.dtype not in (np.float32, np.float64):  # half precision has no factorisation, nor digits enough
        raise TypeError(f"{owner}: {name} has dtype {value.dtype}, expected real numbers, float32 or float64.")
    if finite and not isinstance(value, Tracer) and not np.isfinite(np.asarray(value)).all():
        raise ValueError(f"{owner}: {name} has values that are not finite.")


def real_array(
    owner: str, name: str, value: Any, shape: tuple[int | None, ...] | None = None, *, finite: bool = True
) -> Any:
    """`value` as an array of real numbers of this shape (`None`: of any length), whole numbers made real, or an error."""
    array = numeric_array(owner, name, value)
    if jnp.issubdtype(array.dtype, jnp.integer):
        array = array.astype(jnp.result_type(float))
    check_real(owner, name, array, finite=finite)
    _check_shape(owner, name, array, shape)
    return array


def whole_numbers(owner: str, name: str, value: Any, shape: tuple[int | None, ...], below: int | None = None) -> np.ndarray:
    """`value` as a host array of whole numbers of at least 0, less than `below`, or an error."""
    array = np.asarray(numeric_array(owner, name, value))
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{owner}: {name} must be whole numbers, got dtype {array.dtype}{_numbers_of(array)}.")
    _check_shape(owner, name, array, shape)
    top = _INT32_MAX if below is None else below - 1
    wrong = array[(array < 0) | (array > top)]
    if wrong.size:
        raise ValueError(f"{owner}: {name} names {wrong[0]}, expected numbers from 0 to {top}.")
    return array.astype(np.int64)


def _check_shape(owner: str, name: str, array: Any, shape: tuple[int | None, ...] | None) -> None:
    fits = shape is None or len(shape) == array.ndim and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if not fits:
        expected = ", ".join("any" if n is None else str(n) for n in shape or ())
        raise ValueError(f"{owner}: {name} has shape {array.shape}, expected ({expected}).")


def check_path(owner: str, path: Any) -> None:
    """Raise `TypeError` unless `path` names a file: a number would be one that is open already, standard output say;
    `ValueError` for no name at all."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{owner}: path must be a string or a path, got {path!r:.80}.")
    if not os.fspath(path):
        raise ValueError(f"{owner}: path is empty.")


def check_callable(owner: str, name: str, value: Any, *arguments: str) -> None:
    """Raise `TypeError` unless `value` can be called, with as many arguments as are named here, if any are."""
    if not callable(value):
        raise TypeError(f"{owner}: {name} must be a function, got {value!r:.80}.")
    if arguments:
        try:
            inspect.signature(value).bind(*arguments)
        except TypeError as error:
            how = f"{name}({', '.join(arguments)})"
            raise TypeError(f"{owner}: {name} is called as {how}, got {value!r:.80}: {error}.") from None
        except ValueError:  # of functions written in C, some tell nothing
            return


def check_instance(owner: str, name: str, value: Any, kind: type | tuple[type, ...]) -> None:
    """Raise `TypeError` unless `value` is of a class, or of one of several."""
    if not isinstance(value, kind):
        kinds = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise TypeError(f"{owner}: {name} must be of type {kinds}, got {value!r:.80}{meant(value, kind)}.")


def meant(value: Any, kind: type | tuple[type, ...]) -> str:
    """What was meant by a value that is not of a class, as words to add: an object of the class that was given, the state
    that a result holds; nothing where that cannot be told."""
    if isinstance(value, type):
        return f"; make one: {value.__name__}({_asked(value)})" if issubclass(value, kind) else ""
    held = getattr(value, "__dict__", {})
    found = [name for name in ("last", "state") if isinstance(held.get(name), kind)]
    if found and found[0] == "state" and hasattr(type(value), "at"):  # they are stacked
        found = ["at(number)"]
    return f"; give its .{found[0]}" if found else ""


def _asked(kind: type) -> str:
    """What an object of a class is made of: nothing, or something."""
    given = inspect.signature(kind).parameters.values()
    return "..." if any(p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in given) else ""


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
    """Raise `ValueError` unless all are whole numbers of at least 1 that fit 32 bits."""
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _INT32_MAX:
            raise ValueError(f"{owner}: {name} must be a whole number of at least 1 (and fit 32 bits), got {value!r:.80}.")


def plain(count: Any) -> Any:
    """A whole number of NumPy as one of Python; anything else as it is."""
    return int(count) if isinstance(count, np.integer) else count


def check_tolerances(owner: str, **tolerances: Any) -> None:
    """Raise `ValueError` unless all are finite numbers of at least 0. Traced ones pass, and a relative one may be `None`."""
    for name, value in tolerances.items():
        if (value is None and name in _RELATIVE) or isinstance(value, Tracer):
            continue
        number = value
        if isinstance(value, jax.Array | np.ndarray) and value.size == 1 and has_numbers(value.dtype):
            number = value.item()
        is_real = isinstance(number, Real) and not isinstance(number, bool | np.timedelta64)
        if not is_real or (isinstance(number, int) and number >= _LARGEST) or not 0 <= float(number) < float("inf"):
            raise ValueError(f"{owner}: {name} must be a number of at least 0, got {value!r:.80}.")


def check_on_host(owner: str, what: str, *arrays: Any) -> None:
    """Raise `TypeError` where one of these is being traced: `what` is made of their values."""
    if any(isinstance(a, Tracer) for a in jax.tree.leaves(arrays)):
        raise TypeError(
            f"{owner}: {what} depend on values that are being traced: call it outside jit, and of functions that are "
            "traced, as the scene under a load."
        )
