"""Signatures up to 0.1, arrays by state where a `State` stands now: taken for one more version, with a warning."""

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from .state_checks import check_positions
from .system import State, System

Function = TypeVar("Function", bound=Callable[..., Any])


def formerly_of(*names: str) -> Callable[[Function], Function]:
    """For a function of `(system, state, ...)` that was one of `(system, *names, ...)`: positions, or velocities too."""

    def decorate(function: Function) -> Function:
        new = tuple(inspect.signature(function).parameters)
        old = ("system", *names, *new[2:])

        @functools.wraps(function)
        def either(*arguments: Any, **keywords: Any) -> Any:
            is_old = len(arguments) > 1 and isinstance(arguments[1], Mapping)
            if not is_old and not keywords.keys() & set(names):
                return function(*arguments, **keywords)
            before, after = (f"{function.__name__}({', '.join(form)})" for form in (old, new))
            message = f"{before} is {after} now; the old form will be gone in the next version."
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            given = dict(zip(old, arguments, strict=False)) | keywords
            if missing := [name for name in old[: 1 + len(names)] if name not in given]:
                raise TypeError(f"{function.__name__}: {missing[0]} is missing.")
            state = _state(function.__name__, given["system"], names, *(given.pop(name) for name in names))
            return function(given.pop("system"), state, **given)

        return either  # pyright: ignore[reportReturnType]

    return decorate


def _state(who: str, system: System, names: tuple[str, ...], position: Any, velocity: Any = None) -> State:
    check_positions(who, names[0], position, system)
    state = system.at_rest({s: position[s] for s in system.main_states})
    return state if velocity is None else dataclasses.replace(state, velocity=dict(velocity))
