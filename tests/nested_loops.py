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
