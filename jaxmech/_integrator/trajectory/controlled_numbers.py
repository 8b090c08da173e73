"""A scene with other numbers in the place of some of its own."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._model.system import System
from ..._runtime.array_types import Array

Values = Mapping[str, Any]
_FAMILIES = ("forces", "masses", "mappings", "constraints")


def controlled(system: System, values: Values) -> System:
    """The scene with other numbers, `{component: {field: value}}`, `field` with dots where it lies deeper; and `gravity`.

    Raises `ValueError` or `TypeError` that names a component or a field that is not there, and a value of another shape.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"control must return a dictionary {{component: {{field: value}}}}, got {values!r:.80}.")
    for name, fields in values.items():
        if name == "gravity" and system.gravity is not None:
            system = _replaced(system, "gravity", ("gravity",), system.gravity, fields)
            continue
        if not isinstance(fields, Mapping):
            raise TypeError(f"control of '{name}' must be a dictionary {{field: value}}, got {fields!r:.80}.")
        for field, value in fields.items():
            path = path_of(system, name, field)
            system = _replaced(system, f"'{name}': {field}", path, found_at(system, path), value)
    return system


def path_of(system: System, name: str, field: str) -> tuple[str, ...]:
    """Where a number lies in a scene."""
    homes = [family for family in _FAMILIES if name in getattr(system, family)]
    if not homes:
        known = [n for family in _FAMILIES for n in getattr(system, family)]
        raise ValueError(f"control names component '{name}', which is not one of {known}.")
    paths = [(family, name, *str(field).split(".")) for family in homes]
    fitting = [path for path in paths if eqx.is_inexact_array(found_at(system, path))]
    if len(fitting) > 1:
        raise ValueError(f"control of '{name}': {field} may mean that of its {homes[0]} or of its {homes[1]}; rename one.")
    if not fitting:
        numbers = [_words(path) for family in homes for path in _numbers(getattr(system, family)[name])]
        raise ValueError(f"control of '{name}': '{field}' is not one of its numbers {numbers}.")
    return fitting[0]


def _numbers(component: Any) -> list[Any]:
    leaves = jax.tree_util.tree_flatten_with_path(component)[0]
    return [path for path, leaf in leaves if eqx.is_inexact_array(leaf)]


def _words(path: Any) -> str:
    return jax.tree_util.keystr(path).removeprefix(".")


def found_at(system: System, path: tuple[str, ...]) -> Any:
    """What lies there, None where there is nothing."""
    found: Any = system
    for name in path:
        found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
    return found


def _replaced(system: System, what: str, path: tuple[str, ...], old: Array, value: Any) -> System:
    try:
        given = jnp.asarray(value)
        new = given.astype(old.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"control of {what} must be numbers, got {value!r:.80}.") from error
    if not (jnp.issubdtype(given.dtype, jnp.integer) or jnp.issubdtype(given.dtype, jnp.floating)):
        raise TypeError(f"control of {what} must be real numbers, got {value!r:.80}.")
    if new.shape != old.shape:
        raise ValueError(f"control of {what} has shape {new.shape}, expected {old.shape}, that of the scene.")
    return eqx.tree_at(lambda s: found_at(s, path), system, new)
