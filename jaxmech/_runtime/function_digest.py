"""Whether two functions, or two classes, are the same, as far as a later process can tell."""

import dataclasses
import functools
import hashlib
import re
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .results import is_traced

_LIBRARIES = {"builtins", "equinox", "jax", "jaxlib", "jaxmech", "lineax", "numpy", "scipy"}  # known by their names


def function_digest(function: Any) -> str:
    """16 digits of the code of a function, its defaults and what it closes over; not of what it reads of its module.

    Of a class, the code of its methods, and that of classes that it is made of; of those of libraries, the name.
    """
    digest = hashlib.sha256()
    for part in _parts(function, set()):
        digest.update(part + b"\0")
    return digest.hexdigest()[:16]


def _parts(value: Any, met: set[int]) -> Iterator[bytes]:
    if isinstance(value, types.FunctionType | types.MethodType | functools.partial):
        if id(value) not in met:  # a function may close over itself
            met.add(id(value))
            for part in _made_of(value):
                yield from _parts(part, met)
    elif isinstance(value, types.CodeType):
        yield value.co_code
        yield from _parts((value.co_names, value.co_varnames, value.co_freevars, value.co_consts), met)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item, met)
    elif isinstance(value, dict):
        yield from _parts([*value.items()], met)
    elif isinstance(value, set | frozenset):
        yield from _parts(sorted(map(repr, value)), met)
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
    elif isinstance(value, np.ndarray | np.generic | jax.Array) and not is_traced(value):
        yield f"{value.dtype}{value.shape}".encode() + _numbers(value).tobytes()
    elif isinstance(value, type):
        yield from _of_a_class(value, met)
    else:
        yield from _of_an_object(value, met)


def _of_a_class(kind: type, met: set[int]) -> Iterator[bytes]:
    yield kind.__qualname__.encode()
    if is_own(kind) and id(kind) not in met:
        met.add(id(kind))
        yield from _parts([kind.__bases__, _methods(kind)], met)


def _of_an_object(value: Any, met: set[int]) -> Iterator[bytes]:
    """Its class, and what it is of; of what is no pytree (`jnp.add`, `math.sin`, a slice) what it is called."""
    yield from _parts(type(value), met)
    inner = getattr(value, "__wrapped__", None)  # of `jax.jit` and its kin
    leaves = jax.tree.leaves(value)
    if callable(inner):
        yield from _parts(inner, met)
    elif dataclasses.is_dataclass(value):  # what is static in it is in no leaf
        yield from _parts([(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value)], met)
    elif len(leaves) == 1 and leaves[0] is value:
        yield _called(value).encode()
    else:
        yield from _parts(leaves, met)


def _called(value: Any) -> str:
    """Wherever it lies."""
    return value.__name__ if isinstance(value, types.ModuleType) else re.sub(" at 0x[0-9a-f]+", "", repr(value))


def is_own(kind: type) -> bool:
    """Whether a class is of none of the libraries."""
    return kind.__module__.partition(".")[0] not in _LIBRARIES


def _methods(kind: type) -> list[tuple[str, Any]]:
    """The functions of a class by name, those of properties and class methods too, and its plain numbers and words."""
    found: list[tuple[str, Any]] = []
    for name, raw in sorted(vars(kind).items()):
        value = getattr(raw, "__func__", getattr(raw, "fget", getattr(kind, name, None)))
        own = isinstance(value, types.FunctionType)
        if own or not name.startswith("__") and isinstance(value, bool | int | float | complex | str | bytes):
            found.append((name, value))
    return found


def _numbers(array: Any) -> np.ndarray:
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if is_key else array)


def _made_of(function: Any) -> tuple[Any, ...]:
    if isinstance(function, functools.partial):
        return function.func, function.args, sorted(function.keywords.items())
    if isinstance(function, types.MethodType):
        return function.__func__, function.__self__
    cells = [cell.cell_contents for cell in function.__closure__ or () if cell != types.CellType()]
    return function.__code__, function.__defaults__ or (), sorted((function.__kwdefaults__ or {}).items()), cells
