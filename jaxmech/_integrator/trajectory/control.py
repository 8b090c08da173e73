"""Control in the loop: numbers of the scene that a function of time and state gives before every step."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..._forcefield.chart import varies_with
from ..._linear_system.compatibility import BuiltFor
from ..._model.dynamics import Fields
from ..._model.system import State, System
from ..._runtime.argument_checks import check_callable
from ..._runtime.array_types import Array
from ..base import AbstractIntegrator
from ..step_doubling import Error

Values = Mapping[str, Any]
_FAMILIES = ("forces", "masses", "mappings", "constraints")


class ControlledIntegrator(AbstractIntegrator):
    """An integrator whose steps are of the scene with the numbers that `control(time, state, parameters)` gives.

    `state`: that at the start of a step; `time`: `AbstractIntegrator.control_at` of the way through it. What the integrator
    keeps of numbers that are controlled is made anew for every step.
    """

    integrator: AbstractIntegrator
    control: Callable[[Array, State, Any], Values]
    parameters: Any

    @property
    def order(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.integrator.order

    @property
    def built_for(self) -> BuiltFor | None:
        return self.integrator.built_for

    def init(self, system: System, state: State) -> Any:
        return self.integrator.init(self._scene(system, state, 0.0), state)

    def revalued(self, system: System, state: State, carry: Any) -> Any:
        return self.integrator.revalued(self._scene(system, state, 0.0), state, carry)

    def step(self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True) -> tuple[State, Any, Any]:
        scene, carry = self._ready(system, state, carry, dt)
        return self.integrator.step(scene, state, carry, dt, throw=throw)

    def advanced(self, system: System, state: State, carry: Any, h: Any, derivatives_of: str = "") -> tuple[State, Any, Any]:
        scene, carry = self._ready(system, state, carry, h)
        return self.integrator.advanced(scene, state, carry, h, derivatives_of)

    def step_with_error(
        self, system: System, state: State, carry: Any, dt: Any, *, throw: bool = True
    ) -> tuple[State, Any, Any, Error]:
        if type(self.integrator).step_with_error is AbstractIntegrator.step_with_error:
            return super().step_with_error(system, state, carry, dt, throw=throw)  # control within each half of the step
        scene, carry = self._ready(system, state, carry, dt)
        return self.integrator.step_with_error(scene, state, carry, dt, throw=throw)

    def _values(self, state: State, h: Any) -> Values:
        return self.control(state.time + self.integrator.control_at * h, state, self.parameters)

    def _scene(self, system: System, state: State, h: Any) -> System:
        return controlled(system, self._values(state, h))

    def _ready(self, system: System, state: State, carry: Any, h: Any) -> tuple[System, Any]:
        """The scene of a step, and the carry for it."""
        given = self._values(state, h)
        scene = controlled(system, given)
        kept = jax.tree.leaves(carry)
        if not kept or not _depends(partial(self._kept, system, state), given):
            return scene, carry
        return scene, self.integrator.revalued(scene, state, carry)

    def _kept(self, system: System, state: State, given: Values) -> Fields:
        """What is kept of a scene's numbers, as a function of those that are controlled."""
        kept = self.integrator.init(controlled(system, given), state)
        return {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(eqx.filter(kept, eqx.is_inexact_array)))}


def in_the_loop(
    who: str, integrator: Any, control: Any, parameters: Any, observe: Any
) -> tuple[AbstractIntegrator, Callable]:
    """The integrator with its control, and what is recorded of a state: all of it, unless an observation is given."""
    for name, function in (("control", control), ("observe", observe)):
        if function is not None:
            check_callable(who, name, function)
    if control is None and parameters is not None:
        raise ValueError(f"{who}: parameters are of no use without a control.")
    controlling = integrator if control is None else ControlledIntegrator(integrator, control, parameters)
    return controlling, whole_state if observe is None else observe


def whole_state(system: System, state: State) -> State:
    """The observation of everything."""
    del system
    return state


def _depends(kept: Callable[[Values], Fields], given: Values) -> bool:
    """Whether what is kept depends on any of the numbers; read from a trace."""
    return varies_with(kept, jax.tree.map(jnp.asarray, dict(given)))[0]


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
            path = _path(system, name, field)
            system = _replaced(system, f"'{name}': {field}", path, _at(system, path), value)
    return system


def _path(system: System, name: str, field: str) -> tuple[str, ...]:
    """Where a number lies in a scene."""
    homes = [family for family in _FAMILIES if name in getattr(system, family)]
    if not homes:
        known = [n for family in _FAMILIES for n in getattr(system, family)]
        raise ValueError(f"control names component '{name}', which is not one of {known}.")
    paths = [(family, name, *str(field).split(".")) for family in homes]
    fitting = [path for path in paths if eqx.is_inexact_array(_at(system, path))]
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


def _at(system: System, path: tuple[str, ...]) -> Any:
    """What lies there, None where there is nothing."""
    found: Any = system
    for name in path:
        found = found.get(name) if isinstance(found, dict) else getattr(found, name, None)
    return found


def _replaced(system: System, what: str, path: tuple[str, ...], old: Array, value: Any) -> System:
    try:
        new = jnp.asarray(value, old.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"control of {what} must be numbers, got {value!r:.80}.") from error
    if new.shape != old.shape:
        raise ValueError(f"control of {what} has shape {new.shape}, expected {old.shape}, that of the scene.")
    return eqx.tree_at(lambda s: _at(s, path), system, new)
