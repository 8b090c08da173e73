"""Trees of index arrays in a file: the arrays in an `.npz`, what holds them beside as JSON. Nothing is pickled."""

import dataclasses
import enum
from collections.abc import Iterable
from os import PathLike
from typing import Any, TypeVar

import jax
import numpy as np

from .._runtime.argument_checks import check_path
from .._runtime.array_file import read_arrays, write_arrays
from .._runtime.host_arrays import as_data
from .._runtime.results import is_traced

VERSION = 10  # of the layout of the file and of the classes in it: raised whenever one of them changes

T = TypeVar("T")


def save_pytree(path: str | PathLike[str], tree: Any, classes: Iterable[type]) -> None:
    """Write a tree of dataclasses, enums, dictionaries, tuples, plain values and arrays. `classes`: those in it."""
    if is_traced(tree):
        raise ValueError("a linear system that is being traced cannot be saved: do it outside jit.")
    check_path("save", path)
    arrays: list[np.ndarray] = []
    names = {kind: kind.__name__ for kind in classes}
    packed = _packed(tree, arrays, names)
    write_arrays(path, VERSION, packed, arrays)


def load_pytree(path: str | PathLike[str], kind: type[T], classes: Iterable[type]) -> T:
    """Read what `save_pytree` wrote. Raises `ValueError` unless it is a `kind` of this version."""
    packed, arrays = read_arrays(path, VERSION)
    try:
        tree = _unpacked(packed, arrays, {c.__name__: c for c in classes})
    except Exception as error:
        raise ValueError(f"{str(path)!r} is damaged: {error!r:.200}.") from error
    if not isinstance(tree, kind):
        raise ValueError(f"{str(path)!r} holds a {type(tree).__name__}, expected a {kind.__name__}.")
    return tree


def _packed(value: Any, arrays: list[np.ndarray], names: dict[type, str]) -> Any:
    if isinstance(value, enum.Enum):
        return {"enum": names[type(value)], "member": value.name}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, jax.Array | np.ndarray):
        arrays.append(np.asarray(value))
        return {"array": f"a{len(arrays) - 1}"}
    if isinstance(value, tuple):
        return {"tuple": [_packed(v, arrays, names) for v in value]}
    if isinstance(value, dict):
        return {"dict": [[_packed(k, arrays, names), _packed(v, arrays, names)] for k, v in value.items()]}
    fields = {f.name: _packed(getattr(value, f.name), arrays, names) for f in dataclasses.fields(value)}
    return {"class": names[type(value)], "fields": fields}


def _unpacked(value: Any, arrays: dict[str, np.ndarray], classes: dict[str, type]) -> Any:
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return as_data(arrays[value["array"]])
    if "tuple" in value:
        return tuple(_unpacked(v, arrays, classes) for v in value["tuple"])
    if "dict" in value:
        return {_unpacked(k, arrays, classes): _unpacked(v, arrays, classes) for k, v in value["dict"]}
    if "enum" in value:
        return classes[value["enum"]][value["member"]]  # pyright: ignore[reportIndexIssue]
    fields = {name: _unpacked(v, arrays, classes) for name, v in value["fields"].items()}
    return classes[value["class"]](**fields)
