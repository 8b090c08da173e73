"""What a solver says of its solve: a lineax result, and a reason in words among its statistics."""

from typing import Any

import jax.numpy as jnp
import lineax as lx

from ..._runtime.array_types import Array
from ..._runtime.results import RESULTS

# What can be wrong, as numbers that a loop carries; each with the result lineax knows and our reason.
FINE, INDEFINITE, UNSYMMETRIC, SINGULAR, BREAKDOWN, STAGNATION, EXHAUSTED, NOT_A_CHAIN, UNEQUAL = range(9)
_NAMES = {
    INDEFINITE: ("breakdown", "indefinite"),
    UNSYMMETRIC: ("breakdown", "unsymmetric"),
    SINGULAR: ("singular", "singular"),
    BREAKDOWN: ("breakdown", "breakdown"),
    STAGNATION: ("stagnation", "stagnation"),
    NOT_A_CHAIN: ("breakdown", "not_block_tridiagonal"),
    UNEQUAL: ("breakdown", "unequal_rows"),
    EXHAUSTED: ("max_steps_reached", "max_steps_reached"),
}


def outcome(flaw: Array, *, finite: Any = True) -> tuple[Any, Any]:
    """The result of lineax for a flaw, and the reason, a member of `RESULTS`. What is not finite is singular."""
    result, reason = lx.RESULTS.successful, RESULTS.successful
    for code, (name, why) in _NAMES.items():
        result = lx.RESULTS.where(flaw == code, getattr(lx.RESULTS, name), result)
        reason = RESULTS.where(flaw == code, getattr(RESULTS, why), reason)
    lost = (flaw == FINE) & ~jnp.asarray(finite)
    return lx.RESULTS.where(lost, lx.RESULTS.singular, result), RESULTS.where(lost, RESULTS.singular, reason)


def reason(solution: lx.Solution) -> Any:
    """Why a linear solve ended as it did: the reason it gives, or what lineax says of its result."""
    result = RESULTS.promote(solution.result)
    if "reason" not in solution.stats:
        return result
    given = solution.stats["reason"]
    explained = (result != RESULTS.successful) & (result != RESULTS.nonfinite_input) & (given != RESULTS.successful)
    return RESULTS.where(explained, given, result)
