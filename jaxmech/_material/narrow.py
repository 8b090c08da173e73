"""A density that goes through a few numbers, differentiated by these."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from .._codegen import operation_count, reached
from .._runtime.array_types import Array, Float
from .._runtime.jax_internals import ClosedJaxpr, Literal, jaxpr_as_fun, rewired
from .function_of_invariants import by_few

_WORTH = 2000  # operations that a Hessian saves: below, it is left as it is


def narrowed(density: Callable[[Array], Array], F: Float[Array, "a b"]) -> Callable[[Array], Array]:
    """The same function, cheaper to differentiate twice where it has a waist: few numbers that most of its work starts from.

    A network of invariants has: `psi(F) = g(h(F))`, `h` of two or three numbers, and nearly all operations in `g`. Each of
    the nine directions of a Hessian then goes through `h` alone (`function_of_invariants`). The waist is read from the
    trace: a place in the program at which what depends on `F`, and is read later, is less than `F`.
    """
    closed = jax.make_jaxpr(density)(jnp.zeros_like(F))
    jaxpr = closed.jaxpr
    moving = reached(jaxpr, jaxpr.invars)
    at, waist = _waist(jaxpr, moving, F.size)
    if not waist:
        return density
    after = [eqn for eqn in jaxpr.eqns[at:] if any(v in moving for v in eqn.outvars)]
    before = [eqn for eqn in jaxpr.eqns if not any(eqn is other for other in after)]  # what does not move is no part of `g`
    read = {v for eqn in after for v in eqn.invars if not isinstance(v, Literal)} | set(jaxpr.outvars)
    given = [*jaxpr.constvars, *(v for eqn in before for v in eqn.outvars if v not in moving and v in read)]
    first = jaxpr_as_fun(_part(jaxpr, [*jaxpr.constvars, *jaxpr.invars], [*given, *waist], before))
    second = jaxpr_as_fun(_part(jaxpr, [*given, *waist], jaxpr.outvars, after))

    def of_few(parameters: Any, x: Array) -> Array:
        parts = jnp.split(x, [sum(v.aval.size for v in waist[: i + 1]) for i in range(len(waist) - 1)])
        return second(*parameters, *(part.reshape(v.aval.shape) for part, v in zip(parts, waist, strict=True)))[0]

    def function(F: Array) -> Array:
        found = first(*closed.consts, F)
        x = jnp.concatenate([a.ravel() for a in found[len(given) :]])
        return by_few(of_few)(found[: len(given)], x)

    return function


def _waist(jaxpr: Any, moving: set[Any], directions: int) -> tuple[int, list[Any]]:
    """Before which equation the program is best cut, and the variables there; none where that saves too little."""
    last = {v: i for i, eqn in enumerate(jaxpr.eqns) for v in eqn.invars if not isinstance(v, Literal)}
    last |= {v: len(jaxpr.eqns) for v in jaxpr.outvars if not isinstance(v, Literal)}
    work = [operation_count(jaxpr.replace(eqns=[eqn])) * any(v in moving for v in eqn.outvars) for eqn in jaxpr.eqns]
    best, found, live, remaining = _WORTH, (0, []), list(jaxpr.invars), sum(work)
    for i, eqn in enumerate(jaxpr.eqns):
        live = [v for v in live if last.get(v, -1) >= i]
        size = sum(v.aval.size for v in live)
        saved = (directions - size) * remaining
        if saved > best and len({v.aval.dtype for v in live}) == 1 and jnp.issubdtype(live[0].aval.dtype, jnp.floating):
            best, found = saved, (i, live)
        live = live + [v for v in eqn.outvars if v in moving]
        remaining -= work[i]
    return found


def _part(jaxpr: Any, inputs: list[Any], outputs: list[Any], eqns: list[Any]) -> ClosedJaxpr:
    return ClosedJaxpr(rewired(jaxpr, list(inputs), list(outputs), list(eqns)), [])
