"""A failure in words: from its numbers, and from the names of the scene that it happened in."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .jax_internals import index_of, message_of, names_of
from .results import RESULTS

# What is told of a failure, in whole numbers; -1 where it is not known.
NUMBERS = ("failed", "result", "unconstrained_state", "time_step", "load_step", "given", "component", "element")

_LAWS = (("Signorini", " N s"), ("Coulomb", " N s"), ("dissipation", " J"), ("natural map", ""))
# Of a matrix that was not singular at first.
_ON_THE_WAY = (
    "A step was too large, or this is a limit point: take more load steps (load_steps=) or, in time, smaller ones (dt=)."
)
_NEWTON_S = ("not_converged", "more_than_half_a_turn")  # of what its iterations did not solve
_OF_OTHER_METHODS = {  # whose advice is not Newton's
    "trust_region": "the search within a trust region did not converge. Take more load steps (load_steps=), allow more "
    "iterations (max_steps=), or check that the loads have an equilibrium; info.residuals holds the history.",
    "dynamic_relaxation": "the relaxation did not come to rest. Allow more of its steps (max_steps=), which are many where "
    'stiffnesses differ much, ask for less (rtol=, atol=), take another method ("newton", "trust_region"), or check that '
    "the loads have an equilibrium; info.residuals holds the history.",
}
_MOST = 8  # residuals that are all told


def describe(names: Mapping[str, Any], numbers: np.ndarray, residuals: np.ndarray) -> str:
    """The words for the first member that failed of a batch (any leading axes; none if there is no batch).

    `names`: `who` failed; by which `method`; `load_steps` in all; of each of the `states`, what it means that it is
    unconstrained; what was `given`, and the `components` with limits, in the order of their numbers; what an element of
    these is beyond the limits, `undefined`; the `contacts`, each a name and how many pairs it has room for; what may be
    wrong with `equations` that have multipliers, and where these are `undetermined`, or may be, of rows that are
    `dependent`; contacts still `closing`.
    `numbers` (..., NUMBERS); `residuals` (..., those of the Newton iterations and, last, their rounding floor).
    """
    rows = np.asarray(numbers).reshape(-1, len(NUMBERS))
    lines = np.asarray(residuals).reshape(-1, np.shape(residuals)[-1])
    failed = np.flatnonzero(rows[:, 0])
    first = int(failed[0]) if failed.size else 0
    n = dict(zip(NUMBERS, rows[first].tolist(), strict=True))
    where = [str(names["who"])]
    if len(rows) > 1:
        others = f" and {failed.size - 1} more" if failed.size > 1 else ""
        where.append(f"batch member {first}{others} of {len(rows)}")
    if n["time_step"] >= 0:
        where.append(f"step {n['time_step']}")
    if n["load_step"] >= 0 and names.get("load_steps", 1) > 1:
        where.append(f"load step {n['load_step'] + 1} of {names['load_steps']}")
    line = lines[first % len(lines)]
    return f"{', '.join(where)}: {_why(names, n, line)}{_history(n, line)}"


def _why(names: Mapping[str, Any], n: Mapping[str, int], line: np.ndarray) -> str:
    """The advice of the result, with the name of what is at fault where it is known."""
    advice, result = message_of(RESULTS, n["result"]), _name(n["result"])
    if result == "nonfinite_input" and (given := _chosen(names, "given", n["given"])):
        return f"{given} has values that are not finite (NaN or infinite)."
    if result == "inverted_element" and (component := _chosen(names, "components", n["component"])):
        what = _chosen(names, "undefined", n["component"]) or "inverted"
        return f"'{component}': element {n['element']} is {what}{advice.removeprefix('an element is inverted')}"
    if result == "no_first_acceleration" and (dependent := names.get("dependent")):
        return f"{advice} Or it is multipliers that are not determined.{dependent}"
    if result == "singular" and (state := _chosen(names, "states", n["unconstrained_state"])):
        if state.startswith("the multipliers"):
            return f"the matrix is singular: {state}{names.get('undetermined', '')}"
        iterations = 0 if names.get("contacts") else len(_told(line))  # residuals of contact are those of its laws
        if iterations > 1 or n["load_step"] > 0:
            return f"the matrix became singular, in iteration {iterations}. {_ON_THE_WAY} Or {state}"
        return f"the matrix is singular: {state}"
    if result == "contact_capacity" and (contact := _chosen(names, "contacts", n["component"])):
        return f"'{contact[0]}' has room for {contact[1]} pairs, and at least {n['element']} are near: {advice}"
    if result == "interpenetration" and (contact := _chosen(names, "contacts", n["component"])):
        return f"'{contact[0]}', pair {n['element']}: {advice}"
    if result == "contacts_infeasible" and (closing := names.get("closing")):
        more = f" and {len(closing) - _MOST} more" if len(closing) > _MOST else ""
        return f"{advice} Still closing: {'; '.join(closing[:_MOST])}{more}."
    if result == "not_converged":
        advice = _OF_OTHER_METHODS.get(names.get("method", ""), advice)
    if result in (*_NEWTON_S, "time_step_too_small"):
        return f"{advice}{names.get('equations', '')}"
    return advice


def _history(n: Mapping[str, int], line: np.ndarray) -> str:
    """How the residual went, where that matters."""
    if _name(n["result"]) in ("contacts_not_converged", "contacts_infeasible") and len(line) == len(_LAWS):
        return "\n  " + ", ".join(f"{law} {r:.1e}{unit}" for (law, unit), r in zip(_LAWS, line, strict=True))
    told = _told(line)
    if not told or _name(n["result"]) not in (*_NEWTON_S, "residual_floor"):
        return ""
    words = [f"{r:.3e}" for r in told]
    words = words if len(words) <= _MOST else [*words[:3], "...", *words[-3:]]
    return f"\n  residuals: {', '.join(words)}\n  rounding floor of the residual: {line[-1]:.1e}"


def _told(line: np.ndarray) -> list[float]:
    """The residuals of the iterations there were."""
    return [r for r in line[:-1] if r >= 0]


def _chosen(names: Mapping[str, Any], what: str, number: int) -> Any:
    known: Sequence[Any] = names.get(what, ())
    return known[number] if 0 <= number < len(known) else None


def _name(result: int) -> str:
    return names_of(RESULTS)[result]


def describe_result(result: Any) -> str:
    """The advice of a member of `RESULTS`."""
    return message_of(RESULTS, int(np.asarray(index_of(result))))
