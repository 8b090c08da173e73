"""What a program computes of arrays that all elements share, the squares of a network's weights, say: once, not for each."""

from collections.abc import Sequence
from typing import Any

from ..._runtime.jax_internals import ClosedJaxpr, Literal, rewired
from .element_jaxpr import Axes


def without_shared_part(
    program: ClosedJaxpr, axes: Axes, operations: Any, worth: int
) -> tuple[ClosedJaxpr, ClosedJaxpr, Axes] | None:
    """The shared part, from the arrays that elements share to further ones; the program from all arrays and these; its axes.

    None where the part has fewer than `worth` scalar `operations` (a function of a program), and where it does more than
    compute.
    """
    jaxpr = program.jaxpr
    shared = [v for v, axis in zip(jaxpr.invars, axes, strict=True) if axis is None]
    own = reached(jaxpr, [v for v, axis in zip(jaxpr.invars, axes, strict=True) if axis is not None])
    of_shared = reached(jaxpr, shared) - own
    if any(eqn.effects for eqn in jaxpr.eqns):
        return None
    eqns = [eqn for eqn in jaxpr.eqns if eqn.outvars]  # a call that returns nothing belongs to neither
    part = [eqn for eqn in eqns if all(v in of_shared for v in eqn.outvars)]
    if not part or operations(jaxpr.replace(eqns=part)) < worth:
        return None
    numbers = [eqn for eqn in eqns if not any(v in own or v in of_shared for v in eqn.outvars)]
    rest = [eqn for eqn in eqns if not any(eqn is other for other in part)]
    made = {v for eqn in part for v in eqn.outvars}
    read = {v for eqn in rest for v in _variables(eqn.invars)} | set(_variables(jaxpr.outvars))
    handed = [v for eqn in part for v in eqn.outvars if v in made & read]
    first = rewired(jaxpr, shared, handed, [*numbers, *part], jaxpr.constvars)
    second = rewired(jaxpr, [*jaxpr.invars, *handed], list(jaxpr.outvars), rest, jaxpr.constvars)
    return ClosedJaxpr(first, program.consts), ClosedJaxpr(second, program.consts), (*axes, *(None for _ in handed))


def reached(jaxpr: Any, inputs: Sequence[Any]) -> set[Any]:
    """What depends on some inputs, these included."""
    found = set(inputs)
    for eqn in jaxpr.eqns:
        if any(v in found for v in _variables(eqn.invars)):
            found.update(eqn.outvars)
    return found


def _variables(atoms: Sequence[Any]) -> list[Any]:
    return [v for v in atoms if not isinstance(v, Literal)]
