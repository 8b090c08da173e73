"""Failures of a scene: raised where values can be looked at, or by the compiled program."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from .._runtime.array_types import Array, Scalar
from .._runtime.failure_messages import NUMBERS, describe
from .._runtime.jax_internals import index_of
from .._runtime.raise_if import in_row, raise_if
from .._runtime.results import RESULTS, FailedComputation, is_traced
from .fault import diagnosed, given
from .internal import with_internal
from .system import State, System
from .unmet import nowhere_met, why_undetermined, why_unmet
from .validity import limited

T = TypeVar("T")
_UNDETERMINED = (
    " Some of these equations say what others, or constraints on nodes, say already, nothing that they act on can move, or "
    "they are far from holding where it starts: leave such out, give them a compliance, or start nearer."
)
DERIVATIVE = "the derivative of {}"
_SUCCESS = int(index_of(RESULTS.successful))


def has_succeeded(result: Any) -> bool:
    """Whether a result, or every one of several, is known to be a success."""
    index = index_of(result)
    return not is_traced(index) and not np.any(np.asarray(index) != _SUCCESS)


def left_unmet(info: Any) -> bool:
    """Whether a step, or one of several, is known to have left equations as far from holding as they were."""
    unmet = getattr(getattr(info, "motion", info), "unmet", False)
    return not is_traced(unmet) and bool(np.any(np.asarray(unmet)))


def raise_failure(
    value: T,
    info: Any,
    system: System,
    who: str,
    given: Callable[[], Sequence[tuple[str, Array]]] = tuple,
    *,
    load_steps: int = 1,
    method: str = "newton",
    moves: bool = False,
    time_step: Any = -1,
    held_at: Callable[[], State] | None = None,
) -> T:
    """`value`, unless `info.result` is a failure. Outside tracing raises `FailedComputation`, under `jit` JAX raises.

    `given`: what the computation was given, in the order that `info.fault` counts in; `method`: of statics; `moves`: whether
    it is a time step; `held_at`: where it started, at the time at which equations with multipliers were to hold.
    """
    if has_succeeded(info.result):
        unmet = nowhere_met(system, held_at()) if held_at is not None and left_unmet(info) else ""
        if unmet:
            at = "" if isinstance(time_step, int) else f", step {int(time_step)}"
            raise FailedComputation(f"{who}{at}: {RESULTS[RESULTS.equations_unmet]}{unmet}", RESULTS.equations_unmet)
        return value
    failed = info.result != RESULTS.successful
    names = {
        "who": who,
        "load_steps": load_steps,
        "method": method,
        "states": [_why_singular(system, s, moves) for s in system.main_states],
        "given": [name for name, _ in given()],
        "components": limited(system),
        "undefined": [system.force_fields[name].undefined_when for name in limited(system)],
        "undetermined": _UNDETERMINED,
        "equations": _of_equations(system),
        "contacts": getattr(info, "rooms", ()),
    }
    numbers = {
        "result": index_of(info.result),
        "unconstrained_state": getattr(info, "unconstrained_state", -1),
        "time_step": time_step,
    }
    if hasattr(info, "fault"):
        numbers |= {n: getattr(info.fault, n) for n in NUMBERS if hasattr(info.fault, n)}
    residuals = (info.residuals, info.floor) if hasattr(info, "residuals") else None
    if is_traced((failed, numbers)):
        return raise_if(value, failed, names, numbers, residuals)
    explained = _explained(system, info.result, held_at)
    if explained or info.result == RESULTS.time_step_too_small:
        names["undetermined"] = names["equations"] = explained
    if info.result == RESULTS.no_first_acceleration and held_at is not None:
        names["dependent"] = why_undetermined(system, held_at())
    names["closing"] = _closing(info)
    raise FailedComputation(describe(names, *in_row({"failed": True, **numbers}, residuals)), info.result)


def _of_equations(system: System) -> str:
    """Where to look without a look at numbers."""
    names = " and ".join(map(repr, sorted(system.multiplier_constraints)))
    if not names:
        return ""
    return (
        f" The equations of {names} may be such as nothing fulfils, or be far from it at the start: "
        "jm.constraint.violations says by how much they are off."
    )


def _explained(system: System, result: Any, held_at: Callable[[], State] | None) -> str:
    """What of the equations with multipliers explains a failure, by a look at the numbers of where it began."""
    told = RESULTS.singular, RESULTS.not_converged, RESULTS.more_than_half_a_turn, RESULTS.time_step_too_small
    if held_at is None or not any(result == one for one in told):
        return ""
    return why_unmet(system, held_at(), singular=bool(result == RESULTS.singular))


def _closing(info: Any) -> list[str]:
    """The contacts of a step that still close faster than a tenth of what the fastest does, in words, the fastest first."""
    if info.result != RESULTS.contacts_infeasible or not hasattr(info, "contacts"):
        return []
    rate = np.where(info.contacts.held, -np.asarray(info.contacts.velocity)[:, 0], 0.0)
    slots = [name for name, room in info.rooms for _ in range(room)]
    fast = [i for i in np.argsort(-rate) if rate[i] > 0.1 * rate.max()]
    return [f"'{slots[i]}', pair {info.contacts.pair[i]}, at {rate[i]:.2g} m/s" for i in fast]


class _Said(NamedTuple):
    result: Any
    fault: Any


def raise_not_finite(value: Scalar, system: System, state: State, who: str) -> Scalar:
    """A traced number that is made of the positions of a state, unless it is not finite: then JAX raises, and says why."""
    held, at = jax.lax.stop_gradient((system, state))
    finite = jnp.isfinite(jax.lax.stop_gradient(value))
    numbers = given(held, replace(at, velocity={}))
    result = RESULTS.where(finite, RESULTS.successful, RESULTS.not_finite)
    found = diagnosed(result, numbers, with_internal(held, at), lambda: (at.position, at.position), -1)
    return raise_failure(value, _Said(*found), system, who, lambda: numbers)


def _why_singular(system: System, state: str, moves: bool) -> str:
    """What is wrong with a matrix whose null vector is of this state."""
    if state in system.multiplier_states:
        names = sorted(name for name in system.multiplier_constraints if system.multiplier_stencils[name].state == state)
        return f"the multipliers in state '{state}', of {' and '.join(map(repr, names))}, are not determined."
    return f"state '{state}' can move freely (nothing resists some motion of it). {_advice(system, state, moves)}"


def _advice(system: System, state: str, moves: bool) -> str:
    """What to do about a state that is unconstrained."""
    if not moves:
        return (
            "Constrain its nodes, or attach it to what is constrained. Contacts (jm.contact) hold it in time steps alone, "
            "of FreeMotion: let it come to rest there."
        )
    if any(stencil.state == state for mass in system.masses.values() for stencil in mass.on):
        return "Its mass does not reach all of its nodes and directions: give them mass, or constrain them."
    return "Give it mass (System(masses=...)), constrain its nodes, or attach it."
