"""Loops, written such that JAX traces and XLA compiles them in little time."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .jax_internals import unvmap_any

# XLA's CPU backend carries out what a loop consists of in order if no array that it reads or writes has more than so many
# bytes; else it puts each operation into a queue, which takes longer than a step of a small scene.
SMALL = 512


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


def seldom_loop(going: Callable[[Any], Any], advance: Callable[[Any], Any], start: Any) -> Any:
    """`while_loop`, of which there is seldom a round: of what comes after a failure. In a batch, for those that need it.

    What rounds do not change XLA makes before the loop, large matrices of zeros and ones too, whether there is a round or
    not; of a branch that is not taken it makes nothing.
    """

    def loop(state: Any) -> Any:
        return while_loop(going, advance, state)

    return jax.lax.cond(unvmap_any(jnp.asarray(going(start))), loop, lambda state: state, start)


def differentiated_with(values: Any, others: Any) -> Any:
    """`values`, which have tangents, nil perhaps, wherever some of `others` have.

    For what a `jax.lax.scan` starts with and will depend on all of these: JAX traces the derivative of a loop's body for the
    tangents that it starts with, and all of it once more where it ends with others. What is never chosen is a dependence.
    """
    never = sum(jnp.sum(a.reshape(-1)[:1]) for a in jax.tree.leaves(others) if eqx.is_inexact_array(a))
    return jax.tree.map(lambda a: jnp.where(False, jnp.asarray(never, a.dtype), a) if eqx.is_inexact_array(a) else a, values)
