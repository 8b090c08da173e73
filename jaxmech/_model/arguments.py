"""The arguments that many public functions share, checked by their names before anything is traced or compiled."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import lineax as lx
import numpy as np

from .._runtime.argument_checks import check_choice, check_flags, check_instance
from .._runtime.precision import checked_by
from .._sparse.triplets import Triplets
from .scene_checks import node_counts
from .state_checks import check_arrays, check_has, check_positions
from .system import System, check_inputs
from .terms import Factors, Terms

Function = TypeVar("Function", bound=Callable[..., Any])
_INSTANCES = {"factors": Factors, "terms": Terms, "operator": lx.AbstractLinearOperator, "name": str, "kind": str}
_FLAGS = ("weights", "projected", "constrained")


def checked(function: Function) -> Function:
    """`function`, which raises `ValueError` or `TypeError` where an argument is not what its name says.

    `system` is a `System`, `state` one of its states, `position` the positions of its main states, `velocity`,
    `acceleration` and `u` vectors of the main states, and so on. Of what is being traced, types and shapes are looked at; of
    what is not, values too.
    """
    names = tuple(inspect.signature(function).parameters)

    def check(*arguments: Any, **keywords: Any) -> None:
        given = dict(zip(names, arguments, strict=False)) | keywords
        check_arguments(_owner(given) + function.__name__, given)

    return checked_by(check, function)


def _owner(given: Mapping[str, Any]) -> str:
    """The class of a method, and the dot after it."""
    owner = given["cls"] if "cls" in given else type(given["self"]) if "self" in given else None
    return "" if owner is None else f"{owner.__name__}."


def check_arguments(who: str, given: Mapping[str, Any]) -> None:
    """Raise unless the arguments `{name: value}` of a function are what their names say."""
    for name, kind in _INSTANCES.items():
        if name in given:
            check_instance(who, name, given[name], kind)
    for part, factor in vars(given["factors"]).items() if "factors" in given else ():
        if np.ndim(factor) != 0:
            raise ValueError(f"{who}: factors.{part} must be one number, got shape {np.shape(factor)}.")
    check_flags(who, **{name: given[name] for name in _FLAGS if name in given})
    if "system" not in given:
        return
    system, rows = given["system"], None
    check_instance(who, "system", system, System)
    if "state" in given:
        check_inputs(who, system, given["state"])
        rows = {s: x.shape[0] for s, x in given["state"].position.items()}
    if "position" in given:
        rows = check_positions(who, "position", given["position"], system)
    for name in ("velocity", "acceleration", "u"):
        if name in given:
            check_arrays(who, name, given[name], system, "deriv_size", rows=rows)
            check_has(who, name, given[name], system.main_states)
    _check_acting(who, given, system, rows)


def _check_acting(who: str, given: Mapping[str, Any], system: System, rows: Mapping[str, int] | None) -> None:
    """What is named by state, main or mapped: forces, rows of constraints, and the states themselves."""
    for name in ("child", "parent"):
        if given.get(name) is not None or (name in given and name == "child"):
            check_choice(who, name, given[name], system.dofs)
    if given.get("forces") is not None or ("forces" in given and "u" not in given):
        counts = node_counts(system, rows or {})
        check_arrays(who, "forces", given["forces"], system, "deriv_size", rows=counts)
    if "rows" in given:
        check_instance(who, "rows", given["rows"], Mapping)
        for state, triplets in given["rows"].items():
            check_choice(who, "a state of rows", state, system.dofs)
            check_instance(who, f"rows of '{state}'", triplets, Triplets)
