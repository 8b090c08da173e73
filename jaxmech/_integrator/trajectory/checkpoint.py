"""A scene, its state and the memory of its integrator in one file, to go on from."""

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..._model.system import State, System, check_inputs
from ..._runtime.argument_checks import check_path, has_numbers
from ..._runtime.array_file import read_arrays, write_arrays
from ..._runtime.host_arrays import as_data
from ..._runtime.results import is_traced

VERSION = "checkpoint 1"


class Checkpoint(NamedTuple):
    """What `load_checkpoint` gives: a scene, its state, the carry of its integrator, and what else was saved.

    A tuple of these four, each of the shapes that it was saved with. Positions [m], velocities [m/s], the time [s] in
    the state. Raises nothing itself.

    Example:

        jm.integrator.save_checkpoint("run.npz", system, state)
        saved = jm.integrator.load_checkpoint("run.npz", system, state)
        assert isinstance(saved, jm.integrator.Checkpoint) and saved.carry is None
    """

    system: System
    state: State
    carry: Any
    extra: Any


def save_checkpoint(
    path: str | PathLike[str], system: System, state: State, carry: Any = None, *, extra: Any = None
) -> None:
    """Write a scene, its state (with the time), the carry of its integrator, and any pytree `extra` to an `.npz` of this
    name.

    An old file is replaced by a whole one or, where writing is interrupted, left as it is. Nothing is pickled: numbers are
    kept to the last bit, and of classes and static fields a description. No units of its own.
    Raises `ValueError` under `jit`, and `TypeError` or `ValueError` for what is no scene, or no state of it, and for objects
    in `extra` that a file cannot hold.

    Example:

        integrator = jm.ImplicitEuler(linear_system)
        carry = integrator.init(system, state)
        jm.integrator.save_checkpoint("run.npz", system, state, carry, extra={"step": jnp.array(0)})
        _, again, _, extra = jm.integrator.load_checkpoint("run.npz", system, state, carry, extra={"step": jnp.array(0)})
        assert jnp.array_equal(again.position["cube"], state.position["cube"]) and int(extra["step"]) == 0
    """
    check_path("save_checkpoint", path)
    check_inputs("save_checkpoint", system, state)
    save_parts(path, {"system": system, "state": state, "carry": carry, "extra": extra})


def load_checkpoint(
    path: str | PathLike[str], system: System, state: State, carry: Any = None, *, extra: Any = None
) -> Checkpoint:
    """Read what `save_checkpoint` wrote, into the structure of what is given here: its numbers are those of the file.

    A scene is built by its own script, classes of the user's included; the file says with which numbers. Of `carry` and
    `extra` only the structure is read here; `integrator.init(system, state)` has that of any later carry. No units of its
    own.
    Raises `ValueError` that names the place: for a file that is damaged or of another version, for other components, sizes
    or static fields, and for other whole numbers in the scene (another topology).

    Example:

        heavy = jm.System(oscillator.dofs, forces=oscillator.forces, masses={"mass": jm.mass.UniformMass(("p", [0]), 3.0)})
        jm.integrator.save_checkpoint("heavy.npz", heavy, oscillator_state)
        again = jm.integrator.load_checkpoint("heavy.npz", oscillator, oscillator_state).system
        assert float(again.masses["mass"].mass) == 3.0  # [kg]
    """
    check_path("load_checkpoint", path)
    check_inputs("load_checkpoint", system, state)
    return Checkpoint(**load_parts(path, {"system": system, "state": state, "carry": carry, "extra": extra}))


def save_parts(path: str | PathLike[str], parts: Mapping[str, Any]) -> None:
    """Write pytrees by name."""
    if is_traced(parts):
        raise ValueError("a checkpoint of values that are being traced cannot be saved: do it outside jit.")
    names, arrays = [], []
    _check_leaves(parts)
    for name, leaf in _arrays(parts):
        names.append(name)
        arrays.append(np.asarray(_plain(leaf)))
    write_arrays(path, VERSION, {"arrays": names, "structure": list(_structure("", dict(parts)))}, arrays)


def load_parts(path: str | PathLike[str], parts: Mapping[str, Any]) -> dict[str, Any]:
    """Read pytrees by name into the structure of these, whose arrays may be shapes only."""
    described, arrays = read_arrays(path, VERSION)
    found, expected = (dict(map(tuple, items)) for items in (described["structure"], _structure("", dict(parts))))
    for place in [*found, *expected]:
        there, here = (words.get(place, "not there") for words in (found, expected))
        if there != here:
            raise ValueError(f"checkpoint {str(path)!r}: {place} is {there}, what is given is {here}.")
    saved = {name: arrays[f"a{i}"] for i, name in enumerate(described["arrays"])}
    leaves, tree = jax.tree_util.tree_flatten_with_path(dict(parts))
    return tree.unflatten([_restored(str(path), _name(at), leaf, saved) for at, leaf in leaves])


def _restored(path: str, name: str, leaf: Any, saved: Mapping[str, np.ndarray]) -> Any:
    if not _is_array(leaf):
        return leaf
    value = saved[name]
    if name.startswith("system") and value.dtype.kind in "biu" and not np.array_equal(value, np.asarray(leaf)):
        raise ValueError(
            f"checkpoint {path!r}: {name} holds other whole numbers than the scene that is given: another topology."
        )
    if _is_key(leaf):
        return jax.random.wrap_key_data(jnp.asarray(value), impl=jax.random.key_impl(leaf))
    if isinstance(leaf, np.generic):
        return value[()]
    return value if isinstance(leaf, np.ndarray) else as_data(value)


def _check_leaves(tree: Any) -> None:
    """Raise `TypeError` for what a file cannot hold: it would come back as what `load_checkpoint` is given."""
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if _is_array(leaf):
            if not (has_numbers(leaf.dtype) and leaf.dtype.kind in "biufc" or _is_key(leaf)):
                raise TypeError(f"save_checkpoint: {_name(path)} is an array of {leaf.dtype}, which a file cannot hold.")
        elif not (isinstance(leaf, bool | int | float | complex | str | bytes | enum.Enum) or callable(leaf)):
            raise TypeError(
                f"save_checkpoint: {_name(path)} is a {type(leaf).__name__}, which a file cannot hold: arrays, numbers, text"
                " and lists, tuples and dictionaries of them."
            )


def _arrays(tree: Any) -> Iterator[tuple[str, Any]]:
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if _is_array(leaf):
            yield _name(path), leaf


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _is_key(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _plain(array: Any) -> Any:
    """Random keys as the numbers that they are."""
    return jax.random.key_data(array) if _is_key(array) else array


def _name(path: Any) -> str:
    """`system.forces['spring'].stiffness`."""
    return path[0].key + jax.tree_util.keystr(path[1:])


def _structure(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """What a tree is made of: a place and words, for every object, array and static value in it."""
    if _is_array(value):
        yield place, f"an array {tuple(value.shape)} of {value.dtype}"
    elif isinstance(value, enum.Enum | type) or callable(value) and not dataclasses.is_dataclass(value):
        yield place, _called(value)
    elif dataclasses.is_dataclass(value):
        yield place, _called(type(value))
        for field in dataclasses.fields(value):
            yield from _structure(f"{place}.{field.name}", getattr(value, field.name, None))
    elif isinstance(value, dict):
        yield place, f"a dictionary of {sorted(map(str, value))}"
        for key, item in value.items():
            yield from _structure(f"{place}[{key!r}]" if place else str(key), item)
    elif isinstance(value, tuple | list):
        yield place, f"a {type(value).__name__} of {len(value)}"
        for number, item in enumerate(value):
            yield from _structure(f"{place}[{number}]", item)
    elif value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield place, repr(value)
    else:
        yield place, _called(type(value))


def _called(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return str(value)
    owner = value if hasattr(value, "__qualname__") else type(value)
    return owner.__qualname__
