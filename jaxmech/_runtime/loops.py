"""Loops that end when something of their state says so, written such that XLA compiles them in little time."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def while_loop(going: Callable[[Any], Any], advance: Callable[[Any], Any], start: Any) -> Any:
    """`jax.lax.while_loop`: the first of `start`, `advance(start)`, ... that is not `going`, a scalar condition.

    XLA looks for a counter in every loop, at every turn of its passes: where the condition reads one element of what is
    carried it takes apart a copy of all that makes this element, the loops within too (`GetLoopInductionVarTupleIdx` in its
    while_loop_analysis.cc). That was half of what a step with contact takes to compile. A condition that reads two cannot be
    that of a counter, and none is looked for.
    """

    def judged(state: Any) -> tuple[Any, jax.Array, jax.Array]:
        goes_on = jnp.asarray(going(state))
        return state, goes_on, ~goes_on

    begun = judged(start)
    return jax.lax.while_loop(lambda c: jax.lax.gt(c[1], c[2]), lambda c: judged(advance(c[0])), begun)[0]
