"""Internal variables of a scene: where a state has them, what the components are told of them, and of the time step."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._forcefield.base import AbstractForceField, goes_along
from .._runtime.argument_checks import check_instance, check_real
from .._runtime.array_types import Array
from .._runtime.precision import in_one_program
from .._scene.internal import (
    InternalVariable,
    has_own_internal,
    internal_variables,
    knows_time_step,
    remembers,
    with_time_step,
    with_values,
)
from .._scene.parameter import as_array, check_range, is_concrete, over_elements
from .._scene.stencil import at_nodes

Internal = dict[str, dict[str, Array]]  # by force field, and by the name of the variable


def has_memory(system: Any) -> bool:
    """Whether a force field of a scene has internal variables."""
    return any(remembers(field) for field in system.forces.values())


def begins(system: Any, dtype: Any, *at: Mapping[str, Array]) -> Internal:
    """The internal variables of a state at rest, `at` these positions and velocities of main states."""
    found = {}
    for name, field in system.forces.items():
        if remembers(field):
            found[name] = {key: variable.at_rest(dtype) for key, variable in internal_variables(field).items()}
            if goes_along(field) and all(s.state in system.main_states for s in field.on):
                found[name] = _gone_along(with_values(field, found[name]), *(at_nodes(field.on, fields) for fields in at))
    return found


@in_one_program
def _gone_along(field: AbstractForceField, x: Any, v: Any) -> dict[str, Array]:
    """With the axes of its first positions: else a first step would carry them past these, from where they are by nature."""
    return over_elements(field, field.on, lambda c, x, v: c.element_update(x, v), x, v)


def with_internal(system: Any, state: Any) -> Any:
    """The scene whose components hold the internal variables of a state, and know its time. Itself where none asks."""
    changed = {}
    for name, field in system.forces.items():
        if remembers(field):
            if name not in state.internal:
                raise ValueError(_missing("the state", name))
            changed[name] = with_values(field, state.internal[name])
    return at_time(_with_forces(system, changed), state.time)


def at_time(system: Any, time: Array) -> Any:
    """The scene whose constraints are those of a time [s]. Itself where none follows one."""
    told = {n: c.at_time(time) for n, c in system.multiplier_constraints.items() if c.follows_time}
    return eqx.tree_at(lambda s: s.constraints, system, {**system.constraints, **told}) if told else system


def in_step(system: Any, dt: Any) -> Any:
    """See `public_functions`."""
    if dt is None:
        return system
    told = {n: with_time_step(f, as_array(dt)) for n, f in system.forces.items() if knows_time_step(f)}
    return _with_forces(system, told)


def _with_forces(system: Any, changed: Mapping[str, Any]) -> Any:
    return eqx.tree_at(lambda s: s.forces, system, {**system.forces, **changed}) if changed else system


def check_internal(who: str, system: Any, state: Any) -> None:
    """Raise unless a state has the internal variables of a scene and no others, of their shapes and finite."""
    internal = state.internal
    if isinstance(internal, Mapping) and not internal and not has_memory(system):
        return  # as most are, at every step
    check_instance(who, "internal of the state", internal, Mapping)
    own = {name: internal_variables(field) for name, field in system.forces.items() if remembers(field)}
    for name in internal:
        if name not in own:
            raise ValueError(
                f"{who}: internal of the state names '{name}', which has no internal variables; {list(own)} have."
            )
    for name, variables in own.items():
        if name not in internal:
            raise ValueError(_missing(f"{who}: internal of the state", name))
        check_instance(who, f"the internal variables of '{name}'", internal[name], Mapping)
        if set(internal[name]) != set(variables):
            found = sorted(map(str, internal[name]))
            raise ValueError(f"{who}: '{name}' has the internal variables {list(variables)}, the state has {found} of it.")
        for key, variable in variables.items():
            _check_variable(who, f"internal variable {key} of '{name}'", internal[name][key], variable)
        _check_ranges(f"{who}: internal of '{name}'", with_values(system.forces[name], internal[name]))


def _missing(who: str, name: str) -> str:
    return (
        f"{who} has no internal variables of '{name}'. System.at_rest makes them; dataclasses.replace(state, position=...) "
        "hands them on, State(position, velocity, time) does not."
    )


def _check_variable(who: str, name: str, values: Any, variable: InternalVariable) -> None:
    check_instance(who, name, values, (jax.Array, np.ndarray))
    check_real(who, name, values, finite=False)
    if values.shape != variable.shape:
        raise ValueError(f"{who}: {name} has shape {values.shape}, expected {variable.shape}.")
    if is_concrete(values) and not np.isfinite(np.asarray(values)).all():
        bad = ~np.isfinite(np.asarray(values)).reshape(values.shape[0], -1).all(axis=1)
        raise ValueError(f"{who}: {name} is not finite in element {int(np.argmax(bad))}.")


def _check_ranges(who: str, field: Any) -> None:
    """Raise where a law, built with the internal variables of a state, refuses them: ranges are what it says of its own."""
    law = getattr(field, "material", None)
    check = getattr(law, "__check_init__", None)  # a law of a user's own need not say anything of its numbers
    try:
        if check is not None and isinstance(law, eqx.Module) and has_own_internal(law):
            check()
        else:  # one that holds another, whose memory it is
            check_range(law, **getattr(law, "internal_ranges", dict)())
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from None


def check_update(name: str, field: Any, new: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Raise unless what `element_update` gave for all elements is of the names and shapes of internal variables."""
    kind = f"'{name}': element_update of {type(field).__name__}"
    check_instance(kind, "what it returns", new, Mapping)
    unknown = sorted(set(new) - set(shapes))
    if unknown:
        raise ValueError(f"{kind} returns {unknown}, the internal variables are {list(shapes)}.")
    for key, value in new.items():
        if value.shape != shapes[key]:
            raise ValueError(
                f"{kind} returns {key} of shape {value.shape[1:]}, expected {shapes[key][1:]}, for each element."
            )
