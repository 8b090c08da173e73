"""Whether two functions are the same, as far as a later process can tell."""

import functools
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .results import is_traced


def function_digest(function: Any) -> str:
    """16 digits of the code of a function, its defaults and what it closes over; not of what it reads of its module."""
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
    else:
        yield type(value).__qualname__.encode()
        inner = getattr(value, "__wrapped__", None)  # of `jax.jit` and its kin
        leaves = [inner] if callable(inner) else jax.tree.leaves(value)
        if not (len(leaves) == 1 and leaves[0] is value):
            yield from _parts(leaves, met)


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
