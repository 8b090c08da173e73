"""The loops of a program, and how deep they lie."""

from collections.abc import Iterator
from typing import Any


def nested_loops(jaxpr: Any, kind: str, depth: int = 0) -> Iterator[tuple[int, Any]]:
    """All equations of a primitive, `while` or `scan`, each with the number of those that it is in, itself included."""
    for equation in jaxpr.eqns:
        inside = depth + (equation.primitive.name == kind)
        if inside > depth:
            yield inside, equation
        for value in equation.params.values():
            for branch in value if isinstance(value, tuple) else (value,):
                inner = getattr(branch, "jaxpr", branch)
                if hasattr(inner, "eqns"):
                    yield from nested_loops(inner, kind, inside)


def largest_array(jaxpr: Any) -> int:
    """The bytes of the largest array that a program makes, in whatever loop or branch."""
    inside = (
        getattr(b, "jaxpr", b) for e in jaxpr.eqns for v in e.params.values() for b in (v if isinstance(v, tuple) else (v,))
    )
    made = [v.aval.size * v.aval.dtype.itemsize for e in jaxpr.eqns for v in e.outvars]
    return max([0, *made, *(largest_array(inner) for inner in inside if hasattr(inner, "eqns"))])
