"""What of a scene a scheme may not know how to step, refused by name."""

from typing import Any

from .._forcefield.base import goes_along
from .._model.system import System
from .._scene.internal import knows_time_step, remembers


def check_takes(
    who: str,
    system: System,
    *,
    multipliers: bool = False,
    mixed: bool = False,
    memory: bool = True,
    rates: bool = True,
    instead: str = "",
) -> None:
    """Raise `ValueError` for what a scheme does not take.

    `multipliers`: constraints with multipliers, which have no mass, and hold at the end of a step or not at all. `mixed`:
    force fields with some, such as pressures. `memory`: laws with internal variables, but axes that go along. `rates`: laws
    that know the time step.
    `instead`: what to do then, unless it is to take a scheme that does.
    """
    if system.multiplier_states and not multipliers:
        names = [*system.multiplier_constraints] or [*system.multiplier_states]
        advice = instead or "take an implicit scheme"
        raise ValueError(f"{who} takes no constraints with multipliers, and the scene has {names}: {advice}.")
    of_fields = [name for name, field in system.forces.items() if field.multiplier_states]
    if of_fields and not mixed:
        advice = instead or "take ImplicitEuler"
        raise ValueError(f"{who} takes no force fields with multipliers, and the scene has {of_fields}: {advice}.")
    instead = instead or "take an implicit scheme other than EnergyMomentum"
    _refuse(who, system, memory, _has_history, "remember what they went through", instead)
    _refuse(who, system, rates, knows_time_step, "know the time step", instead)


def _has_history(field: Any) -> bool:
    return remembers(field) and not goes_along(field)


def _refuse(who: str, system: System, taken: bool, has: Any, what: str, instead: str) -> None:
    names = [] if taken else [name for name, field in system.forces.items() if has(field)]
    if names:
        raise ValueError(f"{who} takes no laws that {what}, as {names} do: {instead}.")
