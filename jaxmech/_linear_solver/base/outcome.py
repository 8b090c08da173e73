"""What a solver says of its solve: a lineax result, and a reason in words among its statistics."""

from typing import Any

import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np

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
_FLAWS = [_NAMES.get(flaw, ("successful", "successful")) for flaw in range(len(_NAMES) + 1)]
_SAID = tuple(  # all of each kind as one array of members, in the order of flaws
    jax.tree.map(lambda *indices: np.stack(indices), *(getattr(kind, names[i]) for names in _FLAWS))
    for i, kind in enumerate((lx.RESULTS, RESULTS))
)


def outcome(flaw: Array, *, finite: Any = True) -> tuple[Any, Any]:
    """The result of lineax for a flaw, and the reason, a member of `RESULTS`. What is not finite is singular."""
    if finite is not True:
        flaw = jnp.where((flaw == FINE) & ~jnp.asarray(finite), SINGULAR, flaw)
    # Read from tables: a choice for each flaw was a tenth of the program of a solve.
    result, reason = jax.tree.map(lambda table: jnp.asarray(table)[flaw], _SAID)
    return result, reason


def reason(solution: lx.Solution) -> Any:
    """Why a linear solve ended as it did: the reason it gives, or what lineax says of its result."""
    result = RESULTS.promote(solution.result)
    if "reason" not in solution.stats:
        return result
    given = solution.stats["reason"]
    explained = (result != RESULTS.successful) & (result != RESULTS.nonfinite_input) & (given != RESULTS.successful)
    return RESULTS.where(explained, given, result)
